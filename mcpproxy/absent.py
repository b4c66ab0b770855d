"""Names that a script used and that aren't there: what was meant, and what to write instead.

They come from browsers and Node, from packages, from other languages, and from other systems that
run code against tools; or they are the name of a server or a tool, without what goes before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from mcpproxy import modules, names
from mcpproxy.catalog import Catalog, Tool
from mcpproxy.declarations import call_line
from mcpproxy.guesses import TAGGED, looks_like
from mcpproxy.sandbox.source import fence_tag

VALUE = "end with the value, or return it"
GIVEN = "what the request sent as input is the global input"
TOOLS = "tools are called as await tools.<server>.<tool>({...})"
DISCOVERY = "Object.keys(tools) names the servers, await search_tools(query) finds tools"
DESCRIPTION = 'await describe_tool("server:tool") describes a tool'
LEFT_OVER = "leave the name of the language out of the code"
EXPECTED = (
    "code must be a JavaScript or TypeScript program that calls tools and gives a value, for example: "
    "const r = await tools.<server>.<tool>({...}); return r"
)

NETWORK = "there is no network here: call a tool instead"
SLEEP = "there are no timers here: use await sleep(ms)"
BROWSER = "this is no browser: there is no"
DATES = "packages are not available: use Date"
PLAIN = "packages are not available: write it in plain JavaScript, e.g. Object.groupBy(rows, f), [...new Set(list)] or list.toSorted(f)"

ABSENT = {
    "fetch": "there is no network here: call a tool, e.g. await tools.<server>.<tool>({...}); search_tools() finds one",
    **dict.fromkeys(
        ("AbortController", "AbortSignal"),
        "a call can't be aborted; await Promise.race([call, sleep(ms)]) stops waiting for it",
    ),
    "axios": "there is no network here, and there are no modules: call a tool instead",
    **dict.fromkeys(
        (
            "XMLHttpRequest",
            "WebSocket",
            "EventSource",
            "Headers",
            "Request",
            "Response",
            "FormData",
        ),
        NETWORK,
    ),
    "require": "require is not available, there are no modules here",
    "module": f"there are no modules here, so nothing is exported: {VALUE}",
    "exports": f"there are no modules here, so nothing is exported: {VALUE}",
    "process": "there is no process object or environment here: pass what you need as input",
    "env": "there is no environment here: pass what you need as input",
    "Buffer": "there is no Buffer here: use TextEncoder, TextDecoder, atob or btoa",
    **dict.fromkeys(
        ("Blob", "File", "FileReader"),
        "there are no files here: keep the text itself, or bytes in a Uint8Array",
    ),
    **dict.fromkeys(
        ("ReadableStream", "WritableStream", "TransformStream"),
        "there are no streams here: use an array, or an async function*",
    ),
    "fs": "there are no files here: fs is not available; call a tool that reads files",
    **dict.fromkeys(
        ("__dirname", "__filename"),
        "there are no files here: pass the path as input, and call a tool that reads files",
    ),
    "path": "there are no modules here: path is not available; join strings",
    "os": "there are no modules here: os is not available; leave it out",
    "util": "there are no modules here: util is not available; console.log shows any value",
    "setTimeout": SLEEP,
    "setInterval": "there are no timers here: setInterval is not available; loop with await sleep(ms)",
    "setImmediate": "there are no timers here: use queueMicrotask or await sleep(0)",
    **dict.fromkeys(
        (
            "clearTimeout",
            "clearInterval",
            "delay",
            "wait",
            "scheduler",
            "requestAnimationFrame",
        ),
        SLEEP,
    ),
    "window": "this is no browser: use globalThis",
    "global": "use globalThis",
    "self": "use globalThis",
    **{name: f"{BROWSER} {name}" for name in ("document", "navigator")},
    **dict.fromkeys(
        ("DOMParser", "$", "jQuery", "cheerio"),
        "this is no browser, and packages are not available: take the text apart with regular expressions",
    ),
    **{
        name: f"nothing is kept from one execution to the next: there is no {name}"
        for name in ("localStorage", "sessionStorage", "indexedDB")
    },
    **dict.fromkeys(
        ("Event", "EventTarget", "CustomEvent", "EventEmitter", "MessageChannel"),
        "there are no events here: call a function, or keep functions in an array",
    ),
    "Worker": "there are no threads here: await Promise.all(...) runs calls at the same time",
    **dict.fromkeys(
        ("prompt", "confirm"),
        "nobody can be asked here: what the request sent as input is the global input",
    ),
    "Deno": "this is not Deno: call a tool instead",
    "Bun": "this is not Bun: call a tool instead",
    "print": f"use console.log to write a line, and {VALUE}",
    "Temporal": "there is no Temporal here: use Date",
    "WebAssembly": "there is no WebAssembly here",
    **dict.fromkeys(("moment", "dayjs", "luxon", "DateTime", "dateFns"), DATES),
    **dict.fromkeys(("_", "lodash", "R"), PLAIN),
    **dict.fromkeys(
        ("pLimit", "pMap", "parallel", "gather"),
        "await Promise.all(...) runs calls at the same time; call_tools([...], {max_parallel: 4}) limits how many",
    ),
    **dict.fromkeys(("z", "zod", "Joi"), "packages are not available: check values by hand"),
    **dict.fromkeys(("uuid", "uuidv4", "nanoid"), "use crypto.randomUUID()"),
    "True": "this is JavaScript: write true",
    "False": "this is JavaScript: write false",
    "None": "this is JavaScript: write null",
    **dict.fromkeys(
        (
            "client",
            "Client",
            "codemode",
            "invoke",
            "server",
            "servers",
            "functions",
            "api",
            "sdk",
        ),
        TOOLS,
    ),
    **dict.fromkeys(("exit", "alert", "output", "emit", "respond", "display"), VALUE),
    "len": "this is JavaScript: use .length",
    "str": "this is JavaScript: use String(x)",
    "int": "this is JavaScript: use Number(x) or Math.trunc(x)",
    "range": "this is JavaScript: write for (let i = 0; i < n; i++)",
    **dict.fromkeys(
        ("json", "asyncio"), "this is JavaScript: use JSON.parse, JSON.stringify and Promise.all"
    ),
    **dict.fromkeys(("nil", "NULL"), "this is JavaScript: write null"),
    "list_servers": DISCOVERY,
    "list_tools": DISCOVERY,
    "get_functions": DESCRIPTION,
    "retrieve_tools": "await search_tools(query) finds tools",
    "code_execution": "this is the program that it runs: write what it is to do here",
    **dict.fromkeys(("args", "params", "event", "context", "ctx", "request", "req"), GIVEN),
    **dict.fromkeys(("javascript", "js", "typescript", "ts"), LEFT_OVER),
}
"""Names that models expect, and what to use instead."""

PROCESS = {
    **dict.fromkeys(("exit", "stdout"), f"there is no process here: {VALUE}"),
    "stderr": "there is no process here: use console.error",
    **dict.fromkeys(("hrtime", "uptime"), "there is no process here: use performance.now()"),
    "nextTick": "there is no process here: use queueMicrotask",
    **dict.fromkeys(
        ("on", "once"),
        "there is no process here: leave it out, an error that nobody catches ends the program",
    ),
    **dict.fromkeys(
        ("memoryUsage", "cwd", "platform", "version", "pid"),
        "there is no process here: leave it out",
    ),
}
"""What is asked of `process` besides its environment."""

PRESENT = (
    "call_tool",
    "call_tools",
    "tools",
    "search_tools",
    "describe_tool",
    "console",
    "sleep",
    "input",
)

CALLING = re.compile(
    r"(?:call|use|run|execute|invoke|get|create)?_?mcp_?\w*|\w*(?:call|invoke|exec(?:ute)?|run|use)_?tools?|tools?",
    re.IGNORECASE,
)
"""How other systems call what reaches their tools."""
ABOUT = re.compile(
    r"(?:describe|schema|definition|signature|tool_?(?:info|details))", re.IGNORECASE
)
LISTING = re.compile(r"(?:get|list|find|all)_?(?:all_?)?(?:mcp_?)?(?:tool|server)s?", re.IGNORECASE)
LABEL = re.compile(r"[\w.-]+:\s")
LITERAL = r"'([^'\n]{1,256})'|\"([^\"\n]{1,256})\"|`([^`$\n]{1,256})`"
MEMBER = re.compile(rf"[\w$]+|{LITERAL}")
CHAIN = re.compile(rf"(?:\s*\??\.\s*[\w$]+|\s*\[\s*(?:{LITERAL})\s*\])*")
ASIDE = re.compile(r"\s*\(([^)]{0,200})")
SEVERAL = re.compile(r"\b\w+(?:[_:.-]\w+)+")
LONGEST_TEXT = 4000
LONGEST_USE = 300
"""Characters of what follows a name that are looked at."""


def missing(name: str, source: str, catalog: Catalog) -> str | None:
    """What was meant by a name that isn't there, in a sentence."""
    text = source.strip()
    begins = text.startswith(name) or LABEL.match(text)
    if fence_tag(source) in TAGGED or (begins and name not in ABSENT):
        if (guess := looks_like(source)) is not None:
            return f"This looks like {guess}, not JavaScript: {EXPECTED}"
    chain, aside = used(name, source)
    if name == "require":
        if "main" in chain:
            return "there are no modules here: leave that check out, and end with the call"
        return f"{ABSENT[name]}: {modules.instead(source, catalog)}"
    if name == "process" and chain and chain[0] in PROCESS:
        return PROCESS[chain[0]]
    if text == name:
        return EXPECTED[0].upper() + EXPECTED[1:]
    if own := next((each for each in PRESENT if names.alike(each, name)), None):
        return f"Did you mean {own}?"
    if name not in ABSENT and (ABOUT.search(name) or LISTING.fullmatch(name)):
        return DESCRIPTION if ABOUT.search(name) else DISCOVERY
    if (tool := meant(name, chain, aside, catalog)) is not None:
        server = tool.server == names.understood(name, catalog.servers)
        return f"{'A server is a member of tools:' if server else 'Write'} {call_line(tool)}"
    if reaches([name]) and chain and LISTING.fullmatch(chain[0]):
        return DISCOVERY
    if name in ABSENT and not (reaches(chain) and ABSENT[name] == GIVEN):
        return ABSENT[name]
    if close := names.close(name, PRESENT, 1):
        return f"Did you mean {close[0]}?"
    return TOOLS if reaches([name]) or reaches(chain) else None


def used(name: str, source: str) -> tuple[list[str], list[str]]:
    """What follows the first use of a name: the members in a row, and the texts among the arguments."""
    if (found := re.search(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", source)) is None:
        return [], []
    rest = source[found.end() : found.end() + LONGEST_USE]
    row = CHAIN.match(rest)
    chain = row[0] if row else ""
    inside = ASIDE.match(rest, len(chain))
    return texts(MEMBER, chain), texts(re.compile(LITERAL), inside[1] if inside else "")


def texts(pattern: re.Pattern[str], text: str) -> list[str]:
    return [next(filter(None, found.groups()), found[0]) for found in pattern.finditer(text)]


def reaches(chain: list[str]) -> bool:
    """Whether a name, or its first member, stands for what reaches tools in some other system."""
    return bool(chain) and (
        ABSENT.get(chain[0]) == TOOLS or CALLING.fullmatch(chain[0]) is not None
    )


def meant(name: str, chain: list[str], aside: list[str], catalog: Catalog) -> Tool | None:
    """The tool that the use of a name calls in another system's way, where that is plain."""
    servers = catalog.servers
    for one, other in pairwise((name, *chain, *aside)):
        if (server := servers.get(names.understood(one, servers))) is not None:
            wanted = names.understood(other, server.tools, server.name)
            if wanted in server.tools:
                return server.tools[wanted]
    words = [name] if name not in ABSENT or name == "fetch" or reaches([name]) else []
    sure = reaches([name]) or reaches(chain)
    words += [each for each in (*chain, *aside) if sure or names.find_tool(each, catalog)]
    return next(stood_for(words, catalog), None) or first(name, catalog)


def stood_for(words: Iterable[str], catalog: Catalog) -> Iterator[Tool]:
    """The tools that words stand for, each in itself."""
    for word in words:
        meant = names.meant_tool(word, catalog) or names.sole_tool(word, catalog)
        found = None if meant is None else catalog.tool(meant.server, meant.tool)
        if found is not None:
            yield found


def first(name: str, catalog: Catalog) -> Tool | None:
    """The first tool of the server that a name stands for."""
    server = catalog.servers.get(names.original(name, catalog.servers))
    return None if server is None else next(iter(server.tools.values()), None)


def mentioned(text: str, catalog: Catalog) -> Tool | None:
    """The first tool that a text names by a name of several words, which is no word of any language."""
    words = dict.fromkeys(SEVERAL.findall(text[:LONGEST_TEXT]))
    found = next(filter(None, (names.meant_tool(each, catalog) for each in words)), None)
    return None if found is None else catalog.tool(found.server, found.tool)
