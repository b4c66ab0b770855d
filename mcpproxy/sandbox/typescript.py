"""TypeScript to JavaScript, in a process of its own that can be killed.

The transform is OXC, compiled to WebAssembly (`quickjs-rs`). It removes types and lowers enums,
namespaces and parameter properties. It says neither where in the source an error is nor where its
output came from: `program.js` works both out, on the error path only.

It knows modules alone, so a script with a top-level `return` goes through it as the body of a function,
and in parts where it has namespaces, which stand in no function.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from mcpproxy.errors import WorkerError
from mcpproxy.sandbox import frames
from mcpproxy.sandbox.memory import give_back
from mcpproxy.spawning import Process, spawn

logger = logging.getLogger(__name__)

SECONDS = 10.0
"""For one source; OXC takes 50 ms for the largest that is accepted."""

HEAD, TAIL = "async function __script() {", "}"
IMPORT_TYPE = re.compile(
    r"^[ \t]*import\s+(?:type\b[^;'\"]*|\{\s*(?:type\s[\w\s$]+,?\s*)+\}\s*)(?:from\s*)?['\"][^'\"\n]*['\"];?",
    re.MULTILINE,
)
EMPTY_EXPORT = re.compile(
    r"\A\s*export \{\};|^export \{\};$\n?(?=(?:\s|//[^\n]*\n|/\*[^*]*\*/)*\Z)", re.MULTILINE
)
NAMESPACE = re.compile(
    r"^(?:export[ \t]+)?((?:declare[ \t]+)?(?:namespace|module|global)\b[^\n{]*\{(?:[^\n]*\}[ \t;]*$|.*?\n\}[^\n]*$))",
    re.MULTILINE | re.DOTALL,
)
"""One that begins its line, to the end of its line or the first brace that begins one."""
FUNCTION = re.compile(r"\s*(?:/[/*]|async\b|function\b)")
"""How a source begins that may be one function without a name, which is no statement."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """JavaScript, or None and the transform's own words."""

    text: str | None
    refusal: str | None = None


class Transformer:
    """One process that transforms, started when first needed or by `warm`.

    `cache` is a directory of ours for what OXC compiles to: half a second and 40 MB the first time only.
    """

    def __init__(self, cache: Path | None) -> None:
        self._cache = cache
        self._lock = anyio.Lock(fast_acquire=True)
        self._line: socket.socket | None = None
        self._process: Process | None = None

    async def warm(self) -> None:
        """Have it ready before somebody waits for it: the first use compiles for half a second."""
        await self.transform("let ready: boolean")

    async def transform(self, source: str) -> Compiled:
        """What `source` is in JavaScript. Raises `WorkerError` when the process gives no answer."""
        async with self._lock:
            try:
                with anyio.fail_after(SECONDS):
                    return await self._ask(source)
            except TimeoutError:
                await self._stop()
                return Compiled(None, "the TypeScript transform took too long")
            except (OSError, WorkerError) as error:
                await self._stop()
                raise WorkerError(f"the TypeScript transform ended: {error}") from error
            except anyio.get_cancelled_exc_class():
                await self._stop()  # its answer must not reach the next one who asks
                raise

    async def _ask(self, source: str) -> Compiled:
        if self._line is None:
            self._start()
        line = self._line
        assert line is not None
        await send(line, json.dumps(source).encode())
        answer = json.loads(await receive(line))
        return Compiled(answer["text"], answer["refusal"])

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._line = ours
        with theirs:
            self._process = spawn(
                [
                    sys.executable,
                    "-I",
                    "-c",
                    "from mcpproxy.sandbox.typescript import main; main()",
                    str(theirs.fileno()),
                    *([] if self._cache is None else [str(self._cache)]),
                ],
                env={},
                pass_fds=[theirs.fileno()],
            )

    async def _stop(self) -> None:
        # Shielded: a cancelled request must still not leave a process behind.
        with anyio.CancelScope(shield=True):
            line, self._line = self._line, None
            process, self._process = self._process, None
            if line is not None:
                line.close()
            if process is not None:
                process.kill()
                await process.wait()


@asynccontextmanager
async def open_transformer(cache: Path | None = None) -> AsyncIterator[Transformer]:
    """A transformer whose process lives no longer than this block."""
    transformer = Transformer(cache)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(transformer._stop)
        yield transformer


async def send(line: socket.socket, text: bytes) -> None:
    data = memoryview(frames.pack(text))
    while data:
        try:
            data = data[line.send(data) :]
        except BlockingIOError:
            await anyio.wait_writable(line)


async def receive(line: socket.socket) -> bytes:
    splitter = frames.Splitter()
    while True:
        await anyio.wait_readable(line)
        data = line.recv(1 << 18)
        if not data:
            raise WorkerError("no answer")
        if found := splitter.feed(data):
            return found[0]


# ── in the process ────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    """Answer sources with their JavaScript until the daemon hangs up."""
    from mcpproxy.sandbox.confine import Confinement

    confinement = Confinement()
    confinement.die_with(os.getppid())
    line = socket.socket(fileno=int(sys.argv[1]))
    oxc = Oxc(Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    for rehearsal in ("let ready: boolean", "return 1 as number", "let ="):
        oxc.answer(rehearsal)
    confinement.enter_jail(None)  # WebAssembly reserves address space by the gigabyte
    splitter = frames.Splitter()
    while data := line.recv(1 << 18):
        for frame in splitter.feed(data):
            line.sendall(frames.pack(json.dumps(oxc.answer(json.loads(frame))).encode()))


class Oxc:
    """The transform, with the ways a script may be no module."""

    def __init__(self, cache: Path | None = None) -> None:
        import wasmtime
        from quickjs_rs._transform import SourceTransformer

        self._refusals = (RuntimeError, UnicodeError, wasmtime.Trap)
        """How the transform says no; a trap when it runs out of its stack."""
        if cache is not None:
            load_compiled(cache)
        self._transformer = SourceTransformer()

    def answer(self, source: str) -> dict[str, str | None]:
        try:
            return {"text": EMPTY_EXPORT.sub("\n", self._run(source)), "refusal": None}
        except self._refusals as error:
            refusal = str(error)
        untyped = IMPORT_TYPE.sub(_blank, source)
        with suppress(*self._refusals):
            return {"text": self._in_parts(untyped), "refusal": None}
        if FUNCTION.match(source):
            with suppress(*self._refusals):
                return {"text": self._within("(", untyped, "\n)"), "refusal": None}
        return {"text": None, "refusal": told(refusal)}

    def _in_parts(self, source: str) -> str:
        """As the body of a function; of which every other part is a namespace."""
        parts = NAMESPACE.split(source)
        return "\n".join(
            self._run(part) if n % 2 else self._within(HEAD, part, f"\n{TAIL}")
            for n, part in enumerate(parts)
        )

    def _within(self, before: str, source: str, after: str) -> str:
        return inner(self._run(before + source + after), before)

    def _run(self, source: str) -> str:
        from quickjs_rs._transform import FLAG_SOURCE_TS, FLAG_STRIP_TYPESCRIPT, SourceTransformer

        try:
            return str(
                self._transformer.transform(
                    "script.ts", source, flags=FLAG_SOURCE_TS | FLAG_STRIP_TYPESCRIPT
                )
            )
        finally:
            # Its cache has no bound; a fresh one shares the compiled module.
            self._transformer._cache.clear()
            if self._transformer._instance is None:
                self._transformer = SourceTransformer()


def load_compiled(cache: Path) -> None:
    """Put OXC, compiled by an earlier process, where `quickjs-rs` looks for it; or compile and keep it.

    The file is machine code, so `cache` must be a directory that nobody else can write to.
    """
    import hashlib
    from importlib.metadata import version

    import wasmtime
    from quickjs_rs import _transform, _wasmtime

    binary = _transform._read_transform_wasm()
    build = hashlib.sha256(binary).digest()
    file = cache / f"oxc-{build.hex()[:16]}-wasmtime-{version('wasmtime')}.bin"
    engine = _wasmtime.shared_wasmtime_engine()
    try:
        module = wasmtime.Module.deserialize_file(engine, str(file))
    except (wasmtime.WasmtimeError, OSError):  # not there yet, or of another processor
        module = wasmtime.Module(engine, binary)
        with suppress(OSError):  # a full disk costs the next start half a second
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            spare = file.with_suffix(f".{os.getpid()}")
            spare.write_bytes(module.serialize())
            spare.replace(file)
        give_back()  # 40 MB that the compiler used
    linker = _wasmtime.default_wasi_linker(engine)
    _wasmtime._SHARED_ARTIFACTS["transform"] = _wasmtime.SharedWasmArtifact(module, linker, build)


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def inner(text: str, before: str) -> str:
    """The transformed text without what was put around it."""
    text = text.strip()
    if before == "(":
        return text.removesuffix(";")
    start = text.index("{") + 1
    return text[start : text.rindex("}")].strip("\n")


def told(refusal: str) -> str:
    """The first sentence of the transform's message, without its file name."""
    if "wasm backtrace" in refusal:
        return "the source is nested too deeply to be parsed"
    message = refusal.partition("\n")[0].removeprefix("source parse error in script.ts: ")
    return message.partition("; ")[0].rstrip(".")[:500]
