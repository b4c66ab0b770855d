"""What to write instead of a module that a program wanted: there are none."""

from __future__ import annotations

import re

from mcpproxy import names
from mcpproxy.catalog import Catalog
from mcpproxy.declarations import call_line

NETWORK = "what is on the network comes from tools, which search_tools finds"
FILES = 'files are read and written by tools, which search_tools("read file") finds'
PROCESSES = "other programs are run by tools, which search_tools finds"
INSTEAD = {
    **dict.fromkeys(("fs", "fs/promises", "fs-extra"), FILES),
    **dict.fromkeys(("http", "https", "net", "axios", "node-fetch", "got", "undici"), NETWORK),
    **dict.fromkeys(("child_process", "execa"), PROCESSES),
    **dict.fromkeys(("crypto", "uuid"), "crypto.randomUUID() is there without it, hashes are not"),
    "url": "URL and URLSearchParams are there without it",
    "timers/promises": "await sleep(ms) waits",
    "path": "join strings",
    "buffer": "TextEncoder, TextDecoder, atob and btoa are there without it",
    "events": "call functions, or keep them in an array",
    "assert": "throw an Error where something is not as it should be",
    "perf_hooks": "performance.now() is there without it",
    "readline": "nobody can be asked here, so read the global input",
    **dict.fromkeys(("util", "os", "process"), "leave it out"),
    **dict.fromkeys(
        ("dayjs", "moment", "luxon", "date-fns"), "packages are not available, but Date is"
    ),
    **dict.fromkeys(
        ("lodash", "lodash-es", "underscore", "ramda"),
        "packages are not available, so write plain JavaScript, e.g. Object.groupBy(rows, f), [...new Set(list)] or "
        "list.toSorted(f)",
    ),
}
PACKAGE = "packages are not available, so write what you need in plain JavaScript"
REACHED = "tools are reached as await tools.<server>.<tool>({...})"
GLOBALS = frozenset(("tools", "call_tool", "call_tools", "search_tools", "describe_tool"))
IMPORT = re.compile(
    r"^[ \t]*import\b([^'\"();]{0,300}?)(?:\bfrom\s*)?['\"]([^'\"\n]{1,256})['\"]", re.MULTILINE
)
REQUIRE = re.compile(r"\b(?:require|import)\(\s*['\"]([^'\"\n]{1,256})['\"]")
OWN = re.compile(r"\.{0,2}/|@/|@modelcontextprotocol/|mcp\b|tools?\b|servers?\b")
"""How a module is named that stands for the tools rather than for a package."""


def instead(source: str, catalog: Catalog) -> str:
    """What to write instead of the first module that a program names."""
    if (found := IMPORT.search(source)) is not None:
        bound, module = found.groups()
    elif (found := REQUIRE.search(source)) is not None:
        bound, module = "", found[1]
    else:
        return REACHED
    module = module.removeprefix("node:")
    if module in INSTEAD:
        return INSTEAD[module]
    wanted = re.findall(r"[\w$]+", bound)
    if kept := next((each for each in wanted if each in GLOBALS), None):
        return f"{kept} is a global, leave the import out"
    for each in (*wanted, *reversed(re.findall(r"[^/.]+", module))):
        if (tool := tool_of(each, catalog)) is not None:
            return f"leave it out and write {tool}"
    return REACHED if OWN.match(module) else PACKAGE


def tool_of(name: str, catalog: Catalog) -> str | None:
    """The call of the tool, or of the first one of the server, that a name stands for."""
    server = catalog.servers.get(names.understood(name, catalog.servers))
    tool = None if server is None else next(iter(server.tools.values()), None)
    if tool is None and (meant := names.meant_tool(name, catalog)) is not None:
        tool = catalog.tool(meant.server, meant.tool)
    return None if tool is None else call_line(tool)
