"""`mcpproxy auth`: logging in to servers on HTTP, by a running daemon or, without one, here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click

from mcpproxy.cli.asking import SECONDS, Failure, data
from mcpproxy.cli.options import config_option, output_option
from mcpproxy.cli.telling import FAILED, INTERRUPTED, Commands, refuse, show_json, show_table
from mcpproxy.cli.upstream import path_of

LOGINS = "/api/v1/logins"
WAIT_SECONDS = 20
NEEDED = 1
"""The status of `status` where a login is needed."""

Ask = Callable[..., Any]


@click.group(cls=Commands)
def auth() -> None:
    """Log in to servers that want it (OAuth), and see or end logins."""


@auth.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, help="Ask for this scope; may be repeated.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option(
    "--timeout", "seconds", type=click.IntRange(1, 3600), default=300,
    help="Seconds to wait for the browser.  [300]",
)  # fmt: skip
@config_option
def login(
    name: str, scopes: tuple[str, ...], no_browser: bool, seconds: int, config: str | None
) -> None:
    """Log in to a server: opens a browser, and waits until it comes back."""

    def act(ask: Ask) -> dict[str, Any]:
        body = {"scopes": list(scopes), "seconds": seconds}
        begun = ask("POST", path_of(name, "login"), body)
        tell(begun["url"])
        if not no_browser and graphical():
            import webbrowser

            webbrowser.open(begun["url"])
        found = begun
        while found["state"] == "waiting":
            found = ask("GET", f"{path_of(name, 'login')}?wait={WAIT_SECONDS}")
        return {**found, "server": ask("GET", path_of(name))}

    found = through(config, act)
    if found["state"] != "done":
        refuse(f"no login to {name}: {found['error']}", FAILED)
    server = found["server"]
    why = f": {server['error']}" if server.get("error") else ""
    click.echo(f"logged in to {name}, which is {server['state']}{why}")


def tell(url: str) -> None:
    """Where to go, and from another machine how."""
    click.echo(f"open this address in a browser:\n\n  {url}\n", err=True)
    if "SSH_CONNECTION" in os.environ:
        back = urlsplit(parse_qs(urlsplit(url).query)["redirect_uri"][0]).port
        click.echo(
            "the browser comes back to this machine; when it runs on another, first run there: "
            f"ssh -L {back}:127.0.0.1:{back} <this machine>\n",
            err=True,
        )


def graphical() -> bool:
    """Whether a browser would have a screen: one in the terminal would only be in the way."""
    if "BROWSER" in os.environ:
        return True
    if "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform == "darwin" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ


@auth.command()
@click.argument("name", required=False)
@output_option
@config_option
def status(name: str | None, output: str, config: str | None) -> None:
    """Show who is logged in where. With NAME, exit status 1 says that a login is needed."""

    def act(ask: Ask) -> list[dict[str, Any]]:
        logins: list[dict[str, Any]] = ask("GET", LOGINS)["logins"]
        if name is None:
            return logins
        asked = [each for each in logins if each["name"] == name]
        if not asked:
            ask("GET", path_of(name))  # refuses a name that is no server's
            raise Failure(f"there is no login to {name!r}, and it has not asked for one")
        return asked

    found = through(config, act)
    if output == "json":
        show_json(found)
    else:
        rows = [
            (each["name"], each["state"], lasting(each), each["scope"] or "", each["error"] or "")
            for each in found
        ]
        show_table(
            ("SERVER", "LOGIN", "ENDS", "SCOPE", "WHY"), rows, "no server wants a login or has one"
        )
    if name is not None and found[0]["state"] != "logged in":
        sys.exit(NEEDED)


def lasting(login: dict[str, Any]) -> str:
    left = login["expires_in_seconds"]
    if login["state"] != "logged in" or left is None:
        return ""
    if login["renewable"]:
        return "renewed by itself"
    minutes = max(0, left) // 60
    return f"in {minutes // 60} h {minutes % 60} min" if left > 0 else "over"


@auth.command()
@click.argument("name")
@config_option
def logout(name: str, config: str | None) -> None:
    """Forget a login, here and at the server's authorization server."""
    through(config, lambda ask: ask("POST", path_of(name, "logout")))
    click.echo(f"logged out of {name}")


# ── daemon or alone ─────────────────────────────────────────────────────────────────────────────


def through(config: str | None, act: Callable[[Ask], Any]) -> Any:
    """What `act` gives, with a way to ask the running daemon or else one that lives for this."""
    from mcpproxy.cli import local

    daemon = local.find(config)
    if daemon is None:
        return without_daemon(config, act)
    running = daemon

    def ask(verb: str, path: str, body: Any = None) -> Any:
        return data(*local.request(running, verb, path, body, timeout=SECONDS))

    try:
        return act(ask)
    except (Failure, local.NoAnswer) as error:
        refuse(str(error))


def without_daemon(config: str | None, act: Callable[[Ask], Any]) -> Any:
    import json

    import anyio.from_thread
    import anyio.to_thread

    from mcpproxy.cli import alone
    from mcpproxy.daemon import Daemon
    from mcpproxy.errors import SettingsError

    async def within(daemon: Daemon) -> Any:
        def ask(verb: str, path: str, body: Any = None) -> Any:
            status, answer = anyio.from_thread.run(alone.ask, daemon, verb, path, body)
            return data(status, json.loads(answer))

        return await anyio.to_thread.run_sync(act, ask, abandon_on_cancel=True)

    try:
        return alone.with_daemon(config, None, within)
    except (Failure, SettingsError) as error:
        refuse(str(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
