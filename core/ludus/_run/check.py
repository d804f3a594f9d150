"""Check a run before it starts: its components, its options, and for a resumed run its models and checkpoints."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, fields

from ludus._config.section_reader import ConfigReader, SelectedComponent
from ludus._config.sections import EvaluationSection, PlayerConfig
from ludus._config.structuring import Problem
from ludus._messaging.messages import Checkpoint
from ludus._plugins.error_wrapping import wrap_errors
from ludus._plugins.manager import Plugins
from ludus._run.context import RunContext
from ludus._run.factories import anchor_roles, learned_role, make, make_matchmaker
from ludus._run.threads import find_device_problem
from ludus._run.worker_factories import make_model_agent, make_player_networks, make_trainer
from ludus._run.worker_plan import count_samplers
from ludus._store.model_files import checkpoint_arrays, load_checkpoint
from ludus._store.store import Store
from ludus.algorithm import GroupTrainer
from ludus.environment import EnvironmentSpec, allocate_tick
from ludus.errors import ConfigError, LudusError, ModelError, PluginError, WorkerError
from ludus.launcher import Launcher
from ludus.matchmaker import rated_anchors
from ludus.processes import memory_bytes


def check_run(run: RunContext, store: Store | None = None) -> None:
    """Check that a run can start; nothing is written.

    Args:
        run: The run.
        store: Store of a run to resume, which the configuration must fit; None for a new run.

    Raises:
        LudusError: The run would not start.
    """
    if store is not None:
        problems = [*_environment_changes(run, store), *_player_changes(run, store)]
        evolve(run.config.reader, problems=problems).check()
    check_options(run)
    config, spec = run.config, run.spec
    for name, player in config.players.items():
        run.player_components(name, spec)
        make_matchmaker(run.plugins, player)
    for rule in config.league.rules:
        make(rule)
    for anchor in config.anchors.values():
        anchor_roles(anchor, spec)
    make(config.league.rating, anchors=rated_anchors(tuple(config.anchors), spec.seats), seats=spec.seats, sides={})
    if store is not None:
        store.declare(**run.league_members())
        for name, checkpoint in store.checkpoints.latest().items():
            if name in config.players:
                _check_checkpoint(run, name, checkpoint)


def check_options(run: RunContext) -> None:
    """Check the options whose values depend on the environment, this host or a model file.

    Raises:
        ConfigError: With one line for every mistake.
        PluginError: The trainer that loads the model of an ``init`` option could not be made.
    """
    problems = [
        *_run_problems(run),
        *_memory_problems(run),
        *_player_problems(run),
        *_role_problems(run),
        *_matchmaker_problems(run),
    ]
    evolve(run.config.reader, problems=problems).check()


def _run_problems(run: RunContext) -> Iterator[Problem]:
    config = run.config
    if text := find_device_problem(config.run.device):
        yield Problem(("run", "device"), text)
    for key, device in options_where(config.inference, lambda metadata: metadata.get("device", False)).items():
        if text := find_device_problem(str(device)):
            yield Problem(("sampling", *key.rsplit(".", 1)), text)
    if config.launcher is not None and config.run.workers != 0:
        try:
            launcher: Launcher = make(config.launcher)
            launcher.check(count_samplers(config, launcher.cores) + config.learner_processes)
        except ConfigError as error:
            yield Problem(("run", "launcher"), str(error))
        except WorkerError as error:
            yield Problem(("run", "workers"), str(error))


def _memory_problems(run: RunContext) -> Iterator[Problem]:
    """Yield a problem if the observations of all matches of a sampler, on one tick, exceed this machine's memory."""
    sizes: list[int] = []

    def record_size(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        sizes.append(math.prod(shape) * np.dtype(dtype).itemsize)
        return np.broadcast_to(np.zeros((), dtype), shape)  # without memory of its own

    matches, machine = run.config.sampling.matches, memory_bytes()
    allocate_tick(run.spec, matches, allocate=record_size)
    if sum(sizes) > machine:
        text = (
            f"{matches:,} matches of {run.spec.name} need {sum(sizes) / 1e9:,.0f} GB for the observations of one tick, "
            f"but this machine has {machine / 1e9:,.0f} GB; expected at most {matches * machine // sum(sizes):,}"
        )
        yield Problem(("sampling", "matches"), text)


def _player_problems(run: RunContext) -> Iterator[Problem]:
    players = run.config.players
    if not any(player.share for player in players.values()):
        yield Problem(("players", next(iter(players)), "share"), "0 for every player; expected one that trains")
    for name, player in players.items():
        try:
            _check_network(run, name)
            yield from _trainer_problems(run, player)
        except ConfigError as error:  # go on, to report the mistakes of every player
            yield from _parse_problems(error)
        except ModelError as error:
            yield Problem(("players", name, "init"), f"{player.init}: {error}")


def _check_network(run: RunContext, player: str) -> None:
    """Check that a player has a role, and a network if it needs one.

    A configured network is not made: that imports torch, which takes seconds.

    Raises:
        ConfigError: The role or the network is missing.
    """
    config = run.config.players[player]
    learned_role(config, run.spec)
    if config.network is None:
        make_player_networks(run, player)


def _trainer_problems(run: RunContext, player: PlayerConfig) -> Iterator[Problem]:
    """Check the options ``init`` and ``learner_processes``, which only a trainer can."""
    if player.init and not Path(player.init).is_file():
        yield Problem(("players", player.name, "init"), f"{player.init}: no such file")
        return
    if not player.init and player.learner_processes == 1:
        return
    trainer = make_trainer(run, player.name, 0, "", device="cpu")  # GPUs belong to the learners
    if player.learner_processes > 1 and not isinstance(trainer, GroupTrainer):
        text = f"expected 1, as {player.algorithm.name!r} learns in one process"
        yield Problem(("players", player.name, "learner_processes"), text)


def _role_problems(run: RunContext) -> Iterator[Problem]:
    roles = run.spec.roles
    if len(roles) == 1:
        return
    played = {player.role for player in run.config.players.values()}
    for anchor in run.config.anchors.values():
        with suppress(LudusError):  # an anchor that plays no role is reported by itself
            played.update(anchor_roles(anchor, run.spec))
    for role in roles:
        if role.name not in played:
            suggested_fix = f'add [players.NAME] with role = "{role.name}", or an anchor, [anchors.NAME]'
            yield Problem(("players",), f"role {role.name!r} has no player and no anchor: {suggested_fix}")
    for player in run.config.players.values():
        yield from _team_problems(player, run.spec)


def _team_problems(player: PlayerConfig, spec: EnvironmentSpec) -> Iterator[Problem]:
    """Yield a problem if the player's role shares a team with other roles, or has several but not all teams."""
    teams = sorted({seat.team for seat in spec.seats if seat.role == player.role})
    if 1 < len(teams) < spec.num_teams:
        text = (
            f"the role {player.role} plays the teams {', '.join(map(str, teams))} of {spec.name}, and other roles the "
            f"others; expected a role of one team or of all {spec.num_teams} teams — put its seats into one team"
        )
        yield Problem(("players", player.name, "role"), text)
    for team in teams:
        roles = dict.fromkeys(seat.role for seat in spec.seats if seat.team == team)
        if len(roles) > 1:
            text = (
                f"team {team} of {spec.name} has seats of the roles {', '.join(roles)}; expected one role, because the "
                "models of a player play all seats of their team — change the roles or teams of the environment"
            )
            yield Problem(("players", player.name, "role"), text)
            return


def _matchmaker_problems(run: RunContext) -> Iterator[Problem]:
    sections: list[PlayerConfig | EvaluationSection] = [*run.config.players.values(), run.config.evaluation]
    for section in sections:
        if section.matchmaker is not None:
            try:
                make_matchmaker(run.plugins, section)
            except ConfigError as error:
                yield from _parse_problems(error)
            except PluginError:  # raised again by `check_run`, which needs the matchmaker
                continue


def _parse_problems(error: ConfigError) -> Iterator[Problem]:
    """Yield the lines of an error, each of which starts with the path of the option."""
    for line in error.problems:
        path, _, text = line.partition(": ")
        yield Problem(tuple(path.split(".")), text)


_NEW_RUN = "the run's matches and models are of that game — start a new run"
_NEW_PLAYER = 'start a new run, or add a player; its init = "…" may name a model whose weights fit'


def _check_checkpoint(run: RunContext, player: str, checkpoint: Checkpoint) -> None:
    """Load the checkpoint of a player, as its learner and its samplers would.

    Raises:
        ModelError: The checkpoint does not fit, or its file is missing or damaged.
    """
    arrays, _ = load_checkpoint(run.run_dir, checkpoint.path, checkpoint.hash)
    weights = checkpoint_arrays(arrays, "weights")
    algorithm = run.player_components(player, run.spec).algorithm
    try:
        with wrap_errors(f"player {player!r}"):
            make_model_agent(run, player, weights, spec=run.spec)
            trainer = algorithm.make_trainer(seed=0)  # on the CPU: GPUs belong to the learners
            trainer.load_weights(weights)
            trainer.load_state(checkpoint_arrays(arrays, "state"))
    except ModelError as error:
        raise ModelError(f"player {player!r} in environment {run.config.environment.name!r}: {error}") from error


def _environment_changes(run: RunContext, store: Store) -> Iterator[Problem]:
    environment = run.config.environment
    if (stored := store.meta("environment", environment.name)) != environment.name:
        yield Problem(("environment", "name"), f"was {stored!r}, got {environment.name!r}: {_NEW_RUN}")
    section = ConfigReader(run.plugins).section(tomllib.loads(store.meta("config", "")), "environment")
    before = options_where(section.select("environment", "name"), lambda metadata: metadata.get("lasting", False))
    for key, value in options_where(environment, lambda metadata: metadata.get("lasting", False)).items():
        if before.get(key, value) != value:
            text = f"was {before[key]!r}, got {value!r}: {_NEW_RUN}"
            yield Problem(("environment", *key.rsplit(".", 1)), text)


def _player_changes(run: RunContext, store: Store) -> Iterator[Problem]:
    stored_tables = _stored_player_tables(store)
    for name, table in run.config.data["players"].items():
        before = _architecture(run.plugins, name, stored_tables.get(name, table))
        for key, value in _architecture(run.plugins, name, table).items():
            if before.get(key, value) != value:
                text = f"was {before[key]!r}, got {value!r}: models of {name!r} would play differently — {_NEW_PLAYER}"
                yield Problem(("players", name, *key.rsplit(".", 1)), text)


def _stored_player_tables(store: Store) -> dict[str, Mapping[str, Any]]:
    """Return the configuration tables of all players that have saved a model or a checkpoint.

    A table is that of the player's newest model, or else that of the last session with the player.
    """
    tables: dict[str, Mapping[str, Any]] = tomllib.loads(store.meta("config", "")).get("players", {})
    tables |= store.meta("players", {})
    tables |= {model.player: model.manifest["config"] for model in store.models.records() if "config" in model.manifest}
    return {name: tables[name] for name in store.checkpoints.saved_decisions() if name in tables}


def _architecture(plugins: Plugins, player: str, table: Mapping[str, Any]) -> dict[str, object]:
    """Return the options of a player that its models depend on, by key; missing components have no options."""
    section = ConfigReader(plugins).section({"players": {player: table}}, "players", player)
    values = {"algorithm": None, "network": None, "interfaces": [], **section.table}
    options: dict[str, object] = {key: values[key] for key in ("algorithm", "network", "interfaces")}
    if values.get("role"):  # may be omitted if the environment has one role
        options["role"] = values["role"]
    for component in (section.select("network", "network"), *section.select_all("interface", "interfaces")):
        options |= options_where(component, lambda metadata: not metadata.get("learning"))
    return options


def options_where(
    component: SelectedComponent | None, predicate: Callable[[Mapping[str, Any]], bool]
) -> dict[str, object]:
    """Return the options of a component whose metadata fulfil a predicate, by ``component.option``."""
    if component is None or component.config is None:
        return {}
    names = [field.name for field in fields(type(component.config)) if predicate(field.metadata)]
    return {f"{component.name}.{name}": getattr(component.config, name) for name in names}
