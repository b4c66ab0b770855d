"""What the stub has: tools, prompts and resources; and how it puts an answer. Standard library only."""

from __future__ import annotations

import json

INFO = {"name": "stub", "version": "1"}
OBJECT = {"type": "object"}
NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}
USER = {
    "type": "object",
    "properties": {"username": {"type": "string", "description": "Login name."}},
    "required": ["username"],
}
TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "value": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["value"],
        }
    },
}
PULL = {
    "type": "object",
    "properties": {
        "owner": {"type": "string"},
        "repo": {"type": "string"},
        "pullNumber": {"type": "integer"},
    },
    "required": ["owner", "repo", "pullNumber"],
}
TOOLS = {
    "echo": ("Give the arguments back.", OBJECT),
    "json_text": ("Give the arguments back as JSON in a text block.", OBJECT),
    "plain_text": ("Say `text`.", OBJECT),
    "fail": ("Report an error as tools do, with `message`.", OBJECT),
    "rpc_error": ("Answer with a protocol error of `code` and `message`.", OBJECT),
    "sleep": ("Answer after `ms` milliseconds.", OBJECT),
    "add": ("Add two numbers.", NUMBERS),
    "big": ("Answer with `bytes` letters.", OBJECT),
    "crash": ("End the process with `status` without an answer.", OBJECT),
    "hang": ("Never answer.", OBJECT),
    "grow": ("Have one more tool (`name`), or another of that name, and say so.", OBJECT),
    "shrink": ("Have one tool less (`name`), and say so.", OBJECT),
    "ping": ("Answer at once.", OBJECT),
    "progress": ("Report `steps` steps of progress, then answer.", OBJECT),
    "stats": ("What happened so far; begin anew with `reset`.", OBJECT),
    "get_user": ("Look up a user.", USER),
    "environment": ("The environment variables in `names`; all names without it.", OBJECT),
    "whoami": ("The process, and the `_meta` that the call came with.", OBJECT),
    "odd": ("Answer with `result` as it is.", OBJECT),
    "line": ("Write `line` as it is, with the request's id for %ID%.", OBJECT),
    "both": ("Structured content, and a text that says another thing.", OBJECT),
    "blocks": ("Blocks of several kinds.", OBJECT),
    "flaky": ("Fail when `i` is `fail_at`.", OBJECT),
    "noise": ("Write lines that are no messages, then answer.", OBJECT),
    "get_pull_request": ("One pull request of a repository.", PULL),
    "tree": ("Takes a tree.", TREE),
    **{
        name: (f"A tool called {name}.", OBJECT)
        for name in ("delete", "constructor", "list.items", "a-b", "a_b", "then", "__proto__")
    },
}
MORE = {
    "add": {
        "outputSchema": {"type": "object", "properties": {"sum": {"type": "number"}}},
        "annotations": {"readOnlyHint": True},
    },
    "get_user": {"annotations": {"readOnlyHint": True}},
    "delete": {"annotations": {"readOnlyHint": False}},
}
MALFORMED = [
    {"description": "no name"},
    {"name": 7},
    {"name": "", "inputSchema": OBJECT},
    "no object",
    {"name": "no_schema", "x-own": {"kept": [1, None]}, "annotations": {"readOnlyHint": True, "ownHint": 1}},
    {"name": "odd_schema", "inputSchema": {}},
    {"name": "true_schema", "inputSchema": True},
    {"name": "dangling", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/$defs/nowhere"}}}},
    {"name": "pointer", "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"$ref": "#/properties/x"}}}},
]  # fmt: skip


class Shelf:
    """Prompts and resources: one address is everyone's, the others have a word in them."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.prompts = [{"name": "greet", "arguments": [{"name": "who", "required": True}], "x-own": 1}]  # fmt: skip
        self.resources = [
            {"uri": "file:///shared", "name": "shared"},
            {"uri": f"file:///{word}/one", "name": "one"},
        ]
        self.templates = [
            {"uriTemplate": f"{word}://{{id}}", "name": "by id"},
            {"uriTemplate": "any://{id}", "name": "any"},
        ]

    def grow(self, wanted: dict) -> None:
        """Have these prompts and resources instead of those with their name; or one more of each."""
        uri = f"file:///{self.word}/more"
        more = wanted or {
            "prompts": [{"name": "more"}],
            "resources": [{"uri": uri, "name": "more"}],
        }
        for kind, key in (("prompts", "name"), ("resources", "uri")):
            new = {each[key]: each for each in more.get(kind, ())}
            kept = [each for each in getattr(self, kind) if each[key] not in new]
            setattr(self, kind, [*kept, *new.values()])

    def answer(self, method: str, params: dict) -> dict | None:
        match method:
            case "prompts/list":
                return result(prompts=[{"description": "no name"}, *self.prompts])
            case "prompts/get":
                if params["name"] not in [each["name"] for each in self.prompts]:
                    return refusal(-32602, f"no prompt {params['name']}")
                words = f"{self.word} greets {(params.get('arguments') or {}).get('who')}"
                message = {"role": "user", "content": {"type": "text", "text": words}}
                return result(messages=[message])
            case "resources/list":
                if params.get("cursor") is None:
                    return result(resources=self.resources[:1], nextCursor="rest")
                return result(resources=self.resources[1:])
            case "resources/templates/list":
                return result(resourceTemplates=self.templates)
            case "resources/read":
                uri = params["uri"]
                if uri == "any://nothing":
                    return refusal(-32002, "Resource not found", {"uri": uri})
                return result(contents=[{"uri": uri, "text": f"{self.word} has {uri}"}])
            case "completion/complete":
                named = params["ref"].get("name") or params["ref"].get("uri")
                value = f"{self.word}:{named}:{params['argument']['value']}"
                return result(completion={"values": [value]})
        return None


def result(**members: object) -> dict:
    return {"result": members}


def stamped(**members: object) -> dict:
    meta = {"io.modelcontextprotocol/serverInfo": INFO}
    return {"result": {"resultType": "complete", "_meta": meta, **members}}


def text(words: str, **members: object) -> dict:
    return result(content=[{"type": "text", "text": words}], **members)


def data(members: dict) -> dict:
    return text(json.dumps(members), structuredContent=members)


def refusal(code: int, message: str, more: object = None) -> dict:
    error = {"code": code, "message": message}
    return {"error": error if more is None else {**error, "data": more}}
