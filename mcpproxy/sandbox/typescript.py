"""TypeScript to JavaScript, in a process that `transformer.py` asks and can kill.

The transform is OXC, compiled to WebAssembly (`quickjs-rs`). It removes types and lowers enums,
namespaces and parameter properties. It says neither where in the source an error is nor where its
output came from: `program.js` works both out, on the error path only.

It knows modules alone, so a script with a top-level `return` goes through it as the body of a function,
and in parts where it has namespaces, which stand in no function.

Import-light: the process of each daemon imports this while somebody may wait for it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mcpproxy.sandbox import frames
from mcpproxy.sandbox.confine import Confinement
from mcpproxy.sandbox.memory import give_back
from mcpproxy.sandbox.toplevel import pieces, words

NO_FUNCTION = "A 'return' statement"
"""How the transform begins what it says of a `return` at the top level, which a script may have."""
NOT_CONST = "exporting non-const"
VARIABLE = re.compile(r"^\t*const ([\w$]+) = (?=_[\w$]+\.\1 = )", re.MULTILINE)
"""What makes a constant of its own of a member of a namespace, in what the transform gives."""
SEVERAL = re.compile(r"^\t*_[\w$]+\.[\w$]+ = [^\n]*, [\w$]+ = _[\w$]+\.", re.MULTILINE)
HEAD, TAIL = "async function __script() {", "}"
EMPTY_EXPORT = re.compile(
    r"\A\s*export \{\};|^export \{\};$\n?(?=(?:\s|//[^\n]*\n|/\*[^*]*\*/)*\Z)", re.MULTILINE
)
NAMED = re.compile(r"^[ \t]*(?:export[ \t]+)?namespace[ \t]+([\w$.]+)", re.MULTILINE)
OPENED = re.compile(r"^(\t*\(function\((_[\w$]+)\) \{)$", re.MULTILINE)
CLOSED = re.compile(r"^(\t*\})\)\(([\w$]+) \|\| \(", re.MULTILINE)
DECLARED = re.compile(r"let ([\w$]+);")
KNOWN = re.compile(r"^\t*(?:let|var|class|function) ([\w$]+)", re.MULTILINE)
BESIDE = 5
"""How much less than others a process gets of a busy CPU that compiles what may be needed (nice(2))."""
FUNCTION = re.compile(r"\s*(?:/[/*]|async\b|function\b)")
"""How a source begins that may be one function without a name, which is no statement."""


def main() -> None:
    """Answer sources with their JavaScript until the daemon hangs up."""
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
        """The JavaScript, or why there is none."""
        found = self._answer(source)
        names = NAMED.findall(source)
        if found["text"] is not None and len(names) > len(set(names)):
            found["text"] = merged(found["text"])
        return found

    def _answer(self, source: str) -> dict[str, str | None]:
        try:
            return {"text": EMPTY_EXPORT.sub("\n", self._run(source)), "refusal": None}
        except self._refusals as error:
            refusal = str(error)
        parts, whole = parted(source)
        try:
            return {"text": self._in_parts(parts), "refusal": None}
        except self._refusals as error:
            refusal = str(error) if NO_FUNCTION in refusal else refusal
        if FUNCTION.match(source):
            with suppress(*self._refusals):
                return {"text": self._within("(", whole, "\n)"), "refusal": None}
        return {"text": None, "refusal": told(refusal)}

    def _in_parts(self, parts: list[str]) -> str:
        """As the body of a function; of which every other part is a namespace."""
        texts, known = [""], set[str]()
        for n, part in enumerate(parts):
            if not n % 2 and not part.strip():
                continue
            made = self._namespace(part) if n % 2 else self._within(HEAD, part, f"\n{TAIL}")
            declared = DECLARED.match(made) if n % 2 else None
            again = declared is not None and declared[1] in known
            known.update(KNOWN.findall(made))
            texts.append(made[declared.end() :] if declared and again else made)
        return "\n".join(texts)

    def _namespace(self, source: str) -> str:
        """One whose exported variables, which the transform doesn't take, are members alone."""
        try:
            return self._run(source)
        except self._refusals as error:
            if NOT_CONST not in str(error):
                raise
            refusal = error
        constant, names = constants(source)
        with suppress(*self._refusals):
            made = VARIABLE.sub(
                lambda found: "" if found[1] in names else found[0], self._run(constant)
            )
            if not SEVERAL.search(made):
                return merged(made)
        raise refusal

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
    """Put OXC, compiled by an earlier process, where `quickjs-rs` looks for it; or have it compiled first.

    The file is machine code, so `cache` must be a directory that nobody else can write to.
    """
    import hashlib

    import wasmtime
    from quickjs_rs import _transform, _wasmtime

    binary = _transform._read_transform_wasm()
    build = hashlib.sha256(binary).digest()
    file = cache / f"oxc-{build.hex()[:16]}.bin"
    engine = _wasmtime.shared_wasmtime_engine()
    # Not there yet, of another processor or wasmtime, or at a path that wasmtime can't say.
    failures = wasmtime.WasmtimeError, OSError, UnicodeEncodeError
    try:
        module = wasmtime.Module.deserialize_file(engine, str(file))
    except failures:
        compile_beside(lambda: wasmtime.Module(engine, binary).serialize(), file)
        try:
            module = wasmtime.Module.deserialize_file(engine, str(file))
        except failures:
            module = wasmtime.Module(engine, binary)  # and again at the next start
            give_back()
    linker = _wasmtime.default_wasi_linker(engine)
    _wasmtime._SHARED_ARTIFACTS["transform"] = _wasmtime.SharedWasmArtifact(module, linker, build)


def compile_beside(compiled: Callable[[], bytes | bytearray], file: Path) -> None:
    """Write what `compiled` gives to a file, if that can be done, in a process whose memory goes with it.

    It takes a second of CPU, by which nobody is to be kept waiting who has something else to do.
    """
    from mcpproxy.paths import replace_file

    parent = os.getpid()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        Confinement().die_with(parent)
        os.nice(BESIDE)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, compiled(), lasting=False)
    finally:
        os._exit(0)  # whatever went wrong: there is no file then


def parted(source: str) -> tuple[list[str], str]:
    """The source in parts, of which every other one is a namespace; and as one.

    Without its type imports and the word `export`, where each line stays as long as it was.
    """
    parts: list[list[str]] = [[]]
    last = 0
    for kind, start, end in pieces(source):
        piece = source[start:end]
        if kind != "namespace":
            piece = re.sub(r"[^\n]", " ", piece)
        parts[-1].append(source[last:start])
        if kind == "namespace":
            parts += [[piece], []]
        else:
            parts[-1].append(piece)
        last = end
    parts[-1].append(source[last:])
    joined = ["".join(each) for each in parts]
    return joined, "".join(joined)


def constants(source: str) -> tuple[str, set[str]]:
    """A namespace with const in place of each exported let and var, and the names of those."""
    text, names, last = "", set[str](), 0
    before: list[tuple[str, int, int]] = [("", 0, 0)] * 2
    for word, start, end, *_ in words(source):
        if before[0][0] == "export" and before[1][0] in ("let", "var"):
            names.add(word)
            text += source[last : before[1][1]] + "const"
            last = before[1][2]
        before = [before[1], (word, start, end)]
    return text + source[last:], names


def merged(text: str) -> str:
    """With each part of a namespace seeing what the others export, where OXC lets it see only its own."""
    return CLOSED.sub(r"\1})(\2 || (", OPENED.sub(r"\1 with (\2) {", text))


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
    if NOT_CONST in refusal:
        return "a variable that a namespace exports needs a value, and a statement of its own"
    message = refusal.partition("\n")[0].partition(" error in script.ts: ")[2] or refusal
    return message.partition("; ")[0].rstrip(".")[:500]
