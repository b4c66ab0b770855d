"""Where in the caller's source an error is, and what it doesn't say of itself.

Everything here is for scripts that failed, or that read an error's `stack`: a parse of the program
costs more than most programs do.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Protocol

from mcpproxy.sandbox.positions import Positions, code_points, position, utf16_units

POSITION = re.compile(r"<input>:(\d{1,9}):(\d{1,9})")
"""Bounded, since a script writes what it likes into a stack: Python refuses longer numbers."""

LONGEST_BLAMED = 2**18
"""Characters of a program in which it is worth looking for what an error was about."""


class Parser(Protocol):
    def ask(self, name: str, about: object) -> Any: ...


class Places:
    """The places of one script."""

    def __init__(self, source: str, language: str, parser: Parser) -> None:
        self.positions = Positions(source)
        self._file = "script.ts" if language == "typescript" else "script.js"
        self._parser = parser

    @cached_property
    def _known(self) -> bool:
        """Whether positions can be led back; aligns what TypeScript was compiled to, once.

        The compiled text is the source with types left out, some constructs lowered, and all of it
        set anew, so the tokens that both have keep their order.
        """
        positions = self.positions
        if positions.text is positions.source:
            return True
        origin = self._parser.ask("tokens", positions.source)
        result = self._parser.ask("tokens", positions.text)
        if isinstance(origin, dict) or isinstance(result, dict):
            return False
        positions.align(origin, result)
        return positions.aligned

    def frame(self, line: int, column: int) -> str:
        return f"    at {self._file}:{line}:{column}"

    def of_source(self, units: int) -> str:
        """A line of a stack, for an offset in the source as JavaScript counts."""
        source = self.positions.source
        return self.frame(*position(source, code_points(source, units)))

    def of_text(self, units: int) -> str:
        """The same for an offset in what the source was compiled to; "" where that isn't known."""
        positions = self.positions
        if not self._known:
            return ""
        return self.frame(*positions.origin(code_points(positions.text, units)))

    def told(self, stack: str) -> str:
        """A stack of the engine in the caller's own lines and columns, without calls that were put in."""
        if POSITION.search(stack) is None:
            return stack
        told = [self._told(line) for line in stack.rstrip("\n").split("\n")]
        return "\n".join(line for line in told if line is not None)

    def _told(self, line: str) -> str | None:
        if (found := POSITION.search(line)) is None:
            return line
        place = self._file
        if self._known:
            at, column = int(found[1]), int(found[2])
            if self.positions.appended(at):
                return None
            at, column = self.positions.locate(at, column)
            place = f"{place}:{at}:{column}"
        return line[: found.start()] + place + line[found.end() :]

    def blamed(self, message: str, stack: str) -> tuple[str, str]:
        """Message and stack in the caller's terms, with what the engine knew and didn't say."""
        text = self.positions.text
        first, newline, rest = stack.partition("\n")
        found = POSITION.search(first)
        if len(text) > LONGEST_BLAMED or (stack and found is None):
            return message, self.told(stack)
        if found is None:
            if not message.startswith("Uncaught "):
                return message, ""
            thrown = self._parser.ask("thrown", [text, message])
            return message, self.of_text(thrown["at"]) if "at" in thrown else ""
        if message.startswith("TypeError: "):
            offset = self.positions.behind(line := int(found[1]), column := int(found[2]))
            top = "<eval>" in first or self.positions.put_in(line, column)
            about = self._parser.ask("blame", [text, utf16_units(text, offset), message, top])
            message = about.get("message", message)
            if "at" in about and self._known:
                at, column = self.positions.origin(code_points(text, about["at"]))
                name = first[: found.start()] + f"{self._file}:{at}:{column}" + first[found.end() :]
                return message, f"{name}{newline}{self.told(rest)}".rstrip("\n")
        return message, self.told(stack)
