"""How a script ended, where it didn't end by itself: what its caller is told.

Whatever had no answer yet when it ended may have had its effect, so it is named.
"""

from __future__ import annotations

import re
import signal

from mcpproxy.catalog import Catalog
from mcpproxy.hints import LOOKED_AT
from mcpproxy.policy import needed
from mcpproxy.script import Outcome, Script

AGAIN = ". No call of it was in flight: look at `calls`, and run it again"
IN_EACH = re.compile(r"\.(forEach|filter|find|findIndex|some|every|sort|flatMap)\(\s*async\b")
INSTEAD = (
    "await Promise.all(list.map(...)) first, and use what that gives",
    "write for (const x of list) { await ... }",
)
LISTED = 10
"""Calls in flight that are named; the rest is counted."""


def timed_out(script: Script, timeout_ms: int) -> Outcome:
    message = f"JavaScript execution timed out after {timeout_ms} ms"
    return Outcome(ok=False, code="TIMEOUT", message=message + in_flight(script))


def interrupted(script: Script, reason: str | None) -> Outcome:
    message = reason or "the execution was cancelled"
    return Outcome(ok=False, code="CANCELLED", message=message + in_flight(script))


def in_flight(script: Script) -> str:
    """The calls whose outcome nobody knows; nothing where there are none."""
    if not (unknown := script.unknown):
        return ""
    listed = ", ".join(f"call {call.n} ({call.server}:{call.tool})" for call in unknown[:LISTED])
    more = f" and {len(unknown) - LISTED} more" if len(unknown) > LISTED else ""
    return (
        f". In flight when it ended, so with an unknown outcome: {listed}{more}. "
        "They may have had their effect: check before repeating them"
    )


def unawaited(script: Script, source: str) -> str:
    """What to say of calls that a script didn't wait for which had its say; nothing where there are none."""
    outcome = script.outcome
    on_wire, unsent = script.unawaited
    if outcome is None or not (on_wire or unsent or script.unread):
        return ""
    if not outcome.ok and outcome.code != "SERIALIZATION_ERROR":
        return ""  # it was an error that ended it
    left = (
        f"the script ended before {on_wire + unsent} call(s) were answered: {on_wire} in flight were cancelled "
        f"with an unknown outcome, {unsent} never went out"
        if on_wire or unsent
        else f"the script ended before it had the answers of {script.unread} call(s)"
    )
    method = IN_EACH.search(source[:LOOKED_AT])
    why = (
        f". {method[1]} waits for no async function: {INSTEAD[method[1] == 'forEach']}"
        if method
        else ""
    )
    return f"{left}; unless that was meant, await every call, e.g. with Promise.all{why}"


def had_effect(script: Script, catalog: Catalog) -> str:
    """What to say of the calls of a program that did all of its work and gave no value that could be sent."""
    changing = {
        f"{tool.server}:{tool.name}"
        for call in script.ledger()[0]
        if call["outcome"] in ("ok", "unknown")
        and (tool := catalog.tool(call["server"], call["tool"])) is not None
        and needed(tool.annotations) != "read"
    }
    if not changing:
        return ""
    named = f"{', '.join(sorted(changing)[:LISTED])}{', …' if len(changing) > LISTED else ''}"
    return f". Its calls were made: don't make again what changes something ({named})"


def out_of_memory(memory_mb: int) -> str:
    return (
        f"the script used more than the {memory_mb} MB of memory it may use "
        "(code_execution_memory_mb): handle the data in smaller parts"
    )


def taken_along(script: Script) -> Outcome:
    """The process that makes VMs ended, and all VMs with it."""
    message = (
        "the process of this script ended with the one that makes such processes, which is "
        "being started again; whatever else ran at that moment ended, too"
    )
    return Outcome(ok=False, code="WORKER_CRASHED", message=message + (in_flight(script) or AGAIN))


def crashed(script: Script, why: str, status: int | None) -> Outcome:
    """The end of a process that gave no account of it.

    `status` is its exit status, negative for a signal; where that isn't known, `why` tells.
    """
    if status == -signal.SIGSYS:
        why = "its process was killed for a system call that it may not make"
    elif status is not None and status < 0:
        why = f"its process was killed by signal {-status}"
    elif status is not None:
        why = f"its process gave up with status {status}"
    message = f"the process of this script ended unexpectedly: {why}; no other script is affected"
    return Outcome(ok=False, code="WORKER_CRASHED", message=message + (in_flight(script) or AGAIN))
