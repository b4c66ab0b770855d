"""Jinja2 where a value of a request meets a tool file: sandboxed, and bounded in time and size.

The author of a pack is trusted, the request is not: it must not make a sane template run long,
grow large or reach what it wasn't given. So of the language there is what computes a value from
values; no assignments, macros or other files. Values are written as JSON has them (`true`, `[1]`), texts
as they are. What isn't there is an error, unless the template gives a `default`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from jinja2 import filters, nodes
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from mcpproxy.upstream.files import Bad

LONGEST_TEMPLATE = 64 * 2**10
MOST_ROUNDS = 10_000
"""Rounds of all loops of one rendering."""
SECONDS = 0.25
"""Time of one rendering; looked at in each round."""
LONGEST_ARGUMENT = 1000
"""Characters of an argument of a method: `strip` compares each with each."""
MOST_DIGITS = 30
"""What a number may be rounded to, before and after its point."""
LARGEST = 2**20
"""Characters of a value on the way, and of an output for which no other limit is given."""

METHODS = frozenset(
    {"endswith", "get", "items", "keys", "lower", "lstrip", "removeprefix", "removesuffix", "rstrip",
     "split", "startswith", "strip", "title", "upper", "values"}
)  # fmt: skip
FILTERS = frozenset(
    {"abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items",
     "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse",
     "select", "selectattr", "sort", "title", "trim", "unique", "upper"}
)  # fmt: skip
"""Those of Jinja2 whose result is no larger than what they are given. `join`, `replace`, `round`,
`string`, `sum`, `tojson` and `urlencode` are ours."""
NODES = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Name, nodes.Const,
    nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Filter, nodes.Test, nodes.Call, nodes.Keyword,
    nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Add,
    nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Neg, nodes.Pos, nodes.Concat,
    nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair,
)  # fmt: skip
"""Of the language, all that there is."""
DEEPEST_LOOP = 2
BUDGET, COUNTED, WRITTEN = "the budget", "counted rounds", "as written"
IN_PATH, IN_QUERY = "in a path", "in a query"
"""Names of ours among variables and filters; no template can spell them."""


class Unfit(ValueError):
    """A template can't be rendered for this request; the message says why."""


class Encoded(str):
    """A text that is fit for its place in a URL."""

    __slots__ = ()


class Missing(jinja2.StrictUndefined):
    """What isn't there; an error as soon as it is used."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        if self._undefined_hint:
            return self._undefined_hint
        return f"it needs {self._undefined_name!r}, which is not given"


class Budget:
    """What one rendering may still use."""

    def __init__(self) -> None:
        self._rounds = MOST_ROUNDS
        self._until = time.monotonic() + SECONDS
        self._characters = LARGEST

    def round(self) -> None:
        """One more round of a loop. Raises `Unfit`."""
        self._rounds -= 1
        if self._rounds < 0 or time.monotonic() > self._until:
            raise Unfit(f"its loops take more than {MOST_ROUNDS} rounds or {SECONDS:g} s")

    def grow(self, size: int) -> None:
        """Make a value of that many characters or members. Raises `Unfit`."""
        self._characters -= size
        if self._characters < 0:
            raise Unfit(f"its values have more than {LARGEST} characters")


class Sandbox(SandboxedEnvironment):
    """Jinja2's sandbox, in which members of the request come before methods, and nothing grows."""

    intercepted_binops = frozenset({"+", "*", "%"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator != "+" and not (_number(left) and _number(right)):
            raise Unfit(f"{operator} is for numbers")
        if operator == "+":
            context[BUDGET].grow(_size(left) + _size(right))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        if any(_size(each) > LONGEST_ARGUMENT for each in (*args, *kwargs.values())):
            raise Unfit(f"an argument of a method may have {LONGEST_ARGUMENT} characters")
        return super().call(context, obj, *args, **kwargs)


def _number(value: object) -> bool:
    return isinstance(value, int | float)


def _size(value: object) -> int:
    return len(value) if isinstance(value, str | list | tuple) else 0


# ── filters ─────────────────────────────────────────────────────────────────────────────────────


@jinja2.pass_context
def _counted(context: Context, values: Iterable[Any]) -> Iterator[Any]:
    """What a loop goes through, each round paid for."""
    budget: Budget = context[BUDGET]
    for value in values:
        budget.round()
        yield value


def _range(*bounds: int) -> range:
    found = range(*bounds)
    if len(found) > MOST_ROUNDS:
        raise Unfit(f"range gives more than {MOST_ROUNDS} numbers")
    return found


@jinja2.pass_context
def _join(
    context: Context, values: Iterable[Any], separator: str = "", attribute: str | None = None
) -> str:
    texts = [written(each[attribute] if attribute else each) for each in values]
    context[BUDGET].grow(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


@jinja2.pass_context
def _replace(context: Context, value: Any, old: str, new: str) -> str:
    text = written(value)
    context[BUDGET].grow(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _round(value: Any, precision: Any = 0, method: Any = "common") -> Any:
    if not isinstance(precision, int) or abs(precision) > MOST_DIGITS:
        raise Unfit(f"round takes a number of digits from -{MOST_DIGITS} to {MOST_DIGITS}")
    return filters.do_round(value, precision, method)


@jinja2.pass_environment
def _sum(
    environment: jinja2.Environment, values: Any, attribute: Any = None, start: Any = 0
) -> Any:
    if not _number(start):
        raise Unfit("sum is for numbers")
    return filters.sync_do_sum(environment, values, attribute, start)


def _json(value: object) -> str:
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises what it has to say
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Unfit(f"a {type(value).__name__} can't be written") from error


def _urlencode(value: Any) -> Encoded:
    """For a query: a text, or the members of an object as `a=1&b=2`."""
    if isinstance(value, Mapping):
        return Encoded(urlencode({name: written(each) for name, each in value.items()}))
    return Encoded(_quoted(written(value), ""))


def written(value: object) -> str:
    """A value as it stands in the output."""
    return value if isinstance(value, str) else _json(value)


def _quoted(text: str, safe: str) -> str:
    try:
        return quote(text, safe=safe)
    except UnicodeEncodeError as error:
        raise Unfit("a text has half a character (a lone surrogate)") from error


def _in_path(value: object) -> str:
    return value if isinstance(value, Encoded) else _quoted(written(value), "/")


def _in_query(value: object) -> str:
    return value if isinstance(value, Encoded) else _quoted(written(value), "")


def _sandbox() -> Sandbox:
    made = Sandbox(undefined=Missing, finalize=written, keep_trailing_newline=True)
    made.filters = {name: each for name, each in made.filters.items() if name in FILTERS}
    made.filters |= {"join": _join, "replace": _replace, "string": written, "tojson": _json}
    made.filters |= {"round": _round, "sum": _sum}
    made.filters |= {"urlencode": _urlencode, COUNTED: _counted, WRITTEN: written}
    made.filters |= {IN_PATH: _in_path, IN_QUERY: _in_query}
    made.globals = {"range": _range}
    return made


SANDBOX = _sandbox()


# ── templates ───────────────────────────────────────────────────────────────────────────────────


class Template:
    """One template of a pack, checked. A text without braces is one, too, and costs nothing."""

    def __init__(self, source: str, *, url: bool = False, largest: int = LARGEST) -> None:
        """With `url`, each value is encoded for its place in the path or the query of a URL.

        Raises `Bad`, whose line is counted from the beginning of the source.
        """
        self.source = source
        self.largest = largest
        self.fixed = not any(mark in source for mark in ("{{", "{%", "{#"))
        """Whether it gives its source, whatever the request."""
        self._template = None if self.fixed else _compiled(source, url)

    def render(self, values: Mapping[str, Any]) -> str:
        """Raises `Unfit`."""
        if self._template is None:
            return self.source
        pieces, size = [], 0
        try:
            for piece in self._template.generate({**values, BUDGET: Budget()}):
                size += len(piece)
                if size > self.largest:
                    raise Unfit(f"it makes more than {self.largest} characters")
                pieces.append(piece)
        except Unfit:
            raise
        except jinja2.TemplateError as error:
            raise Unfit(str(error.message)) from error
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise Unfit(f"{type(error).__name__}: {error}"[:300]) from error
        except (RecursionError, MemoryError) as error:
            raise Unfit("a value is too large or nested too deep") from error
        return "".join(pieces)


def _compiled(source: str, url: bool) -> jinja2.Template:
    if len(source) > LONGEST_TEMPLATE:
        raise Bad(f"a template may have {LONGEST_TEMPLATE} characters")
    try:
        tree = SANDBOX.parse(source)
        _check(tree, 0)
        if url:
            _encode(tree)
        code = SANDBOX.compile(tree)
        return jinja2.Template.from_code(SANDBOX, code, SANDBOX.globals)
    except jinja2.TemplateSyntaxError as error:
        raise Bad(f"the template is not valid: {error.message}", error.lineno) from error
    except (RecursionError, MemoryError, SyntaxError) as error:
        raise Bad("the template is nested too deep") from error


def _encode(tree: nodes.Template) -> None:
    """Have what is written be encoded: for a path until there is a "?", for a query from there on.

    Where a "?" comes and goes (in an `if`, in a loop) both are safe: they differ by "/" alone.
    """
    place = IN_PATH
    for output in tree.find_all(nodes.Output):
        for n, node in enumerate(output.nodes):
            if not isinstance(node, nodes.TemplateData):
                output.nodes[n] = _filtered(node, place)
            elif "?" in node.data:
                place = IN_QUERY


def _check(node: nodes.Node, loops: int) -> None:
    """Refuse what a template may not have, and have each loop count its rounds. Raises `Bad`."""
    if not isinstance(node, NODES):
        what = type(node).__name__.lower()
        raise Bad(f"a template can't have {what!r}; it may only compute a value", node.lineno)
    if isinstance(node, nodes.Call):
        match node.node:
            case nodes.Name(name="range"):
                pass
            case nodes.Getattr(attr=name) if name in METHODS:
                pass
            case _:
                known = ", ".join(sorted(METHODS))
                raise Bad(f"a template may call range and the methods {known}", node.lineno)
    if isinstance(node, nodes.Call | nodes.Filter | nodes.Test) and (
        node.dyn_args or node.dyn_kwargs
    ):
        raise Bad("a template can't have * or ** in a call", node.lineno)
    if isinstance(node, nodes.For):
        loops += 1
        if loops > DEEPEST_LOOP or node.recursive:
            raise Bad(f"loops may be nested {DEEPEST_LOOP} deep", node.lineno)
    for child in node.iter_child_nodes():
        _check(child, loops)
    if isinstance(node, nodes.For):
        node.iter = _filtered(node.iter, COUNTED)
    elif isinstance(node, nodes.Concat):
        node.nodes = [_filtered(each, WRITTEN) for each in node.nodes]


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    made = nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
    made.set_environment(SANDBOX)
    return made
