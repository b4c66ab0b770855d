"""What to do next, said where an error is about something a script can't have.

Added to messages of scripts that failed; nothing here decides anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from typing import Any

from mcpproxy import modules, names
from mcpproxy.catalog import Catalog
from mcpproxy.contents import Contents
from mcpproxy.declarations import access, call_line
from mcpproxy.guesses import TAGGED, looks_like
from mcpproxy.sandbox.source import MARKS, fence_tag, unfenced

NOTHING: dict[Any, Any] = {}
VALUE = "end with the value, or return it"
GIVEN = "what the request sent as input is the global input"
TOOLS = "tools are called as await tools.<server>.<tool>({...})"
DISCOVERY = "Object.keys(tools) names the servers, await search_tools(query) finds tools"
LEFT_OVER = "leave the name of the language out of the code"

ABSENT = {
    "fetch": "there is no network here: call a tool, e.g. await tools.<server>.<tool>({...}); search_tools() finds one",
    **dict.fromkeys(
        ("AbortController", "AbortSignal"),
        "a call can't be aborted; await Promise.race([call, sleep(ms)]) stops waiting for it",
    ),
    "XMLHttpRequest": "there is no network here: call a tool instead",
    "WebSocket": "there is no network here: call a tool instead",
    "axios": "there is no network here, and there are no modules: call a tool instead",
    **dict.fromkeys(
        ("Headers", "Request", "Response", "FormData"),
        "there is no network here: call a tool instead",
    ),
    "require": "require is not available, there are no modules here",
    "module": f"there are no modules here, so nothing is exported: {VALUE}",
    "exports": f"there are no modules here, so nothing is exported: {VALUE}",
    "process": "there is no process object or environment here: pass what you need as input",
    "Buffer": "there is no Buffer here: use TextEncoder, TextDecoder, atob or btoa",
    "fs": "there are no files here: fs is not available; call a tool that reads files",
    "path": "there are no modules here: path is not available; join strings",
    "setTimeout": "there are no timers here: use await sleep(ms)",
    "setInterval": "there are no timers here: setInterval is not available; loop with await sleep(ms)",
    "setImmediate": "there are no timers here: use queueMicrotask or await sleep(0)",
    "clearTimeout": "there are no timers here: use await sleep(ms)",
    "clearInterval": "there are no timers here: use await sleep(ms)",
    "window": "this is no browser: use globalThis",
    "global": "use globalThis",
    "self": "use globalThis",
    "document": "this is no browser: there is no document",
    "localStorage": "nothing is kept from one execution to the next: there is no localStorage",
    "Deno": "this is not Deno: call a tool instead",
    "Bun": "this is not Bun: call a tool instead",
    "print": f"use console.log to write a line, and {VALUE}",
    "Temporal": "there is no Temporal here: use Date",
    "WebAssembly": "there is no WebAssembly here",
    "True": "this is JavaScript: write true",
    "False": "this is JavaScript: write false",
    "None": "this is JavaScript: write null",
    **dict.fromkeys(
        (
            "mcp",
            "client",
            "servers",
            "codemode",
            "invoke",
            "tool",
            "useTool",
            "runTool",
            "executeTool",
            "functions",
            "server",
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
    **dict.fromkeys(("nil", "NULL"), "this is JavaScript: write null"),
    "list_servers": DISCOVERY,
    "list_tools": DISCOVERY,
    "get_functions": 'await describe_tool("server:tool") describes a tool',
    "retrieve_tools": "await search_tools(query) finds tools",
    **dict.fromkeys(("args", "params", "event", "context", "request", "req"), GIVEN),
    **dict.fromkeys(("javascript", "js", "typescript", "ts"), LEFT_OVER),
}
"""Names that models expect, and what to use instead."""

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

MISSING = re.compile(r"^ReferenceError: (?:'?)([^\s']+)(?:'?) is not defined")
FOR_MCP = re.compile(r"(?:call|use|run|execute|invoke|get|create)?_?mcp_?\w*", re.IGNORECASE)
"""How other systems call what reaches their tools."""
LABEL = re.compile(r"[\w.-]+:\s")
MODULE = re.compile(r"could not load module|^SyntaxError: .*\bmodules?\b")
EXPORT = re.compile(r"^[ \t]*export\s*[*{]", re.MULTILINE)
IMPORTED = "import is not available, there are no modules here"
EXPORTED = "there are no modules here, so nothing can be exported again from another one"

EXPECTED = (
    "code must be a JavaScript or TypeScript program that calls tools and gives a value, for example: "
    "const r = await tools.<server>.<tool>({...}); return r"
)
QUOTES = re.compile("Unexpected character '[\u2018\u2019\u201c\u201d\u00ab\u00bb]'")
AROUND_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
ALONE = "Send the code alone, without the text around it, in one block"
LISTING = frozenset(
    {
        "list",
        "listTools",
        "list_tools",
        "length",
        "map",
        "filter",
        "forEach",
        "find",
        "keys",
        "entries",
        "values",
        "get",
        "search",
        "some",
        "reduce",
    }
)
"""What models ask of `tools` as if it were an array."""

JSX = re.compile(r"(?:[=(,?:&]|return)\s*<(?:[A-Za-z][\w.]*(?:\s[^<>]*)?)?/?>")
OBJECT = re.compile(
    r"(?:\A|[;}\n])[ \t]*\{\s*(?:\.\.\.|[\w$]+\s*[:,]|'[^'\n]*'\s*:|\"[^\"\n]*\"\s*:)"
)
COMMENTS = re.compile(r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)")
UNDEFINED = "the script gave no value (undefined)"
MADE = re.compile(r"^(?:const|let|var) ([\w$]+)[^=\n]{0,100}= ?([^\n]{0,200})", re.MULTILINE)
DEFINED = re.compile(r"(?:async\b|function\b|class\b|\(?[\w$,\s{}:]*\)?\s*=>)")
MAIN = re.compile(r"\b(?:function|const|let|var)\s+(main|run|execute|handler|start)\b")

ACCESSOR = re.compile(r"[{;}\n]\s?[ \t]*(?:static\s+)?accessor\s+[\w$#]")
LOOKED_AT = 2**16
"""Characters of a source that are searched: the daemon does this on its event loop."""

DATA = (
    "await tools.<server>.<tool>({...}) gives the tool's data itself, already parsed: use it as it is. What "
    "call_tool gives has its content under .result"
)
CHECKED = re.compile(r"![\w$]+\.ok\b")
NO_ENVELOPE = (
    "await tools.<server>.<tool>({...}) gives the tool's data, which has no ok of its own, and throws when the call "
    "fails: leave the check out"
)
UNWRAPPED = (".result", ".structuredContent", ".content", ".data")
WRONG_USE = [
    (re.compile(r"^TypeError: tools(?:\.[\w$]+|\[[^\]]*\])? is not a function"), TOOLS),
    (re.compile(r"^TypeError: tools is not iterable"), f"tools is no array: {DISCOVERY}"),
    (
        re.compile(r"^TypeError: tools\.[\w$]+(?:\.[\w$]+){2,} is not a function"),
        'a name with dots goes in brackets: await tools.<server>["a.b"]({...})',
    ),
    (
        re.compile(r"^TypeError: call_tools?\(.*\.(?:then|catch|finally) is not a function", re.DOTALL),
        "call_tool and call_tools give their answer at once, no promise: leave out then and catch, and look at .ok",
    ),
    (
        re.compile(r"Intl\.[\w$]+ is not a "),
        "Intl has NumberFormat and DateTimeFormat alone here, which write en-US in UTC",
    ),
    (
        re.compile(r"crypto\.(?:subtle is undefined|[\w$]+ is not a function)"),
        "crypto has randomUUID and getRandomValues alone here",
    ),
    (
        re.compile(r"\.(?:content|structuredContent) is undefined\)|\.json is not a function$"),
        DATA,
    ),
    (
        re.compile(r"^SyntaxError: unexpected token: 'object'"),
        "JSON.parse was given an object, which is parsed already: use it as it is",
    ),
    (
        re.compile(r"^SyntaxError: .* in JSON at position"),
        "what JSON.parse was given is no JSON: return the text itself to see its form",
    ),
]  # fmt: skip


def advice(
    code: str,
    message: str,
    source: str,
    catalog: Catalog,
    given: Container[str] = (),
    gave: Mapping[Any, Any] = NOTHING,
) -> str | None:
    """One sentence for the one who wrote `source`, or None when there is nothing to add.

    `catalog` is what they may see, `given` the names in the input, `gave` what tools gave by "server:tool".
    """
    source = source[:LOOKED_AT]
    if (found := MISSING.match(message)) is not None:
        if found[1] in given:
            return f"It is a member of input: write input.{found[1]}"
        return _missing(found[1], source, catalog)
    if code == "SYNTAX_ERROR":
        return _syntax(message, source, catalog)
    if MODULE.search(message):
        return f"{IMPORTED}: {modules.instead(source, catalog)}"
    if source.lstrip().startswith(MARKS) and unfenced(source) == source:
        return ALONE
    if (
        UNDEFINED in message
        and "await tools" in source
        and source.rstrip("; \n").endswith(UNWRAPPED)
    ):
        return DATA
    said_nothing = message == "Error" or "undefined" in message
    if said_nothing and "await tools" in source and CHECKED.search(source):
        return NO_ENVELOPE
    holds = Contents(source, catalog, gave)
    for pattern, remedy in WRONG_USE:
        if pattern.search(message):
            known = holds.parsed() if "JSON.parse" in remedy else None
            known = holds.mistaken(message) if remedy == DATA else known
            return remedy if known is None else f"{remedy}. {known}"
    if UNDEFINED in message:
        return _value(source, holds)
    return holds.mistaken(message)


def _value(source: str, holds: Contents) -> str | None:
    """What may have been meant as the value of a program that gave none."""
    if (main := MAIN.search(source)) is None:
        return holds.returned() or _last(source)
    sentence = f"Return the value in {main[1]}, and end with return {main[1]}()"
    calls = len(re.findall(rf"\b{main[1]}\s*\(", source)) - source.count(f"function {main[1]}")
    return (holds.returned() or _last(source) or sentence) if calls > 0 else sentence


def _last(source: str) -> str | None:
    """The value that a program made last, or what a program is where it has none."""
    if not COMMENTS.sub("", source).strip():
        return EXPECTED
    made = [found for found in MADE.finditer(source) if not DEFINED.match(found[2])]
    return f"For example: return {made[-1][1]}" if made else None


def _missing(name: str, source: str, catalog: Catalog) -> str | None:
    """What was meant by a name that isn't there."""
    text = source.strip()
    begins = text.startswith(name) or LABEL.match(text)
    if fence_tag(source) in TAGGED or (begins and name not in ABSENT):
        if (guess := looks_like(source)) is not None:
            return f"This looks like {guess}, not JavaScript: {EXPECTED}"
    member = re.search(rf"\b{re.escape(name)}\s*(?:\.|\[['\"])([\w$.-]+)", source)
    asked = member[1] if member else ""
    if name in ABSENT:
        if name == "process" and asked.startswith(("exit", "stdout")):
            return f"there is no process here: {VALUE}"
        if name == "require":
            return f"{ABSENT[name]}: {modules.instead(source, catalog)}"
        found = _call(asked, catalog) if ABSENT[name] == TOOLS else None
        return ABSENT[name] if found is None else found
    if text == name:
        return EXPECTED[0].upper() + EXPECTED[1:]
    if (server := catalog.servers.get(names.original(name, catalog.servers))) is not None:
        wanted = names.original(asked, server.tools)
        tool = server.tools.get(wanted) or next(iter(server.tools.values()), None)
        return None if tool is None else f"A server is a member of tools: {call_line(tool)}"
    if (found := _call(name, catalog)) is not None:
        return found
    if FOR_MCP.fullmatch(name):
        return TOOLS
    if close := names.close(name, PRESENT, 1):
        return f"Did you mean {close[0]}?"
    return None


def _call(name: str, catalog: Catalog) -> str | None:
    """The call of the tool that a name stands for."""
    meant = names.meant_tool(name, catalog)
    tool = None if meant is None else catalog.tool(meant.server, meant.tool)
    return None if tool is None else f"Write {call_line(tool)}"


def _asked_for(source: str, catalog: Catalog) -> str | None:
    """The call that a JSON object seems to ask for: that of the first tool which one of its members names."""
    try:
        asked = json.loads(unfenced(source))
    except (ValueError, RecursionError):
        return None
    values = (
        [each for each in asked.values() if isinstance(each, str)]
        if isinstance(asked, dict)
        else []
    )
    calls = (_call(each, catalog) for each in values[:10])
    return next((found for found in calls if found is not None), None)


def _syntax(message: str, source: str, catalog: Catalog) -> str | None:
    if "This is TypeScript" in message:
        return None
    if (guess := looks_like(source)) is not None:
        meant = _asked_for(source, catalog) if guess == "JSON" else None
        return f"This looks like {guess}, not JavaScript: {meant or EXPECTED}"
    if MODULE.search(message):
        if modules.IMPORT.search(source) is None and EXPORT.search(source):
            return EXPORTED
        return f"{IMPORTED}: {modules.instead(source, catalog)}"
    if (word := re.search(r"token '(and|or)'", message)) is not None:
        return f"This is JavaScript: write {'&&' if word[1] == 'and' else '||'}"
    if QUOTES.search(message):
        return "Those are typographic quotes: write ' or \""
    if AROUND_FENCE.search(source) and unfenced(source) == source:
        return ALONE
    if source.lstrip().startswith("#"):
        return "# begins no comment in JavaScript: write //"
    if "character '@'" in message:
        return "Decorators are not available: wrap the function or class by hand"
    if ACCESSOR.search(source):
        return "Accessor fields are not available: write a plain field, or get and set"
    if JSX.search(source) and ("</" in source or "/>" in source):
        return "JSX is not available, there is no page here: return plain data"
    if "token ':'" in message and OBJECT.search(source):
        return (
            "An object that is to be the value needs parentheses, ({...}), or return in front of it"
        )
    return None


def instead(name: str, catalog: Catalog) -> str | None:
    """What to write for a member of `tools` that is no server, where that is plain."""
    if (meant := names.meant_tool(name, catalog)) is not None:
        found = catalog.tool(meant.server, meant.tool)
        return (
            None
            if found is None
            else f"there is no server '{name}': write await {access(found)}({{...}})"
        )
    if bracketed := next((each for each in catalog.servers if each.startswith(f"{name}-")), None):
        return (
            f"there is no server '{name}': a name that JavaScript can't spell goes in brackets, "
            f'tools["{bracketed}"], or is written with _'
        )
    if name in LISTING:
        return f"there is no server '{name}', and tools is no array: {DISCOVERY}"
    if name in ("invoke", "run", "execute", "use", "callTool"):
        return f"there is no server '{name}': {TOOLS}"
    own = next((each for each in (*PRESENT, "call") if names.alike(each, name)), None)
    if own is None:
        return None
    function = "call_tool" if own == "call" else own
    return f"there is no server '{name}': {function} is a global of its own, not a member of tools; {TOOLS}"
