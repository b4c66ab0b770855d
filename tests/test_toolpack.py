"""Tools from files, called: each kind, what they may see, how they fail, and what is left of them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import anyio
import pytest
from packs import ECHO, ENVIRON, cli, open_tools, put, shell, tool
from upstreams import alive, until

from mcpproxy import catalog
from mcpproxy.upstream.failure import Failure
from mcpproxy.upstream.toolpack import processes, source
from mcpproxy.upstream.toolpack.cache import Shelf
from mcpproxy.upstream.toolpack.processes import Ended
from mcpproxy.upstream.toolpack.results import of_program

PYTHON = Path(sys.executable).resolve()
"""A first line of a script can't have the spaces that the path of a checkout may have."""

MODULE = """
    import os, sys

    def run(payload):
        print("a stray line")
        if payload.get("fail"):
            raise KeyError(payload["fail"])
        return {"argv": sys.argv[1:], "input": payload, "env": sorted(os.environ)}
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pack").mkdir()
    return tmp_path / "pack"


# ── kinds ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_python_tool_is_a_function_in_a_process_of_its_own(root):
    put(root, "tools/example/shout.py", MODULE)
    tool(root, "shout", entry=["tools.example.shout:run", "{{ input.word }}"], env=["SECRET_WORD"])
    async with open_tools(root) as pack:
        found = await pack.call("shout", word="a b; $(id) 'x' \n")
        assert found["argv"] == ["a b; $(id) 'x' \n"]
        assert found["input"] == {"word": "a b; $(id) 'x' \n"}
        assert set(found["env"]) - {"LC_CTYPE"} == {"LANG", "PATH", "SECRET_WORD"}
        assert "a stray line" in pack.said
        code, message = await pack.error("shout", word="", fail="open-sesame-77")
        assert (code, message) == ("EINTERNAL", "KeyError: '${env:SECRET_WORD}'")


async def test_a_python_file_reads_stdin_and_writes_stdout(root):
    put(root, "deep/echo.py", ECHO)
    put(root, "deep/echo.tool.yaml", "id: echo\nkind: python\nentry: echo.py\n")
    async with open_tools(root) as pack:
        assert await pack.call("echo", text="é\ud800") == {"argv": [], "input": {"text": "é�"}}


async def test_a_program_of_the_pack_or_of_the_path(root):
    own = put(root, "bin/own", f"#!{PYTHON} -IS\n{ECHO}")
    own.chmod(0o755)
    tool(
        root,
        "own",
        "cli",
        entry=["bin/own", "--flag", "{{ input.n }}", "{{ input.l }}", "{{ input.t }}"],
    )
    tool(root, "cat", "cli", entry="cat")
    async with open_tools(root) as pack:
        found = await pack.call("own", n=-1.5, l=[1, "é"], t=True)
        assert found["argv"] == ["--flag", "-1.5", '[1, "é"]', "true"]
        assert await pack.call("cat", a=[1, None]) == {"a": [1, None]}


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed here")
async def test_a_node_tool(root):
    put(root, "tools/example/node_echo.mjs", """
        import { readFileSync } from "node:fs";
        const input = JSON.parse(readFileSync(0, "utf8"));
        console.log(JSON.stringify({ data: { argv: process.argv.slice(2), input } }));
    """)  # fmt: skip
    tool(root, "echo", "node", entry=["tools/example/node_echo.mjs", "{{input.prefix}}"])
    async with open_tools(root) as pack:
        found = await pack.call("echo", prefix="x")
    assert found == {"argv": ["x"], "input": {"prefix": "x"}}


@pytest.mark.skipif(shutil.which("php") is None, reason="php is not installed here")
async def test_a_php_tool(root):
    put(root, "echo.php", """<?php
        $input = json_decode(stream_get_contents(STDIN), true);
        echo json_encode(["argv" => array_slice($argv, 1), "input" => $input]);
    """)  # fmt: skip
    tool(root, "echo", "php", php=["echo.php", "{{input.prefix}}"])
    async with open_tools(root) as pack:
        assert (await pack.call("echo", prefix="x"))["argv"] == ["x"]


async def test_php_is_started_as_its_binary_is_named(root):
    binary = put(root, "php-of-ours", f"#!{PYTHON} -IS\n{ECHO}")
    binary.chmod(0o755)
    put(root, "echo.php", "<?php")
    tool(root, "echo", "php", php=["echo.php", "{{input.a}}"], phpBinary=str(binary))
    async with open_tools(root) as pack:
        assert (await pack.call("echo", a="x"))["argv"] == [str(root / "echo.php"), "x"]


# ── answers ─────────────────────────────────────────────────────────────────────────────────────


ANSWERS = """
    import json, sys
    given = json.load(sys.stdin)
    sys.stderr.write(given.get("stderr", ""))
    sys.stdout.write(given.get("stdout", ""))
    sys.exit(given.get("exit", 0))
"""


@pytest.mark.parametrize(
    ("stdout", "data"),
    [
        ('{"data": {"ok": true}}', {"ok": True}),
        ('{"data": 1, "more": 2}', {"data": 1, "more": 2}),
        ('{"a": null}\n', {"a": None}),
        ('"text"', "text"),
        ("[1, 2]", [1, 2]),
        (r'{"a": "\ud800x"}', {"a": "\ufffdx"}),
        ('{"error": "of another shape"}', {"error": "of another shape"}),
    ],
)
def test_what_a_program_prints_is_its_result(stdout, data):
    assert of_program(Ended(stdout.encode(), 0, ""), whole=False) == data


@pytest.mark.parametrize(
    ("stdout", "exit", "code", "words"),
    [
        ('{"error": {"code": "EINVAL", "message": "no"}}', 0, "EINVAL", "no"),
        ('{"error": {"code": "E42", "message": "no", "n": 1}}', 3, "EINTERNAL", "E42: no"),
        ("nonsense", 0, "EINTERNAL", "no JSON on stdout: 'nonsense'"),
        ('{"a": NaN}', 0, "EINTERNAL", "no JSON on stdout"),
        ("[" * 99_999, 0, "EINTERNAL", "no JSON on stdout"),
        ("{}", 1, "EINTERNAL", "it ended with exit status 1; its stderr: last words"),
        ("{}", -11, "EINTERNAL", "it ended with SIGSEGV"),
        ("", 0, "EINTERNAL", "it gave nothing"),
    ],
)
def test_what_fails_has_one_of_four_codes(stdout, exit, code, words):
    with pytest.raises(Failure) as caught:
        of_program(Ended(stdout.encode(), exit, "last words"), whole=False)
    assert caught.value.code == code and words in caught.value.message


@pytest.mark.threat("P6")
async def test_a_failure_shows_no_secret_and_a_limit_is_one(root):
    cli(root, "say", code=ANSWERS, limits={"input": 800, "output": 200}, env=["SECRET_WORD"])
    async with open_tools(root) as pack:
        assert await pack.call("say", stdout="[1]") == "[1]"
        found = await pack.error("say", exit=7, stderr="key open-sesame-77 is wrong")
        said = "it ended with exit status 7; its stderr: key ${env:SECRET_WORD} is wrong"
        assert found == ("EINTERNAL", said)
        assert "key open-sesame-77 is wrong" in pack.said  # the log hides it by itself
        code, message = await pack.error("say", stdout=201 * "x")
        assert code == "ECAP" and "larger than 200 bytes (limits.output)" in message
        code, message = await pack.error("say", stdout=801 * "x")
        assert code == "ECAP" and "may have 800 (limits.input)" in message


async def test_input_and_output_are_held_against_their_schemas(root):
    schema = {
        "input": {"properties": {"stdout": {"type": "string"}}, "required": ["stdout"]},
        "output": {"type": "object", "properties": {"n": {"type": "integer"}}},
    }
    cli(root, "say", code=ANSWERS, schema=schema)
    async with open_tools(root) as pack:
        (listed,) = pack.source.tools()
        assert listed["inputSchema"]["required"] == ["stdout"]
        assert listed["outputSchema"] == schema["output"]
        assert await pack.call("say", stdout='{"data": {"n": 1}}') == {"n": 1}
        code, message = await pack.error("say", stdout='{"n": "x"}')
        assert code == "EINTERNAL" and "output.n" in message
        code, message = await pack.error("say", stdout=1)
        assert code == "EINVAL" and "input.stdout" in message


async def test_half_a_character_in_the_input_is_no_fault_of_ours(root):
    schema = {"input": {"properties": {"text": {"type": "string", "maxLength": 9}}}}
    cli(root, "echo", schema=schema)
    async with open_tools(root) as pack:
        found = await pack.call("echo", **{"half\ud800": 1})
        assert found["input"] == {"half�": 1}
        code, message = await pack.error("echo", text="\ud800 is half of one")
        assert code == "EINVAL" and "input.text" in message


async def test_an_output_schema_of_the_envelope_is_of_the_envelope(root):
    schema = {"output": {"type": "object", "properties": {"data": {}}, "required": ["data"]}}
    cli(root, "say", code=ANSWERS, schema=schema)
    async with open_tools(root) as pack:
        assert await pack.call("say", stdout='{"data": {"n": 1}}') == {"data": {"n": 1}}


# ── what is left ────────────────────────────────────────────────────────────────────────────────


FAMILY = 'sleep 60 & echo $! > "$1"; test "$2" = go || sleep 60; echo {}'


async def pid_in(file: Path) -> int:
    found: list[str] = []

    def written() -> bool:
        found[:] = [file.read_text(encoding="ascii")] if file.exists() else []
        return bool(found and found[0])

    await until(written)
    return int(found[0])


@pytest.mark.threat("P7")
async def test_nothing_is_left_of_a_program_that_takes_too_long_ends_or_is_cancelled(
    root, tmp_path
):
    words = ("{{ input.file }}", "{{ input.then }}")
    shell(root, "slow", FAMILY, *words, timeoutMs=400)
    shell(root, "family", FAMILY, *words)
    files = [tmp_path / name for name in ("a", "b", "c")]
    async with open_tools(root) as pack:
        code, message = await pack.error("slow", file=str(files[0]), then="stay")
        assert code == "ETIMEOUT"
        assert (
            message == "it took longer than 400 ms (timeoutMs); whether it took effect is unknown"
        )
        assert await pack.call("family", file=str(files[1]), then="go") == {}
        async with anyio.create_task_group() as tasks:
            given = {"file": str(files[2]), "then": "stay"}
            tasks.start_soon(pack.source.call, "family", given, print)
            await pid_in(files[2])
            tasks.cancel_scope.cancel()
    said = [file.read_text(encoding="ascii") for file in files if file.exists()]
    pids = [int(text) for text in said if text]  # on a busy machine the first may not get that far
    assert len(pids) >= 2
    for pid in pids:
        await until(lambda pid=pid: not alive(pid))


@pytest.mark.threat("P7")
async def test_nothing_is_left_of_one_that_is_cancelled_while_it_starts(
    root, tmp_path, monkeypatch
):
    shell(root, "family", FAMILY, "{{ input.file }}", "stay")
    file, spawn = tmp_path / "a", processes.spawn
    async with open_tools(root) as pack, anyio.create_task_group() as tasks:

        def cancelled(*words, **options):
            tasks.cancel_scope.cancel()
            process = spawn(*words, **options)
            while not (file.exists() and file.read_text(encoding="ascii")):
                pass  # as on a busy machine: the program runs before we hear that it does
            return process

        monkeypatch.setattr(processes, "spawn", cancelled)
        await pack.source.call("family", {"file": str(file)}, print)
    pid = await pid_in(file)
    await until(lambda: not alive(pid))


@pytest.mark.threat("P7")
async def test_a_flood_on_stderr_is_cut_and_one_on_stdout_ends_the_program(root):
    shell(root, "out", "exec yes")
    shell(root, "err", "yes | head -c 3000000 >&2; echo 1")
    async with open_tools(root) as pack:
        assert (await pack.error("out"))[0] == "ECAP"
        assert await pack.call("err") == "1"
        assert 0 < sum(map(len, pack.said)) <= 2**20


async def test_programs_wait_for_their_turn(root, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "PROGRAMS", 1)
    shell(
        root, "first", 'touch "$1"; until test -e "$1.go"; do :; done; echo 1', "{{ input.file }}"
    )
    shell(root, "second", "echo 2")
    file = tmp_path / "started"
    found = []

    async def call(pack, name):
        found.append(await pack.call(name, file=str(file)))

    async with open_tools(root) as pack, anyio.create_task_group() as tasks:
        tasks.start_soon(call, pack, "first")
        await until(file.exists)
        tasks.start_soon(call, pack, "second")
        await anyio.wait_all_tasks_blocked()
        assert pack.source._turns.statistics().tasks_waiting == 1 and found == []
        await anyio.Path(f"{file}.go").touch()
    assert found == ["1", "2"]


# ── kept results ────────────────────────────────────────────────────────────────────────────────


COUNTED = (
    'printf x >> "$1"; test "$2" != wait || test -e "$1.go" || sleep 60; test "$2" != fail; echo {}'
)
"""It fails without output when told so: `set -e` is on."""


def counted(root, **members):
    words = ("{{ input.file }}", "{{ input.then | default('') }}")
    return shell(root, "count", f"set -e; {COUNTED}", *words, deterministic=True, **members)


@pytest.fixture
def runs(tmp_path):
    file = tmp_path / "runs"

    def runs():
        return len(file.read_text(encoding="ascii")) if file.exists() else 0

    runs.file = str(file)
    return runs


async def test_a_deterministic_tool_runs_once_for_the_same_input(root, runs):
    counted(root)
    async with open_tools(root) as pack:
        for n in (1, 1, 2):
            assert await pack.call("count", file=runs.file, n=n) == {}
        assert runs() == 2
    async with open_tools(root) as pack:
        await pack.call("count", file=runs.file, n=1)
        assert runs() == 2  # kept over a restart
    put(root, "helper.py", "# whatever the tool may import is another now")
    async with open_tools(root) as pack:
        await pack.call("count", file=runs.file, n=1)
        assert runs() == 3


async def test_calls_at_the_same_time_are_one_and_another_takes_over_when_that_is_cancelled(
    root, runs
):
    counted(root)
    found = []

    async def call(pack):
        found.append(await pack.call("count", file=runs.file, then="wait"))

    async with open_tools(root) as pack, anyio.create_task_group() as tasks:
        first = anyio.CancelScope()

        async def leader():
            with first:
                await call(pack)

        tasks.start_soon(leader)
        await until(lambda: runs() == 1)
        for _ in range(5):
            tasks.start_soon(call, pack)
        await anyio.wait_all_tasks_blocked()
        await anyio.Path(f"{runs.file}.go").touch()
        first.cancel()
    assert found == [{}] * 5
    assert runs() == 2


async def test_a_failure_is_not_kept(root, runs):
    counted(root)
    async with open_tools(root) as pack:
        for _ in range(2):
            assert (await pack.error("count", file=runs.file, then="fail"))[0] == "EINTERNAL"
    assert runs() == 2


async def test_a_key_of_the_author_stands_for_the_input(root, runs):
    counted(root, templating={"cacheKey": "{{ input.key }}"})
    async with open_tools(root) as pack:
        for key, n in ((1, 1), (1, 2), (2, 2)):
            await pack.call("count", file=runs.file, key=key, n=n)
        assert runs() == 2
        code, message = await pack.error("count", file=runs.file)
        assert code == "EINVAL" and message.startswith("templating.cacheKey: it needs 'key'")


def test_results_go_by_age_and_when_there_is_no_more_room(tmp_path):
    shelf = Shelf(tmp_path / "kept.sqlite3", room=100)
    for key in ("a", "b", "c"):
        shelf.keep(key, key * 25)
    assert shelf.find("a") == "a" * 25  # used now, so it stays
    shelf.keep("d", "d" * 25)
    shelf.keep("e", "e" * 25)
    assert [key for key in "abcde" if shelf.find(key)] == ["a", "c", "d", "e"]
    shelf.keep("large", "x" * 26)
    assert shelf.find("large") is None
    assert (tmp_path / "kept.sqlite3").stat().st_mode & 0o777 == 0o600
    shelf.close()
    old = Shelf(tmp_path / "kept.sqlite3", oldest=0)
    assert old.find("a") is None
    old.close()


async def test_a_file_of_results_that_can_not_be_used_costs_nothing_but_time(root, runs, tmp_path):
    counted(root)
    put(tmp_path, "kept", "this is no database" * 99)
    async with open_tools(root, kept=tmp_path / "kept") as pack:
        for _ in range(2):
            assert await pack.call("count", file=runs.file) == {}
    assert runs() == 2


# ── changes ─────────────────────────────────────────────────────────────────────────────────────


async def test_tools_come_change_and_go_with_their_files(root):
    cli(root, "one")
    async with open_tools(root) as pack:
        names = lambda: [each["name"] for each in pack.source.tools()]  # noqa: E731
        assert names() == ["one"]
        cli(root, "two")
        await until(lambda: names() == ["one", "two"])
        put(root, "two.tool.yaml", "id: two\nkind: nonsense\n")
        await until(lambda: names() == ["one"])
        (root / "one.tool.yaml").unlink()
        await until(lambda: names() == [])
        assert set(pack.told) == {"tools"}
        assert sum("two.tool.yaml:2: kind" in line for line in pack.said) == 1
        put(root, "prompts/REGISTRY.yaml", "a: {b: [1]}")
        put(root, "prompts/packs/a/b.v1.md", "x")
        put(root, "prompts/packs/a/b.spec.yaml", "description: B.\ntype: object")
        await until(lambda: "prompts" in pack.told)
        before = pack.source.prompts()
        assert [each["name"] for each in before] == ["a.b@1", "a.b"]
        pack.told.clear()
        put(root, "prompts/packs/a/b.v1.md", "another text")
        await until(lambda: "prompts" in pack.told)
        after = pack.source.prompts()
        assert [catalog.public(each) for each in after] == [catalog.public(each) for each in before]
        assert all(
            catalog.runs(one) != catalog.runs(other)
            for one, other in zip(after, before, strict=True)
        )


@pytest.mark.threat("P6")
async def test_only_what_is_listed_is_in_the_environment(root):
    code = "import json, os\nprint(json.dumps(dict(os.environ)))\n"
    cli(root, "env", code=code, env=["SECRET_WORD", "NOT_SET"])
    async with open_tools(root) as pack:
        found = await pack.call("env")
    found.pop("LC_CTYPE", None)
    assert found == {
        "SECRET_WORD": ENVIRON["SECRET_WORD"],
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
    }
