"""``ludus plugins``: list the installed plugins, their components and their problems."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import attrs
import click
from ludus import Component, ConfigError, Plugins, load_plugins
from ludus.hookspecs import KINDS
from ludus.option import presets_of

from ludus_terminal.output import output_width

__all__ = ["columns", "plugins"]

_MIN_WIDTH = 8  # of a column that is wrapped


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show one line about every component.")
@click.pass_context
def plugins(context: click.Context, *, as_json: bool, verbose: bool) -> None:
    """List the installed plugins and their components."""
    if context.invoked_subcommand is not None:
        return
    loaded = load_plugins()
    if as_json:
        click.echo(json.dumps([attrs.asdict(report) for report in loaded.reports], indent=2))
        return
    if loaded.reports:
        click.echo(columns(list(_details(loaded) if verbose else _overview(loaded))))
    else:
        click.echo("no plugin is installed; ludus needs some to train: pip install ludus-…")
    for line in loaded.problems():
        click.echo(line)


@plugins.command()
@click.argument("component", metavar="KIND:NAME")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(component: str, *, as_json: bool) -> None:
    """Show one component and its options, for example environment:NAME."""
    kind, _, name = component.partition(":")
    if kind not in KINDS or not name:
        raise ConfigError(f"{component!r}: expected KIND:NAME, where KIND is one of {', '.join(KINDS)}")
    loaded = load_plugins()
    report, registered = loaded.provider(kind, name), loaded.get(kind, name)
    options, presets = _options(registered), presets_of(registered.load_config())
    if as_json:
        origin = {"distribution": report.distribution, "version": report.version}
        data = {"kind": kind, **attrs.asdict(registered), **origin, "options": options, "presets": presets}
        click.echo(json.dumps(data, indent=2, default=repr))
        return
    source = f"from {report.distribution} {report.version}, {registered.factory}"
    games = [f"for {', '.join(registered.environments)}"] if registered.environments else []
    for line in (f"{component}  {registered.summary}", source, *games):
        click.echo(textwrap.fill(line, output_width(), break_on_hyphens=False))
    rows = [(option["name"], option["type"], _default(option), _meaning(option)) for option in options]
    click.echo(columns([("option", "type", "default", "meaning"), *rows]) if rows else "no options")
    if presets:
        click.echo(columns([("preset", "options"), *((name, _table(table)) for name, table in presets.items())]))


def _overview(loaded: Plugins) -> Iterator[tuple[str, ...]]:
    yield "plugin", "distribution", "version", "status", "offers"
    for report in loaded.reports:
        offers = {kind: [part.name for part in report.offers.get(kind, ())] for kind in KINDS}
        offers["listens to"] = [event.removeprefix("ludus_") for event in report.listens]
        first, *more = [f"{label}: {', '.join(names)}" for label, names in offers.items() if names] or [""]
        yield report.name, report.distribution, report.version, report.status, first
        yield from (("", "", "", "", line) for line in more)


def _details(loaded: Plugins) -> Iterator[tuple[str, ...]]:
    yield "plugin", "status", "component", "summary"
    for report in loaded.reports:
        parts = [(f"{kind}:{part.name}", part.summary) for kind in KINDS for part in report.offers.get(kind, ())]
        yield from ((report.name, report.status, *part) for part in parts or [("", "")])


def _options(component: Component) -> list[dict[str, Any]]:
    """Return the options of a component as JSON values; defaults of unusual types are returned unchanged."""
    config = component.load_config()
    options = []
    for option in () if config is None else attrs.fields(config):
        required = option.default is attrs.NOTHING
        factory = getattr(option.default, "factory", None)  # lists and tables are copied for every instance
        options.append(
            {
                "name": option.name,
                "type": getattr(option.type, "__name__", str(option.type)),
                "required": required,
                "default": None if required else option.default if factory is None else factory(),
                "expected": getattr(option.validator, "expected", ""),
                "help": option.metadata.get("help", ""),
            }
        )
    return options


def _meaning(option: dict[str, Any]) -> str:
    return f"{option['help']} ({option['expected']})" if option["expected"] else str(option["help"])


def _default(option: dict[str, Any]) -> str:
    return "required" if option["required"] else json.dumps(option["default"], default=repr)


def _table(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {json.dumps(value, default=repr)}" for name, value in options.items())


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines with aligned cells, wrapped to the width of the terminal.

    Args:
        rows: Cells; every row has the same number. Cells of the first column are not wrapped.
    """
    widths = _fit_widths([max(map(len, cells)) for cells in zip(*rows, strict=True)])
    return "\n".join(line for cells in rows for line in _wrap_row(cells, widths))


def _wrap_row(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of a row."""
    wrapped = [textwrap.wrap(cell, width, break_on_hyphens=False) for cell, width in zip(cells, widths, strict=True)]
    for parts in zip_longest(*wrapped, fillvalue=""):
        yield "  ".join(f"{part:<{width}}" for part, width in zip(parts, widths, strict=True)).rstrip()


def _fit_widths(widths: list[int]) -> list[int]:
    """Return the widths of columns in the terminal: the widest of those after the first become narrower."""
    room = output_width() - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths[1:], default=0) > _MIN_WIDTH:
        widest = max(range(1, len(widths)), key=widths.__getitem__)
        widths = [*widths[:widest], widths[widest] - 1, *widths[widest + 1 :]]
    return widths
