"""The command ``ludus remote-schema``."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import click
from ludus.cli_types import FiniteRange

from ludus_remote.config import RemoteConfig
from ludus_remote.environment import RemoteEnvironment


@click.command("remote-schema")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the game gateway.")
@click.option("--port", required=True, type=click.IntRange(1, 65_504), help="Port that the game connects to.")
@click.option(
    "--tokens", default="", metavar="FILE", help="Tokens of games; default: the variable LUDUS_REMOTE_TOKENS."
)
@click.option("--certificate", default="", metavar="FILE", help="TLS certificate; needed for any address but loopback.")
@click.option("--key", default="", metavar="FILE", help="TLS key.")
@click.option("--timeout", default=60.0, show_default=True, type=FiniteRange(1), help="Seconds to wait for a game.")
def remote_schema(file: Path, host: str, port: int, tokens: str, certificate: str, key: str, timeout: float) -> None:
    """Write the schema of the first game that connects to FILE.

    A run whose option `schema` names the file knows the game before one has connected, and accepts no other game.
    """
    config = RemoteConfig(
        host=host, port=port, tokens=tokens, certificate=certificate, key=key, connect_timeout_s=timeout
    )
    with closing(RemoteEnvironment(config, num_matches=1)) as environment:
        file.write_text(json.dumps(environment.schema.data, indent=2) + "\n", encoding="utf-8")
        seats = len(environment.schema.seats)
    click.echo(f"wrote {file}: {', '.join(role.name for role in environment.schema.roles)}; {seats} seats")
