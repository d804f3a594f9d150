"""What this package uses of ludus beyond its public modules; `_sampling`, the part of it that plays, does so too.

The rest of the package sees a `Setup`: what to measure, from a TOML file or from names, and the parts of it that can
be run alone — an environment, a policy with its trainer, a sampler without its peers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch
from attrs import field, frozen
from ludus import load_plugins
from ludus._config.run_config import PlayerConfig, RunConfig, choose_components, dump_config, parse_config
from ludus._config.toml import apply_overrides, read_toml
from ludus._run.context import RunContext
from ludus._run.factories import learned_role, make_algorithm, make_environment, make_networks, player_role
from ludus._run.metrics import read_metrics
from ludus._run.threads import device_problem, prepare_to_compute
from ludus._run.worker_plan import count_samplers
from ludus._seeding import seed_for
from ludus._store.model_files import load_arrays, save_arrays
from ludus.algorithm import GroupTrainer, Policy, Trainer, Weights
from ludus.environment import Environment, EnvironmentSpec, Role
from ludus.errors import ConfigError
from ludus.runs import open_run
from ludus.service import Network
from ludus_local.process import available_cores, oversubscription

from ludus_bench._sampling import Dealer, Opponents, Sampling

if TYPE_CHECKING:
    from ludus._plugins.manager import Plugins

__all__ = [
    "Learned",
    "Setup",
    "Source",
    "available_cores",
    "device_problem",
    "open_environment",
    "open_setup",
    "oversubscription",
    "prepare_to_compute",
    "read_metrics",
]

#: What a default configuration takes where it is installed; else the first of its kind.
_PREFERRED = {"algorithm": "ppo", "network": "mlp", "matchmaker": "latest-self-play"}

#: By which options an algorithm that has them computes in plain torch.
_PLAIN = {"cpu_kernels": "plain", "compile": False, "cuda_graphs": False}


@frozen(kw_only=True)
class Source:
    """Where a configuration comes from: a file, or names that make a small self-play run.

    Args:
        path: A TOML file; empty: make one.
        environment: The environment's name, for a run without a file.
        algorithm: Likewise; empty: ``ppo`` or the first installed.
        network: Likewise; empty: ``mlp`` or the first installed.
        matchmaker: Likewise; empty: ``latest-self-play`` or the first installed.
        freeze_every: Decisions between two frozen models of a run without a file; 0: the default.
        overrides: Texts ``key.path=value``.
    """

    path: str = ""
    environment: str = ""
    algorithm: str = ""
    network: str = ""
    matchmaker: str = ""
    freeze_every: int = 0
    overrides: tuple[str, ...] = ()


def open_environment(name: str, overrides: Sequence[str] = ()) -> tuple[Callable[[int], Environment], Any]:
    """Return how to make an installed environment with so many matches, and its options.

    Args:
        name: The environment's name.
        overrides: Options as ``environment.NAME.option=value`` or ``NAME.option=value``.

    Raises:
        ConfigError: With one line for every mistake.
    """
    below = tuple(text.removeprefix("environment.") for text in overrides)
    (chosen,) = choose_components(load_plugins(), [("environment", name)], overrides=below)
    return lambda matches: make_environment(chosen, matches), chosen.config


def open_setup(source: Source) -> Setup:
    """Read or make a configuration.

    Raises:
        ConfigError: With one line for every mistake.
        RunError: The file cannot be read.
    """
    plugins = load_plugins()
    if source.path:
        if source.environment or source.algorithm or source.network:
            raise ConfigError("give a TOML file, or --env with --algorithm and --network, not both")
        data, name = read_toml(source.path), source.path
    else:
        if not source.environment:
            raise ConfigError("what to measure is missing: give a TOML file or --env NAME")
        data, name = _default_run(source, plugins), f"--env {source.environment}"
    config = parse_config(apply_overrides(data, source.overrides), source=name, plugins=plugins)
    return Setup(config=config, plugins=plugins)


def _default_run(source: Source, plugins: Plugins) -> dict[str, Any]:
    """Return the tables of a run in which one player per role plays against itself and nobody is rated."""
    below = [text.removeprefix("environment.") for text in source.overrides if text.startswith("environment.")]
    make, _ = open_environment(source.environment, [text for text in below if not text.startswith("name=")])
    environment = make(1)
    roles = [role.name for role in environment.spec.roles]
    environment.close()
    chosen: dict[str, Any] = {kind: getattr(source, kind) or _usual(plugins, kind) for kind in _PREFERRED}
    if source.freeze_every:
        chosen["freeze_every_decisions"] = source.freeze_every
    players = {"main_agent" if len(roles) == 1 else role: {"role": role, **chosen} for role in roles}
    return {
        "environment": {"name": source.environment},
        "sampling": {"matches": 256},
        "players": players,
        "evaluation": {"enabled": False},
    }


def _usual(plugins: Plugins, kind: str) -> str:
    installed = plugins.components(kind)
    return _PREFERRED[kind] if _PREFERRED[kind] in installed or not installed else next(iter(installed))


@frozen(kw_only=True)
class Learned:
    """What one player is made of.

    Args:
        player: Its name.
        role: The role as it sees it.
        policy: With the trainer's weights.
        trainer: Fresh.
    """

    player: str
    role: Role
    policy: Policy
    trainer: Trainer


@frozen(kw_only=True)
class Setup:
    """A configuration and what is installed.

    Args:
        config: Of a run.
        plugins: What is installed.
        weights: Of players that do not begin as in a new run, by name.
    """

    config: RunConfig
    plugins: Plugins
    weights: Mapping[str, Weights] = field(factory=dict)

    def during(self, folder: Path, *, at_s: float) -> Setup:
        """Return the same with the players as a run of this configuration had them.

        Args:
            folder: The run folder. Who has no model there begins as ever.
            at_s: When, in seconds that the run had trained; the models frozen next to that are taken.
        """
        with open_run(folder) as run:
            models = [*run.models.values()]
        models.sort(key=lambda model: -abs(model.manifest.get("elapsed_s", 0.0) - at_s))
        nearest = {model.player: model.hash for model in models}
        weights = {player: load_arrays(folder / "models", digest) for player, digest in nearest.items()}
        return attrs.evolve(self, weights=weights)

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
        """Return how many GPUs the processes of the learners compute on together."""
        if not self.device.startswith("cuda"):
            return 0
        there = torch.cuda.device_count() if self.device == "cuda" else 1
        return min(there, self.config.learner_processes)

    @property
    def players(self) -> tuple[str, ...]:
        """Return the players' names; measurements of one player take the first."""
        return tuple(self.config.players)

    def environment(self, matches: int) -> Environment:
        """Make a batch of matches."""
        return make_environment(self.config.environment, matches)

    def spec(self) -> EnvironmentSpec:
        """Return what is known of the game before a match starts."""
        environment = self.environment(1)
        try:
            return environment.spec
        finally:
            environment.close()

    def learned(self, *, device: str = "cpu", plain: bool = False) -> Learned:
        """Make policy and trainer of the first player.

        Args:
            device: The trainer's torch device.
            plain: They compute in plain torch, so that `trace_gemms` sees all that they multiply.
        """
        name, player = next(iter(self.config.players.items()))
        role, _ = player_role(player, learned_role(player, self.spec()))
        if plain:
            player = _in_plain_torch(player)
        algorithm = make_algorithm(
            player,
            role,
            runtime=None if plain else self.config.inference,
        )
        trainer = algorithm.make_trainer(seed=seed_for(self.config.run.seed, "learner", name), device=device)
        if name in self.weights:
            trainer.load_weights(self.weights[name])
        policy = algorithm.make_policy()
        policy.load(trainer.weights())
        return Learned(player=name, role=role, policy=policy, trainer=trainer)

    def network(self) -> Network:
        """Make the network by which the first player acts; the first one where its policy runs several.

        Raises:
            ConfigError: There is none.
        """
        player = next(iter(self.config.players.values()))
        role, _ = player_role(player, learned_role(player, self.spec()))
        made = make_networks(player, role)
        if not made:
            raise ConfigError(f"the algorithm {player.algorithm.name!r} runs no network that could be measured alone")
        return made[0]

    def sampling(self, *, matches: int, opponents: Opponents | None = None, rows_per_fixture: int = 0) -> Sampling:
        """Make a sampler whose learners take everything at once and whose coordinator is never short of fixtures.

        Args:
            matches: Matches at once.
            opponents: Frozen models that fill the seats of all teams but one, each in its player's role; None: all
                seats learn.
            rows_per_fixture: Rows that play one fixture; 0: as configured.

        Raises:
            ConfigError: Nobody learns one of the roles.
        """
        section = attrs.evolve(
            self.config.sampling,
            matches=matches,
            rows_per_fixture=rows_per_fixture or self.config.sampling.rows_per_fixture,
        )
        config = attrs.evolve(self.config, sampling=section)
        folder = opponents.folder if opponents else Path()
        context = RunContext(config=config, plugins=self.plugins, run_dir=folder)
        dealer = Dealer(self._seats(), section.matches_per_fixture, opponents)
        return Sampling(context, dealer, self._first_weights())

    def _seats(self) -> tuple[tuple[int, str], ...]:
        """Return team and player of every seat: the first player that learns its role."""
        seats = []
        for seat in self.spec().seats:
            player = next((name for name, p in self.config.players.items() if p.role in ("", seat.role)), None)
            if player is None:
                raise ConfigError(f"role {seat.role!r}: no player learns it, so matches cannot be filled")
            seats.append((seat.team, player))
        return tuple(seats)

    def _trainers(self) -> Iterator[tuple[str, Trainer]]:
        spec = self.spec()
        for name, player in self.config.players.items():
            role, _ = player_role(player, learned_role(player, spec))
            yield name, make_algorithm(player, role).make_trainer(seed=0)

    def _first_weights(self) -> dict[str, Weights]:
        return {name: self.weights.get(name) or trainer.weights() for name, trainer in self._trainers()}

    @property
    def minibatch_option(self) -> tuple[str, int] | None:
        """Return dotted key and value of the first player's number of minibatches, None where there is no such."""
        name, player = next(iter(self.config.players.items()))
        value = getattr(player.algorithm.config, "num_minibatches", None)
        return None if value is None else (f"{table_of(name, player.algorithm.name)}.num_minibatches", int(value))

    def with_minibatch(self, rows: int) -> Setup:
        """Return the configuration with so many rows per gradient step, nearly; see `minibatch_option`."""
        option = self.minibatch_option
        assert option is not None
        count = max(1, round(self.learned().trainer.batch_decisions / rows))
        data = apply_overrides(self.config.data, [f"{option[0]}={count}"])
        return Setup(config=parse_config(data, source="bench", plugins=self.plugins), plugins=self.plugins)

    @property
    def learns_in_groups(self) -> bool:
        """Return whether the trainers of all players can learn in several processes."""
        return all(isinstance(trainer, GroupTrainer) for _, trainer in self._trainers())

    def with_processes(self, count: int) -> Setup:
        """Return the configuration with so many processes for each learner."""
        changes = [f"{table_of(name)}.learner_processes={count}" for name in self.players]
        data = apply_overrides(self.config.data, changes)
        return Setup(config=parse_config(data, source="bench", plugins=self.plugins), plugins=self.plugins)

    def freeze(self, count: int, folder: Path) -> Opponents:
        """Write so many different models of every player that has a seat into a folder.

        Args:
            count: How many of each.
            folder: A run folder; models go below it.

        Raises:
            ConfigError: Nobody learns one of the roles.
        """
        (folder / "models").mkdir(parents=True, exist_ok=True)
        weights, hashes = self._first_weights(), {}
        for player in dict.fromkeys(player for _, player in self._seats()):
            for number in range(1, count + 1):
                rng = np.random.default_rng(number)
                changed = {name: _nudged(array, rng) for name, array in weights[player].items()}
                hashes[f"{player}@{number}"] = save_arrays(folder / "models", changed, {"player": player})
        return Opponents(folder=folder, count=count, hashes=hashes)

    def dump(self, **sections: Mapping[str, Any]) -> str:
        """Return the configuration as TOML with some values of some sections replaced, and without metric sinks.

        Raises:
            ConfigError: A value is not accepted.
        """
        data = {name: dict(section) for name, section in self.config.data.items() if name != "metrics"}
        for name, values in sections.items():
            data[name] = {**data.get(name, {}), **values}
        return dump_config(parse_config(data, source="bench", plugins=self.plugins))


def table_of(player: str, *parts: str) -> str:
    """Return the dotted key of a player's table, or of one within it."""
    return ".".join(["players", *(f'"{name}"' if "." in name else name for name in (player, *parts))])


def _nudged(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    return np.asarray(array + 1e-3 * rng.standard_normal(array.shape), array.dtype)


def _in_plain_torch(player: PlayerConfig) -> PlayerConfig:
    config = player.algorithm.config
    changes = {name: value for name, value in _PLAIN.items() if hasattr(config, name)}
    return attrs.evolve(player, algorithm=attrs.evolve(player.algorithm, config=attrs.evolve(config, **changes)))
