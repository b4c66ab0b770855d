"""A chat with a model that uses the tools of your MCP servers, through the official `openai` client.

    pip install . openai
    export OPENAI_API_KEY=...        # and OPENAI_BASE_URL for any other service that speaks its protocol
    python toolkit_chat.py "At what time is it 9:00 UTC in Tokyo?" [--config FILE] [--model NAME] [--code]

With `--code` the model is offered the five small tools, to search and to send programs, instead of
every tool of every server. It is the same loop.
"""

from __future__ import annotations

import argparse
import sys

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from mcpproxy import MCPToolkit

MOST_ROUNDS = 20


def chat(question: str, client: OpenAI, model: str, toolkit: MCPToolkit) -> str | None:
    """The model's answer, once it has called what it wanted to call."""
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": question}]
    if instructions := toolkit.system_prompt():
        messages.insert(0, {"role": "system", "content": instructions})
    for _ in range(MOST_ROUNDS):
        reply = client.chat.completions.create(model=model, messages=messages, tools=toolkit.tools)
        message = reply.choices[0].message
        messages.append(message.to_dict())  # type: ignore[arg-type]
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            assert call.type == "function"
            print(f"{call.function.name}({call.function.arguments})", file=sys.stderr)
            content = toolkit.call(call.function.name, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    return f"(no answer after {MOST_ROUNDS} rounds)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("question")
    parser.add_argument(
        "--config", help="the configuration file; ~/.mcpproxy/mcp_config.json unless given"
    )
    parser.add_argument("--model", default="gpt-5-mini")
    parser.add_argument("--code", action="store_true", help="offer five tools, not all")
    chosen = parser.parse_args()
    with MCPToolkit(chosen.config, mode="code" if chosen.code else "tools") as toolkit:
        for server, why in toolkit.errors.items():
            print(f"without {server}: {why}", file=sys.stderr)
        print(chat(chosen.question, OpenAI(), chosen.model, toolkit))


if __name__ == "__main__":
    main()
