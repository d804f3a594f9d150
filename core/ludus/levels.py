"""Difficulty levels: weakened models at measured distances in strength, in a folder of their own.

``ludus levels`` writes such a folder: ``levels.json``, which `LevelSet` describes, and the files of the models. Level 1
is the weakest. `WeakenedSource` lets commands name a level by its path, ``FOLDER/NUMBER``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from attrs import frozen

from ludus._config.structuring import StructuringError, structure
from ludus._store.foreign_files import open_regular
from ludus.errors import ConfigError
from ludus.handicap import Handicap, split_settings, weaken
from ludus.installed import load_agent, open_interfaces
from ludus.interface import bind_spec, wrap_agent
from ludus.lineup import Participant, Source
from ludus.option import Check, above, between, option

if TYPE_CHECKING:
    from ludus.agent import Agent
    from ludus.environment import Environment, EnvironmentSpec

__all__ = ["LEVELS_FILE", "Level", "LevelSet", "WeakenedSource", "is_level", "read_levels"]

#: Name of the description in a folder of levels.
LEVELS_FILE = "levels.json"

_MOST_BYTES = 1_000_000


@frozen(kw_only=True)
class Level:
    """One level.

    Attributes:
        model: Participant of the run that it was made of.
        hash: Hash of its weights, the name of its file.
        temperature: See `ludus.handicap.Handicap`.
        noise: See `ludus.handicap.Handicap`.
        interfaces: Interfaces that weaken the model further, innermost first, as tables with a ``name`` and options.
        elo: Measured strength in Elo points above the first level.
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
    """

    model: str = option(help="participant of the run")
    hash: str = option(help="hash of the weights")
    temperature: float = option(1.0, above(0.0), help="temperature")
    noise: float = option(0.0, between(0.0, 1.0), help="noise")
    interfaces: tuple[dict[str, Any], ...] = option(
        (),
        Check("a list of tables with a name", lambda value: all(isinstance(table.get("name"), str) for table in value)),
        help="interfaces",
    )
    elo: float = option(0.0, help="Elo points above the first level")
    low: float = option(0.0, help="lower end of the 95 % interval of elo")
    high: float = option(0.0, help="upper end of the 95 % interval of elo")

    @property
    def handicap(self) -> Handicap:
        """Return temperature and noise."""
        return Handicap(temperature=self.temperature, noise=self.noise)

    def agent(self, folder: Path, role: str, *, spec: EnvironmentSpec, deterministic: bool = False) -> Agent:
        """Make the agent of the level.

        Args:
            folder: Folder of the model's file.
            role: Role that it plays.
            spec: Specification of the environment.
            deterministic: Take the most likely actions instead of sampling.

        Raises:
            ModelError: The file is missing or damaged, or the model learned another environment or role.
            ConfigError: A component is not installed, or lacks an option, or the model has no temperature.
        """
        file, space = folder / f"{self.hash}.safetensors", spec.role(role).action_space
        if not self.interfaces:
            agent = load_agent(file, role, spec=spec, deterministic=deterministic)
            return weaken(agent, self.handicap, space)
        interface = open_interfaces(self.interfaces)
        inner = bind_spec(spec, role, interface)
        agent = load_agent(file, role, spec=inner, deterministic=deterministic)
        return wrap_agent(weaken(agent, self.handicap, inner.role(role).action_space), interface)

    def settings(self) -> str:
        """Return what weakens the model as text, ``"temperature=2"``; empty for nothing."""
        interfaces = [
            f"{table['name']}.{key}={value:g}"
            for table in self.interfaces
            for key, value in table.items()
            if isinstance(value, float)
        ]
        return ",".join(filter(None, [str(self.handicap).removeprefix(","), *interfaces]))


@frozen(kw_only=True)
class LevelSet:
    """The levels of a folder.

    Attributes:
        environment: Name of the environment.
        role: Role that the models learned.
        matches: Number of matches of every pair of levels that `Level.elo` was measured by.
        levels: The levels, weakest first.
    """

    environment: str = option(help="name of the environment")
    role: str = option(help="role of the models")
    matches: int = option(0, help="matches of every pair")
    levels: tuple[Level, ...] = option(help="the levels")

    def save(self, folder: Path) -> None:
        """Write the description into a folder that has the files of the models."""
        (folder / LEVELS_FILE).write_text(json.dumps(attrs.asdict(self), indent=2) + "\n")


def read_levels(folder: str | Path) -> LevelSet:
    """Read the description of a folder.

    Raises:
        ConfigError: The folder has none, or it is malformed.
    """
    path = Path(folder) / LEVELS_FILE
    try:
        with open_regular(path) as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; `ludus levels RUN` writes it") from None
    try:
        if len(text) > _MOST_BYTES:
            raise ValueError(f"expected at most {_MOST_BYTES:,} bytes")
        return structure(json.loads(text), LevelSet)
    except StructuringError as error:
        raise ConfigError(*(f"{path}: {problem}" for problem in error.problems)) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from None


def is_level(name: str) -> bool:
    """Return whether the name of a participant is the path of a level; other names have no slash."""
    return "/" in name


@frozen
class WeakenedSource:
    """A source that also finds levels, ``FOLDER/NUMBER``, and participants with settings, ``NAME,noise=0.1``.

    Args:
        source: Finds all other participants.
        run_dir: Folder that relative paths of levels may start from, besides the current folder; None for none.
    """

    source: Source
    run_dir: Path | None = None

    def participant(self, name: str, spec: EnvironmentSpec) -> Participant:
        """Return the participant of a name; see `ludus.lineup.Source`.

        Raises:
            ConfigError: There is no such participant, or it cannot play.
        """
        if is_level(name):
            _, role, _ = self._level(name, spec)
            return Participant(name, role if len(spec.roles) > 1 else "")
        own, handicap = split_settings(name)
        found = self.source.participant(own, spec)
        return Participant(f"{found.name}{handicap}", found.role)

    def default_participants(self, role: str, spec: EnvironmentSpec) -> Iterator[str]:
        """Yield the participants that can fill unnamed seats of a role, best choice first."""
        return self.source.default_participants(role, spec)

    def agent(self, name: str, role: str, *, environment: Environment, deterministic: bool = False) -> Agent:
        """Make the agent of a participant for a role; see `ludus.lineup.Source`.

        Raises:
            ConfigError: There is no such participant, it plays another role, or it has no temperature.
            ModelError: The model cannot be loaded.
        """
        if is_level(name):
            folder, _, level = self._level(name, environment.spec)
            return level.agent(folder, role, spec=environment.spec, deterministic=deterministic)
        own, handicap = split_settings(name)
        agent = self.source.agent(own, role, environment=environment, deterministic=deterministic)
        return weaken(agent, handicap, environment.spec.role(role).action_space)

    def _level(self, name: str, spec: EnvironmentSpec) -> tuple[Path, str, Level]:
        """Return folder, role and level of a path."""
        text, _, number = name.rpartition("/")
        folder = Path(text)
        if self.run_dir is not None and not (folder / LEVELS_FILE).exists():
            folder = self.run_dir / folder
        found = read_levels(folder)
        if not (number.isdecimal() and 1 <= int(number) <= len(found.levels)):
            raise ConfigError(f"{name}: expected {text}/1 to {text}/{len(found.levels)}")
        if found.environment != spec.name:
            raise ConfigError(f"{name}: the level plays {found.environment}, not {spec.name}")
        return folder, found.role, found.levels[int(number) - 1]
