"""What the MCP faces show a model: our tools and our prompt, as constants.

Every byte here is read by a model before it has done anything, on every surface alike, and
cached by its client: keep it short, complete and unchanging. What the tools do is elsewhere.
"""

from __future__ import annotations

from typing import Any

DESCRIPTION = """\
Run one JavaScript or TypeScript program that calls the tools of all connected MCP servers. Loop, filter, join and call in parallel in code; return only what you need: other data stays out of the conversation.

Find tools first: search_tools, then get_functions for types and a line to copy (in code: (await search_tools("query")).tools, await describe_tool("server:tool")).

Call tools:
- const issue = await tools.github.get_issue({issue_number: 1}): gives the tool's data (parsed JSON, else text), throws ToolError {code, message}. Promise.all runs calls in parallel. Odd names in brackets: tools["my-server"]["list.items"]({}).
- call_tool("github", "get_issue", {issue_number: 1}): synchronous, never throws; {ok: true, result} or {ok: false, error: {code, message}}.
- call_tools([{server: "github", tool: "get_issue", args: {issue_number: 1}}], {max_parallel: 8}): up to 100 at once, one such envelope each, in order.

Give the result, as JSON data: top-level `return value`, or the last expression. Top-level await works. `input` is the input argument. console.log comes back as logs; await sleep(ms) waits.

Not there: import, require, fetch, files, network, setTimeout. Intl and toLocaleString: en-US in UTC only. Nothing survives a run.

Limits: options.timeout_ms (usual default 2 minutes), max_tool_calls, allowed_servers. trace: true lists the calls made.

Instead of code, script: "name" runs a script stored by the operator; an unknown name is answered with those there are.

Reply: {"ok": true, "value"} or {"ok": false, "error": {code, message, stack}, "calls"}. After a failure read calls: never blindly repeat a write that is ok or unknown there."""

CODE_EXECUTION: dict[str, Any] = {
    "name": "code_execution",
    "title": "Run code against the tools",
    "description": DESCRIPTION,
    "inputSchema": {
        "type": "object",
        "properties": {
            "code": {
                "type": "string",
                "description": "JavaScript or TypeScript source to run. Exactly one of `code` and `script`.",
            },
            "script": {
                "type": "string",
                "description": "Name of a stored script to run instead: 1-64 of A-Z a-z 0-9 _ -, never a path.",
            },
            "language": {
                "type": "string",
                "description": "Language of `code`. A stored script's extension decides for itself.",
                "enum": ["javascript", "typescript"],
                "default": "javascript",
            },
            "input": {
                "type": "object",
                "description": "Data that the program sees as the global `input`",
                "default": {},
            },
            "description": {
                "type": "string",
                "description": "What the program does, in a sentence. With it, a program that succeeds is kept: "
                "the reply's cache_id runs it again.",
            },
            "options": {
                "type": "object",
                "description": "Limits of this run",
                "properties": {
                    "timeout_ms": {
                        "type": "number",
                        "description": "Milliseconds the run may take, tool calls included (1-600000)",
                        "minimum": 1,
                        "maximum": 600000,
                    },
                    "max_tool_calls": {
                        "type": "number",
                        "description": "Tool calls the run may make (0 = unlimited)",
                        "minimum": 0,
                    },
                    "allowed_servers": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Servers the run may call (empty = all)",
                    },
                    "trace": {
                        "type": "boolean",
                        "description": "Return the list of calls on success too",
                        "default": False,
                    },
                },
            },
        },
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
}

LOOKING = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}

SEARCH_TOOLS: dict[str, Any] = {
    "name": "search_tools",
    "title": "Find tools",
    "description": "Find tools of the connected servers by what they do, by name or by parameter. "
    "Returns the best server:tool names, each with one line and its TypeScript signature, and how "
    "many more there are; and kept code that fits. Next: get_functions for details, code_execution to call them.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "A few words as a tool would be named, verb and object: 'create github issue'",
            },
            "limit": {
                "type": "integer",
                "description": "How many at most",
                "minimum": 1,
                "maximum": 50,
                "default": 8,
            },
            "server": {"type": "string", "description": "Search this server only"},
        },
        "required": ["query"],
    },
    "annotations": LOOKING,
}

GET_FUNCTIONS: dict[str, Any] = {
    "name": "get_functions",
    "title": "Read tools' types",
    "description": "The exact types of 1-20 tools before you write code: for each its TypeScript "
    "declaration, a line that calls it, parameters, return type and annotations. Beside others a long one "
    "is told in short and marked `shortened`: ask for it alone to have all of it.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "functions": {
                "type": "array",
                "minItems": 1,
                "maxItems": 20,
                "items": {
                    "anyOf": [
                        {"type": "string", "description": "server:tool"},
                        {
                            "type": "object",
                            "properties": {
                                "server_name": {"type": "string"},
                                "function_name": {"type": "string"},
                            },
                            "required": ["server_name", "function_name"],
                        },
                    ]
                },
            }
        },
        "required": ["functions"],
    },
    "annotations": LOOKING,
}

LIST_SERVERS: dict[str, Any] = {
    "name": "list_servers",
    "title": "List servers",
    "description": "The connected servers: what each is for, its state, how many tools it has and "
    "their names as far as they fit. To find a tool for a task, search_tools is quicker.",
    "inputSchema": {"type": "object", "properties": {}},
    "annotations": LOOKING,
}

RUN_CACHED_CODE: dict[str, Any] = {
    "name": "run_cached_code",
    "title": "Run kept code again",
    "description": "Run code that was kept from an earlier successful run, with other input values.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "cache_id": {
                "type": "string",
                "description": "From an earlier reply, or from kept_code of search_tools",
            },
            "params": {
                "type": "object",
                "description": "Values that replace those of the original `input`",
                "default": {},
            },
            "options": {"type": "object", "description": "Limits, as code_execution takes them"},
        },
        "required": ["cache_id"],
    },
    "annotations": CODE_EXECUTION["annotations"],
}

CALL_TOOL: dict[str, Any] = {
    "name": "call_tool",
    "title": "Call one tool",
    "description": "Call one tool of a connected server and return its result: give name and args. "
    "Find its name with search_tools and its arguments with get_functions. A long result is cut; "
    "give the cursor at its end, alone, to read on.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "server:tool"},
            "args": {"type": "object", "description": "The tool's arguments", "default": {}},
            "cursor": {"type": "string", "description": "Instead of a call: where to read on"},
        },
    },
    "annotations": CODE_EXECUTION["annotations"],
}

READ_RESULT: dict[str, Any] = {
    "name": "read_result",
    "title": "Read on",
    "description": "The next part of a result that was cut because it is long.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "cursor": {"type": "string", "description": "The cursor at the end of the part before"}
        },
        "required": ["cursor"],
    },
    "annotations": LOOKING,
}

FIVE = (CODE_EXECUTION, SEARCH_TOOLS, GET_FUNCTIONS, LIST_SERVERS, RUN_CACHED_CODE)
"""What `/mcp` and the pipe list, in this order."""

THREE = (SEARCH_TOOLS, GET_FUNCTIONS, CALL_TOOL)
"""What `/mcp/call` lists, in this order."""

OWN = {tool["name"]: tool for tool in (*FIVE, CALL_TOOL, READ_RESULT)}

OTHER_NAMES = {
    "execute_code": "code_execution",
    "exec_code": "code_execution",
    "code_exec": "code_execution",
    "run_code": "code_execution",
    "run_javascript": "code_execution",
    "run_typescript": "code_execution",
    "retrieve_tools": "search_tools",
    "search": "search_tools",
    "search_tool": "search_tools",
    "find_tool": "search_tools",
    "find_tools": "search_tools",
    "tool_search": "search_tools",
    "describe_tool": "get_functions",
    "describe_tools": "get_functions",
    "get_function": "get_functions",
    "get_tool": "get_functions",
    "get_tools": "get_functions",
    "get_tool_details": "get_functions",
    "list_tool": "list_servers",
    "list_tools": "list_servers",
    "servers": "list_servers",
    "run_cached": "run_cached_code",
    "call_tool_read": "call_tool",
    "call_tool_write": "call_tool",
    "call_tool_destructive": "call_tool",
    "execute_tool": "call_tool",
    "invoke_tool": "call_tool",
    "run_tool": "call_tool",
    "read_cache": "read_result",
    "read_more": "read_result",
}
"""What models call our tools after they met another system's."""

GUIDE_NAME = "reusable_code_guide"
GUIDE_SUMMARY = "How to write a program that can be run again with other values"
GUIDE = """\
Write programs that can be run again with other values:
1. Look first: search_tools for the names, get_functions for the exact parameters and return types. Don't guess.
2. Put every value that may change (names, ids, dates, limits) into the `input` argument and read it as input.name; keep none in the code.
3. Don't let the program ask for what it was given: no current dates or user names in it when they can be in `input`.
4. Run independent calls together: await Promise.all(...) over tools.server.tool(args), or call_tools([...]).
5. Check each result (try/catch around tools.*, or .ok on call_tool), and return one small JSON value: counts, ids, the rows that matter.

Example, code_execution with input {"owner": "acme", "repos": ["api", "web"]}:

const pages = await Promise.all(input.repos.map(repo =>
  tools.github.list_issues({owner: input.owner, repo, state: "open"})));
return input.repos.map((repo, i) => ({repo, open: pages[i].length}));

The same code then serves any owner and any repositories."""

INSTRUCTIONS = (
    "Many MCP servers behind a few tools. Find tools with search_tools, read their types with "
    "get_functions, then do the whole task in one program with code_execution."
)
INSTRUCTIONS_CALL = (
    "Many MCP servers behind three tools. Find a tool with search_tools, read its types with "
    "get_functions, call it with call_tool."
)
INSTRUCTIONS_ALL = "The tools of many MCP servers, each as server__tool."
