"""The command ``ludus dashboard``."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from pathlib import Path

import click
from ludus.errors import ConfigError

__all__ = ["dashboard"]

_CLOSE_S = 2  # for open connections at the end


@click.command()
@click.argument("runs_dir", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"))
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; beyond loopback a token is needed."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8420, show_default=True, help="Port; 0: any free one.")
@click.option("--token", envvar="LUDUS_DASHBOARD_TOKEN", help="Token that browsers must present; random if not given.")
@click.option(
    "--allow-actions", is_flag=True, help="Let people play, promote models, change shares, stop and resume runs."
)
def dashboard(runs_dir: Path, *, host: str, port: int, token: str | None, allow_actions: bool) -> None:
    """Show the runs in the folder RUNS_DIR, or one run folder, in the browser; Ctrl-C ends it.

    It reads files only, so it may be started and ended while runs go on. Without --allow-actions it changes nothing.
    """
    import uvicorn  # noqa: PLC0415 - only here: help must be fast

    from ludus_dashboard.access import Access  # noqa: PLC0415 - as above
    from ludus_dashboard.app import make_app  # noqa: PLC0415 - as above

    if not runs_dir.is_dir():
        raise ConfigError(f"{runs_dir}: no such folder; name the folder of the runs, or a run folder")
    is_local = _is_loopback(host)
    if token is None:
        token = "" if is_local and not allow_actions else secrets.token_urlsafe(24)
    elif len(token) < 16:
        raise ConfigError("--token: expected at least 16 characters; leave it out for a random one")
    listener = _listen(host, port)
    port = listener.getsockname()[1]
    access = Access(token=token, port=port, hosts=frozenset({host, *_LOOPBACK}) if is_local else None)
    query = f"?token={token}" if token else ""
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"http://{shown}:{port}/{query}")
    app = make_app(runs_dir, access=access, allow_actions=allow_actions)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_CLOSE_S, server_header=False)
    uvicorn.Server(config).run([listener])


_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        ConfigError: The address is wrong, or in use.
    """
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another --port, or an address of "
            "this machine"
        ) from error
