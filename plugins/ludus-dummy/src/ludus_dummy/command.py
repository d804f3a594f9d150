"""The command ``ludus dummy-hello``."""

from __future__ import annotations

import click


@click.command()
@click.argument("name", default="world")
def hello(name: str) -> None:
    """Greet NAME."""
    click.echo(f"hello {name}")
