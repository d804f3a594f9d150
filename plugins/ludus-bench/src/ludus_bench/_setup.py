"""The configuration to measure and its parts, each of which runs alone.

Only this module and `_sampling` import private modules of ludus. The rest of the package sees a `Setup`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import torch
from attrs import frozen
from ludus import load_plugins
from ludus._config.run_config import dump_config, parse_config, select_components
from ludus._config.section_reader import SelectedComponent
from ludus._config.sections import PlayerConfig, RunConfig
from ludus._config.toml import apply_overrides, read_toml
from ludus._run.context import RunContext
from ludus._run.factories import make_algorithm, make_environment, make_networks, player_role
from ludus._run.metric_file import read_metrics
from ludus._run.threads import configure_process, find_device_problem
from ludus._run.worker_plan import count_samplers
from ludus._seeding import seed_for
from ludus.algorithm import GroupTrainer, Policy, Trainer
from ludus.environment import Environment, EnvironmentSpec
from ludus.errors import ConfigError
from ludus.service import Network
from ludus_local.process import available_cores, oversubscription

from ludus_bench._sampling import StandaloneSampler
from ludus_bench.random_play import LibraryMatch

if TYPE_CHECKING:
    from ludus._plugins.manager import Plugins

__all__ = [
    "Player",
    "Setup",
    "available_cores",
    "configure_process",
    "find_device_problem",
    "open_environment",
    "open_library",
    "open_setup",
    "oversubscription",
    "read_metrics",
    "table_of",
]

#: Components of a run without a file, where they are installed; else the first of the kind.
_PREFERRED = {"algorithm": "ppo", "network": "mlp", "matchmaker": "latest-self-play"}


def open_environment(name: str, overrides: Sequence[str] = ()) -> Callable[[int], Environment]:
    """Return a factory of an installed environment, called with the number of matches.

    Args:
        name: Name of the environment.
        overrides: Options as ``environment.NAME.option=value`` or ``NAME.option=value``.

    Raises:
        ConfigError: With one line for every mistake.
    """
    chosen = _select_environment(name, overrides)
    return lambda matches: make_environment(chosen, matches)


def open_library(name: str, overrides: Sequence[str] = ()) -> LibraryMatch | None:
    """Make random play of the library that an environment adapts; None if it adapts none.

    An adapter ``package.module:factory`` has a module ``package.library`` with a function ``make_library(config)``.

    Raises:
        ConfigError: With one line for every mistake.
    """
    chosen = _select_environment(name, overrides)
    package = str(chosen.component.factory).partition(":")[0].partition(".")[0]
    if find_spec(f"{package}.library") is None:
        return None
    match: LibraryMatch = import_module(f"{package}.library").make_library(chosen.config)
    return match


def _select_environment(name: str, overrides: Sequence[str]) -> SelectedComponent:
    options = tuple(text.removeprefix("environment.") for text in overrides)
    (chosen,) = select_components(load_plugins(), [("environment", name)], overrides=options)
    return chosen


def open_setup(
    path: str = "", *, environment: str = "", algorithm: str = "", network: str = "", overrides: Sequence[str] = ()
) -> Setup:
    """Read a configuration, or build one of a small self-play run from the names of its components.

    Args:
        path: TOML file; empty: build a configuration from the names.
        environment: Name of the environment, without a file.
        algorithm: Name of the algorithm, without a file; empty: ``ppo`` or the first installed.
        network: Name of the network, without a file; empty: ``mlp`` or the first installed.
        overrides: Texts ``key.path=value``.

    Raises:
        ConfigError: With one line for every mistake.
        RunError: The file cannot be read.
    """
    plugins = load_plugins()
    if path:
        if environment or algorithm or network:
            raise ConfigError("give a TOML file, or --env with --algorithm and --network, not both")
        data = read_toml(path)
    else:
        if not environment:
            raise ConfigError("nothing to measure: give a TOML file or --env NAME")
        chosen = {"algorithm": algorithm, "network": network}
        components = {kind: chosen.get(kind) or _default_component(plugins, kind) for kind in _PREFERRED}
        data = _default_run(environment, components, overrides)
    config = parse_config(apply_overrides(data, overrides), source=path or f"--env {environment}", plugins=plugins)
    return Setup(config=config, plugins=plugins)


def _default_run(environment: str, components: Mapping[str, str], overrides: Sequence[str]) -> dict[str, Any]:
    """Return the tables of a run with one self-playing player per role and without rating matches."""
    options = [text for text in overrides if text.startswith("environment.")]
    make = open_environment(environment, [text for text in options if text.partition("=")[0] != "environment.name"])
    with closing(make(1)) as opened:
        roles = [role.name for role in opened.spec.roles]
    players = {"main_agent" if len(roles) == 1 else role: {"role": role, **components} for role in roles}
    return {
        "environment": {"name": environment},
        "sampling": {"matches": 256},
        "players": players,
        "evaluation": {"enabled": False},
    }


def _default_component(plugins: Plugins, kind: str) -> str:
    installed = plugins.components(kind)
    return _PREFERRED[kind] if _PREFERRED[kind] in installed or not installed else next(iter(installed))


@frozen(kw_only=True)
class Player:
    """Policy and trainer of one player.

    Args:
        name: Name of the player.
        policy: Policy with the weights of the trainer.
        trainer: Trainer with initial weights.
    """

    name: str
    policy: Policy
    trainer: Trainer


@frozen(kw_only=True)
class Setup:
    """The configuration to measure.

    Args:
        config: Configuration of a run.
        plugins: Installed plugins.
    """

    config: RunConfig
    plugins: Plugins

    @property
    def workers(self) -> int:
        """Return the number of sampler processes."""
        return count_samplers(self.config, available_cores())

    @property
    def device(self) -> str:
        """Return the torch device of the learners."""
        return self.config.run.device

    @property
    def gpus(self) -> int:
        """Return the number of GPUs on which the processes of all learners compute."""
        if not self.device.startswith("cuda"):
            return 0
        available = torch.cuda.device_count() if self.device == "cuda" else 1
        return min(available, self.config.learner_processes)

    @property
    def players(self) -> tuple[str, ...]:
        """Return the names of the players; measurements of one player take the first."""
        return tuple(self.config.players)

    def describe(self) -> dict[str, Any]:
        """Return environment, algorithm and network for a report."""
        _, player = self._first_player()
        return {
            "env": self.config.environment.name,
            "algorithm": player.algorithm.name,
            "network": player.network.name if player.network else "",
        }

    def environment(self, matches: int) -> Environment:
        """Make the environment.

        Args:
            matches: Number of matches in a batch.
        """
        return make_environment(self.config.environment, matches)

    @cached_property
    def spec(self) -> EnvironmentSpec:
        """Return the specification of the environment."""
        with closing(self.environment(1)) as environment:
            return environment.spec

    def make_player(self, *, device: str = "cpu") -> Player:
        """Make policy and trainer of the first player.

        Args:
            device: Torch device of the trainer.
        """
        name, config = self._first_player()
        role, _ = player_role(config, self.spec)
        algorithm = make_algorithm(config, role, runtime=self.config.inference)
        trainer = algorithm.make_trainer(seed=seed_for(self.config.run.seed, "learner", name), device=device)
        policy = algorithm.make_policy()
        policy.load(trainer.weights())
        return Player(name=name, policy=policy, trainer=trainer)

    @property
    def has_network(self) -> bool:
        """Return whether the first player's algorithm runs a network."""
        _, player = self._first_player()
        return bool(make_networks(player, player_role(player, self.spec)[0]))

    def network(self) -> Network:
        """Make the acting network of the first player; the first one where its policy runs several.

        Raises:
            ConfigError: The algorithm runs no network.
        """
        _, player = self._first_player()
        role, _ = player_role(player, self.spec)
        networks = make_networks(player, role)
        if not networks:
            raise ConfigError(
                f"algorithm {player.algorithm.name!r} runs no network, so there is none to measure on a device — "
                f"leave out --device"
            )
        return networks[0]

    def sampler(self, *, matches: int) -> StandaloneSampler:
        """Make a sampler without coordinator and learners.

        Args:
            matches: Number of matches in a batch.

        Raises:
            ConfigError: No player learns one of the roles.
        """
        config = attrs.evolve(self.config, sampling=attrs.evolve(self.config.sampling, matches=matches))
        context = RunContext(config=config, plugins=self.plugins, run_dir=Path(), known_spec=self.spec)
        weights = {name: trainer.weights() for name, trainer in self._trainers()}
        return StandaloneSampler(context, self._seat_players(), weights)

    def _seat_players(self) -> tuple[str, ...]:
        """Return the player of every seat: the first one that learns its role."""
        players = []
        for seat in self.spec.seats:
            player = next((name for name, p in self.config.players.items() if p.role in ("", seat.role)), None)
            if player is None:
                raise ConfigError(f"role {seat.role!r}: no player learns it, so its seats stay empty — add a player")
            players.append(player)
        return tuple(players)

    def _first_player(self) -> tuple[str, PlayerConfig]:
        return next(iter(self.config.players.items()))

    def _trainers(self) -> Iterator[tuple[str, Trainer]]:
        spec = self.spec
        for name, player in self.config.players.items():
            role, _ = player_role(player, spec)
            yield name, make_algorithm(player, role).make_trainer(seed=0)

    @property
    def minibatch_option(self) -> tuple[str, int] | None:
        """Return dotted key and value of the first player's number of minibatches; None without such an option."""
        name, player = self._first_player()
        value = getattr(player.algorithm.config, "num_minibatches", None)
        return None if value is None else (f"{table_of(name, player.algorithm.name)}.num_minibatches", int(value))

    def with_minibatch(self, rows: int) -> Setup:
        """Return the configuration with about this many rows per gradient step; see `minibatch_option`."""
        option = self.minibatch_option
        assert option is not None
        count = max(1, round(self.make_player().trainer.batch_decisions / rows))
        return self._changed([f"{option[0]}={count}"])

    @property
    def supports_groups(self) -> bool:
        """Return whether the trainers of all players can learn in several processes."""
        return all(isinstance(trainer, GroupTrainer) for _, trainer in self._trainers())

    def with_processes(self, count: int) -> Setup:
        """Return the configuration with `count` processes for each learner."""
        return self._changed([f"{table_of(name)}.learner_processes={count}" for name in self.players])

    def _changed(self, overrides: Sequence[str]) -> Setup:
        data = apply_overrides(self.config.data, overrides)
        return Setup(config=parse_config(data, source="bench", plugins=self.plugins), plugins=self.plugins)

    def dump(self, **sections: Mapping[str, Any]) -> str:
        """Return the configuration as TOML, without metric sinks.

        Args:
            sections: Values to replace, by section.

        Raises:
            ConfigError: A value is invalid.
        """
        data = {name: dict(section) for name, section in self.config.data.items() if name != "metrics"}
        for name, values in sections.items():
            data[name] = {**data.get(name, {}), **values}
        return dump_config(parse_config(data, source="bench", plugins=self.plugins))


def table_of(player: str, *parts: str) -> str:
    """Return the dotted key of a player's table, or of a table within it."""
    return ".".join(["players", *(f'"{name}"' if "." in name else name for name in (player, *parts))])
