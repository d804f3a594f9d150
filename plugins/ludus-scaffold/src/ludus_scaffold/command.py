"""The command ``ludus new-plugin``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ludus_scaffold.writing import KINDS, write_plugin

__all__ = ["new_plugin"]


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Parent folder of the new folder; default: the current folder.",
)
def new_plugin(kind: str, name: str, *, into: Path) -> None:
    """Write the distribution ludus-NAME with a small working component and passing tests."""
    folder = write_plugin(kind, name, into=into)
    click.echo(f"wrote {folder}; next:")
    click.echo(f"  cd {shlex.quote(str(folder))}")
    click.echo("  pip install -e '.[test]'")
    click.echo("  pytest")
    click.echo(f"  ludus plugins show {kind}:{folder.name.removeprefix('ludus-')}")
