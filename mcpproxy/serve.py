"""`mcpproxy serve`: the daemon behind its listeners.

Three of them: HTTP on an address, HTTP on a Unix socket, and MCP with the framing of stdio on
another, which `mcpproxy stdio` pumps bytes through. The first signal stops everything in order, the
second at once.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import logging
import os
import signal
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import uvicorn
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskStatus
from starlette.types import ASGIApp, Receive, Scope, Send

from mcpproxy import profiles, tracing
from mcpproxy.bulk import LARGE, TIMES
from mcpproxy.connections import Limited, Local, same_user
from mcpproxy.daemon import Daemon, open_daemon
from mcpproxy.errors import ProxyError, Refused, SettingsError
from mcpproxy.guard import Guard, Refusal, refuse
from mcpproxy.journal.trail import Door
from mcpproxy.paths import ELSEWHERE, Places, private_directory
from mcpproxy.proxy import McpFace, open_mcp
from mcpproxy.rest.api import open_api
from mcpproxy.settings import Loaded
from mcpproxy.tasks import serve_each

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 0.2
"""For the replies of scripts that were ended because we stop; killing and answering takes milliseconds."""

GRACE_SECONDS = 1
"""For requests under way after that. Whoever still sends or reads then is cut off."""

ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound to it
"""Where a client on this machine finds who listens on every address."""


class InTheWay(ProxyError):
    """An address that we want is taken; the message says which and what to do."""

    code = "ADDRESS_TAKEN"


class Router:
    """`/mcp…` to the MCP face, the rest to the API."""

    def __init__(self, daemon: Daemon, face: McpFace) -> None:
        self._daemon = daemon
        self._api = open_api(daemon)
        self._faces: dict[str, ASGIApp] = {
            path: face.app(path) for path in ("/mcp", "/mcp/call", "/mcp/all")
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, state = scope["path"].rstrip("/") or "/", scope["state"]
        if (found := profiles.split(path)) is not None:
            name, path = found
            try:
                caller = profiles.narrowed(self._daemon.settings.profiles, name, state["caller"])
            except Refused as error:
                refusal = Refusal(404, error.code, str(error))
                await refuse(send, refusal, state["request_id"], scope["path"])
                return
            scope = {**scope, "state": {**state, "caller": caller}}
        try:
            await self._faces.get(path, self._api)(scope, receive, send)
        finally:
            size = dict(scope["headers"]).get(b"content-length", b"")
            if size.isdigit() and int(size) > LARGE:
                self._daemon.pool.moved(TIMES * int(size))


class Server(uvicorn.Server):
    """Uvicorn without its signal handlers: signals are ours. It is told to end, and doesn't look ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = anyio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # which writes the time into the `Date` of the answers
            with anyio.move_on_after(1):
                await self._ending.wait()

    def end(self) -> None:
        self.should_exit = True
        self._ending.set()


async def serve(loaded: Loaded, environ: Mapping[str, str]) -> None:
    """Run until a signal. Raises `InTheWay`, `SettingsError`."""
    settings, places = loaded.settings, loaded.places
    settle()
    with ExitStack() as held:
        held.enter_context(sole(places))
        held.enter_context(tracing.exporting(environ))
        tcp = held.enter_context(tcp_listener(settings.host, settings.port))
        unix, pipe = (
            held.enter_context(unix_listener(path)) if settings.enable_socket else None
            for path in (places.socket, places.pipe)
        )
        async with (
            open_daemon(loaded, environ) as daemon,
            open_mcp(daemon) as face,
            anyio.create_task_group() as tasks,
        ):
            router = Router(daemon, face)
            noted = Door(daemon.journal)
            door = Guard(router, settings, local=False, tokens=daemon.tokens, turned_away=noted)
            servers = {server(door, Limited): tcp}
            if unix is not None:
                servers[server(Guard(router, settings, local=True, turned_away=noted), Local)] = (
                    unix
                )
            if pipe is not None:
                tasks.start_soon(serve_pipes, pipe, face)
            tasks.start_soon(daemon.configuration.watch)
            await tasks.start(stop_on_signal, servers, daemon, face)
            announce(daemon, tcp)
            async with anyio.create_task_group() as listening:
                for each, listener in servers.items():
                    listening.start_soon(serve_on, each, listener)
            tasks.cancel_scope.cancel()
    logger.info("stopped")


def settle() -> None:
    """Have the garbage collector pass over what was imported, and come by less often.

    With its usual thresholds it takes a tenth of the CPU of a busy daemon, to find nothing: what a
    request made is freed by counting references.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


WITH_KEY = ' --header "X-API-Key: $(mcpproxy token create NAME --servers A,B)"'


def announce(daemon: Daemon, tcp: socket.socket) -> None:
    """Say where we listen, and what is worth a warning."""
    host, port = tcp.getsockname()[:2]
    for text in daemon.warnings:
        logger.warning("%s", text)
    logger.info(
        "listening on %s, configuration %s; connect a client with: "
        "claude mcp add --transport http mcpproxy %s/mcp%s",
        url(host, port),
        daemon.places.config,
        url(ANY_ADDRESS.get(host, host), port),
        "" if daemon.settings.anonymous_mcp else WITH_KEY,
    )
    if not daemon.settings.servers and not daemon.server_errors:
        logger.info(
            "no servers yet; add one with: mcpproxy upstream add NAME -- COMMAND, or NAME --url URL"
        )
    if not daemon.settings.loopback:
        logger.warning(
            "it can be reached from the network, by whoever has a key or a token, under the names in trusted_hosts"
        )


def url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def server(app: ASGIApp, protocol: type[Limited]) -> Server:
    """uvicorn for one listener, which is opened and ended elsewhere."""
    return Server(
        uvicorn.Config(
            app,
            lifespan="off",
            access_log=False,
            proxy_headers=False,
            log_config=None,
            http=protocol,
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=75,
        )
    )


async def serve_on(server: Server, listener: socket.socket) -> None:
    await server.serve(sockets=[listener])


def endings() -> list[signal.Signals]:
    """The signals that ask us to end; that of a closed terminal, too, unless we are to outlive it (nohup(1))."""
    kept = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if kept else [signal.SIGHUP])]


async def stop_on_signal(
    servers: Iterable[Server], daemon: Daemon, face: McpFace, *, task_status: TaskStatus[None]
) -> None:
    """End what runs on the first signal, whatever still runs on the second."""
    with anyio.open_signal_receiver(*endings()) as signals:
        async with anyio.create_task_group() as tasks:
            task_status.started()
            stopping = False
            async for number in signals:
                if stopping:
                    # Children end with us: their pipes close, and the kernel kills the rest.
                    os._exit(128 + number)
                stopping = True
                logger.info("stopping; a second signal stops at once")
                tasks.start_soon(stop, servers, daemon, face)


async def stop(servers: Iterable[Server], daemon: Daemon, face: McpFace) -> None:
    """Come to rest: first those who wait for a script get an answer, then everybody is let go."""
    daemon.stop()
    await anyio.sleep(ANSWER_SECONDS)
    face.close()  # or streams that clients hold open would keep us
    for each in servers:
        each.end()


async def serve_pipes(listener: socket.socket, face: McpFace) -> None:
    """Give each connection to the MCP face, as if it were the standard streams of a process."""

    async def serve_pipe(stream: SocketStream) -> None:
        async with stream:
            try:
                raw = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - no database here
                if not same_user(raw):
                    return
                await face.serve_pipe(stream, stream)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # the client is gone
            except Exception:
                logger.exception("a client's connection failed; the others go on")

    await serve_each(await SocketListener.from_socket(listener), serve_pipe)


async def serve_one(loaded: Loaded, environ: Mapping[str, str], line: socket.socket) -> None:
    """Be the daemon of one MCP client, at the other end of `line`, until it hangs up or a signal comes.

    Raises `SettingsError`.
    """
    settle()
    async with (
        open_daemon(loaded, environ) as daemon,
        open_mcp(daemon) as face,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(daemon.configuration.watch)
        tasks.start_soon(cancel_on_signal, tasks.cancel_scope)
        stream = await SocketStream.from_socket(line)
        async with stream:
            await face.serve_pipe(stream, stream)
        tasks.cancel_scope.cancel()


async def cancel_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(*endings()) as signals:
        async for _ in signals:
            scope.cancel()
            return


# ── listeners ─────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def tcp_listener(host: str, port: int) -> Iterator[socket.socket]:
    """A bound TCP socket. Raises `InTheWay`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        taken = "stop what uses it, or " if error.errno == errno.EADDRINUSE else ""
        raise InTheWay(
            f"can't listen on {host}:{port}: {error.strerror}; {taken}choose another with --listen HOST:PORT"
        ) from error
    with listener:
        yield listener


@contextmanager
def unix_listener(path: Path) -> Iterator[socket.socket]:
    """A bound Unix socket that only this user can open, in place of what a dead daemon left there.

    Raises `SettingsError`.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        previous = os.umask(0o177)
        try:
            path.unlink(missing_ok=True)
            listener.bind(str(path))
        except OSError as error:
            raise SettingsError(
                f"no socket can be made at {path}: {error.strerror}{ELSEWHERE}"
            ) from error
        finally:
            os.umask(previous)
        listener.listen(1024)
        listener.setblocking(False)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def sole(places: Places) -> Iterator[None]:
    """Be the only daemon of a configuration. The kernel lets go of the lock when we end, however we do.

    Raises `InTheWay`, and `SettingsError` for directories that can't be used.
    """
    lock = places.socket.with_suffix(".lock")
    try:
        private_directory(places.state)
        private_directory(places.socket.parent)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(f"the state of the daemon can't be kept: {error}{ELSEWHERE}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InTheWay(
            f"a daemon for this configuration is running already (it holds {lock}); stop it first{held_by(descriptor)}"
        ) from error
    else:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(descriptor)


def held_by(lock: int) -> str:
    """How to stop the process that holds a lock, if it has written its number there."""
    number = os.pread(lock, 32, 0).strip()
    return f": kill {int(number)}" if number.isdigit() else ""
