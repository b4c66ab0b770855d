"""A stdio MCP server for tests, made of the standard library alone: it does what it is told.

One thread, one select loop, so several sleeping calls are in flight at once. Each event that a test
may want to see is one JSON line in the file $STUB_LOG.

STUB_ERA=modern       speak 2026-07-28 only (else the handshake of 2025-11-25 only)
STUB_SILENT=1         ignore server/discover instead of refusing it
STUB_INIT_DELAY       milliseconds before the first answer, or "never"
STUB_LIST_DELAY       the same for tools/list
STUB_ODD=1            more tools, with odd schemas
STUB_PAGES=n          n tools on each page of the list
STUB_STUBBORN=1       ignore SIGTERM and the end of stdin
STUB_FORK=1           leave a grandchild, in the same process group
STUB_EXIT=text        say so on stderr and end with status 3 before anything else
"""

from __future__ import annotations

import heapq
import json
import os
import select
import signal
import sys
import time

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ENV = os.environ


def schema(required=(), **properties):
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(required),
    }


TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"value": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            "required": ["value"],
        }
    },
}
TOOLS = {
    "echo": {"description": "Give the arguments back.", "inputSchema": {"type": "object"}},
    "json_text": {"description": "Give the arguments back as JSON in one text block.", "inputSchema": {"type": "object"}},
    "plain_text": {"description": "Give a text back.", "inputSchema": schema(text="string")},
    "both": {"description": "Structured content and a text that differs from it.", "inputSchema": {"type": "object"}},
    "blocks": {"description": "Several blocks of several kinds.", "inputSchema": {"type": "object"}},
    "fail": {"description": "Fail with a message.", "inputSchema": schema(message="string")},
    "flaky": {"description": "Fail when i is fail_at.", "inputSchema": schema(i="integer", fail_at="integer")},
    "rpc_error": {"description": "Answer with a JSON-RPC error.", "inputSchema": {"type": "object"}},
    "sleep": {"description": "Answer after some milliseconds.", "inputSchema": schema(ms="number")},
    "add": {
        "description": "Add two numbers.",
        "inputSchema": schema(["a", "b"], a="number", b="number"),
        "outputSchema": schema(["sum"], sum="number"),
        "annotations": {"readOnlyHint": True},
    },
    "big": {"description": "A result of so many bytes.", "inputSchema": schema(bytes="integer")},
    "noise": {"description": "Write lines that are no messages, then answer.", "inputSchema": {"type": "object"}},
    "crash": {"description": "End the process without an answer.", "inputSchema": {"type": "object"}},
    "hang": {"description": "Never answer.", "inputSchema": {"type": "object"}},
    "grow": {"description": "Get another tool.", "inputSchema": schema(name="string")},
    "ping": {"description": "Say pong.", "inputSchema": {"type": "object"}},
    "count": {"description": "How many calls there were.", "inputSchema": {"type": "object"}},
    "stats": {"description": "Calls in flight, now and at most.", "inputSchema": schema(reset="boolean")},
    "get_user": {"description": "A user by name.", "inputSchema": schema(["username"], username="string"), "annotations": {"readOnlyHint": True}},
    "get_pull_request": {
        "description": "One pull request of a repository.",
        "inputSchema": schema(["owner", "repo", "pullNumber"], owner="string", repo="string", pullNumber="integer"),
    },
    "environment": {"description": "Environment variables by name; all names without any.", "inputSchema": {"type": "object"}},
    "progress": {"description": "Report progress so many times.", "inputSchema": schema(steps="integer")},
    "tree": {"description": "Takes a tree.", "inputSchema": TREE},
    "wire": {"description": "Answer with exactly this result.", "inputSchema": schema(["result"], result="object")},
    "raw": {"description": "Write exactly this line; %ID% is the request's id.", "inputSchema": schema(["line"], line="string")},
} | {
    name: {"description": f"A tool called {name}.", "inputSchema": {"type": "object"}}
    for name in ["delete", "constructor", "list.items", "a-b", "a_b", "then", "__proto__"]
}  # fmt: skip
ODD = {
    "odd_empty": {"inputSchema": {}},
    "odd_true": {"inputSchema": True},
    "odd_none": {},
    "odd_dangling": {"inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/$defs/nowhere"}}}},
    "odd_pointer": {"inputSchema": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"$ref": "#/properties/x"}}}},
    "odd_false": {"inputSchema": {"type": "object", "properties": {"never": False}}},
}  # fmt: skip


def note(event, **more):
    if path := ENV.get("STUB_LOG"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n")


def text(value):
    return {"type": "text", "text": value}


class Failure(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Stub:
    def __init__(self):
        self.modern = ENV.get("STUB_ERA") == "modern"
        self.tools = {**TOOLS, **(ODD if ENV.get("STUB_ODD") else {})}
        self.timers = []
        self.running = {}
        self.listeners = []
        self.calls = self.high_water = self.order = 0

    # the wire

    def write(self, data):
        while data:
            try:
                data = data[os.write(1, data) :]
            except BrokenPipeError:
                os._exit(0)

    def send(self, **message):
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def reply(self, number, result):
        if self.modern:
            result = {"resultType": "complete", **result}
            result["_meta"] = {**result.get("_meta", {}), "io.modelcontextprotocol/serverInfo": {"name": "stub", "version": "1"}}
        self.send(id=number, result=result)

    def after(self, seconds, act):
        self.order += 1
        heapq.heappush(self.timers, (time.monotonic() + seconds, self.order, act))

    def later(self, variable, act):
        delay = ENV.get(variable)
        if delay != "never":
            self.after(float(delay) / 1000, act) if delay else act()

    # requests

    def handle(self, message):
        method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
        if number is None:
            if method == "notifications/cancelled":
                self.cancel(params.get("requestId"))
            return
        try:
            self.answer(method, number, params)
        except Failure as failure:
            self.send(id=number, error=failure.error)

    def answer(self, method, number, params):
        if self.modern and method != "server/discover" and params.get("_meta", {}).get("io.modelcontextprotocol/protocolVersion") != MODERN:
            raise Failure(-32022, "unsupported protocol version", {"supported": [MODERN], "requested": LEGACY})
        match method:
            case "server/discover" if self.modern:
                self.later("STUB_INIT_DELAY", lambda: self.reply(number, self.hello() | {"supportedVersions": [MODERN], "ttlMs": 0, "cacheScope": "private"}))
            case "server/discover" if ENV.get("STUB_SILENT"):
                note("ignored", method=method)
            case "initialize":
                self.later("STUB_INIT_DELAY", lambda: self.reply(number, self.hello() | {"protocolVersion": LEGACY}))
            case "ping":
                self.reply(number, {})
            case "tools/list":
                self.later("STUB_LIST_DELAY", lambda: self.reply(number, self.page(params.get("cursor"))))
            case "subscriptions/listen":
                self.listeners.append(number)
                self.notify("notifications/subscriptions/acknowledged", {"notifications": {"toolsListChanged": True}}, number)
            case "tools/call":
                self.start(number, params)
            case _:
                raise Failure(-32601, f"Method not found: {method}")

    def hello(self):
        return {
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "stub", "version": "1"},
            "instructions": "A stub. Do not rely on it.",
        }

    def page(self, cursor):
        entries = [{"name": name, **definition} for name, definition in self.tools.items()]
        if ENV.get("STUB_ODD"):
            entries += [{"description": "no name"}, "not even an object"]
        size, start = int(ENV.get("STUB_PAGES", len(entries))), int(cursor or 0)
        page = {"tools": entries[start : start + size]}
        if start + size < len(entries):
            page["nextCursor"] = str(start + size)
        return page | ({"ttlMs": 0, "cacheScope": "private"} if self.modern else {})

    def notify(self, method, params, listener):
        self.send(method=method, params={**params, "_meta": {"io.modelcontextprotocol/subscriptionId": listener}})

    # calls

    def start(self, number, params):
        name, args = params.get("name"), params.get("arguments") or {}
        if name not in self.tools:
            raise Failure(-32602, f"Unknown tool: {name}")
        self.calls += 1
        self.running[number] = name
        self.high_water = max(self.high_water, len(self.running))
        note("call", tool=name, arguments=args if len(str(args)) < 10000 else "long", meta=params.get("_meta"))
        try:
            result = self.run(name, args, number, params)
        except Failure:
            del self.running[number]
            raise
        if result is not None:
            self.done(number, result)

    def done(self, number, result):
        if self.running.pop(number, None) is not None:
            note("done", id=number)
            self.reply(number, result)

    def cancel(self, number):
        note("cancelled", tool=self.running.pop(number, None))

    def run(self, name, args, number, params):
        match name:
            case "json_text":
                return {"content": [text(json.dumps(args))]}
            case "plain_text":
                return {"content": [text(args.get("text", "just words"))]}
            case "both":
                return {"content": [text("the text says this")], "structuredContent": {"says": "that"}}
            case "blocks":
                return {"content": [text("a"), {"type": "image", "data": "aGk=", "mimeType": "image/png"}, {"type": "odd", "x": 1}, text("b")]}
            case "fail":
                return {"content": [text(args.get("message", "it failed"))], "isError": True}
            case "flaky":
                bad = args.get("i") == args.get("fail_at")
                return {"content": [text(f"item {args.get('i')} {'failed' if bad else 'went well'}")], "isError": bad}
            case "rpc_error":
                raise Failure(4321, "the upstream says no")
            case "sleep":
                self.after(args.get("ms", 0) / 1000, lambda: self.done(number, {"content": [text("slept")]}))
            case "add":
                total = args["a"] + args["b"]
                return {"content": [text(str(total))], "structuredContent": {"sum": total}}
            case "big":
                return {"content": [text("x" * args["bytes"])]}
            case "noise":
                self.write(b"this is no JSON\n[1, 2]\n{\"jsonrpc\": \"2.0\", \"id\": 999999, \"result\": {}}\n\n\xff\xfe\n")
                return {"content": [text("after the noise")]}
            case "crash":
                print("out of cheese", file=sys.stderr, flush=True)
                os._exit(3)
            case "hang":
                pass
            case "grow":
                new = args.get("name", "grown")
                self.tools = {new: {"description": "Came later.", "inputSchema": {"type": "object"}}, **self.tools}
                for listener in self.listeners:
                    self.notify("notifications/tools/list_changed", {}, listener)
                if not self.modern:
                    self.send(method="notifications/tools/list_changed")
                return {"content": [text(f"grew {new}")]}
            case "ping":
                return {"content": [text("pong")]}
            case "count":
                return {"content": [], "structuredContent": {"count": self.calls}}
            case "stats":
                seen = {"in_flight": len(self.running), "high_water": self.high_water}
                self.high_water = 0 if args.get("reset") else self.high_water
                return {"content": [], "structuredContent": seen}
            case "get_user":
                return {"content": [], "structuredContent": {"username": args.get("username"), "id": 42}}
            case "get_pull_request":
                return {"content": [], "structuredContent": {"number": args.get("pullNumber"), "repo": f"{args.get('owner')}/{args.get('repo')}", "state": "open"}}
            case "environment":
                names = args.get("names", sorted(ENV))
                return {"content": [], "structuredContent": {name: ENV.get(name) for name in names}}
            case "progress":
                token = params.get("_meta", {}).get("progressToken")
                for step in range(args.get("steps", 3)):
                    self.send(method="notifications/progress", params={"progressToken": token, "progress": step + 1, "total": args.get("steps", 3), "message": f"step {step + 1}"})
                return {"content": [text("all steps done")]}
            case "wire":
                return dict(args["result"])
            case "raw":
                self.write(args["line"].replace("%ID%", str(number)).encode("utf-8", "surrogatepass") + b"\n")
                self.running.pop(number)
            case _:
                return {"content": [text(json.dumps(args))], "structuredContent": {"tool": name, "arguments": args}}

    # the loop

    def serve(self):
        buffer, parts = b"", []
        while True:
            wait = max(0.0, self.timers[0][0] - time.monotonic()) if self.timers else None
            if select.select([0], [], [], wait)[0]:
                data = os.read(0, 1 << 20)
                if not data:
                    return
                parts.append(data)
                if b"\n" in data:
                    *lines, buffer = b"".join(parts).split(b"\n")
                    parts = [buffer]
                    for line in lines:
                        if line.strip():
                            self.handle(json.loads(line))
            while self.timers and self.timers[0][0] <= time.monotonic():
                heapq.heappop(self.timers)[2]()


def main():
    note("start", argv=sys.argv[1:])
    if said := ENV.get("STUB_EXIT"):
        print(said, file=sys.stderr, flush=True)
        sys.exit(3)
    if ENV.get("STUB_FORK"):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                signal.pause()
        note("forked", child=child)
    stubborn = bool(ENV.get("STUB_STUBBORN"))
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Stub().serve()
    note("eof")
    while stubborn:
        signal.pause()


if __name__ == "__main__":
    main()
