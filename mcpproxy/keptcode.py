"""Kept code as one caller sees it: what it may find, read, run again and remove.

A program may have secrets in its text and in the input it ran with, so it belongs to the caller
whose run it was. A caller finds its own programs only, and of these only those whose tools it may
still see. Administrators share what they keep, and see everybody's. To give a program to others is
a person's act: it is saved as a stored script.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mcpproxy.catalog import Catalog
from mcpproxy.codecache import CodeCache, Kept
from mcpproxy.database import mend
from mcpproxy.errors import Refused
from mcpproxy.names import find_tool
from mcpproxy.policy import Caller

logger = logging.getLogger(__name__)

FOUND = 3
"""Programs that a search for tools shows."""
LOOKED_AT = 20
LARGEST_INPUT = 64 * 2**10
"""Bytes of a program's input as JSON."""
SHORTEST = 8
"""Characters of an id that are enough, where they fit one program."""


class KeptCode:
    """See the module. `catalog` is of everything, `catalog_for` of what a caller sees."""

    def __init__(
        self,
        cache: CodeCache,
        catalog: Callable[[], Catalog],
        catalog_for: Callable[[Caller], Catalog],
    ) -> None:
        self.cache = cache
        self._catalog = catalog
        self._catalog_for = catalog_for

    def keep(self, code: Kept) -> str:
        """Keep it; gives its id. Raises `Refused` for one that is too large, or where it can't be written."""
        if not readable(code.source):
            raise Refused(
                "INVALID_REQUEST",
                "its source has half a surrogate pair in it, which no file can keep; write it as an escape",
            )
        size = len(json.dumps(dict(code.input)))
        if size > LARGEST_INPUT:
            raise Refused(
                "REQUEST_TOO_LARGE",
                f"its input has {size:,} bytes, at most {LARGEST_INPUT:,} are kept with a program; "
                "have it get its data from a tool",
            )
        with self._usable():
            return self.cache.keep(code)

    def find(self, cache_id: str, caller: Caller) -> Kept:
        """The program of an id, or of the start of one. Raises `Refused`."""
        found = self._found(cache_id, caller)
        if not found:
            raise Refused(
                "NOT_FOUND",
                f"no code is kept under {cache_id[:80]!r}; search_tools finds kept code by its description, and "
                "code_execution keeps code that runs well when it is given a `description`",
            )
        if len({each.cache_id for each in found}) > 1:
            raise Refused(
                "INVALID_REQUEST",
                f"cache_id {cache_id[:80]!r} is the start of several ids; give more of it",
            )
        # Of the same program in several hands, one's own.
        return min(found, key=lambda each: each.owner != caller.owner)

    def listing(self, caller: Caller) -> list[Kept]:
        """The last used first. Raises `Refused`."""
        with self._usable():
            found = self.cache.listing(self._whose(caller))
        return self._shown(found, caller)

    def search(self, query: str, caller: Caller) -> list[Kept]:
        """The best first; none where the file can't be read, which the log says."""
        try:
            found = self.cache.search(query, self._whose(caller), LOOKED_AT)
        except (sqlite3.Error, OSError) as error:
            logger.warning("kept code can't be searched (%s): %s", self.cache.path, error)
            return []
        return self._shown(found, caller)[:FOUND]

    def remove(self, cache_id: str, caller: Caller) -> Kept:
        """The program that was removed. Raises `Refused`."""
        found = self.find(cache_id, caller)
        with self._usable():
            self.cache.remove(found.cache_id, found.owner)
        return found

    def changed(self, kept: Kept, caller: Caller) -> list[str]:
        """What is no longer as it was when the code was kept."""
        catalog, warnings = self._catalog_for(caller), []
        for name, schemas in kept.tools.items():
            found = find_tool(name, catalog)
            tool = None if found is None else catalog.tool(found.server, found.tool)
            if tool is None:
                warnings.append(f"{name} is not there now")
            elif tool.schemas != schemas:
                warnings.append(
                    f"{name} has changed since this code was kept; get_functions shows what it takes now"
                )
        return warnings

    def _found(self, cache_id: str, caller: Caller) -> list[Kept]:
        if not SHORTEST <= len(cache_id) <= 64:
            return []
        with self._usable():
            found = self.cache.find(cache_id, self._whose(caller), LOOKED_AT)
        return self._shown(found, caller)

    def _whose(self, caller: Caller) -> str | None:
        return None if caller.admin else caller.owner

    def _shown(self, found: list[Kept], caller: Caller) -> list[Kept]:
        if caller.admin:
            return found
        seen, whole = self._catalog_for(caller), self._catalog()
        return [
            each
            for each in found
            if each.kept >= caller.since and not hidden(each.tools, seen, whole)
        ]

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            path = self.cache.path
            todo = mend(error, path, f"if it is damaged, remove {path}")
            raise Refused(
                "EXECUTION_FAILED", f"the file of kept code can't be used: {error}; {todo}"
            ) from error


def readable(text: str) -> bool:
    """Whether UTF-8 can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def hidden(tools: Mapping[str, Any], seen: Catalog, whole: Catalog) -> bool:
    """Whether one of the tools is there, but not for this caller. What is gone is gone for everyone."""
    return any(find_tool(name, seen) is None and find_tool(name, whole) for name in tools)


def run_again(kept: Kept, params: Mapping[str, Any], options: object = None) -> dict[str, Any]:
    """The request that runs it with `params` in place of what it ran with then. Raises `Refused`."""
    if unknown := [name for name in params if name not in kept.input]:
        known = ", ".join(kept.input) or "none: it takes no input"
        raise Refused(
            "INVALID_REQUEST",
            f"params.{unknown[0][:80]} is not known to this code; known are {known}",
        )
    return {
        "code": kept.source,
        "language": kept.language,
        "input": {**kept.input, **params},
        "description": kept.description,
        "options": options,
    }
