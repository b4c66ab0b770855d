"""What to do next, said where an error is about something a script can't have.

Added to messages of scripts that failed; nothing here decides anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from mcpproxy import gates, modules, names
from mcpproxy.absent import DISCOVERY, EXPECTED, PRESENT, TOOLS, missing
from mcpproxy.catalog import Catalog
from mcpproxy.contents import Contents
from mcpproxy.declarations import access, call_line
from mcpproxy.sandbox.source import MARKS, unfenced
from mcpproxy.unparsed import ALONE, IMPORTED, MODULE, unparsed

NOTHING: dict[Any, Any] = {}
MISSING = re.compile(r"^ReferenceError: (?:'?)([^\s']+)(?:'?) is not defined")
CAUGHT = re.compile(r"(?<![\w$.])([A-Za-z_$][\w$]{0,60}) is not defined")
FEW = 64
"""Values of a result that are looked at for what a program caught."""
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

COMMENTS = re.compile(r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)")
UNDEFINED = "the script gave no value (undefined)"
LOGGED = re.compile(
    r"^[ \t]*console\.(?:log|info)\((.{1,200})\);?\s*(?:\}\)\(\);?\s*)?\Z"
    r"|\.then\(\(?[\w$]+\)? => console\.(?:log|info)\((.{1,200})\)\);?\s*\Z",
    re.MULTILINE,
)
"""What a program, or the function that it is, logs last."""
TEXT_OF = re.compile(r"JSON\.stringify\(([\w$.]+)(?:, *null, *\d)?\)\Z")
ONE = re.compile(r"(?:await [^()]{1,100}\([^()]{0,100}\)|[\w$.?]+(?:\[[\w$'\"]+\])*)\Z")
RETURNS = re.compile(r"\breturn ([\w$]+);?\s*\Z")
MADE = re.compile(
    r"^(?:export )?(?:const|let|var) ([\w$]+)[^=\n]{0,100}= ?([^\n]{0,200})", re.MULTILINE
)
DEFINED = re.compile(r"(?:async\b|function\b|class\b|\(?[\w$,\s{}:]*\)?\s*=>)")
MAIN = re.compile(r"\b(?:function|const|let|var)\s+(main|run|execute|handler|start)\b")

LONGEST_LOGGED = 1000
LOOKED_AT = 2**16
"""Characters of a source that are searched: the daemon does this on its event loop."""

DATA = (
    "await tools.<server>.<tool>({...}) gives the tool's data itself, already parsed: use it as it is. What "
    "call_tool gives has its content under .result"
)
NO_METHOD = re.compile(r"\.([\w$]+) is not a function$")
METHODS = {
    "contains": "this is JavaScript: use includes",
    "append": "this is JavaScript: use push",
    "strip": "this is JavaScript: use trim",
    "lower": "this is JavaScript: use toLowerCase",
    "upper": "this is JavaScript: use toUpperCase",
    "startswith": "this is JavaScript: use startsWith",
    "endswith": "this is JavaScript: use endsWith",
    "items": "this is JavaScript: use Object.entries(x)",
    "first": "use [0]",
    "last": "use .at(-1)",
    "sum": "use reduce((sum, x) => sum + x, 0)",
    "length": "length is no function: leave out its parentheses",
    "size": "size is no function: leave out its parentheses",
    "format": "there is no format: use toISOString(), toFixed() or a template",
    "toISOString": "only a Date has it: new Date(x).toISOString()",
    "toFixed": "only a number has it: Number(x).toFixed(2)",
    **dict.fromkeys(
        ("split", "trim", "replace", "match", "toLowerCase", "startsWith"),
        "only a text has it: console.log the value to see what it is",
    ),
    **dict.fromkeys(
        ("map", "filter", "forEach", "find", "reduce", "some", "sort", "slice", "push"),
        "only an array has it: console.log the value to see what it is",
    ),
}
"""Methods that models expect of a value that doesn't have them."""
OF_DATES = re.compile(
    r"(?:get|set)(?:UTC)?(?:FullYear|Month|Date|Day|Hours|Minutes|Seconds|Milliseconds|Time)|to\w*DateString"
)
SPELLED = (
    "toUpperCase", "toLowerCase", "indexOf", "lastIndexOf", "forEach", "flatMap", "findIndex", "startsWith", "endsWith",
    "padStart", "padEnd", "replaceAll", "toFixed", "toString", "toISOString", "hasOwnProperty", "trimStart", "trimEnd",
    "toSorted", "toReversed", "charAt", "charCodeAt", "localeCompare", "matchAll", "reduceRight", "findLast",
)  # fmt: skip

DOTTED = re.compile(
    r"^TypeError: tools((?:\.[\w$]+|\[ *['\"][^'\"\]\n]+['\"] *\]){3,}) is not a function"
)
DESCRIBED = re.compile(r'describe_tool\("([^":]+):([^"]+)"\) shows its parameters')
INPUT = re.compile(r"\(input\??\.([\w$]+) is undefined\)")
CHECKED = re.compile(r"![\w$]+\.ok\b")
UNCHECKED = re.compile(r"!(?:([\w$]+)\.)?(ok|success)\b")
FAILED = re.compile(r"\b(?:fail|error|unsuccess|no success|could not)", re.IGNORECASE)
NO_ENVELOPE = (
    "await tools.<server>.<tool>({...}) gives the tool's data, which has no ok of its own, and throws when the call "
    "fails: leave the check out"
)
UNWRAPPED = (".result", ".structuredContent", ".content", ".data")
WRONG_USE = [
    (re.compile(r"^TypeError: tools(?:\.[\w$]+|\[[^\]]*\])? is not a function"), TOOLS),
    (re.compile(r"^TypeError: tools is not iterable"), f"tools is no array: {DISCOVERY}"),
    (
        re.compile(r"\((?:[\w$]+\.)?tools(?:\.[\w$]+)? is undefined\)"),
        "tools is a global, and a function that is called for its value gets input alone: take tools out of the parameters",
    ),
    (
        re.compile(r"^TypeError: call_tools?\(.*\.(?:then|catch|finally) is not a function", re.DOTALL),
        "call_tool and call_tools give their answer at once, no promise: leave out then and catch, and look at .ok",
    ),
    (
        re.compile(r"Intl\.[\w$]+ is not a "),
        "Intl has NumberFormat, DateTimeFormat, Collator, PluralRules, ListFormat and RelativeTimeFormat here, in en-US and UTC",
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
        re.compile(r"^SyntaxError: unexpected token: 'undefined'"),
        "JSON.parse was given undefined: console.log what it was made of",
    ),
    (
        re.compile(r"^TypeError: (?:value is not iterable$|cannot iterate over a call)"),
        "what is iterated has to be an array: Promise.all and its kin take one, [a, b], and an object's values are Object.values(x)",
    ),
    (
        re.compile(r"^TypeError: cannot make text or a number of a promise"),
        "sort, reduce and templates wait for no promise: await Promise.all(...) of what they need first",
    ),
    (
        re.compile(r" has no tool '(?:(?:list|get)_?)?(?:tools|methods|functions)'", re.IGNORECASE),
        "Object.keys(tools.<server>) names its tools",
    ),
    (
        re.compile(r"^TypeError: '[^']*' is read-only"),
        "it was declared with const: declare it with let",
    ),
    (
        re.compile(r"^ReferenceError: .* is not initialized"),
        "it is used before the line that declares it has run: move that up",
    ),
    (
        re.compile(r"^RangeError: Date value is NaN"),
        "what the Date was made of is no date: console.log it",
    ),
    (
        re.compile(r"^SyntaxError: (?:.* in JSON at position|Unexpected end of JSON|unexpected token: ')"),
        "what JSON.parse was given is no JSON: return the text itself to see its form",
    ),
]  # fmt: skip


def advice(
    code: str,
    message: str,
    source: str,
    catalog: Catalog,
    given: Collection[str] = (),
    gave: Mapping[Any, Any] = NOTHING,
    logs: Iterable[Mapping[str, str]] = (),
) -> str | None:
    """One sentence for the one who wrote `source`, or None when there is nothing to add.

    `catalog` is what they may see, `given` the names in the input, `gave` what tools gave by "server:tool",
    `logs` the lines that it wrote.
    """
    source = source[:LOOKED_AT]
    if (found := MISSING.match(message)) is not None:
        if found[1] in given:
            return f"It is a member of input: write input.{found[1]}"
        return missing(found[1], source, catalog)
    if code == "SYNTAX_ERROR":
        return unparsed(message, source, catalog)
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
    if UNDEFINED in message and (lost := caught((), logs, source, catalog, given)) is not None:
        return f"It is in the logs that {lost}"
    if (found := DESCRIBED.search(message)) is not None:
        server = catalog.servers.get(found[1])
        if server is not None and found[2] not in server.tools:
            return gates.no_tool(found[1], found[2], server.tools)
    if (found := DOTTED.match(message)) is not None:
        return _dotted(found[1], catalog)
    if (found := INPUT.search(message)) is not None and found[1] not in given:
        has = f"it has {', '.join(given)}" if given else "none was sent"
        return f"The request's input has no {found[1]}, {has}: send it, or write the value here"
    holds = Contents(source, catalog, gave)
    for pattern, remedy in WRONG_USE:
        if pattern.search(message):
            known = holds.parsed() if "JSON.parse" in remedy else None
            known = holds.mistaken(message) if remedy == DATA else known
            return remedy if known is None else f"{remedy}. {known}"
    if UNDEFINED in message:
        return _value(source, holds)
    return holds.mistaken(message) or _method(message)


def _method(message: str) -> str | None:
    """What is written for a method that the value doesn't have."""
    found = NO_METHOD.search(message)
    if found is None:
        return None
    if OF_DATES.fullmatch(name := found[1]):
        return f"only a Date has it: new Date(x).{name}()"
    meant = next((each for each in SPELLED if each.lower() == name.lower() and each != name), None)
    return METHODS.get(name) if meant is None else f"it is spelled {meant}"


def swallowed(
    value: object, logs: Iterable[Mapping[str, str]], source: str, catalog: Catalog
) -> list[str]:
    """What to say of a program that succeeded by its own account, and yet went wrong."""
    said = []
    if (lost := caught(value, logs, source, catalog)) is not None:
        said.append(f"the program caught an error of its own: {lost}")
    if _unheeded(value, source[:LOOKED_AT], catalog):
        said.append(NO_ENVELOPE)
    return said


def _unheeded(value: object, source: str, catalog: Catalog) -> bool:
    """Whether a program says that it failed because it asked a tool's data for the `ok` of an envelope."""
    if "await tools" not in source or (found := UNCHECKED.search(source)) is None:
        return False
    failed = any(FAILED.search(text) for text in (*_texts(value), *_names(value)))
    return failed and Contents(source, catalog, NOTHING).typed(found[1] or found[2])


def _names(value: object) -> Iterable[str]:
    return map(str, islice(value, FEW)) if isinstance(value, dict) else ()


def caught(
    value: object,
    logs: Iterable[Mapping[str, str]],
    source: str,
    catalog: Catalog,
    given: Collection[str] = (),
) -> str | None:
    """What a program says that caught its own mistake: a name in it isn't there. None where it doesn't."""
    if "catch" not in source and "allSettled" not in source:
        return None
    source = source[:LOOKED_AT]
    for text in (*_texts(value), *(line["message"][:LONGEST_LOGGED] for line in logs)):
        for name in CAUGHT.findall(text):
            lost = f"{name} is not defined"
            used = re.search(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", source)
            if used is None or lost in source:
                continue
            message = f"ReferenceError: {lost}"
            if (said := advice("RUNTIME_ERROR", message, source, catalog, given)) is not None:
                return f"{lost}. {said}"
    return None


def _texts(value: object) -> Iterator[str]:
    """The texts among the first few values in a value."""
    todo = [value]
    for _ in range(FEW):
        if not todo:
            return
        match todo.pop():
            case str() as text:
                yield text[:LONGEST_LOGGED]
            case dict() as members:
                todo += islice(members.values(), FEW)
            case list() as items:
                todo += items[:FEW]


def _dotted(path: str, catalog: Catalog) -> str:
    """The call that members of members of `tools` stand for, where a tool has dots in its name."""
    server_name, *rest = (one or other for one, other in names.STEP.findall(path))
    server = catalog.servers.get(names.understood(server_name, catalog.servers))
    tool = server and server.tools.get(names.understood(".".join(rest), server.tools))
    if server and (itself := server.tools.get(names.understood(rest[0], server.tools))):
        return f"{access(itself)} is itself what is called: {call_line(itself)}"
    write = call_line(tool) if tool else 'await tools.<server>["a.b"]({...})'
    return f"A name with dots goes in brackets: {write}"


def _value(source: str, holds: Contents) -> str | None:
    """What may have been meant as the value of a program that gave none."""
    if (main := MAIN.search(source)) is None:
        return holds.returned() or _last(source)
    sentence = f"Return the value in {main[1]}, and end with return {main[1]}()"
    calls = len(re.findall(rf"\b{main[1]}\s*\(", source)) - source.count(f"function {main[1]}")
    return (holds.returned() or _last(source) or sentence) if calls > 0 else sentence


def _last(source: str) -> str | None:
    """The value that a program logged or made last, or what a program is where it has none."""
    if not COMMENTS.sub("", source).strip():
        return EXPECTED
    if (logged := LOGGED.search(source)) is not None:
        said = logged[1] or logged[2]
        whole = TEXT_OF.match(said)
        if ONE.match(value := whole[1] if whole else said):
            return f"For example: return {value} in place of console.log({said})"
    if (empty := RETURNS.search(source)) is not None:
        return f"{empty[1]} is undefined where it is returned: console.log what it was made of"
    made = [found for found in MADE.finditer(source) if not DEFINED.match(found[2])]
    return f"For example: return {made[-1][1]}" if made else None


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
