"""Where things lie on disk. Import-light: the command line's fast path uses it.

The configuration stays where the reference has it (`~/.mcpproxy/`); state and logs go where the
platform keeps such things. Each configuration file has a state directory of its own, so that two
daemons with two configurations never meet.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import platformdirs

from mcpproxy.errors import SettingsError

APP = "mcpproxy"
USUAL = "~/.mcpproxy/mcp_config.json"
LONGEST_SOCKET = 100
"""Bytes of a Unix socket's path; the kernel's limit is 108 on Linux and 104 on macOS."""
LITTLE_BYTES = 64 * 2**20
"""Free space on a disk that is as good as full."""
TURN_SECONDS = 30.0
"""How long one waits for others who change the same; a change takes milliseconds."""
ALLOW = "see that this user may use it and its folder"
ELSEWHERE = "; data_dir in the configuration takes the state elsewhere"


@dataclass(frozen=True, slots=True)
class Places:
    """All paths that belong to one configuration file."""

    config: Path
    scripts: Path
    """Stored scripts, next to the configuration."""
    state: Path
    logs: Path
    socket: Path
    """HTTP on a Unix socket."""
    pipe: Path
    """MCP with the framing of stdio, for `mcpproxy stdio`."""

    @property
    def approvals(self) -> Path:
        """What operators decided about servers and tools."""
        return self.state / "approvals.sqlite3"

    @property
    def code_cache(self) -> Path:
        """Code that is kept."""
        return self.state / "code.sqlite3"

    @property
    def journal(self) -> Path:
        """A folder of its own: who watches the configuration's isn't woken by each record."""
        return self.state / "journal"


def config_file(given: str | Path | None) -> Path:
    """The configuration file meant: absolute, `~` expanded, the default one when none is given.

    Raises `SettingsError` where that one is meant, and this user has no home.
    """
    # Of `os.path`, which leaves the `~` of a user that there isn't as it is.
    return Path(os.path.abspath(os.path.expanduser(given or default_config())))


def default_config() -> Path:
    return at_home(os.path.expanduser, USUAL)


def at_home(find: Callable[[str], str], what: str) -> Path:
    """What is found in this user's home. Raises `SettingsError` where the system knows none, as in some containers."""
    with suppress(RuntimeError):  # what platformdirs says of it
        if (found := Path(find(what))).is_absolute():
            return found
    raise SettingsError(
        f"this user ({os.getuid()}) has no home folder: set HOME, or both --config and MCPPROXY_DATA_DIR"
    )


def places(config: Path, data_dir: Path | None = None) -> Places:
    """The places of a configuration; `data_dir` (a setting) takes the state elsewhere.

    Raises `SettingsError` where that is no path, and where the state would be at home and this user has none.
    """
    digest = hashlib.sha256(str(config).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    if data_dir is not None:
        state = _folder(config, data_dir)
    else:
        usual = config == Path(os.path.expanduser(USUAL))
        slug = "default" if usual else f"{config.stem}-{digest}"
        state = at_home(platformdirs.user_state_dir, APP) / slug
    sockets = state
    if len(os.fsencode(state / "mcpproxy.sock")) > LONGEST_SOCKET:
        runtime = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        sockets = Path(runtime) / f"{APP}-{os.getuid()}-{digest}"
    return Places(
        config=config,
        scripts=config.parent / "scripts",
        state=state,
        logs=state / "logs",
        socket=sockets / "mcpproxy.sock",
        pipe=sockets / "mcp.sock",
    )


def _folder(config: Path, data_dir: Path) -> Path:
    try:
        if "\0" in str(data_dir):
            raise ValueError("a NUL is in it")
        found = Path(os.path.abspath(data_dir.expanduser()))
        os.fsencode(found)
    except (ValueError, RuntimeError) as error:  # half a surrogate pair, or the home of nobody
        shown = json.dumps(str(data_dir))[:80]
        raise SettingsError(
            f"{config}: data_dir must be the path of a folder, not {shown}: {error}"
        ) from error
    return found


def file_name(server: str) -> str:
    """The name of a server as that of a file, without an ending, whatever the server is called."""
    safe = quote(server, safe=" ")
    if len(safe) > 200:
        digest = hashlib.sha256(server.encode("utf-8", "replace")).hexdigest()[:8]
        safe = f"{safe[:180]}-{digest}"
    return safe


def server_log(logs: Path, name: str) -> Path:
    """Where the stderr of a server is kept; a server may be called as we are, whose log is there too."""
    return logs / f"server-{file_name(name)}.log"


def signature(path: Path | str) -> object:
    """What changes with a file, however it is written."""
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def private_file(path: Path) -> None:
    """Make a file, if there is none, that is this user's alone; one that is there becomes so."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def private_directory(path: Path) -> None:
    """Make a directory that is this user's alone. Raises `PermissionError` for one that isn't ours."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    # A link counts as well: in a folder that everybody may write, another user can lead us anywhere.
    if found.st_uid != os.getuid() or path.lstat().st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user")
    if found.st_mode & 0o077:
        path.chmod(0o700)


def replace_file(path: Path, data: bytes | bytearray, *, lasting: bool = True) -> None:
    """Write a file at once or not at all, readable by this user alone. Raises `OSError`.

    With `lasting` false the disk isn't waited for: for what can be had again after a loss of power.
    """
    spare = None
    try:
        descriptor, spare = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with open(descriptor, "wb") as file:
            file.write(data)
            if lasting:
                file.flush()
                os.fsync(descriptor)
        os.replace(spare, path)
    except BaseException:
        if spare is not None:
            Path(spare).unlink(missing_ok=True)
        raise


@contextmanager
def sole_writer(directory: Path) -> Iterator[None]:
    """Be the only one of us, threads included, who changes what is in a directory. Raises `OSError`.

    The lock is on the directory itself, so it leaves no file, and it ends with the process. Whoever
    was stopped while having it keeps the others from their change, and not from everything else.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        take_turn(descriptor)
        yield
    finally:
        os.close(descriptor)


def take_turn(descriptor: int) -> None:
    """Wait for the lock of an open file or directory, which ends when that is closed. Raises `OSError`."""
    until = time.monotonic() + TURN_SECONDS
    while not _locked(descriptor):
        if time.monotonic() > until:
            why = f"another process has been changing what is in it for {TURN_SECONDS:g} s"
            raise TimeoutError(errno.ETIMEDOUT, why)
        time.sleep(0.01)


def _locked(descriptor: int) -> bool:
    """Whether it is our turn."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # NFS locks only what is open for writing, as no directory is: there it is as without us
    return True


def reason(error: OSError) -> str:
    """Why a file can't be used, and what mends that; for a text that names the file already."""
    why = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{why}; make room on its disk"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{why}; {ALLOW}"
    return why


def nearly_full(path: Path) -> bool:
    """Whether the disk that a path is on, or will be, is as good as full."""
    there = next((each for each in (path, *path.parents) if os.path.lexists(each)), "/")
    return shutil.disk_usage(there).free < LITTLE_BYTES
