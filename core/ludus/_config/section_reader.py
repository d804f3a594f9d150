"""Read the tables of a configuration: selected components, their options, and plain options.

A section is read in two steps. First the selected components are taken out of its table, together with the tables that
configure them. What remains must be plain options of the section. Problems are collected and raised together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, TypeVar

import attrs
from attrs import define, evolve, field, frozen

from ludus._config.other_names import translate
from ludus._config.structuring import Problem, StructuringError, shorten, structure, structure_fields
from ludus._config.toml import key_path
from ludus._plugins.manager import Plugins
from ludus.component import Component
from ludus.errors import ConfigError, PluginError
from ludus.hookspecs import KINDS
from ludus.option import presets_of
from ludus.printing import did_you_mean
from ludus.trust import NO_FILE, ConfigSource

S = TypeVar("S")

_MOST_LINES = 100  # problems that are reported
_MOST_NAMES = 64  # components in a list, such as the interfaces of a player
_LONGEST_NAME = 64  # of a component


@frozen(kw_only=True)
class SelectedComponent:
    """A component that the configuration selects by name, with its options.

    Attributes:
        kind: One of `ludus.hookspecs.KINDS`.
        name: Name of the component.
        config: Instance of its configuration class; None if it has none.
        component: The registered component.
    """

    kind: str
    name: str
    config: Any
    component: Component


@define
class ConfigReader:
    """The state that the readers of all sections of one configuration share.

    Attributes:
        plugins: The installed plugins.
        source: Prefix of error lines, usually the path of the file.
        overrides: Applied overrides, ``key.path=value``; errors in their values are attributed to them.
        problems: Problems found so far.
        origin: Where the configuration was read, which decides about the modules that it may name.
    """

    plugins: Plugins
    source: str = ""
    overrides: Sequence[str] = ()
    problems: list[Problem] = field(factory=list)
    origin: ConfigSource = NO_FILE

    def section(self, data: Mapping[str, Any], *path: str) -> SectionReader:
        """Return the reader of the table at `path`; a missing table is empty."""
        table: Any = data
        for key in path:
            table = table.get(key, {})
            if not isinstance(table, dict):
                self.problems.append(Problem(path, f"expected a table, got {shorten(table)}"))
                table = {}
        return SectionReader(self, dict(table), path)

    def is_overridden(self, value: object, path: Sequence[str | int]) -> bool:
        """Return whether the value at `path` consists of overrides only."""
        if any(list(path[: len(key)]) == key for key in self._override_paths):
            return True
        if not isinstance(value, dict) or not value:
            return False
        return all(self.is_overridden(value[key], (*path, key)) for key in value)

    @property
    def _override_paths(self) -> list[list[str]]:
        return [key_path(override.partition("=")[0]) for override in self.overrides]

    def check(self) -> None:
        """Raise the collected problems.

        Raises:
            ConfigError: With one line for every problem.
        """
        if self.problems:
            overridden = self._override_paths
            lines = list(dict.fromkeys(self._line(problem, overridden) for problem in self.problems))
            rest = [f"{len(lines) - _MOST_LINES:,} more problems"] if len(lines) > _MOST_LINES else []
            raise ConfigError(*lines[:_MOST_LINES], *rest)

    def _line(self, problem: Problem, override_paths: Sequence[list[str]]) -> str:
        is_override = any(all(a == b for a, b in zip(problem.path, key, strict=False)) for key in override_paths)
        prefix = "--set " if is_override else self.source
        return f"{prefix}{'.'.join(map(str, problem.path)) or 'top level'}: {problem.text}"


@define
class SectionReader:
    """Reads one table: takes the selected components out of it, then reads the remaining plain options.

    Attributes:
        reader: State shared by all sections.
        table: What has not been read yet.
        path: Keys that lead to the table.
        claimed: Selected component names → kind of component that the table of that name configures.
        open_kinds: Kinds of components that any remaining table may configure.
    """

    reader: ConfigReader
    table: dict[str, Any]
    path: tuple[str, ...]
    claimed: dict[str, str] = field(factory=dict)
    open_kinds: set[str] = field(factory=set)

    def add_problem(self, text: str, *keys: str | int) -> None:
        """Record a problem at a key of this table."""
        self.reader.problems.append(Problem((*self.path, *keys), text))

    def select(
        self, kind: str, key: str, *, required: bool = False, default: str | None = None
    ) -> SelectedComponent | None:
        """Take the component of `kind` named by `key`, or else `default`; None if there is none or on a problem."""
        name = self.table.pop(key, default)
        if name is None:
            if required:
                names = ", ".join(self.reader.plugins.components(kind)) or "none is"
                self.add_problem(f"missing; expected the name of an installed {kind} ({names} installed)", key)
            return None
        return self.take(kind, name, key)

    def select_all(self, kind: str, key: str) -> tuple[SelectedComponent, ...]:
        """Take the components of `kind` named by the list `key`."""
        names = self.table.pop(key, [])
        if not isinstance(names, list):
            self.add_problem(f"expected a list of names, got {shorten(names)}", key)
            return ()
        if len(names) > _MOST_NAMES:
            self.add_problem(f"expected at most {_MOST_NAMES} names, got {len(names):,}", key)
            return ()
        selected = [self.take(kind, item, key, i) for i, item in enumerate(names)]
        return tuple(component for component in selected if component is not None)

    def select_tables(self, kind: str) -> dict[str, SelectedComponent]:
        """Take every remaining table that configures an installed component of `kind`."""
        self.open_kinds.add(kind)
        components = self.reader.plugins.components(kind)
        names = [name for name, table in self.table.items() if table and name in components.keys() - self.claimed]
        selected = {name: self.take(kind, name, name) for name in names}
        return {name: component for name, component in selected.items() if component is not None}

    def take(self, kind: str, name: object, *keys: str | int) -> SelectedComponent | None:
        """Take a component with the table of its options.

        Args:
            kind: Kind of the component.
            name: Its name, as read from the configuration.
            keys: Keys of this table that hold the name; used by error messages.
        """
        if not isinstance(name, str) or len(name) > _LONGEST_NAME:
            self.add_problem(f"expected the name of an installed {kind}, got {shorten(name)}", *keys)
            return None
        owner = self.claimed.setdefault(name, kind)
        options = self.table.get(name, {})
        if owner != kind and options:
            self.add_problem(f"ambiguous: both the {owner} and the {kind} chosen here are called {name!r}", name)
        return self.make(kind, name, options, keys=keys)

    def make(self, kind: str, name: str, options: object, *, keys: Sequence[str | int]) -> SelectedComponent | None:
        """Return the component `name` with these options; None after a problem."""
        try:
            component = self.reader.plugins.get(kind, name)
            config = _structure_config(component, options)
        except PluginError as error:
            self.add_problem(str(error), *keys)
        except StructuringError as error:
            self.reader.problems += [problem.below(*self.path, name) for problem in error.problems]
        else:
            for option, text in self.reader.origin.refusals(config):
                self.reader.problems.append(Problem((*self.path, name, option), text))
            return SelectedComponent(kind=kind, name=name, config=config, component=component)
        return None

    def build(self, cls: type[S], **values: object) -> S | None:
        """Make a record from these values and the remaining plain options; None after a problem."""
        options = {  # the table of a component without options is ignored
            key: value
            for key, value in self.table.items()
            if key not in self.claimed and not (value == {} and self._kinds(key))
        }
        try:
            return cls(**structure_fields(options, cls, values=values))
        except StructuringError as error:
            self.reader.problems += [self._explain(problem).below(*self.path) for problem in error.problems]
        return None

    def _kinds(self, name: object) -> list[str]:
        """Return the kinds of the components called `name` that a configuration can select."""
        return [kind for kind in KINDS if kind != "command" and name in self.reader.plugins.components(kind)]

    def _explain(self, problem: Problem) -> Problem:
        """Add the owner of an unknown option, or the component that an unknown table configures, to a problem."""
        if not problem.text.startswith("unknown key"):
            return problem
        key = str(problem.path[0])
        if owner := self._owner(lambda options: key in options):
            table = ".".join((*self.path, owner))
            return evolve(problem, text=f"unknown key: it is an option of {owner!r} — write it into [{table}]")
        if owner := self._owner(lambda options: translate(key, options)):
            table, option = ".".join((*self.path, owner)), translate(key, self._options(owner))
            text = f"unknown key: it is called {option!r} here, an option of {owner!r} — write it into [{table}]"
            return evolve(problem, text=text)
        if isinstance(self.table.get(key), dict):
            if kinds := self._kinds(key):
                text = f"the {kinds[0]} {key!r} is not chosen in this section — remove the table, or choose it"
                return evolve(problem, text=f"unknown key: {text}")
            names = {*self.claimed, *chain.from_iterable(map(self.reader.plugins.components, self.open_kinds))}
            if hint := did_you_mean(key, names):
                return evolve(problem, text=f"unknown key{hint}")
        return problem

    def _owner(self, has_option: Callable[[Collection[str]], object]) -> str:
        """Return the first selected component for whose options a function returns a true value; empty if none."""
        return next((name for name in self.claimed if has_option(self._options(name))), "")

    def _options(self, name: str) -> Collection[str]:
        """Return the names of the options of a selected component, and ``preset`` if it has presets."""
        component = self.reader.plugins.components(self.claimed[name]).get(name)
        with suppress(PluginError):  # an unusable configuration class is reported by `make`
            cls = None if component is None else component.load_config()
            if cls is not None:
                return [*attrs.fields_dict(cls), *(["preset"] if presets_of(cls) else [])]
        return ()


def _structure_config(component: Component, options: object) -> Any:
    cls = component.load_config()
    if cls is None:
        if options:
            raise StructuringError(Problem((), "it has no options"))
        return None
    try:
        return structure(_apply_preset(cls, options), cls)
    except StructuringError:
        raise
    except Exception as error:  # a mistake of the plugin, such as unresolvable annotations
        raise PluginError(
            f"{component.name!r}: its configuration class {component.config} cannot be read: "
            f"{type(error).__name__}: {error}"
        ) from error


def _apply_preset(cls: type[Any], options: object) -> object:
    """Return a table of options with those of its preset, which the other options of the table replace.

    Raises:
        StructuringError: The class has no preset of that name.
    """
    presets = presets_of(cls)
    if not presets or not isinstance(options, dict) or "preset" not in options:
        return options
    own = dict(options)
    name = own.pop("preset")
    if not isinstance(name, str) or name not in presets:
        text = f"expected one of {', '.join(presets)}, got {shorten(name)}{did_you_mean(name, presets)}"
        raise StructuringError(Problem(("preset",), text))
    return {**presets[name], **own}
