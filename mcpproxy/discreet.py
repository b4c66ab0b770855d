"""Settings for people to read: references as they are, and nothing that may be secret."""

from __future__ import annotations

import re
from typing import Any

from mcpproxy.redaction import HIDDEN, RANDOM_PART, SECRETS, in_option
from mcpproxy.settings import Loaded, ServerSettings, in_force
from mcpproxy.upstream.dial import PLAIN_HEADERS
from mcpproxy.upstream.references import REFERENCE

ADDRESSES = frozenset({"url", "document", "base_url"})
USERINFO = re.compile(r"//([^/?#@]+)@")
PARAMETER = re.compile(r"([?&][^=&#]*)=([^&#]+)")
SCHEMES = frozenset({"", "basic", "bearer", "token"})
"""How a secret is sent: said of it, while the rest is not."""


def shown(server: ServerSettings) -> dict[str, Any]:
    """What is set, with references as they are and without what may be secret."""
    found: dict[str, Any] = server.model_dump(mode="json", exclude_unset=True)
    for name, value in found.get("headers", {}).items():
        if name.lower() not in PLAIN_HEADERS:
            found["headers"][name] = discreet(value)
    if env := found.get("env"):
        found["env"] = _values(env)
    if oauth := found.get("oauth"):
        for name in ("client_secret", "extra_params"):
            if oauth.get(name):
                oauth[name] = _values(oauth[name])
    for scheme, given in found.get("auth", {}).items():
        if isinstance(given, str):
            found["auth"][scheme] = discreet(given)
        else:
            given["client_secret"] = discreet(given["client_secret"])
    for key in ADDRESSES & found.keys():
        if not (url := found[key]):
            continue
        without = USERINFO.sub(lambda part: f"//{discreet(part[1])}@", url)
        without = PARAMETER.sub(lambda part: f"{part[1]}={discreet(part[2])}", without)
        found[key] = RANDOM_PART.sub(HIDDEN, without)
    if args := found.get("args"):
        found["args"] = [
            discreet_option(arg, before) for before, arg in zip(["", *args], args, strict=False)
        ]
    hidden: dict[str, Any] = SECRETS.hide_all(found)
    return hidden


def configuration(loaded: Loaded) -> dict[str, Any]:
    """All settings as they are in force, where each comes from, and the servers that can be used."""
    places = loaded.places
    return {
        "config": str(places.config),
        "state": str(places.state),
        "logs": str(places.logs),
        "settings": in_force(loaded),
        "mcpServers": {server.name: shown(server) for server in loaded.settings.servers},
        "left_out": loaded.server_errors,
    }


def discreet(value: str) -> str:
    """A value's references, and no more of the rest than how it is sent ("Bearer")."""
    shown, end = "", 0
    for match in REFERENCE.finditer(value):
        shown += _hidden(value[end : match.start()]) + match[0]
        end = match.end()
    return shown + _hidden(value[end:])


def _values(found: str | dict[str, str]) -> Any:
    if isinstance(found, str):
        return discreet(found)
    return {name: discreet(value) for name, value in found.items()}


def _hidden(text: str) -> str:
    return text if text.strip().lower() in SCHEMES else HIDDEN


def discreet_option(arg: str, before: str) -> str:
    """An argument without the value of an option that is called like a secret."""
    value = in_option(arg, before)
    return arg.removesuffix(value) + discreet(value) if value else arg
