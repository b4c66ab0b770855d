"""JSON Schemas that values are held against, within bounds of time and depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from mcpproxy.effort import MOST_STEPS, Effort, compiled, path_text, too_deep, violations
from mcpproxy.upstream.files import Bad

SHOWN = 3
"""Violations that a message names."""


class TooMuch(Bad):
    """A schema by which a check would take too long."""


class Checker:
    """A schema that values can be held against."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """Raises `Bad` for what is no JSON Schema."""
        self.schema = schema
        try:
            effort = Effort(schema)
            if effort.steps > MOST_STEPS:
                raise TooMuch(
                    "its references lead to too much: what refers twice to the next adds up"
                )
            self._again = effort.again
            self._validator = compiled(schema)
        except Bad:
            raise
        except RecursionError as error:
            raise TooMuch("its references lead too deep") from error
        except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
            raise Bad(f"it is no valid JSON Schema: {str(error).splitlines()[0][:300]}") from error

    def faults(self, value: Any, name: str) -> str:
        """What doesn't fit, for people; empty when all does. `name` is what the value is called."""
        return "; ".join(self._sentences(value, name))

    def _sentences(self, value: Any, name: str) -> Iterator[str]:
        if too_deep(value, self._again):
            yield f"{name}: it is nested too deep for its schema, which leads back into itself"
            return
        for error in violations(self._validator, value)[:SHOWN]:
            yield f"{name}{path_text(error.instance_path)}: {error.message[:300]}"
