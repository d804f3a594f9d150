"""``ludus plugins``: what is installed, what each plugin offers, and what is wrong with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import click
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from ludus._cli import BUILT_IN
from ludus._plugins import BLOCK_VARIABLE, PluginReport, Plugins, load_plugins
from ludus.component import KINDS, Component
from ludus.errors import ConfigError

__all__ = ["plugins", "problems"]

_STYLES = {"ok": "green", "broken": "bold red", "blocked": "yellow", "refused": "bold red"}


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show a line about every component.")
@click.pass_context
def plugins(context: click.Context, *, as_json: bool, verbose: bool) -> None:
    """List the installed plugins and what each offers."""
    if context.invoked_subcommand is not None:
        return
    loaded = load_plugins()
    if as_json:
        click.echo(json.dumps([_report_data(report) for report in loaded.reports], indent=2))
        return
    if not loaded.reports:
        click.echo("no plugin is installed; ludus needs some to train: pip install ludus-…")
    else:
        _console().print(_details(loaded) if verbose else _overview(loaded))
    for line in problems(loaded):
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
    data = _component_data(loaded.provider(kind, name), kind, loaded.get(kind, name))
    if as_json:
        click.echo(json.dumps(data, indent=2))
    else:
        _print_component(data)


def problems(loaded: Plugins) -> Iterator[str]:
    """Yield one line for every problem of every plugin."""
    for report in loaded.reports:
        who = f"{report.name} ({report.distribution} {report.version})"
        yield from (f"{who} {report.status}: {problem}" for problem in report.problems)
        hidden = [part.name for part in report.offers.get("command", ()) if part.name in BUILT_IN]
        yield from (f"{who}: its command {name!r} is hidden by that of ludus itself" for name in hidden)
    for name in loaded.unmatched:
        yield f"{name!r} is to be allowed or blocked, but no installed plugin has that name (see {BLOCK_VARIABLE})"


def _overview(loaded: Plugins) -> Table:
    table = _table("plugin", "distribution", "version", "status", "offers")
    for report in loaded.reports:
        parts = {kind: [part.name for part in report.offers.get(kind, ())] for kind in KINDS}
        parts["listens to"] = [event.removeprefix("ludus_") for event in report.listens]
        offers = "\n".join(f"{kind}: {', '.join(names)}" for kind, names in parts.items() if names)
        cells = (report.name, report.distribution, report.version)
        table.add_row(*map(escape, cells), _status(report), escape(offers))
    return table


def _details(loaded: Plugins) -> Table:
    table = _table("plugin", "status", "component", "summary")
    for report in loaded.reports:
        if not report.offers:
            table.add_row(escape(report.name), _status(report))
        for kind in KINDS:
            for part in report.offers.get(kind, ()):
                table.add_row(escape(report.name), _status(report), f"{kind}:{part.name}", escape(part.summary))
    return table


def _table(*headers: str) -> Table:
    """Return a table without borders in which only the last column wraps, so that names can be copied."""
    columns = [Column(header, no_wrap=header != headers[-1]) for header in headers]
    return Table(*columns, box=None, pad_edge=False)


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 120)


def _status(report: PluginReport) -> str:
    return f"[{_STYLES[report.status]}]{report.status}[/]"


def _report_data(report: PluginReport) -> dict[str, Any]:
    data = attrs.asdict(report, recurse=False)
    data["offers"] = {kind: [attrs.asdict(part) for part in parts] for kind, parts in report.offers.items()}
    return data


def _component_data(report: PluginReport, kind: str, component: Component) -> dict[str, Any]:
    config = component.load_config()
    return {
        "kind": kind,
        **attrs.asdict(component),
        "distribution": report.distribution,
        "version": report.version,
        "options": [] if config is None else [_option_data(option) for option in attrs.fields(config)],
    }


def _option_data(option: attrs.Attribute[Any]) -> dict[str, Any]:
    required = option.default is attrs.NOTHING
    factory = getattr(option.default, "factory", None)  # lists and tables are made anew for every instance
    default = option.default if factory is None else factory()
    return {
        "name": option.name,
        "type": option.type if isinstance(option.type, str) else getattr(option.type, "__name__", str(option.type)),
        "required": required,
        "default": None if required else _plain(default),
        "expected": getattr(option.validator, "expected", ""),
        "help": option.metadata.get("help", ""),
    }


def _plain(value: object) -> object:
    """Return a default in the form JSON can hold."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return repr(value)


def _print_component(data: Mapping[str, Any]) -> None:
    click.echo(f"{data['kind']}:{data['name']}  {data['summary']}")
    click.echo(f"from {data['distribution']} {data['version']}, {data['factory']}")
    if data["environments"]:
        click.echo(f"for {', '.join(data['environments'])}")
    if not data["options"]:
        click.echo("no options")
        return
    table = _table("option", "type", "default", "expected", "meaning")
    for option in data["options"]:
        default = "required" if option["required"] else json.dumps(option["default"])
        table.add_row(*map(escape, (option["name"], option["type"], default, option["expected"], option["help"])))
    _console().print(table)
