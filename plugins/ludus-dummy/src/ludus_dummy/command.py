"""The command ``ludus dummy-hello``."""

from __future__ import annotations

import click

__all__ = ["hello"]


@click.command()
@click.argument("name", default="world")
def hello(name: str) -> None:
    """Greet NAME."""
    click.echo(f"hello {name}")
