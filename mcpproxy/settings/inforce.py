"""The settings as they are in force, and where each comes from; what is secret is left out."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from mcpproxy.redaction import HIDDEN, SECRETS
from mcpproxy.settings.loading import Loaded
from mcpproxy.settings.sections import Section

APART = frozenset({"servers"})
"""What is shown in a way of its own."""


def in_force(loaded: Loaded) -> dict[str, dict[str, Any]]:
    """By name: `value`, as it would be written in the file, and `from`: default, file, environment or flag.

    Members of a section have the section's name before theirs (`logging.level`).
    """
    found: dict[str, dict[str, Any]] = {}
    written = loaded.settings.model_dump(mode="json")
    for name in type(loaded.settings).model_fields:
        value = getattr(loaded.settings, name)
        if name in APART:
            continue
        if isinstance(value, Section):
            for member in type(value).model_fields:
                full = f"{name}.{member}"
                found[full] = {"value": written[name][member], "from": _origin(loaded, full)}
            continue
        hidden = isinstance(value, SecretStr) and value.get_secret_value()
        shown = HIDDEN if hidden else SECRETS.hide_all(written[name])
        found[name] = {"value": shown, "from": _origin(loaded, name)}
    return found


def _origin(loaded: Loaded, name: str) -> str:
    return loaded.origins.get(name, "default")
