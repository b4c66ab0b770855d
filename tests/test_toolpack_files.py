"""The files of a pack: what is wrong with one is said by file and line, and costs that tool alone."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packs import ENVIRON, cli, faults, open_tools, put, tool

from mcpproxy.upstream.checker import Checker
from mcpproxy.upstream.files import Bad
from mcpproxy.upstream.toolpack import document, reading
from mcpproxy.upstream.toolpack.schemas import Bundle

GOOD = "id: good\nkind: cli\nentry: cat\n"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pack").mkdir()
    return tmp_path / "pack"


def read(root):
    return reading.read(root, ENVIRON)


# ── what is wrong ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "bad.tool.yaml: it is empty"),
        ("id: [\n", "bad.tool.yaml:2: it is not valid YAML"),
        ("- a\n", "bad.tool.yaml:1: it must be a mapping"),
        ("kind: cli\n", "bad.tool.yaml:1: id is missing"),
        ("id: bad\nkind: rust\n", "bad.tool.yaml:2: kind: "),
        ("id: a b\nkind: cli\n", "bad.tool.yaml:1: id: "),
        ("id: bad\nid: bad\n", "bad.tool.yaml:2: the key 'id' is there twice"),
        ("id: bad\nkind: cli\nentry: cat\ntimeoutMS: 5\n", "bad.tool.yaml:4: timeoutMS is no key of a tool file; did you mean timeoutMs?"),
        ("id: bad\nkind: cli\nentry: cat\ntimeoutMs: 5s\n", "bad.tool.yaml:4: timeoutMs: "),
        ("id: bad\nkind: cli\nentry: cat\nlimits:\n  input: 1\n  output: 0\n", "bad.tool.yaml:6: limits.output: "),
        ("id: bad\nkind: cli\nentry: cat\nenv: [A, B=C]\n", "bad.tool.yaml:4: env[1]: "),
        ("id: bad\nkind: cli\nentry: cat\nheaders: {A: b}\n", "bad.tool.yaml:4: headers is for kind http, not cli"),
        ("id: bad\nkind: cli\n", "bad.tool.yaml:1: entry is missing"),
        ("id: bad\nkind: cli\nentry: no-such-program\n", "bad.tool.yaml:3: the program 'no-such-program' is not there"),
        ("id: bad\nkind: cli\nentry: cat -n\n", "write a command as a list"),
        ("id: bad\nkind: cli\nentry: ['{{input.x}}']\n", "bad.tool.yaml:3: entry: what is started can't be a template"),
        ("id: bad\nkind: cli\nentry:\n  - cat\n  - '{{ input.'\n", "bad.tool.yaml:5: entry[1]: the template is not valid"),
        ("id: bad\nkind: cli\nentry:\n  - cat\n  - '{% set a = 1 %}'\n", "bad.tool.yaml:5: entry[1]: a template can't have"),
        ("id: bad\nkind: cli\nentry: cat\ntemplating:\n  cacheKey: '{{ x'\n", "bad.tool.yaml:4: the template is not valid"),
        ("id: bad\nkind: python\nentry: none:run\n", "bad.tool.yaml:3: there is no module 'none'"),
        ("id: bad\nkind: python\nentry: ../none.py\n", "there is no file '../none.py'"),
        ("id: bad\nkind: python\nentry: /etc/hostname\n", "leads out of the folder"),
        ("id: bad\nkind: http\nentry: ftp://x/\n", "bad.tool.yaml:3: entry must begin with http"),
        ("id: bad\nkind: http\nentry: 'https://{{input.host}}/'\n", "is no HOST or HOST:PORT"),
        ("id: bad\nkind: http\nentry: 'https://api.test{{input.x}}/'\n", "is no HOST or HOST:PORT"),
        ("id: bad\nkind: http\nentry: 'https://me:pw@api.test/'\n", "is no HOST or HOST:PORT"),
        ("id: bad\nkind: http\nentry: https://api.test/a/../b\n", "a path can't have"),
        ("id: bad\nkind: http\nentry: https://api.test/\nheaders:\n  A: b\n  Host: c\n", "bad.tool.yaml:6: headers: 'Host' can't be set"),
        ("id: bad\nkind: cli\nentry: cat\nschema: {input: {type: array}}\n", "bad.tool.yaml:4: schema.input must be of type object"),
        ("id: bad\nkind: cli\nentry: cat\nschema: {input: {properties: {a: {type: nonsense}}}}\n", "bad.tool.yaml:4: it is no valid JSON Schema"),
        ("id: bad\nkind: cli\nentry: cat\nschema: {input: {$ref: ./none.json}}\n", "there is no file none.json"),
        ("id: bad\nkind: cli\nentry: cat\nschema: {input: {$ref: 'https://api.test/s.json'}}\n", "must lead to a file beside this one"),
        ("id: bad\nkind: cli\nentry: cat\nannotations: {readOnlyHint: maybe}\n", "annotations.readOnlyHint must be"),
        ("id: bad\nkind: cli\nentry: cat\nx: 2026-01-01\n", "bad.tool.yaml:4: '2026-01-01' is read as a date: put it into quotes"),
        ("id: bad\nkind: cli\nentry: cat\nx: 12:30\n", "bad.tool.yaml:4: '12:30' is read as 750: put it into quotes"),
        ("id: bad\nkind: cli\nentry: cat\nschema: {input: {$ref: ./huge.json}}\n", "huge.json: it can't be read: Exceeds the limit"),
        ("id: bad\nkind: cli\nentry: cat\nx: .inf\n", "bad.tool.yaml:4: '.inf' is no number of JSON"),
        ("id: !!python/object/apply:os.system [id]\n", "bad.tool.yaml:1: "),
        ("id: good\nkind: cli\nentry: cat\n", "another tool 'good'"),
    ],
)  # fmt: skip
def test_a_bad_file_is_left_out_with_its_line_and_the_others_stay(root, text, said):
    put(root, "bad.tool.yaml", text)
    put(root, "huge.json", f'{{"maximum": {"1" * 5000}}}')
    put(root, "a/good.tool.yaml", GOOD)
    if "good" in text:  # files of a folder come before those of the folders in it
        put(root, "a.tool.yaml", GOOD)
        (root / "a" / "good.tool.yaml").unlink()
    found = faults(root)
    assert len(found) == 1 and said in found[0], found
    assert "good" in read(root).tools


def test_keys_that_begin_with_x_are_anybody_s(root):
    put(root, "good.tool.yaml", GOOD + "x-owner: team\n")
    assert faults(root) == []


@pytest.mark.parametrize("folder", [".git", "node_modules", "__pycache__", "a/.venv"])
def test_nothing_is_looked_for_in_folders_of_others(root, folder):
    put(root, f"{folder}/good.tool.yaml", GOOD)
    assert read(root).tools == {} and faults(root) == []


def test_a_definition_says_what_the_file_says(root):
    tool(
        root,
        "get",
        "http",
        entry="https://api.test/",
        title="Get",
        description="Gets.",
        deterministic=True,
    )
    tool(
        root,
        "put",
        "http",
        entry="https://api.test/",
        method="PUT",
        annotations={"idempotentHint": False},
    )
    found = {name: each.definition for name, each in read(root).tools.items()}
    assert found["get"] == {
        "name": "get", "title": "Get", "description": "Gets.", "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True, "idempotentHint": True},
    }  # fmt: skip
    assert found["put"]["annotations"] == {"idempotentHint": False}


@pytest.mark.threat("P8")
def test_the_code_of_a_tool_is_what_its_command_leads_to(root):
    put(root, "text/shout.py", "import helper\nfrom lib.inner import loud\nopen('notes.txt')\n")
    put(root, "text/helper.py", "import json, shared_words\n")
    put(root, "text/random.py", "shadows Python's own\n")
    put(root, "lib/__init__.py", "")
    put(root, "lib/inner.py", "")
    put(root, "other/inner.py", "is another one\n")
    put(root, "text/unnamed.py", "")
    put(root, "text/notes.txt", "")
    put(root, "shared words.py", "")
    put(root, "text/shout.tool.yaml", "{id: shout, kind: python, entry: 'shout:run'}")
    put(root, "bin/go", "exec ./really.sh").chmod(0o755)
    put(root, "bin/really.sh", "")
    tool(root, "go", "cli", entry=["./bin/go", "{{ input.x }}"], env=["HOME"])
    found = {name: each.runs for name, each in read(root).tools.items()}
    assert list(found["shout"]["code"]) == [
        "lib/__init__.py", "lib/inner.py", "text/helper.py", "text/random.py", "text/shout.py",
    ]  # fmt: skip
    assert list(found["go"]["code"]) == ["bin/go", "bin/really.sh"]
    put(root, "bin/really.sh", "rm x")
    put(root, "text/helper.py", "import shared, words\n")
    after = {name: each.runs for name, each in read(root).tools.items()}
    assert after["go"]["code"]["bin/really.sh"] != found["go"]["code"]["bin/really.sh"]
    assert after["shout"]["code"].keys() - found["shout"]["code"].keys() == {"shared words.py"}
    assert {k: v for k, v in after["go"].items() if k != "code"} == {
        "kind": "cli", "entry": ["./bin/go", "{{ input.x }}"], "env": ["HOME"],
    }  # fmt: skip


@pytest.mark.threat("P8")
def test_each_part_of_a_request_is_what_an_http_tool_runs(root):
    def runs(**members):
        tool(root, "get", "http", **{"entry": "https://api.test/", **members})
        return read(root).tools["get"].runs

    headers = {"X-Key": "not-a-real-key"}
    parts = ({}, {"entry": "https://else.test/"}, {"method": "POST"}, {"headers": headers}, {"allow_hosts": ["h"]})  # fmt: skip
    found = [runs(**each) for each in parts]
    assert len({json.dumps(each) for each in found}) == len(parts)
    assert "not-a-real-key" not in json.dumps(found)


@pytest.mark.parametrize("name", ["--help", "$(id)", "a;b", "a b", "ü", "a'\"b", "-rf"])
def test_a_file_may_be_called_anything(root, name):
    put(root, f"{name}/{name}.py", "print('{}')")
    put(
        root,
        f"{name}/{name}.tool.yaml",
        json.dumps({"id": "x", "kind": "python", "entry": f"{name}.py"}),
    )
    assert faults(root) == [] and list(read(root).tools) == ["x"]


@pytest.mark.threat("P1")
async def test_a_file_of_any_name_is_run_as_that_file(root):
    for n, name in enumerate(["--help", "$(id);b|c", "line\nbreak"]):
        put(root, f"{name}/{name}.py", f"print('{{\"n\": {n}}}')")
        members = {"id": f"t{n}", "kind": "python", "entry": f"{name}.py"}
        put(root, f"{name}/t{n}.tool.yaml", json.dumps(members))
    async with open_tools(root) as pack:
        for n in range(3):
            assert await pack.call(f"t{n}") == {"n": n}


def test_a_name_in_a_message_is_one_line(root):
    put(root, "a\nb\u202e.tool.yaml", "")
    assert faults(root) == [r"a\nb\u202e.tool.yaml: it is empty"]


# ── out of the pack ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.threat("P5")
@pytest.mark.parametrize(
    "ref", ["../secret.json", "a/../../secret.json", "link.json", "linked/secret.json", "%2e%2e/secret.json",
            "/etc/hostname", "file:///etc/hostname", "..\\secret.json", "here/", ".", "a\x00b"],
)  # fmt: skip
def test_no_reference_leads_out_of_the_pack(root, ref):
    put(root.parent, "secret.json", '{"type": "object", "title": "SECRET"}')
    put(root, "a/x.json", "{}")
    (root / "link.json").symlink_to(root.parent / "secret.json")
    (root / "linked").symlink_to(root.parent)
    (root / "here").mkdir()
    tool(root, "bad", "cli", entry="cat", schema={"input": {"properties": {"x": {"$ref": ref}}}})
    (found,) = faults(root)
    assert "bad.tool.yaml:1" in found and "SECRET" not in found
    assert read(root).tools == {}


@pytest.mark.threat("P5")
@pytest.mark.parametrize("linked", ["bad.tool.yaml", "script.py", "prompts/packs/a/b.v1.md"])
def test_no_link_leads_out_of_the_pack(root, linked):
    put(root.parent, "secret", "id: bad\nkind: cli\nentry: cat\n")
    put(root, "prompts/REGISTRY.yaml", "a: {b: [1]}")
    put(root, "prompts/packs/a/b.spec.yaml", "type: object")
    if linked != "prompts/packs/a/b.v1.md":
        put(root, "prompts/packs/a/b.v1.md", "x")
    if linked == "script.py":
        tool(root, "bad", entry="script.py")
    (root / linked).symlink_to(root.parent / "secret")
    (found,) = faults(root)
    assert "leads out of the folder" in found
    assert read(root).tools == {}


# ── schemas of several files ────────────────────────────────────────────────────────────────────


def test_references_become_one_document(root):
    put(root, "s/input.json", json.dumps({
        "$id": "https://api.test/input.json",
        "type": "object",
        "properties": {
            "place": {"$ref": "./parts.json#/definitions/place"},
            "tree": {"$ref": "tree.yaml"},
            "own": {"$ref": "#/$defs/file1"},
        },
        "$defs": {"file1": {"type": "integer"}},
    }))  # fmt: skip
    put(
        root,
        "s/parts.json",
        '{\n\t"definitions": {"place": {"$ref": "#/definitions/text"}, "text": {"type": "string"}}}',
    )
    put(
        root,
        "s/tree.yaml",
        "type: object\nproperties:\n  left: {$ref: 'tree.yaml'}\nadditionalProperties: false\n",
    )
    cli(root, "x", schema={"input": {"$ref": "./s/input.json"}})
    assert faults(root) == []
    found = read(root).tools["x"]
    assert "file1" not in json.dumps(found.definition).replace("#/$defs/file1", "").replace(
        '"file1": {"type": "integer"}', ""
    )
    assert "$id" not in found.definition["inputSchema"]
    check = found.input.faults
    assert check({"place": "a", "tree": {"left": {"left": {}}}, "own": 1}, "input") == ""
    assert "input.place" in check({"place": 1}, "input")
    assert "input.tree.left" in check({"tree": {"left": {"right": 1}}}, "input")
    assert "input.own" in check({"own": "x"}, "input")


# ── YAML ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.threat("P5")
def test_a_small_file_does_not_stand_for_a_huge_one():
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)
    )
    with pytest.raises(Bad, match="parts, aliases counted"):
        document.parse(bomb)
    with pytest.raises(Bad, match="nested too deep"):
        document.parse("&a [*a]")
    with pytest.raises(Bad):
        document.parse("[" * 100 + "]" * 100)


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#%@, \n\t1.~<?\x00\ud800"), max_size=40))
def test_any_text_is_a_document_or_a_sentence(text):
    try:
        found = document.parse(text)
    except Bad as error:
        assert str(error)
    else:
        json.dumps(found.data, allow_nan=False)


def test_a_schema_of_any_depth_ends(root):
    deep = {"type": "object"}
    for _ in range(200):
        deep = {"properties": {"x": deep}}
    with pytest.raises(Bad, match="too deep"):
        Bundle(root).whole(deep, root / "x")
    assert "input" in Checker({"minProperties": 1}).faults({}, "input")


def test_a_pack_that_is_not_there_is_a_fault(root):
    os.rmdir(root)
    assert faults(root) == [f"{root}: there is no such directory"]


# ── the guide ───────────────────────────────────────────────────────────────────────────────────


def test_the_examples_of_the_guide_are_read_as_they_stand(root):
    put(root, "tools/example/markdown.tool.yaml", """\
        id: markdown
        kind: python
        entry: tools.example.markdown:run
        deterministic: true
        timeoutMs: 1000
        schema:
          input:
            $ref: ./markdown.input.schema.json
          output:
            $ref: ./markdown.output.schema.json
    """)  # fmt: skip
    put(root, "tools/example/http_echo.tool.yaml", """\
        id: http_echo
        kind: http
        entry: https://example.com/{{input.path}}
        headers:
          X-Token: "{{input.token}}"
        deterministic: true
        templating:
          cacheKey: "{{input.path}}"
        schema:
          input:
            $ref: ./http_echo.input.schema.json
          output:
            $ref: ./http_echo.output.schema.json
    """)  # fmt: skip
    put(root, "tools/example/node_echo.tool.yaml", """\
        id: node_echo
        kind: node
        entry:
          - tools/example/node_echo.mjs
          - "{{input.prefix}}"
        deterministic: true
        schema:
          input:
            $ref: ./node_echo.input.schema.json
          output:
            $ref: ./node_echo.output.schema.json
    """)  # fmt: skip
    for name in ("markdown", "http_echo", "node_echo"):
        for way in ("input", "output"):
            put(root, f"tools/example/{name}.{way}.schema.json", '{"type": "object"}')
    put(root, "tools/example/markdown.py", "def run(payload): ...")
    put(root, "tools/example/node_echo.mjs", "")
    put(root, "prompts/REGISTRY.yaml", "writing:\n  sectioned_draft:\n    - 3\n")
    put(root, "prompts/packs/writing/sectioned_draft.v3.md", "# Sectioned Draft v3\n\nWrite.\n")
    put(root, "prompts/packs/writing/sectioned_draft.spec.yaml", "type: object\n")
    node = put(root.parent, "bin/node", "#!/bin/sh\n")
    node.chmod(0o755)
    found = reading.read(root, {"PATH": str(node.parent)})
    assert found.faults == ()
    assert set(found.tools) == {"markdown", "http_echo", "node_echo"}
    assert set(found.prompts) == {"writing.sectioned_draft@3", "writing.sectioned_draft"}


def test_a_schema_that_takes_for_ever_is_a_fault_of_its_file(root):
    levels = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    schema = {"$defs": {**levels, "d40": {"type": "object"}}, "$ref": "#/$defs/d0"}
    tool(root, "slow", "cli", entry="cat", schema={"input": schema})
    assert "refers twice to the next" in faults(root)[0]
