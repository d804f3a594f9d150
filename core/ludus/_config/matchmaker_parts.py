"""Matchmakers that are parts of other matchmakers, such as the members of a mixture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from ludus._config.section_reader import ConfigReader, SectionReader, SelectedComponent
from ludus._config.sections import EvaluationSection, PlayerConfig
from ludus._plugins.manager import Plugins


def section_path(section: PlayerConfig | EvaluationSection) -> tuple[str, ...]:
    """Return the keys that lead to a section of the file."""
    return ("players", section.name) if isinstance(section, PlayerConfig) else ("evaluation",)


def part_key(owner: SelectedComponent, name: str) -> tuple[str | int, ...]:
    """Return the key, within a section, of the option of `owner` that names a part; `name` if no option does."""
    options = {} if owner.config is None else attrs.asdict(owner.config)
    return next(((owner.name, *keys) for keys in _find_name(options, name)), (name,))


def _find_name(value: object, name: str) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths within a value that hold `name`, as a key or as a value."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if name in (key, inner):
            yield (key,)
        yield from ((key, *rest) for rest in _find_name(inner, name))


def select_matchmaker_part(
    section: PlayerConfig | EvaluationSection, plugins: Plugins, name: str, *, owner: SelectedComponent | None = None
) -> SelectedComponent:
    """Return a matchmaker as configured in a section, or with default options.

    Args:
        section: Section that may hold the matchmaker's options.
        plugins: The installed plugins.
        name: Name of the matchmaker.
        owner: Matchmaker that it is a part of; error messages point to its option.

    Raises:
        ConfigError: The matchmaker is not installed, or lacks a required option.
    """
    if section.matchmaker is not None and name == section.matchmaker.name:
        return section.matchmaker
    if name in section.parts:
        return section.parts[name]
    reader = ConfigReader(plugins)
    keys = (name,) if owner is None else part_key(owner, name)
    part = SectionReader(reader, {}, section_path(section)).make("matchmaker", name, {}, keys=keys)
    reader.check()
    assert part is not None
    return part
