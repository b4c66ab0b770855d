"""The server that the official conformance suite wants to see behind the proxy. Standard library only.

    python -I -S fixture.py [--era both|legacy|modern]

Over stdio, in both eras: what a tool wants to know of the client it asks in the way of the era. The
names and texts are the suite's own; each of its scenarios says which it needs.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
PREFIX = "io.modelcontextprotocol/"
LEGACY, MODERN = "2025-11-25", "2026-07-28"
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
AUDIO = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
OBJECT: Json = {"type": "object"}
PAUSE = 0.05


def string(*choices: str, **more: object) -> Json:
    return {"type": "string", **({"enum": list(choices)} if choices else {}), **more}


def form(message: str, **properties: Json) -> Json:
    """A question to a person."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}  # fmt: skip


def prompt(text: str, tokens: int = 100) -> Json:
    """A question to the client's model."""
    said = {"role": "user", "content": {"type": "text", "text": text}}
    return {"method": "sampling/createMessage", "params": {"messages": [said], "maxTokens": tokens}}


ROOTS: Json = {"method": "roots/list", "params": {}}
NEEDS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
NAME = form("What is your name?", name=string())
CONFIRM = form("Please confirm", ok={"type": "boolean"})
TITLED = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
OPTIONS = ("option1", "option2", "option3")
DEFAULTS = form(
    "Please provide user information",
    name=string(default="John Doe"),
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status=string("active", "inactive", "pending", default="active"),
    verified={"type": "boolean", "default": True},
)
ENUMS = form(
    "Please select",
    untitledSingle=string(*OPTIONS),
    titledSingle=string(oneOf=TITLED),
    legacyEnum=string("opt1", "opt2", "opt3", enumNames=["One", "Two", "Three"]),
    untitledMulti={"type": "array", "items": string(*OPTIONS)},
    titledMulti={"type": "array", "items": {"anyOf": TITLED}},
)
ASKING: dict[str, Callable[[Json], list[dict[str, Json]]]] = {
    "test_sampling": lambda args: [{"answer": prompt(args.get("prompt", ""))}],
    "test_elicitation": lambda args: [
        {"answer": form(args.get("message", ""), username=string(), email=string())}
    ],
    "test_elicitation_sep1034_defaults": lambda _: [{"answer": DEFAULTS}],
    "test_elicitation_sep1330_enums": lambda _: [{"answer": ENUMS}],
    "test_streaming_elicitation": lambda _: [{"user_name": NAME}],
    "test_input_required_result_elicitation": lambda _: [{"user_name": NAME}],
    "test_input_required_result_sampling": lambda _: [
        {"capital_question": prompt("What is the capital of France?")}
    ],
    "test_input_required_result_list_roots": lambda _: [{"client_roots": ROOTS}],
    "test_input_required_result_request_state": lambda _: [{"confirm": CONFIRM}],
    "test_input_required_result_tampered_state": lambda _: [{"confirm": CONFIRM}],
    "test_input_required_result_multiple_inputs": lambda _: [
        {"user_name": NAME, "greeting": prompt("Generate a greeting", 50), "client_roots": ROOTS}
    ],
    "test_input_required_result_multi_round": lambda _: [
        {"step1": form("Step 1: What is your name?", name=string())},
        {"step2": form("Step 2: What is your favorite color?", color=string())},
    ],
    "test_input_required_result_capabilities": lambda _: [
        {"user_name": NAME, "capital_question": prompt("What is the capital of France?")}
    ],
}
"""Tools that ask: the rounds of questions, each by its key."""
STATELESS = ("test_input_required_result_elicitation", "test_input_required_result_sampling", "test_input_required_result_list_roots")  # fmt: skip
"""Those whose answers are enough by themselves."""
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": string(), "city": string()},
        }
    },
    "properties": {
        "name": string(),
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": string("phone", "email"),
        "phone": string(),
        "email": string(),
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
PLAIN = (
    "test_simple_text", "test_image_content", "test_audio_content", "test_embedded_resource",
    "test_multiple_content_types", "test_error_handling", "test_tool_with_progress",
    "test_tool_with_logging", "test_logging_tool", "test_missing_capability",
    "test_trigger_tool_change", "test_trigger_prompt_change",
)  # fmt: skip
HEADED = {"type": "object", "properties": {"part": {"type": "string", "x-mcp-header": "Part"}}}
TOOLS = [
    *({"name": name, "description": name, "inputSchema": OBJECT} for name in (*PLAIN, *ASKING)),
    {"name": "json_schema_2020_12_tool", "description": "Schemas.", "inputSchema": SCHEMA},
    {"name": "test_headers", "description": "Headers.", "inputSchema": HEADED},
]
ARGUMENTS = [{"name": "arg1", "required": True}, {"name": "arg2", "required": True}]
URI = [{"name": "resourceUri", "required": True}]
PROMPTS = [
    {"name": name, "description": name, "arguments": arguments}
    for name, arguments in (
        ("test_simple_prompt", []),
        ("test_prompt_with_arguments", ARGUMENTS),
        ("test_prompt_with_embedded_resource", URI),
        ("test_prompt_with_image", []),
        ("test_input_required_result_prompt", []),
    )
]
RESOURCES = [
    {"uri": "test://static-text", "name": "text", "mimeType": "text/plain"},
    {"uri": "test://static-binary", "name": "binary", "mimeType": "image/png"},
    {"uri": "test://watched-resource", "name": "watched", "mimeType": "text/plain"},
]
CONTEXT = form("What context should the prompt use?", context=string())


class Failed(Exception):
    """A JSON-RPC error: code, message, data."""


class Asked(Exception):
    """The answer is a question."""


class Fixture:
    def __init__(self, era: str) -> None:
        self.era = era
        self.lock = threading.Lock()
        self.listeners: dict[object, Json] = {}
        self.numbers = itertools.count(1)
        self.waiting: dict[str, tuple[threading.Event, list[Json]]] = {}

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                event, answers = self.waiting.pop(message["id"])
                answers.append(message.get("result") or {})
                event.set()
            elif "id" in message:
                threading.Thread(target=self.hear, args=[message], daemon=True).start()

    def send(self, **message: object) -> None:
        with self.lock:
            print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def hear(self, message: Json) -> None:
        request = Request(self, message["id"], message.get("params") or {})
        other = "legacy" if request.modern else "modern"
        try:
            if self.era == other:
                raise Failed(-32601 if request.modern else -32022, "another era", {"supported": [MODERN]})  # fmt: skip
            result = request.answer(message["method"])
        except Asked as asked:
            result = asked.args[0]
        except Failed as failed:
            code, text, data = failed.args
            error = {"code": code, "message": text, **({"data": data} if data else {})}
            self.send(id=message["id"], error=error)
            return
        if result is None:
            return
        if request.modern:
            cached = {"ttlMs": 0, "cacheScope": "private"}
            result = {"resultType": "complete", **cached, **result}
        self.send(id=message["id"], result=result)

    def changed(self, what: str) -> None:
        if self.era != "modern":
            self.send(method=f"notifications/{what}/list_changed")
        for number, wanted in self.listeners.items():
            if wanted.get(f"{what}ListChanged"):
                meta = {f"{PREFIX}subscriptionId": number}
                self.send(method=f"notifications/{what}/list_changed", params={"_meta": meta})


class Request:
    """One request, answered in a thread of its own."""

    def __init__(self, fixture: Fixture, number: object, params: Json) -> None:
        self.fixture = fixture
        self.number = number
        self.params = params
        self.meta = params.get("_meta") or {}
        self.modern = f"{PREFIX}protocolVersion" in self.meta

    def answer(self, method: str) -> Json | None:
        name = str(self.params.get("name"))
        match method:
            case "initialize" | "server/discover":
                return self.hello()
            case "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe":
                return {}
            case "tools/list":
                return {"tools": TOOLS}
            case "tools/call":
                return self.call(name, self.params.get("arguments") or {})
            case "prompts/list":
                return {"prompts": PROMPTS}
            case "prompts/get":
                return {"messages": self.prompt(name, self.params.get("arguments") or {})}
            case "resources/list":
                return {"resources": RESOURCES}
            case "resources/templates/list":
                template = {"uriTemplate": "test://template/{id}/data", "name": "data"}
                return {"resourceTemplates": [template]}
            case "resources/read":
                return {"contents": [self.read(self.params["uri"])]}
            case "completion/complete":
                return {"completion": {"values": ["paris", "park"], "total": 2, "hasMore": False}}
            case "subscriptions/listen":
                wanted = self.params.get("notifications") or {}
                self.fixture.listeners[self.number] = wanted
                self.tell(
                    "subscriptions/acknowledged",
                    notifications=wanted,
                    _meta={f"{PREFIX}subscriptionId": self.number},
                )
                return None
        raise Failed(-32601, f"Method not found: {method}", None)

    def hello(self) -> Json:
        changing = {"listChanged": True}
        capabilities = {
            "tools": changing, "prompts": changing, "completions": {}, "logging": {},
            "resources": {"listChanged": True, "subscribe": True},
        }  # fmt: skip
        info = {"name": "conformance-fixture", "version": "1"}
        if self.modern:
            return {"supportedVersions": [MODERN], "capabilities": capabilities}
        return {"protocolVersion": LEGACY, "capabilities": capabilities, "serverInfo": info}

    def tell(self, notification: str, **params: object) -> None:
        self.fixture.send(method=f"notifications/{notification}", params=params)

    # tools

    def call(self, name: str, args: Json) -> Json:
        if name in ASKING:
            return self.ask(name, ASKING[name](args))
        match name:
            case "test_error_handling":
                return {**text("This tool intentionally returns an error for testing"), "isError": True}  # fmt: skip
            case "test_tool_with_progress":
                self.progress()
            case "test_tool_with_logging" | "test_logging_tool":
                self.log()
            case "test_missing_capability":
                declared = self.meta.get(f"{PREFIX}clientCapabilities") or {}
                if self.modern and "sampling" not in declared:
                    raise Failed(-32021, "needs sampling", {"requiredCapabilities": {"sampling": {}}})  # fmt: skip
            case "test_trigger_tool_change" | "test_trigger_prompt_change":
                self.change("tools" if "tool" in name else "prompts")
            case "test_image_content":
                return {"content": [IMAGE_BLOCK]}
            case "test_audio_content":
                return {"content": [{"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}]}
            case "test_embedded_resource":
                return {"content": [embedded("test://embedded-resource", "text/plain", "embedded")]}
            case "test_multiple_content_types":
                data = embedded("test://mixed-content-resource", "application/json", '{"value": 1}')
                return {"content": [*text("Multiple content types test:")["content"], IMAGE_BLOCK, data]}  # fmt: skip
        return text("This is a simple text response for testing.")

    def change(self, what: str) -> None:
        extra = f"added_{next(self.fixture.numbers)}"
        if what == "tools":
            TOOLS.append({"name": extra, "description": "Added.", "inputSchema": OBJECT})
        else:
            PROMPTS.append({"name": extra, "description": "Added.", "arguments": []})
        self.fixture.changed(what)

    def progress(self) -> None:
        token = self.meta.get("progressToken")
        for step in (0, 50, 100):
            if token is not None:
                self.tell("progress", progressToken=token, progress=step, total=100)
            time.sleep(PAUSE)

    def log(self) -> None:
        for words in ("execution started", "processing data", "execution completed"):
            if not self.modern or f"{PREFIX}logLevel" in self.meta:
                self.tell("message", level="info", logger="fixture", data=f"Tool {words}")
            time.sleep(PAUSE)

    # questions

    def ask(self, name: str, rounds: list[dict[str, Json]]) -> Json:
        if not self.modern and name == "test_streaming_elicitation":
            return text("Only a modern server answers with a question that nobody waits for.")
        if not self.modern:
            answers = [self.push(each) for one in rounds for each in one.values()]
            return text(f"Answered: {json.dumps(answers)}")
        number = self.round(name)
        given = self.params.get("inputResponses") or {}
        asked = {k: v for k, v in rounds[number].items() if self.may(v["method"])}
        if asked.keys() - {k for k, v in given.items() if proper(v)}:
            self.want(asked, None if name in STATELESS else signed(name, number))
        if number + 1 < len(rounds):
            self.want(rounds[number + 1], signed(name, number + 1))
        return text(f"Answered: {json.dumps(given)} state-ok")

    def round(self, name: str) -> int:
        """Which round of questions is being answered. Raises `Failed` for a state that isn't ours."""
        state = self.params.get("requestState")
        if state is None:
            return 0
        number = int(str(state).partition(":")[0] or 0)
        if state != signed(name, number):
            raise Failed(-32602, "requestState fails its integrity check", None)
        return number

    def may(self, method: str) -> bool:
        return NEEDS[method] in (self.meta.get(f"{PREFIX}clientCapabilities") or {})

    def want(self, questions: dict[str, Json], state: str | None) -> None:
        """Answer with questions. Raises `Failed` where none of them may be asked."""
        if not questions:
            raise Failed(-32021, "needs elicitation", {"requiredCapabilities": {"elicitation": {}}})
        kept = {} if state is None else {"requestState": state}
        raise Asked({"resultType": "input_required", "inputRequests": questions, **kept})

    def push(self, question: Json) -> Json:
        number = f"question-{next(self.fixture.numbers)}"
        event, answers = self.fixture.waiting[number] = (threading.Event(), [])
        self.fixture.send(id=number, **question)
        event.wait()
        return answers[0]

    # prompts and resources

    def prompt(self, name: str, args: Json) -> list[Json]:
        match name:
            case "test_simple_prompt":
                return [user(text("This is a simple prompt for testing.")["content"][0])]
            case "test_prompt_with_arguments":
                words = f"Prompt with arguments: arg1='{args['arg1']}', arg2='{args['arg2']}'"
                return [user(text(words)["content"][0])]
            case "test_prompt_with_embedded_resource":
                words = "Embedded resource content for testing."
                return [user(embedded(args["resourceUri"], "text/plain", words))]
            case "test_prompt_with_image":
                return [user(IMAGE_BLOCK)]
            case "test_input_required_result_prompt":
                asked = self.ask(name, [{"user_context": CONTEXT}])
                return [user(asked["content"][0])]
        raise Failed(-32602, f"no prompt {name}", None)

    def read(self, uri: str) -> Json:
        if uri == "test://static-binary":
            return {"uri": uri, "mimeType": "image/png", "blob": IMAGE}
        if uri.startswith("test://template/") and uri.endswith("/data"):
            found = {"id": uri.split("/")[3], "templateTest": True}
            return {"uri": uri, "mimeType": "application/json", "text": json.dumps(found)}
        if uri in [each["uri"] for each in RESOURCES]:
            return {"uri": uri, "mimeType": "text/plain", "text": "This is static text."}
        raise Failed(-32602 if self.modern else -32002, "Resource not found", {"uri": uri})


def proper(answer: object) -> bool:
    """Whether that answers a question: by a person, a model, or a list of roots."""
    return isinstance(answer, dict) and bool(answer.keys() & {"action", "content", "roots"})


def signed(name: str, number: int) -> str:
    digest = hashlib.sha256(f"only for tests:{name}:{number}".encode()).hexdigest()
    return f"{number}:{digest}"


def text(words: str) -> Json:
    return {"content": [{"type": "text", "text": words}]}


def user(content: Json) -> Json:
    return {"role": "user", "content": content}


def embedded(uri: str, kind: str, words: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": words}}


IMAGE_BLOCK = {"type": "image", "data": IMAGE, "mimeType": "image/png"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--era", choices=("both", "legacy", "modern"), default="both")
    Fixture(parser.parse_args().era).serve()


if __name__ == "__main__":
    main()
