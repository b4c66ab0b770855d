"""An MCP server over stdio that behaves as badly as a test asks for. Standard library only.

`stub_server.py` is the command. Its switches are the attributes of `Options`: --slow-init 0.5, --mute.

Calls run at once, each in a thread, and stop when they are cancelled. It ends with its stdin.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

from stub_offers import (
    INFO,
    MALFORMED,
    MORE,
    OBJECT,
    TOOLS,
    Shelf,
    data,
    refusal,
    result,
    stamped,
    text,
)

LEGACY, MODERN = "2025-11-25", "2026-07-28"
ID_KEY = "io.modelcontextprotocol/subscriptionId"
WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
QUESTION = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Which word?", "requestedSchema": WORD},
}
NOISE = b'not a message\n\n[1, 2]\n\xff\xfe\n{"half": \n{"jsonrpc":"2.0","id":987654,"result":{}}\n'


class Options:
    """What the words of the command line say. `argparse` would take a third of our start."""

    era = "both"
    """Or legacy, or modern."""
    silent = False
    """Ignore requests of the other era, don't refuse them."""
    mute = False
    """Never answer anything."""
    slow_init = 0.0
    """Seconds before the first answer."""
    deaf_to_pings = False
    """Don't answer pings, nor the first question a second time."""
    noise = False
    """Write garbage on stdout between messages."""
    flood = 0
    """Write so many bytes to stderr at the start."""
    stubborn = False
    """Ignore the end of stdin, SIGTERM and SIGINT."""
    grandchild = ""
    """Start a stubborn process and write its pid to this file."""
    starts = ""
    """Append our pid to this file."""
    fail = 0
    """With `starts`: exit at once so many times."""
    malformed = False
    """Have odd entries in the list of tools."""
    tools = 0
    """Have so many more tools."""
    page = 0
    """List so many tools at a time."""
    ttl = 0
    """Milliseconds for which the list holds (modern)."""
    instructions = "Stub instructions."
    library = ""
    """Have prompts and resources with this word in them, and a tool that asks."""
    broken_library = False
    """Refuse to list prompts and resources."""
    leave = False
    """End after the first tools/list."""

    def __init__(self, words: list[str]) -> None:
        for word in (rest := iter(words)):
            name = word.removeprefix("--").replace("-", "_")
            kind = type(getattr(self, name))
            setattr(self, name, True if kind is bool else kind(next(rest)))


class Stub:
    def __init__(self, chosen: Options) -> None:
        self.options = chosen
        self.lock = threading.RLock()
        self.tools = [
            {"name": name, "description": text, "inputSchema": schema, **MORE.get(name, {})}
            for name, (text, schema) in TOOLS.items()
        ]
        self.tools += [
            {"name": f"tool_{n}", "description": f"Tool {n}.", "inputSchema": OBJECT}
            for n in range(chosen.tools)
        ]
        if chosen.library:
            for name in ("ask", "grow_library", "touch", "log"):
                self.tools.append({"name": name, "description": name, "inputSchema": OBJECT})
        self.shelf = Shelf(chosen.library or "")
        self.asked: dict[str, tuple[threading.Event, list]] = {}
        self.malformed = MALFORMED if chosen.malformed else []
        self.calls: dict[object, threading.Event] = {}
        self.listeners: list[object] = []
        self.followed: dict[object, list[str]] = {}
        self.level = ""
        self.met = False
        self.handshake = False
        self.reset()

    def reset(self) -> None:
        self.in_flight, self.high_water, self.total = 0, 0, 0
        self.cancelled: list[str] = []

    def send(self, message: dict) -> None:
        with self.lock:
            if self.options.noise:
                sys.stdout.buffer.write(NOISE)
            line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
            sys.stdout.buffer.write(line.encode() + b"\n")
            sys.stdout.buffer.flush()

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if not self.options.mute and "method" in message:
                self.hear(message)
            elif not self.options.mute and message.get("id") in self.asked:
                event, answers = self.asked[message["id"]]
                answers.append(message.get("result") or message.get("error"))
                event.set()

    def hear(self, message: dict) -> None:
        method, params = message["method"], message.get("params") or {}
        if "id" not in message:
            if method == "notifications/cancelled":
                with self.lock:
                    if event := self.calls.get(params.get("requestId")):
                        event.set()
                    self.followed.pop(params.get("requestId"), None)
        elif method == "tools/call":
            threading.Thread(target=self.call, args=(message["id"], params), daemon=True).start()
        elif params.get("name") == "ask" or str(params.get("uri")).endswith("://ask"):
            given = (message["id"], method, params)
            threading.Thread(target=self.consult, args=given, daemon=True).start()
        elif (answer := self.answer(method, params, message["id"])) is not None:
            self.send({"id": message["id"], **answer})
            if method == "tools/list" and self.options.leave:
                os._exit(0)

    def answer(self, method: str, params: dict, number: object) -> dict | None:
        modern = "io.modelcontextprotocol/protocolVersion" in (params.get("_meta") or {})
        if self.options.era == ("legacy" if modern else "modern"):
            if self.options.silent:
                return None
            return refusal(-32601 if modern else -32022, "another era", {"supported": [MODERN]})
        capabilities: dict = {"tools": {"listChanged": True}}
        if self.options.library:
            changing = {"listChanged": True}
            resources = {**changing, "subscribe": True}
            capabilities |= {"prompts": changing, "resources": resources, "completions": {}}
            capabilities["logging"] = {}
        if method in ("initialize", "server/discover") and self.options.slow_init:
            time.sleep(self.options.slow_init)
        match method:
            case "initialize":
                self.handshake = True
                return result(
                    protocolVersion=LEGACY, capabilities=capabilities, serverInfo=INFO,
                    instructions=self.options.instructions,
                )  # fmt: skip
            case "server/discover" if self.options.deaf_to_pings and self.met:
                return None
            case "server/discover":
                self.met = True
                return stamped(
                    supportedVersions=[MODERN], capabilities=capabilities, ttlMs=0,
                    cacheScope="private", instructions=self.options.instructions,
                )  # fmt: skip
            case "ping":
                return None if self.options.deaf_to_pings else result()
            case "tools/list":
                return self.listing(params, modern)
            case "logging/setLevel" if self.options.library:
                self.level = params["level"]
                return result()
            case "resources/subscribe" | "resources/unsubscribe" if self.options.library:
                uris = self.followed.setdefault("", [])
                (uris.append if method.endswith("/subscribe") else uris.remove)(params["uri"])
                return result()
            case "subscriptions/listen":
                wanted = params.get("notifications") or {"toolsListChanged": True}
                if "resourceSubscriptions" in wanted:
                    self.followed[number] = wanted["resourceSubscriptions"]
                else:
                    self.listeners.append(number)
                acknowledged = {"notifications": wanted, "_meta": {ID_KEY: number}}
                self.send(
                    {"method": "notifications/subscriptions/acknowledged", "params": acknowledged}
                )
                return None
        if self.options.library and (found := self.shelf.answer(method, params)) is not None:
            if self.options.broken_library and method.endswith("/list"):
                return refusal(-32603, "the shelf is broken")
            if modern and "result" in found:
                found = stamped(ttlMs=0, cacheScope="public", **found["result"])
            return found
        return refusal(-32601, f"Method not found: {method}")

    def listing(self, params: dict, modern: bool) -> dict:
        entries = [*self.malformed, *self.tools]
        start, page = int(params.get("cursor") or 0), self.options.page or len(entries)
        more = {"nextCursor": str(start + page)} if start + page < len(entries) else {}
        shown = {"tools": entries[start : start + page], **more}
        if modern:
            return stamped(ttlMs=self.options.ttl, cacheScope="private", **shown)
        return result(**shown)

    def changed(self, kind: str = "tools") -> None:
        method = f"notifications/{kind}/list_changed"
        if self.handshake:
            self.send({"method": method})
        for number in self.listeners:
            self.send({"method": method, "params": {"_meta": {ID_KEY: number}}})

    def touch(self, uri: str) -> dict:
        """Say that a resource is another, to who follows it; and who that is."""
        followed = {str(number): uris for number, uris in self.followed.items() if uris}
        for number, uris in list(self.followed.items()):
            if uri in uris:
                meta = {"_meta": {ID_KEY: number}} if number else {}
                self.send({"method": "notifications/resources/updated", "params": {"uri": uri, **meta}})  # fmt: skip
        return data({"followed": followed, "level": self.level})

    # calls

    def consult(self, number: object, method: str, params: dict) -> None:
        """A prompt or a resource that asks for a word and has it in it."""
        answer = self.ask(number, params)
        if "resultType" not in answer["result"]:
            (block,) = answer["result"]["content"]
            if method == "prompts/get":
                answer = result(messages=[{"role": "user", "content": block}])
            else:
                answer = result(contents=[{"uri": params["uri"], "text": block["text"]}])
        self.send({"id": number, **answer})

    def call(self, number: object, params: dict) -> None:
        name, args = params.get("name"), params.get("arguments") or {}
        stopped = threading.Event()
        with self.lock:
            self.calls[number] = stopped
            self.total += 1
            self.in_flight += name != "stats"
            self.high_water = max(self.high_water, self.in_flight)
        try:
            if name == "ask" and self.options.library:
                answer = self.ask(number, params)
            else:
                answer = self.run(name, args, params.get("_meta") or {}, stopped)
        finally:
            with self.lock:
                del self.calls[number]
                self.in_flight -= name != "stats"
        if stopped.is_set():
            with self.lock:
                self.cancelled.append(name)
        elif name == "line":
            raw = args["line"].replace("%ID%", str(number)) + "\n"
            with self.lock:
                sys.stdout.buffer.write(raw.encode("utf-8", "surrogatepass"))
                sys.stdout.buffer.flush()
        else:
            self.send({"id": number, **answer})
        if name in ("grow", "shrink"):
            self.changed()
        if name == "grow_library":
            self.shelf.grow(params.get("arguments") or {})
            self.changed("prompts")
            self.changed("resources")

    def ask(self, number: object, params: dict) -> dict:
        """Ask for a word, in the way of the era, and say it."""
        meta = params.get("_meta") or {}
        if "io.modelcontextprotocol/protocolVersion" in meta:
            capabilities = meta.get("io.modelcontextprotocol/clientCapabilities") or {}
            if "inputResponses" in params:
                answer = {**params["inputResponses"]["w"], "state": params.get("requestState")}
                return data(answer)
            asked = {"resultType": "input_required", "inputRequests": {"w": QUESTION}, "requestState": "s:1", "x-own": sorted(capabilities)}  # fmt: skip
            return {"result": asked}
        key = f"ask-{number}"
        event, answers = self.asked[key] = (threading.Event(), [])
        self.send({"id": key, **QUESTION})
        event.wait()
        return data(answers[0])

    def run(self, name: str, args: dict, meta: dict, stopped: threading.Event) -> dict:
        match name:
            case "touch" if self.options.library:
                return self.touch(args["uri"])
            case "log" if self.options.library:
                self.send({"method": "notifications/message", "params": {"level": args["level"], "data": args["data"], "x-own": 1}})  # fmt: skip
                return data({"level": meta.get("io.modelcontextprotocol/logLevel") or self.level})
            case "echo":
                return data(args)
            case "json_text":
                return text(json.dumps(args))
            case "plain_text":
                return text(args.get("text", "just words"))
            case "fail":
                return text(args.get("message", "it failed"), isError=True)
            case "rpc_error":
                return refusal(args.get("code", -32099), args.get("message", "the stub says no"))
            case "sleep":
                stopped.wait(args.get("ms", 0) / 1000)
                return data({"slept": args.get("ms", 0)})
            case "add":
                return data({"sum": args["a"] + args["b"]})
            case "big":
                return text("x" * args.get("bytes", 0))
            case "crash":
                print("last words", file=sys.stderr, flush=True)
                os._exit(args.get("status", 3))
            case "hang":
                stopped.wait()
                return text("never")
            case "grow":
                more = {"name": args["name"], "description": "New.", "inputSchema": OBJECT}
                more["description"] = args.get("description", "New.")
                known = [tool["name"] for tool in self.tools]
                if args["name"] in known:
                    self.tools[known.index(args["name"])] = more
                else:
                    self.tools.insert(args.get("at", len(self.tools)), more)
                return text("grown")
            case "shrink":
                self.tools = [tool for tool in self.tools if tool["name"] != args["name"]]
                return text("shrunk")
            case "ping":
                return data({"pong": True})
            case "progress":
                return self.progress(args.get("steps", 2), meta.get("progressToken"))
            case "stats":
                return self.stats(args.get("reset", False))
            case "get_user":
                name = args["username"]
                return data({"login": name, "name": name.title(), "id": 1, "public_repos": 8})
            case "environment":
                names = args.get("names") or list(os.environ)
                return data({each: os.environ.get(each) for each in names})
            case "whoami":
                return data({"pid": os.getpid(), "cwd": os.getcwd(), "meta": meta})
            case "odd" | "line":
                return {"result": args.get("result")}
            case "both":
                return text("the text says this", structuredContent={"says": "that"})
            case "blocks":
                image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
                first, last = {"type": "text", "text": "a"}, {"type": "text", "text": "b"}
                return result(content=[first, image, {"type": "unheard-of"}, last])
            case "flaky":
                failed = args.get("i") == args.get("fail_at")
                return text(f"item {args.get('i')}", isError=failed)
            case "noise":
                with self.lock:
                    sys.stdout.buffer.write(NOISE)
                return text("after the noise")
            case "get_pull_request":
                number, repo = args["pullNumber"], f"{args['owner']}/{args['repo']}"
                return data({"number": number, "repo": repo, "title": f"Pull request {number}"})
        if any(isinstance(tool, dict) and tool.get("name") == name for tool in self.tools):
            return data({"tool": name, **args})
        return refusal(-32602, f"Unknown tool: {name}")

    def progress(self, steps: int, token: object) -> dict:
        for step in range(1, steps + 1) if token is not None else ():
            report = {"progressToken": token, "progress": step, "total": steps}
            self.send({"method": "notifications/progress", "params": {**report, "message": f"step {step}"}})  # fmt: skip
        return text("done")

    def stats(self, reset: bool) -> dict:
        with self.lock:
            seen = {
                "in_flight": self.in_flight,
                "high_water": self.high_water,
                "total": self.total,
                "cancelled": list(self.cancelled),
            }
            if reset:
                self.reset()
        return data(seen)


def begin(chosen: Options) -> None:
    if chosen.starts:
        with open(chosen.starts, "a+", encoding="ascii") as file:
            file.seek(0)
            before = len(file.read().split())
            file.write(f"{os.getpid()}\n")
        if before < chosen.fail:
            print("not this time", file=sys.stderr, flush=True)
            os._exit(7)
    if chosen.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if chosen.grandchild:
        import subprocess  # here, because it takes as long as all the others

        ready, say = os.pipe()
        heir = f"import os, signal, time; signal.signal(15, signal.SIG_IGN); os.close({say}); time.sleep(600)"  # fmt: skip
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", heir], pass_fds=[say])
        os.close(say)
        os.read(ready, 1)  # so that it is as stubborn as we promise before anyone looks
        with open(chosen.grandchild, "w", encoding="ascii") as file:
            file.write(str(child.pid))
    line = b"stderr " * 20 + b"\n"
    for _ in range(0, chosen.flood, len(line)):
        sys.stderr.buffer.write(line)
    sys.stderr.flush()


def main() -> None:
    chosen = Options(sys.argv[1:])
    begin(chosen)
    stub = Stub(chosen)
    try:
        stub.serve()
    except BrokenPipeError:
        os._exit(0)
    if chosen.stubborn:
        while True:
            signal.pause()
    os._exit(0)  # threads that hang don't keep us
