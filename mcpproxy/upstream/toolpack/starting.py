"""A start for a tool of each kind: files that work as they are, to be changed."""

from __future__ import annotations

import json

from mcpproxy.upstream.toolpack.toolfile import Kind

INPUT = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": "Who to greet"}},
    "required": ["name"],
    "additionalProperties": False,
}
OUTPUT = {
    "type": "object",
    "properties": {"greeting": {"type": "string"}},
    "required": ["greeting"],
}

HEAD = """\
id: {name}
kind: {kind}
description: Greets somebody.  # what a model reads when it chooses a tool
{entry}schema:
  input:
    $ref: ./{name}.input.schema.json
  output:
    $ref: ./{name}.output.schema.json
timeoutMs: 10000
# deterministic: true     # keep the result for the same input
# env: [API_TOKEN]        # variables of the daemon that the tool may see
"""
ENTRIES: dict[Kind, str] = {
    "python": "entry: {module}:run\n",
    "cli": "entry:  # a list of arguments; no shell is involved\n  - python3\n  - -c\n"
    "  - |\n    import json, sys\n    print(json.dumps({{'greeting': f'Hello, {{sys.argv[-1]}}!'}}))\n"
    "  - --\n  - '{{{{ input.name }}}}'\n",
    "node": "entry:\n  - {name}.mjs\n",
    "php": "php:\n  - {name}.php\n",
    "http": "entry: https://api.example.com/greetings?name={{{{ input.name }}}}\n"
    "# method: POST           # then the input is the body\n"
    "# headers:\n#   Authorization: Bearer {{{{ env.API_TOKEN }}}}\n"
    "# allow_hosts: [10.0.0.7] # private addresses, and other hosts that redirects may lead to\n",
}
SCRIPTS: dict[Kind, tuple[str, str]] = {
    "python": (
        "{module}.py",
        '"""What {name} does. It runs in a process of its own; what it prints goes to the log."""\n\n\n'
        "def run(payload):\n"
        '    return {{"greeting": f"Hello, {{payload[\'name\']}}!"}}\n',
    ),
    "node": (
        "{name}.mjs",
        'import {{ readFileSync }} from "node:fs";\n\n'
        'const input = JSON.parse(readFileSync(0, "utf8"));\n'
        "console.log(JSON.stringify({{ greeting: `Hello, ${{input.name}}!` }}));\n",
    ),
    "php": (
        "{name}.php",
        "<?php\n\n"
        "$input = json_decode(stream_get_contents(STDIN), true);\n"
        'echo json_encode(["greeting" => "Hello, " . $input["name"] . "!"]);\n',
    ),
}


def start(name: str, kind: Kind) -> dict[str, str]:
    """The files of a new tool, by name."""
    module = "".join(each if each.isalnum() else "_" for each in name)
    if module[:1].isdigit():
        module = f"_{module}"
    words = {"name": name, "kind": kind, "module": module}
    files = {f"{name}.tool.yaml": HEAD.format(entry=ENTRIES[kind].format(**words), **words)}
    if kind in SCRIPTS:
        file, source = SCRIPTS[kind]
        files[file.format(**words)] = source.format(**words)
    files[f"{name}.input.schema.json"] = json.dumps(INPUT, indent=2) + "\n"
    files[f"{name}.output.schema.json"] = json.dumps(OUTPUT, indent=2) + "\n"
    return files
