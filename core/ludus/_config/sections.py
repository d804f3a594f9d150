"""Reading the tables of a configuration: choices of components by name, their options, and plain options.

A table is read by taking the choices out of it first (with the tables of the chosen names); what remains must be
plain options of the section. Problems are collected, so that one reading finds them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, TypeVar

import attrs
from attrs import define, evolve, field, frozen

from ludus._config.structuring import Problem, StructuringError, did_you_mean, shown, structure, structure_fields
from ludus._config.toml import key_path
from ludus._plugins.manager import Plugins
from ludus.component import Component
from ludus.errors import ConfigError, PluginError
from ludus.hookspecs import KINDS

S = TypeVar("S")


@frozen(kw_only=True)
class Chosen:
    """A component that the configuration chose, with its options.

    Attributes:
        kind: One of `ludus.hookspecs.KINDS`.
        name: The component's name.
        config: An instance of its configuration class, None if it has none.
        component: What the plugin registered.
    """

    kind: str
    name: str
    config: Any
    component: Component


@define
class Reader:
    """What all sections share.

    Attributes:
        plugins: What there is to choose from.
        source: What a problem's line begins with, usually the path of the file.
        overrides: Texts ``key.path=value`` that have been applied; their problems are put down to them.
        problems: Found so far.
    """

    plugins: Plugins
    source: str = ""
    overrides: Sequence[str] = ()
    problems: list[Problem] = field(factory=list)

    def section(self, data: Mapping[str, Any], *path: str) -> Section:
        """Return the table at `path`, empty where there is none."""
        table: Any = data
        for key in path:
            table = table.get(key, {})
            if not isinstance(table, dict):
                self.problems.append(Problem(path, f"expected a table, got {shown(table)}"))
                table = {}
        return Section(self, dict(table), path)

    def sets(self, value: object, path: Sequence[str | int]) -> bool:
        """Return whether overrides made all of the value that stands at `path`."""
        if any(list(path[: len(key)]) == key for key in self._replaced):
            return True
        return isinstance(value, dict) and bool(value) and all(self.sets(value[key], (*path, key)) for key in value)

    @property
    def _replaced(self) -> list[list[str]]:
        return [key_path(override.partition("=")[0]) for override in self.overrides]

    def check(self) -> None:
        """Raise what has been found.

        Raises:
            ConfigError: With one line for every problem.
        """
        lines, replaced = [], self._replaced
        for path, text in ((problem.path, problem.text) for problem in self.problems):
            ours = any(all(a == b for a, b in zip(path, key, strict=False)) for key in replaced)
            lines.append(f"{'--set ' if ours else self.source}{'.'.join(map(str, path)) or 'top level'}: {text}")
        if lines:
            raise ConfigError(*dict.fromkeys(lines))


@define
class Section:
    """A table while it is read: choices are taken out of it first, and what remains must be plain options."""

    reader: Reader
    table: dict[str, Any]
    path: tuple[str, ...]
    claimed: dict[str, str] = field(factory=dict)  # component name → kind that owns the table of that name
    parted: set[str] = field(factory=set)  # kinds of which any table may stand here

    def problem(self, text: str, *below: str | int) -> None:
        """Remember what is wrong at a key of this table."""
        self.reader.problems.append(Problem((*self.path, *below), text))

    def choose(self, kind: str, key: str, *, required: bool = False, default: str | None = None) -> Chosen | None:
        """Take the component of `kind` that `key` names, or else `default`, with its options."""
        wanted = self.table.pop(key, default)
        if wanted is None:
            if required:
                names = ", ".join(self.reader.plugins.components(kind)) or "none is"
                self.problem(f"missing; expected the name of an installed {kind} ({names} installed)", key)
            return None
        return self.take(kind, wanted, key)

    def choose_many(self, kind: str, key: str) -> tuple[Chosen, ...]:
        """Take the components of `kind` that the list `key` names."""
        names = self.table.pop(key, [])
        if not isinstance(names, list):
            self.problem(f"expected a list of names, got {shown(names)}", key)
            return ()
        chosen = [self.take(kind, item, key, i) for i, item in enumerate(names)]
        return tuple(one for one in chosen if one is not None)

    def take(self, kind: str, name: object, *at: str | int) -> Chosen | None:
        """Take the component of `kind` called `name`, with its options; `at` is where it was named."""
        if not isinstance(name, str):
            self.problem(f"expected the name of an installed {kind}, got {shown(name)}", *at)
            return None
        owner = self.claimed.setdefault(name, kind)
        options = self.table.get(name, {})
        if owner != kind and options:
            self.problem(f"ambiguous: both the {owner} and the {kind} chosen here are called {name!r}", name)
        return self.make(kind, name, options, at=at)

    def make(self, kind: str, name: str, options: object, *, at: Sequence[str | int]) -> Chosen | None:
        """Return the component `name` with the given options, None after a problem."""
        try:
            component = self.reader.plugins.get(kind, name)
            config = _structure_config(component, options)
        except PluginError as error:
            self.problem(str(error), *at)
        except StructuringError as error:
            self.reader.problems += [problem.below(*self.path, name) for problem in error.problems]
        else:
            return Chosen(kind=kind, name=name, config=config, component=component)
        return None

    def parts(self, kind: str) -> dict[str, Chosen]:
        """Take every remaining table that configures an installed component of `kind`."""
        self.parted.add(kind)
        components = self.reader.plugins.components(kind)
        names = [name for name, table in self.table.items() if table and name in components.keys() - self.claimed]
        made = {name: self.take(kind, name, name) for name in names}
        return {name: part for name, part in made.items() if part is not None}

    def build(self, cls: type[S], **given: object) -> S | None:
        """Make the record from the given fields and the plain options that remain, None after a problem."""
        options = {key: self.table[key] for key in self.table if not (key in self.claimed or self._is_idle(key))}
        try:
            return cls(**structure_fields(options, cls, given=given))
        except StructuringError as error:
            self.reader.problems += [self._explained(problem).below(*self.path) for problem in error.problems]
        return None

    def _is_idle(self, key: str) -> bool:
        """Return whether a key holds a component's table without options, which is as good as none."""
        return self.table[key] == {} and bool(self._kinds(key))

    def _kinds(self, name: object) -> list[str]:
        """Return the kinds of the components called `name` that a configuration can choose."""
        return [kind for kind in KINDS if kind != "command" and name in self.reader.plugins.components(kind)]

    def _explained(self, problem: Problem) -> Problem:
        """Say of an unknown table which component it would configure, and of an unknown option whose it is."""
        key = str(problem.path[0])
        if not problem.text.startswith("unknown key"):
            return problem
        if owner := self._owner(key):
            table = ".".join((*self.path, owner))
            return evolve(problem, text=f"unknown key: it is an option of {owner!r} — write it into [{table}]")
        if isinstance(self.table.get(key), dict):
            if kinds := self._kinds(key):
                text = f"the {kinds[0]} {key!r} is not chosen in this section — remove the table, or choose it"
                return evolve(problem, text=f"unknown key: {text}")
            choices = {*self.claimed, *chain.from_iterable(map(self.reader.plugins.components, self.parted))}
            if hint := did_you_mean(key, choices):
                return evolve(problem, text=f"unknown key{hint}")
        return problem

    def _owner(self, option: str) -> str:
        """Return the component chosen here that has an option of that name, empty where none has."""
        for name, kind in self.claimed.items():
            component = self.reader.plugins.components(kind).get(name)
            with suppress(PluginError):  # of one whose class cannot be used, which is told already
                cls = None if component is None else component.load_config()
                if cls is not None and option in attrs.fields_dict(cls):
                    return name
        return ""


def _structure_config(component: Component, options: object) -> Any:
    cls = component.load_config()
    if cls is None:
        if options:
            raise StructuringError(Problem((), "it has no options"))
        return None
    try:
        return structure(options, cls)
    except StructuringError:
        raise
    except Exception as error:  # unresolvable annotations, say: a mistake of the plugin
        raise PluginError(
            f"{component.name!r}: its configuration class {component.config} cannot be read: "
            f"{type(error).__name__}: {error}"
        ) from error
