"""Write the option tables of docs/configuration.md from the classes that read the options.

Run it after a change of an option: ``python docs/make_configuration.py``. With ``--check`` it writes nothing and exits
with status 1 if the page is out of date. The page has the sections of a run's TOML file, and the components of all
distributions in this repository except ludus-dummy.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import attrs
from ludus._config.sections import (
    AnchorConfig,
    EvaluationSection,
    LeagueSection,
    MetricsSection,
    PlayerConfig,
    ReplaySection,
    RetentionSection,
    RunSection,
    SamplingSection,
)
from ludus._plugins.manager import Plugins, load_plugins
from ludus.hookspecs import KINDS
from ludus.option import presets_of
from tomli_w import dumps as write_toml

__all__ = ["PAGE", "render"]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "configuration.md"
SECTIONS = {
    "run": RunSection,
    "sampling": SamplingSection,
    "players": PlayerConfig,
    "anchors": AnchorConfig,
    "league": LeagueSection,
    "retention": RetentionSection,
    "evaluation": EvaluationSection,
    "replays": ReplaySection,
    "metrics": MetricsSection,
}
_BLOCK = re.compile(r"(<!-- options: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_CHOICES = {  # TOML files have names here, which the types of the fields do not show
    "algorithm": "name of an algorithm",
    "network": "name of a network",
    "matchmaker": "name of a matchmaker",
    "interfaces": "list of names of interfaces",
    "agent": "name of an agent",
    "rating": "name of a rating",
    "rules": "list of names of rules",
    "sinks": "list of names of metric sinks",
    "retention": "tables by pool",
}


def render(page: str, plugins: Plugins) -> str:
    """Return the page with a new table between every ``<!-- options: … -->`` and ``<!-- end -->``."""

    def block(match: re.Match[str]) -> str:
        section = match[2]
        text = "".join(_components(plugins)) if section == "components" else _table(SECTIONS[section], choices=_CHOICES)
        return f"{match[1]}\n{text}\n{match[3]}"

    return _BLOCK.sub(block, page)


def _components(plugins: Plugins) -> Iterator[str]:
    """Yield a heading and a table for every component of this repository with options."""
    distributions = set(_distributions())
    for kind in KINDS:
        for name, component in plugins.components(kind).items():
            cls = component.load_config()
            report = plugins.provider(kind, name)
            if cls is not None and report.distribution in distributions:
                yield f"### {kind} `{name}`\n\n{component.summary} (`{report.distribution}`).\n\n"
                yield f"{_table(cls)}{_presets(cls)}\n"


def _distributions() -> Iterator[str]:
    for path in sorted(ROOT.glob("*/ludus-*/setup.cfg")):
        if path.parent.name != "ludus-dummy":
            yield path.parent.name


def _table(cls: type[Any], choices: dict[str, str] | None = None) -> str:
    rows = ["| option | default | expected | meaning |", "|---|---|---|---|"]
    for field in _fields(cls):
        if "help" in field.metadata:
            cells = (f"`{field.name}`", _default(field), _expected(field, choices or {}), field.metadata["help"])
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _presets(cls: type[Any]) -> str:
    """Return one line for every preset of a class."""
    lines = (
        f"- `preset = {_toml(name)}`: " + ", ".join(f"`{option} = {_toml(value)}`" for option, value in table.items())
        for name, table in presets_of(cls).items()
    )
    text = "\n".join(lines)
    return text and f"\n{text}\n"


def _fields(cls: type[Any]) -> list[attrs.Attribute[Any]]:
    """Return the fields of a class in the order of their first declaration, base classes first."""
    fields = attrs.fields_dict(attrs.resolve_types(cls))
    bases = [base for base in reversed(cls.__mro__) if attrs.has(base)]
    names = dict.fromkeys(field.name for base in bases for field in attrs.fields(base))
    return [fields[name] for name in names]


def _default(field: attrs.Attribute[Any]) -> str:
    if field.default is attrs.NOTHING:
        return "required"
    factory = getattr(field.default, "factory", None)
    value = field.default if factory is None else factory()
    if value is None:
        return "unset"
    return f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    """Return a value on one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(item)}' for key, item in value.items())}}}"
    return write_toml({"_": value}).removeprefix("_ = ").rstrip()


def _expected(field: attrs.Attribute[Any], choices: dict[str, str]) -> str:
    if field.name in choices:
        return choices[field.name]
    expected = getattr(field.validator, "expected", "")
    if field.type is int:  # validators of integers use the messages for numbers
        expected = re.sub("^a number", "a whole number", expected)
    return expected or _type_name(field.type)


def _type_name(kind: Any) -> str:
    if kind in _TYPE_NAMES:
        return _TYPE_NAMES[kind]
    if get_origin(kind) in (Mapping, dict):
        return "a table"
    members = [member for member in get_args(kind) if member is not type(None)]
    return "a list" if get_origin(kind) in (tuple, list, Sequence) else _type_name(members[0])


_TYPE_NAMES = {bool: "`true` or `false`", int: "a whole number", float: "a number", str: "text"}


def main() -> int:
    """Write or check the page and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; report an outdated page by status 1")
    arguments = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    new_page = render(page, load_plugins())
    if arguments.check:
        sys.stdout.write(json.dumps({"up_to_date": new_page == page}) + "\n")
        return int(new_page != page)
    PAGE.write_text(new_page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
