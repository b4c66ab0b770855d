"""Every promise of `code_execution`, one row each, in our own words; the tests cite the ids.

`reference` is the API reference that this project answers to, `contract` the page that settles what
the reference leaves open (its sections are numbered). `tests/test_requirements.py` fails when a row
has no test, and when a test cites a row that isn't here.

A number is never given to another promise. One that goes is deleted, with the tests that cite it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

ALL = "rest mcp stdio cli"
SCRIPT = "rest mcp stdio cli script"
"""What a script sees; the same whichever surface it came in by."""


@dataclass(frozen=True)
class Requirement:
    id: str
    source: str
    text: str
    surfaces: frozenset[str]


TABLE = [
    ("TOOL", "reference, tool schema", "mcp stdio", """
01 The tool is called code_execution.
02 Its schema has code, script, language, input and options, none of them required.
03 language is an enum of javascript and typescript, javascript by default.
04 input is an object, {} by default.
05 options.timeout_ms is a number from 1 to 600000.
06 options.max_tool_calls is a number of at least 0.
07 options.allowed_servers is an array of strings.
08 options.trace is a boolean (contract 5).
"""),
    ("ASK", "reference, request format and validation", ALL, """
01 code alone is run.
02 script alone is run.
03 Both code and script are refused before anything is dispatched.
04 Neither code nor script is refused before anything is dispatched.
05 code must be a string; another type is refused by the field's name.
06 script must be a string; another type is refused by the field's name.
07 language may be javascript or typescript; without it, inline code is JavaScript. What is TypeScript alone is run as that.
08 Another language, or one of another type, is INVALID_LANGUAGE.
09 input is what the script sees as the global `input`.
10 Without input, `input` is {}.
11 input must be an object; another type is refused by the field's name.
12 options must be an object.
13 A member that the request doesn't have is INVALID_REQUEST and named (contract 8).
14 A member that options doesn't have is INVALID_OPTIONS and named (contract 8).
15 A source of more than 1 MiB is refused with its size.
16 A source of 256 KB runs.
17 input nested more than 100 levels deep is refused; 100 levels are taken.
18 An empty code is no code.
"""),
    ("OPT", "reference, options", ALL, """
01 timeout_ms takes 1 to 600000.
02 timeout_ms outside of that is INVALID_OPTIONS and says the range.
03 timeout_ms of another type or a fraction is INVALID_OPTIONS, never rounded.
04 max_tool_calls of 0 is any number.
05 A negative max_tool_calls is INVALID_OPTIONS.
06 max_tool_calls of another type or a fraction is INVALID_OPTIONS.
07 allowed_servers limits the calls to the servers that it names.
08 An empty allowed_servers allows all.
09 allowed_servers of another type is INVALID_OPTIONS and never widens access (contract 4).
10 An element of allowed_servers that isn't a string is INVALID_OPTIONS.
11 trace must be a boolean.
12 Request options beat the configuration, which beats the built-in defaults.
13 timeout_ms is 120000 when nobody says otherwise.
14 max_tool_calls is unlimited when nobody says otherwise.
15 max_parallel is no request option.
16 null is the same as leaving an option out; allowed_servers is never null.
17 A timeout_ms above the operator's ceiling is clamped, and a warning says so (contract 4).
18 A max_tool_calls above the ceiling, or unlimited, is clamped, and a warning says so (contract 4).
"""),
    ("REPLY", "reference, response format; contract 5", ALL, """
01 A success is {"ok": true, "value": ...}.
02 A failure is {"ok": false, "error": {code, message, stack}}.
03 The same request gives the same envelope on every surface.
04 REST adds request_id, and nothing else.
05 Over MCP the reply is one text block that holds the envelope.
06 Over MCP isError is true exactly when ok is false.
07 Over MCP there is no structuredContent.
08 value may be null, and is there when it is.
09 logs, warnings and calls are there only when there is something in them.
10 error.stack is a string in every failure of a script; it is filled for runtime errors.
"""),
    ("LOG", "contract 3 and 8, console", SCRIPT, """
01 console.log, info, warn, error and debug are kept in their order.
02 Each entry is {"level", "message"}.
03 At most 64 KiB are kept, and logs_dropped counts the rest.
04 Without a line there is no `logs`.
05 Lines are written to the server's log as well.
06 Logs come with a timeout, too.
07 Values other than strings are shown readably, and format specifiers work.
"""),
    ("IN", "reference, input; contract 3", SCRIPT, """
01 Members of input are read directly.
02 input is the script's own copy and may be changed.
03 Property order, Unicode, NUL and empty names arrive as sent.
04 A lone surrogate in input arrives as it is.
05 Integers beyond 2^53 are rounded as JavaScript's numbers are.
06 A name that comes twice in the JSON counts with its last value.
07 __proto__ in input is a property like any other.
"""),
    ("CALL", "reference, call_tool; contract 3", SCRIPT, """
01 call_tool(server, tool, args) is synchronous.
02 A success is {ok: true, result}.
03 A failure is {ok: false, error: {message, code}}; nothing is thrown.
04 result is the wire result: content, and structuredContent where the tool gave one.
05 Members of the tool's structured content are read directly from result.
06 Members of a JSON object in the only text block are read directly from result.
07 The wire's own members win over data of the same name.
08 Object.keys and JSON.stringify of result show the wire shape alone.
09 A tool that reports isError gives TOOL_ERROR, with its text as the message.
10 TOOL_ERROR carries the wire result under error.result.
11 A call with fewer than three arguments is INVALID_ARGS.
12 server and tool must be non-empty strings, else INVALID_ARGS names which.
13 args that is undefined, null, an array, a Map or no object is INVALID_ARGS.
14 args that can't be written as JSON is INVALID_ARGS with the path.
15 Strings in arguments reach the tool byte for byte: escapes, templates, $&.
16 await on its result is harmless.
17 Every error envelope has a boolean `retryable`.
18 A getter in the arguments is read once.
19 A Date in the arguments is sent as its ISO text; an undefined member is left out.
"""),
    ("BATCH", "reference, call_tools", SCRIPT, """
01 call_tools gives one envelope for each request, in input order.
02 100 elements are taken; 101 are INVALID_ARGS for the whole call.
03 args of an element may be missing or undefined and is {} then.
04 args of an element that is null or no object is INVALID_ARGS for the whole call.
05 server and tool of an element must be non-empty strings.
06 An element that is no object is INVALID_ARGS for the whole call.
07 A sparse hole is INVALID_ARGS for the whole call.
08 requests that is no array is INVALID_ARGS.
09 options that is no object is INVALID_ARGS.
10 max_parallel takes an integer from 1 to 32.
11 max_parallel as a fraction, a text, undefined, 0 or 33 is INVALID_ARGS.
12 Unknown keys of options are ignored.
13 The message names the first bad element by its index.
14 A malformed call gives one envelope, not an array.
15 A malformed call dispatches nothing and costs no budget.
16 [] gives [] and costs nothing.
17 Each element costs one call, charged in input order before anything is dispatched.
18 One failing element leaves its siblings as they are.
19 Elements meet the same gates, codes and messages as a lone call.
20 No more than max_parallel run at once.
21 Without max_parallel, code_execution_max_parallel holds.
22 Without either, 8 run at once.
23 The deadline holds for a batch, and cancels what is in flight.
24 It is synchronous.
25 A server's own concurrency limit holds within a batch.
"""),
    ("TYPED", "contract 3, typed calls", SCRIPT, """
01 tools.<server>.<tool>(args) resolves to the structured content.
02 Without structured content it resolves to the parsed JSON text, else to the text, else to the blocks.
03 It rejects with a ToolError that has code, server, tool, message, result and retryable.
04 Promise.all over typed calls runs in parallel, up to code_execution_max_parallel.
05 Original names work in brackets.
06 The identifier form replaces what JavaScript can't spell.
07 Where two names would collide, both keep their bracket form alone.
08 Names such as constructor, then, __proto__ and delete are just names.
09 Gates are those of call_tool.
10 Calls that a script leaves behind are cancelled and a warning counts them.
11 A forgotten await is named in the error.
"""),
    ("FIND", "contract 3, discovery in scripts", SCRIPT, """
01 search_tools(query, {limit, server}) answers as the MCP tool does.
02 describe_tool("server:tool") answers as the MCP tool does.
03 An unknown name is an error with close names.
04 They cost no call budget (contract 8).
"""),
    ("WAY", "contract 1, what a script is", SCRIPT, """
01 The completion value is the result, as eval gives it.
02 A top-level return gives the result, anywhere.
03 A return that isn't reached leaves the completion value (contract 8).
04 Top-level await works, with either.
05 A promise as the result is awaited.
06 A rejection is a RUNTIME_ERROR.
07 A promise that can never settle is a RUNTIME_ERROR that says so, not a timeout.
08 A source that is one function of any kind is called with input.
09 A Markdown fence around the source is removed.
10 Escapes, templates, indentation and $& in the source stay as they are.
11 ES2023 and what is newer in the engine work.
12 NUL in the source is a character like any other.
"""),
    ("TS", "contract 1, TypeScript", SCRIPT, """
01 Annotations, generics and interfaces are taken.
02 as, satisfies and the non-null ! are taken.
03 Enums, const enums and namespaces work.
04 Parameter properties and abstract classes work.
05 import type is taken.
06 A syntax error in TypeScript is SYNTAX_ERROR (contract 8).
07 return, await and lone functions work in TypeScript, too.
"""),
    ("POS", "contract 1 and 8, error positions", SCRIPT, """
01 The stack of a runtime error has the line and column of the source as sent.
02 So it does in TypeScript.
03 The stack of a syntax error gives the position, and isn't empty.
04 The message of a runtime error begins with the error's name, in TypeScript, too.
05 A thrown value that is no Error is told faithfully, whatever its toString does.
"""),
    ("VAL", "reference, return values; contract 2", SCRIPT, """
01 null, true, false, numbers and strings are returned as they are.
02 Arrays and objects are returned as they are, nested up to 100 deep.
03 Property order is kept.
04 An undefined property is left out.
05 toJSON of the script's own classes is honoured.
06 null and a missing value are not confused.
07 The message of SERIALIZATION_ERROR begins with the reference's sentence (contract 8).
08 It goes on with the path and the remedy.
09 A function or symbol is SERIALIZATION_ERROR.
10 A BigInt is SERIALIZATION_ERROR.
11 A circular reference is SERIALIZATION_ERROR.
12 A Date is SERIALIZATION_ERROR and told .toISOString().
13 RegExp, Map, Set, Error, Promise and typed arrays are SERIALIZATION_ERROR.
14 NaN and the infinities are SERIALIZATION_ERROR.
15 A hole in an array, or undefined in one, is SERIALIZATION_ERROR.
16 An undefined result is SERIALIZATION_ERROR and says which statement to add.
17 A getter or toJSON that throws while the result is read is SERIALIZATION_ERROR (contract 8).
18 Nesting beyond 100 is SERIALIZATION_ERROR.
19 A result above code_execution_max_result_bytes is RESULT_TOO_LARGE.
20 It gives the exact size, in bytes, and a preview of 2 KB.
21 A lone surrogate in a result becomes U+FFFD.
"""),
    ("HAS", "reference, available features; contract 3", SCRIPT, """
01 Object, Array, String, Math, Date and JSON are there.
02 parseInt, parseFloat, toFixed, Boolean and Array.isArray convert as usual.
03 structuredClone is there.
04 TextEncoder and TextDecoder are there.
05 URL and URLSearchParams are there.
06 atob and btoa are there.
07 crypto.randomUUID is there.
08 queueMicrotask is there.
09 await sleep(ms) waits, within the deadline.
10 require, import and export are not there, and the error says what to use.
11 setTimeout, setInterval and setImmediate are not there, and the error says await sleep.
12 fetch and other network access are not there, and the error says to call a tool.
13 process and environment variables are not there, and the error says input.
14 Buffer, fs and other APIs of Node are not there.
15 Overwriting call_tool or a builtin affects that script alone.
16 Nothing survives from one execution to the next.
"""),
    ("CODE", "reference, error codes", SCRIPT, """
01 Source that doesn't parse is SYNTAX_ERROR.
02 An uncaught exception is RUNTIME_ERROR.
03 A deadline that passes is TIMEOUT.
04 More calls than max_tool_calls is MAX_TOOL_CALLS_EXCEEDED, with the limit.
05 A server outside of allowed_servers is SERVER_NOT_ALLOWED, with its name.
06 A result that is no JSON is SERIALIZATION_ERROR.
07 Arguments that a host function can't interpret are INVALID_ARGS.
08 A server that isn't there is SERVER_NOT_FOUND, with close names (contract 4).
09 A tool that isn't there is TOOL_NOT_FOUND, with close names (contract 4).
10 A transport or protocol error is UPSTREAM_ERROR (contract 4).
11 A call that takes longer than call_tool_timeout is UPSTREAM_TIMEOUT (contract 4, 8).
12 A server that can't be reached is SERVER_UNAVAILABLE (contract 4).
13 A quarantined server is QUARANTINED (contract 4).
14 Arguments against the tool's schema are INVALID_TOOL_ARGS, by path and what is wanted (contract 4).
15 queue_full and queue_timeout are retryable and carry retry_after_ms (contract 4).
16 A result above its limit is RESULT_TOO_LARGE (contract 2).
17 A script that uses too much memory is MEMORY_LIMIT (contract 4).
18 A VM that dies for another reason is WORKER_CRASHED for that execution alone (contract 4).
19 No free VM in time is POOL_BUSY, not charged to the script (contract 4).
20 An execution that is stopped is CANCELLED (contract 4).
21 A thrown object that looks like a code is RUNTIME_ERROR: codes are the host's (contract 4).
22 Stack overflow is a catchable RangeError (contract 4).
"""),
    ("EX", "reference, examples", ALL, """
01 The basic request gives {"result": 42}.
02 The TypeScript request gives its result and message.
03 The full request gives the user, or its error, under its options.
04 The input example reads both members.
05 The call_tool example gives name and repos.
06 The call_tool error example returns the error.
07 The call_tools example gives the titles.
08 The type conversions give what is printed beside them.
09 The SYNTAX_ERROR example is SYNTAX_ERROR.
10 The RUNTIME_ERROR example is RUNTIME_ERROR with a position.
11 The TIMEOUT example is TIMEOUT after its time.
12 The MAX_TOOL_CALLS_EXCEEDED example fails as a whole with that code and sentence.
13 The SERVER_NOT_ALLOWED example fails as a whole with that code and sentence.
14 The SERIALIZATION_ERROR example is that with its sentence.
15 The CLI pattern "simple calculation" gives the sum.
16 The CLI pattern "tool call" gives the envelope.
17 The CLI pattern "error handling" gives RUNTIME_ERROR and exit code 1.
18 The CLI pattern "timeout" gives TIMEOUT and exit code 1.
19 The CLI pattern "file" gives the names.
20 The completion value of a lone call is its envelope.
"""),
    ("GATE", "contract 4, gates", SCRIPT, """
01 Budget comes before allowed servers.
02 Allowed servers come before whether there is such a server.
03 Whether the tool is there comes before its arguments.
04 A refused call is never sent.
05 A script that looks at res.ok carries on after a refusal.
06 The host's own final refusal as the completion value fails the execution.
07 An envelope that the script made itself is a plain value (contract 8).
08 A schema of draft-07 or 2020-12 is checked; a broken one checks nothing.
09 Twenty calls at once respect the cap, whoever makes them.
10 Allowed servers come before the token's servers, these before its permission, that before the arguments.
11 What a caller may not use gets the answer of what isn't there, and is nowhere to be seen.
"""),
    ("LEDGER", "contract 5, calls", SCRIPT, """
01 A failure lists the calls made: n, server, tool, outcome, ms.
02 An outcome of error has its code.
03 A call in flight at the end is `unknown`.
04 A call that never went out is `not_started`.
05 At most 100 are listed, and calls_omitted counts the rest.
06 options.trace lists them on success, too.
07 Without trace a success has none.
08 TIMEOUT says of every call in flight that its outcome is unknown.
09 UPSTREAM_TIMEOUT says that the outcome is unknown.
10 Calls in flight are listed even behind the first 100.
11 A crash of the VM keeps the ledger true.
12 A crash of the upstream is an error in the ledger.
"""),
    ("STOP", "contract 4 and 6, cancellation", ALL, """
01 At the deadline calls in flight are cancelled upstream.
02 At the deadline nothing further is dispatched.
03 A REST client that hangs up ends the script and cancels its calls.
04 A modern MCP client that gives up its request over HTTP ends the script and cancels its calls.
05 A legacy MCP client's notifications/cancelled ends the script and cancels its calls.
06 A stdio client's cancellation ends the script and cancels its calls.
07 A closed stdio pipe ends the script.
08 Ctrl-C in the CLI ends the script and cancels its calls.
09 A daemon that stops answers CANCELLED and leaves no process.
10 Nothing burns CPU afterwards: the place is free for the next script.
"""),
    ("PROG", "MCP progress", "mcp stdio", """
01 A client that asked for progress hears how many calls are done, and the last.
02 One that didn't hears nothing.
"""),
    ("POOL", "reference, pool size; contract 4", ALL, """
01 As many scripts run at once as the pool is large.
02 Waiting is first come, first served.
03 Waiting has a clock of its own and isn't charged to the script.
04 The code of giving up is POOL_BUSY.
"""),
    ("STORE", "reference, stored scripts", ALL, """
01 name.js and name.ts in scripts/ next to the configuration are found by base name.
02 A name has 1-64 characters of A-Za-z0-9_-; others are INVALID_SCRIPT_NAME, naming the character.
03 A name is checked before any file is touched.
04 Separators, dots, absolute paths and non-ASCII are invalid names.
05 Names are case-sensitive.
06 Only lowercase .js and .ts count.
07 The language is that of the extension.
08 A language that contradicts it is INVALID_LANGUAGE and says both.
09 1 byte to 262144 bytes are taken.
10 An empty file is SCRIPT_UNUSABLE.
11 An oversized file is SCRIPT_UNUSABLE and says the limit.
12 Symlinks, directories, FIFOs and devices are SCRIPT_UNUSABLE, without blocking.
13 An unreadable file is SCRIPT_UNUSABLE.
14 Both extensions present is SCRIPT_UNUSABLE, naming both paths.
15 A replaced, added or deleted file counts from the next call on.
16 Options, input and gates hold as for inline code.
17 An unknown name lists the names there are and their number, to an administrator.
18 With no scripts at all, the message says which file to create, to an administrator.
19 At most 20 names are listed, alphabetically, with the whole count.
20 To an agent's token, an unknown name discloses nothing, the same for any directory.
21 To an agent's token, an ambiguous name has no path.
22 To an agent's token, an unusable file has its reason and no path.
23 Both or neither of code and script has the reference's sentence.
24 The three ways of passing the same source give the same reply.
25 Nothing of this program writes a script.
"""),
    ("REST", "reference, REST", "rest", """
01 POST /api/v1/code/exec takes the request and answers 200 when the script ran, whatever it gave.
02 A script that throws is 200 with ok: false.
03 Both or neither of code and script is 400 INVALID_REQUEST with request_id.
04 A switched-off feature is 403 FEATURE_DISABLED.
05 An unknown script is 404 SCRIPT_NOT_FOUND.
06 An invalid name is 400 INVALID_SCRIPT_NAME.
07 An ambiguous, empty, oversized, unreadable or non-regular script is 400 SCRIPT_UNUSABLE.
08 A contradicting language is 400 INVALID_LANGUAGE.
09 A fault of ours is 500 EXECUTION_FAILED and tells no more than where to look.
10 POOL_BUSY is 503 with Retry-After (contract 8).
11 A wrong option is 400 INVALID_OPTIONS (contract 8).
12 Another wrong member is 400 INVALID_REQUEST (contract 8).
13 The key comes as X-API-Key or ?apikey=; without it, 401.
14 Every answer has request_id, in its body and as X-Request-Id.
15 A body above 16 MiB is 413 and isn't read to its end.
16 A body that isn't JSON is 400 and says where; another media type is 415.
17 The feature switch holds before any script file is touched, on every surface.
18 Another method is 405 with Allow; another path is 404.
"""),
    ("LIST", "reference, GET /api/v1/code/scripts", "rest cli", """
01 The answer is {success: true, data: {dir, scripts}}.
02 dir is the directory that was read, also when it isn't there.
03 Each script has name, paths and status.
04 status is ok, ambiguous (two paths) or invalid (with a reason).
05 reason is empty, oversized, unreadable or non-regular.
06 An absent or empty directory is an empty list.
07 An agent's token gets 403 and a sentence that names nothing.
08 Scripts are in alphabetical order.
"""),
    ("CONF", "reference, configuration", ALL, """
01 enable_code_execution is true by default.
02 code_execution_timeout_ms takes 1-600000, 120000 by default.
03 code_execution_max_tool_calls takes 0 and more, 0 by default.
04 code_execution_pool_size takes 1-100, 10 by default.
05 code_execution_max_parallel takes 1-32, 8 by default.
06 A value out of its range, or of another type, is an error with path and value.
07 code_execution_queue_timeout_ms is 30000 by default (contract 4).
08 code_execution_memory_mb is 128 by default (contract 4).
09 code_execution_max_result_bytes is 1 MiB by default (contract 2).
10 code_execution_limits has max_timeout_ms and max_tool_calls (contract 4).
11 call_tool_timeout takes milliseconds or a text such as "2m", two minutes by default (contract 8).
12 Upstream processes see an allow-list of variables and their own env (contract 8).
"""),
    ("CLI", "reference, mcpproxy code exec", "cli", """
01 --code runs inline source.
02 --file runs a local file.
03 --script runs a stored script by name; the content never crosses the wire.
04 None or more than one of the three is exit code 2.
05 --input takes a JSON object.
06 --input-file takes a file that holds one.
07 --timeout takes 1-600000.
08 --max-tool-calls takes 0 and more.
09 --allowed-servers takes a comma-separated list.
10 --log-level takes trace, debug, info, warn and error.
11 --config decides the configuration and its scripts/.
12 --language is sent only when given.
13 Limits are sent only when given (contract 8).
14 Exit code 0: it succeeded.
15 Exit code 1: it ran and failed.
16 Exit code 2: nothing was run (contract 8).
17 The envelope is on stdout, everything else on stderr (contract 6).
18 With a daemon it is used, and one line on stderr says so (contract 6).
19 Without one it starts what it needs and stops it, and one line says so (contract 6).
20 It waits for the script's timeout, the pool's queue time and 10 s (contract 6).
21 --input and --input-file together are exit code 2.
"""),
    ("SHOW", "reference, mcpproxy code scripts list", "cli", """
01 The table has the directory, the count and a line for each script.
02 -o json gives what REST gives under data.
03 -o yaml gives the same.
04 A running daemon is asked.
05 Without a daemon the directory is read.
06 It ends with the command that runs one.
"""),
    ("SAFE", "contract 7, what always holds", SCRIPT, """
01 No script takes the daemon down.
02 While a script burns its time, health checks are answered within 50 ms.
03 A script reads no file, environment variable, token or other execution's data.
04 A refusal says what to do next.
05 Every wrong type is refused with the field's name, in every field.
"""),
]  # fmt: skip


def rows() -> Iterator[Requirement]:
    for area, source, surfaces, lines in TABLE:
        for line in lines.strip().splitlines():
            number, _, text = line.partition(" ")
            assert re.fullmatch(r"\d\d", number), line
            yield Requirement(f"REQ-{area}-{number}", source, text, frozenset(surfaces.split()))


REQUIREMENTS = {each.id: each for each in rows()}
