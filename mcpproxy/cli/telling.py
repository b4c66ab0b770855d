"""What a command says, and the status with which it leaves.

Answers go to stdout, everything else to stderr. What servers say of themselves is made harmless
before a terminal gets it.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import click

from mcpproxy.errors import ProxyError

STDOUT, STDERR = 1, 2
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
FAILED, NOT_RUN, BAD_CONFIG, INTERRUPTED = 1, 2, 4, 130
"""It ran and failed; nothing was run; `serve` and `stdio` can't use the configuration; Ctrl-C."""
NO_DAEMON = "no daemon is running for this configuration; start one with: mcpproxy serve"


def refuse(message: str, status: int = NOT_RUN) -> NoReturn:
    """Say why it can't be done, and leave."""
    click.echo(f"mcpproxy: {message}", err=True)
    sys.exit(status)


class Commands(click.Group):
    """Commands. What goes wrong with an argument, or with a full disk, is one line."""

    group_class = type
    """Groups within are of this kind, too."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The whole first sentence of each, over several lines where it is long: click would cut it."""
        rows = [(name, each.get_short_help_str(limit=1000)) for name, each in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows))

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            return super().main(*args, **options)
        except ProxyError as error:
            refuse(str(error))
        except UnicodeEncodeError:
            refuse("an argument is not UTF-8")
        except OSError as error:
            if isinstance(error, FileNotFoundError) and error.filename is None:
                refuse("the folder that this was started in is gone: change to another")
            if error.errno in (errno.EMFILE, errno.ENFILE):
                refuse("no more files may be open here: allow more (ulimit -n)")
            if error.errno == errno.ENAMETOOLONG:
                refuse(f"the name of a file is too long: {str(error.filename)[:80]}…")
            if error.errno not in FULL:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)  # for what is still to be written
            refuse(f"the answer can't be written: {error.strerror}", FAILED)


def open_streams() -> None:
    """Have standard streams that take any text; closed ones lead nowhere, lest a socket get their number."""
    while (spare := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(spare)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        encoding = getattr(sys.stderr, "encoding", "utf-8")
        sys.stderr = io.TextIOWrapper(Aside(), encoding, "backslashreplace", line_buffering=True)


class Aside(io.RawIOBase):
    """stderr, for what is said besides: where its disk is full, that is lost, and the work goes on."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return STDERR

    def isatty(self) -> bool:
        return os.isatty(STDERR)

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        with suppress(OSError):
            while rest:
                rest = rest[os.write(STDERR, rest) :]
        return size


def show_json(found: Any) -> None:
    """As UTF-8, whatever the terminal has; a lone surrogate comes out as its escape."""
    show_exactly(json.dumps(found, indent=2, ensure_ascii=False))


def show_exactly(text: str) -> None:
    """A line, or several, byte for byte."""
    click.echo(text.encode("utf-8", "backslashreplace"))


def visible(text: str) -> str:
    """A line for a terminal, which what servers say of themselves must not control."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def visible_lines(text: str) -> str:
    """The same for several lines."""
    return "\n".join(map(visible, text.expandtabs().split("\n")))


def show_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], none: str = "") -> None:
    """Columns as wide as they must be; the last may be any width. `none` says why there are no rows."""
    if none and not rows:
        click.echo(none, err=True)
        return
    rows = [tuple(visible(cell) for cell in row) for row in rows]
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head) - 1)]
    for row in (head, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())
