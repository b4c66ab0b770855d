"""Templates: what they may do, and that no request makes one run long, grow large or reach around."""

from __future__ import annotations

import time

import pytest
from packs import cli, faults, open_tools, put

from mcpproxy.catalog import public
from mcpproxy.upstream.files import Bad
from mcpproxy.upstream.toolpack.templating import Template, Unfit

HOSTILE = [
    "; touch ./pwned", "$(touch ./pwned)", "`touch ./pwned`", "| touch ./pwned", "&& touch ./pwned",
    "' ; touch ./pwned ; '", '" ; touch ./pwned ; "', "\n touch ./pwned \n", "%x ${PATH} $HOME ~ * ?",
    "{{ 7 * 7 }}", "{% raw %}", "{{ input }}", "a b\tc", "../../etc/passwd", "\u202e\U0001f600", "",
]  # fmt: skip


def render(source, url=False, **given):
    return Template(source, url=url).render({"input": given, "request": given})


@pytest.mark.parametrize(
    ("source", "given", "text"),
    [
        ("{{ input.path }}", {"path": "a b"}, "a b"),
        ("{{ request.path }}", {"path": "a"}, "a"),
        ("{{ input.items }} {{ input.keys }}", {"items": [1, None], "keys": True}, "[1, null] true"),
        ("{{ input.x | default('d') }}", {}, "d"),
        ("{{ input.x ~ 1 ~ true }}", {"x": 2.5}, "2.51true"),
        ("{{ 'b' if input.a else 'c' }}", {"a": 0}, "c"),
        ("{% for k, v in input.items() %}{{ k }}={{ v }};{% endfor %}", {"a": 1, "b": "x"}, "a=1;b=x;"),
        ("{% for n in range(3) if n %}{{ loop.index }}{{ n }} {% else %}-{% endfor %}", {}, "11 22 "),
        ("{{ input.l | map('upper') | join(',') }}", {"l": ["a", "b"]}, "A,B"),
        ("{{ input | tojson }}", {"a": "<é>"}, '{"a": "<é>"}'),
        ("{{ input['x y'] }}{{ input.s[::-1] }}", {"x y": 1, "s": "abc"}, "1cba"),
        ("{{ input.s.strip().upper() }}", {"s": " a "}, "A"),
        ("{{ input.n * 3 + 7 % 4 }}{{ input.s + 'b' }}", {"n": 2, "s": "a"}, "9ab"),
        ("{# nothing #}plain\n", {}, "plain\n"),
    ],
)  # fmt: skip
def test_a_template_computes_a_text_from_the_request(source, given, text):
    assert render(source, **given) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("/{{ input.p }}?{{ input.p }}", "/a/%3F%26b?a%2F%3F%26b"),
        ("/{{ input.p | urlencode }}", "/a%2F%3F%26b"),
        ("/?{{ input | urlencode }}", "/?p=a%2F%3F%26b"),
        ("/{% if input.p %}?q={{ input.p }}{% endif %}/{{ input.p }}", "/?q=a%2F%3F%26b/a%2F%3F%26b"),
        ("/?q={{ (input.p | urlencode) ~ '&evil=1' }}", "/?q=a%252F%253F%2526b%26evil%3D1"),
    ],
)  # fmt: skip
def test_in_a_url_each_value_is_encoded_for_its_place(source, text):
    assert render(source, url=True, p="a/?&b") == text


@pytest.mark.threat("P2")
@pytest.mark.parametrize(
    "source",
    [
        "{% set a = 1 %}", "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}",
        "{% macro m() %}{% endmacro %}", "{% block b %}{% endblock %}", "{% with a = 1 %}{% endwith %}",
        "{% filter upper %}x{% endfilter %}", "{{ 9 ** 9 ** 9 }}", "{{ input.s.format(1) }}",
        "{{ input.s.center(10) }}", "{{ input() }}", "{{ input.get(*input.l) }}", "{{ input.s | center(9) }}",
        "{{ lipsum() }}", "{{ input.", "{% for a in input.l recursive %}{% endfor %}", "{{ " + "(" * 900 + "1" + ")" * 900 + " }}",
        "{% for a in input %}{% for b in input %}{% for c in input %}{% endfor %}{% endfor %}{% endfor %}",
    ],
)  # fmt: skip
def test_the_rest_of_the_language_is_refused_when_the_file_is_read(source):
    with pytest.raises(Bad):
        Template(source)


@pytest.mark.threat("P2")
@pytest.mark.parametrize(
    "source",
    [
        "{{ input.__class__ }}", "{{ input['__class__'] }}", "{{ ''.__class__.__mro__ }}", "{{ self }}",
        "{{ input | map(attribute='__class__') | list }}", "{{ (input | map(attribute='__class__') | first).__mro__ }}",
        "{{ input.l | map('format') | list }}", "{{ range.__init__ }}", "{{ loop }}", "{{ nothing }}", "{{ cycler }}",
        "{{ input.missing }}", "{{ input.missing.deeper }}", "{{ input.s + 1 }}", "{{ 1 / 0 }}", "{{ input.s.missing }}",
    ],
)  # fmt: skip
def test_nothing_of_ours_is_reached(source):
    with pytest.raises(Unfit):
        render(source, s="x", l=["{0.__class__}"])


@pytest.mark.threat("P2")
@pytest.mark.parametrize(
    "source",
    [
        "{% for n in range(10000000000) %}{% endfor %}",
        "{% for a in input.l %}{% for b in input.l %}{% endfor %}{% endfor %}",
        "{% for a in input.l %}{% if input.s | upper == 'x' %}{% endif %}{% endfor %}",
        "{{ 'a' * input.n }}", "{{ '%0999999999d' % input.n }}", "{{ input.l * input.n }}",
        "{{ input.l | join(input.s) }}", "{{ input.s | replace('x', input.s) }}",
        "{{ input.l | map('replace', '1', input.s) | list | length }}",
        "{% for a in input.l %}{{ input.s }}{% endfor %}", "{{ input.big * input.big }}",
        "{{ input.s + input.s + input.s + input.s }}", "{{ 5 | round(-input.n) }}",
        "{{ 5 | round(input.n, 'ceil') }}", "{{ input.s | map('list') | sum(start=[]) | length }}",
        "{{ input.s.strip(input.s) }}",
    ],
)  # fmt: skip
def test_no_request_makes_a_template_run_long_or_grow(source):
    began = time.process_time()
    with pytest.raises(Unfit):
        render(source, s="x" * 500_000, l=list(range(9000)), n=10**9, big=10**4200)
    assert time.process_time() - began < 2


@pytest.mark.threat("P1")
async def test_no_value_reaches_a_shell_or_becomes_two_arguments(tmp_path):
    root = tmp_path / "pack"
    words = ["{{ input.l[%d] }}", "--name={{ input.l[%d] }}", "{{ input.l[%d] }}"]
    cli(root, "echo", *(word % n for n in range(len(HOSTILE)) for word in words))
    async with open_tools(root) as pack:
        found = await pack.call("echo", l=HOSTILE)
    given = [text for each in HOSTILE for text in (each, f"--name={each}", each)]
    assert found == {"argv": given, "input": {"l": HOSTILE}}
    assert [path.name for path in root.rglob("*pwned*")] == []


@pytest.mark.threat("P1")
async def test_no_value_becomes_an_option(tmp_path):
    root = tmp_path / "pack"
    cli(root, "open", "{{ input.x }}")
    cli(root, "closed", "--flag", "--", "{{ input.x }}", "--name={{ input.x }}")
    async with open_tools(root) as pack:
        for text in ("-rf", "--output=/tmp/x", "-", "--", "-1x"):
            code, message = await pack.error("open", x=text)
            assert code == "EINVAL" and "would be an option" in message
        found = await pack.call("closed", x="-rf")
        assert found["argv"] == ["--flag", "--", "-rf", "--name=-rf"]
        assert (await pack.call("open", x=-5))["argv"] == ["-5"]


@pytest.mark.threat("P1")
@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "x" * 40_000])
async def test_what_can_be_no_argument_is_refused(tmp_path, text):
    cli(tmp_path / "pack", "echo", "{{ input.x }}")
    async with open_tools(tmp_path / "pack") as pack:
        code, message = await pack.error("echo", x=text)
    assert code == "EINVAL" and message.startswith("entry[4]")


async def test_what_a_template_needs_and_a_request_lacks_is_named(tmp_path):
    cli(tmp_path / "pack", "echo", "{{ input.who }}")
    async with open_tools(tmp_path / "pack") as pack:
        found = await pack.error("echo", other="x")
    assert found == ("EINVAL", "entry[4]: it needs 'who', which is not given")


# ── prompts ─────────────────────────────────────────────────────────────────────────────────────


REGISTRY = "writing:\n  draft: [3, 1]\n  letter: 1\n"
SPEC = """
    title: A draft
    input:
      type: object
      properties:
        topic: {type: string, description: What it is about}
        parts: {type: integer, minimum: 1}
        tone: {enum: [dry, warm]}
      required: [topic]
      additionalProperties: false
"""


@pytest.fixture
def prompts(tmp_path):
    root = tmp_path / "pack"
    put(root, "prompts/REGISTRY.yaml", REGISTRY)
    put(
        root,
        "prompts/packs/writing/draft.v3.md",
        "# Draft v3\n\nWrite {{ input.parts | default(2) }} parts about {{ input.topic }}.",
    )
    put(root, "prompts/packs/writing/draft.v1.md", "# Draft v1\n\nWrite about the topic.\n")
    put(root, "prompts/packs/writing/draft.v1.spec.yaml", "properties: {topic: {type: string}}")
    put(root, "prompts/packs/writing/draft.spec.yaml", SPEC)
    put(root, "prompts/packs/writing/letter.v1.md", "Write a letter.")
    put(root, "prompts/packs/writing/letter.spec.yaml", "description: A letter.\ntype: object\n")
    return root


async def test_each_version_is_a_prompt_and_the_newest_has_the_bare_name(prompts):
    async with open_tools(prompts) as pack:
        shown = [dict(public(each)) for each in pack.source.prompts()]
        listed = {each.pop("name"): each for each in shown}
        assert list(listed) == [
            "writing.draft@1",
            "writing.draft@3",
            "writing.draft",
            "writing.letter@1",
            "writing.letter",
        ]
        assert listed["writing.letter"] == {"description": "A letter.", "arguments": []}
        assert listed["writing.draft"] == listed["writing.draft@3"] == {
            "title": "A draft",
            "description": "Draft v3",
            "arguments": [
                {"name": "topic", "description": "What it is about", "required": True},
                {"name": "parts", "required": False},
                {"name": "tone", "required": False},
            ],
        }  # fmt: skip
        assert pack.source.complete("writing.draft", "tone", "w") == ["warm"]
        assert (
            pack.source.complete("writing.draft", "topic", "w")
            == pack.source.complete("x", "y", "")
            == []
        )


async def text_of(pack, name, **arguments):
    result = await pack.source.prompt(name, arguments)
    (message,) = result["messages"]
    assert message["role"] == "user"
    return message["content"]["text"]


async def test_a_prompt_is_filled_in_or_followed_by_what_it_was_given(prompts):
    async with open_tools(prompts) as pack:
        assert (await text_of(pack, "writing.draft", topic="{{ 7*7 }}", parts="4")).endswith(
            "Write 4 parts about {{ 7*7 }}."
        )
        old = await text_of(pack, "writing.draft@1", topic="bees")
        assert (
            old == '# Draft v1\n\nWrite about the topic.\n\n```json\n{\n  "topic": "bees"\n}\n```\n'
        )
        assert await text_of(pack, "writing.letter") == "Write a letter."


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("writing.draft", {}, "topic"),
        ("writing.draft", {"topic": "x", "parts": "many"}, "arguments.parts"),
        ("writing.draft", {"topic": "x", "parts": "0"}, "arguments.parts"),
        ("writing.draft", {"topic": "x", "tone": "loud"}, "arguments.tone"),
        ("writing.draft", {"topic": "x", "other": "y"}, "other"),
        ("writing.draft@2", {"topic": "x"}, "there is no prompt 'writing.draft@2'"),
    ],
)
async def test_arguments_are_held_against_the_spec(prompts, name, arguments, words):
    from mcpproxy.upstream.inside import Unfit

    async with open_tools(prompts) as pack:
        with pytest.raises(Unfit, match=words):
            await pack.source.prompt(name, arguments)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("prompts/REGISTRY.yaml", "- a", "prompts/REGISTRY.yaml:1: it must be a mapping"),
        ("prompts/REGISTRY.yaml", "writing:\n  ../x: [1]", "prompts/REGISTRY.yaml:2: '../x' is no name"),
        ("prompts/REGISTRY.yaml", "writing:\n  draft: [three]", "prompts/REGISTRY.yaml:2: writing.draft must list its versions"),
        ("prompts/REGISTRY.yaml", "writing:\n  draft: [1, 9]", "prompts/REGISTRY.yaml:2: there is no file prompts/packs/writing/draft.v9.md"),
        ("prompts/packs/writing/draft.v3.md", "a\n{{ x", "prompts/packs/writing/draft.v3.md:2: the template is not valid"),
        ("prompts/packs/writing/draft.spec.yaml", "properties: 1", "prompts/packs/writing/draft.spec.yaml: it is no valid JSON Schema"),
        ("prompts/packs/writing/draft.spec.yaml", "a: [", "prompts/packs/writing/draft.spec.yaml:1: it is not valid YAML"),
    ],
)  # fmt: skip
def test_a_bad_prompt_is_left_out_with_its_line(prompts, name, text, said):
    put(prompts, name, text)
    (found,) = faults(prompts)
    assert said in found
