"""A chat completion service that plays a script: it calls these functions in turn, then repeats what it was told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic import TypeAdapter

Json = dict[str, Any]


@cache
def official() -> tuple[TypeAdapter[Any], TypeAdapter[Any]]:
    """Lists of tools and of messages as the official client has them, which takes half a second to import."""
    from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam

    return (
        TypeAdapter(list[ChatCompletionFunctionToolParam]),
        TypeAdapter(list[ChatCompletionMessageParam]),
    )


class ChatServer(ThreadingHTTPServer):
    def __init__(self, calls: list[tuple[str, Json]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls = calls
        self.asked: list[Json] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def answer(self, asked: Json) -> Json:
        """Raises `ValidationError` for what isn't of the types that the official client has."""
        tools, messages = official()
        tools.validate_python(asked["tools"])
        messages.validate_python(asked["messages"])
        offered = {tool["function"]["name"] for tool in asked["tools"]}
        made = sum(message["role"] == "assistant" for message in asked["messages"])
        message: Json = {"role": "assistant", "content": asked["messages"][-1]["content"]}
        if made < len(self.calls):
            name, arguments = self.calls[made]
            assert name in offered, offered
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"call_{made}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 0,
            "model": asked["model"], "choices": [choice],
        }  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    server: ChatServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        found = self.path == "/v1/chat/completions"
        body = json.dumps(self.server.answer(asked) if found else {}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def chatting(*calls: tuple[str, Json]) -> Iterator[ChatServer]:
    with ChatServer(list(calls)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
