"""What a run would break on is found before it starts."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, fields

from ludus._config.run_config import EvaluationSection, PlayerConfig
from ludus._config.sections import Chosen, Reader
from ludus._config.structuring import Problem
from ludus._learning.publisher import checkpoint_arrays
from ludus._messaging.messages import Checkpoint
from ludus._plugins.error_wrapping import wrap_errors
from ludus._plugins.manager import Plugins
from ludus._run.agent_factory import make_model_agent
from ludus._run.context import RunContext
from ludus._run.coordinator_factory import league_members
from ludus._run.factories import learned_role, make, make_agent, make_matchmaker
from ludus._run.learner_factory import make_trainer
from ludus._run.service_factory import make_player_networks
from ludus._run.threads import device_problem
from ludus._run.worker_plan import count_samplers
from ludus._store.model_files import load_checkpoint
from ludus._store.store import Store
from ludus.algorithm import GroupTrainer
from ludus.errors import ConfigError, ModelError, PluginError, WorkerError
from ludus.launcher import Launcher


def check(run: RunContext, store: Store | None = None) -> None:
    """Make what a mistake in the configuration would break, before anything is written.

    Args:
        run: Of the run.
        store: Of the run to go on with, whose game and weights must fit; None for a new one.

    Raises:
        LudusError: The run would not start.
    """
    if store is not None:
        _check_unchanged(run, store)
    check_options(run)
    config, spec = run.config, run.spec
    for player, chosen in config.players.items():
        run.player_components(player, spec)
        make_matchmaker(run.plugins, chosen)
    for rule in config.league.rules:
        make(rule)
    make(config.league.rating, anchors=tuple(config.anchors), seats=spec.seats)
    for anchor in config.anchors.values():
        for role in spec.roles:
            make_agent(anchor.agent, spec, role.name)
    if store is not None:
        store.declare(**league_members(run))
        for player, saved in store.checkpoints().items():
            if player in config.players:
                _check_saved(run, player, saved)


def _check_saved(run: RunContext, player: str, saved: Checkpoint) -> None:
    """Load what a learner would go on from, as it and its samplers would.

    Raises:
        ModelError: It does not fit, or the file is missing or damaged.
    """
    spec = run.spec
    arrays, _ = load_checkpoint(run.run_dir, saved.path, saved.hash)
    weights = checkpoint_arrays(arrays, "weights")
    algorithm = run.player_components(player, spec).algorithm
    try:
        with wrap_errors(f"player {player!r}"):
            make_model_agent(run, player, weights, spec=spec)
            trainer = algorithm.make_trainer(seed=0)  # on the CPU: a GPU is the learner's
            trainer.load_weights(weights)
            trainer.load_state(checkpoint_arrays(arrays, "state"))
    except ModelError as error:
        raise ModelError(f"player {player!r} in environment {run.config.environment.name!r}: {error}") from error


def _check_unchanged(run: RunContext, store: Store) -> None:
    """Compare the game and the players with those of a run's models, which would otherwise play differently.

    Args:
        run: Of the run as it is to go on.
        store: Of the run.

    Raises:
        ConfigError: With one line for every option that must stay as it was.
    """
    evolve(run.config.reader, problems=[*_changes(run, store)]).check()


def _changes(run: RunContext, store: Store) -> Iterator[Problem]:
    config = run.config
    game = config.environment.name
    if (before := store.meta("environment", game)) != game:
        text = f"was {before!r}, got {game!r}: the run's matches and models are of that game — start a new run"
        yield Problem(("environment", "name"), text)
    began = Reader(run.plugins).section(tomllib.loads(store.meta("config", "")), "environment")
    games = began.choose("environment", "name"), config.environment
    was, is_now = (_options(chosen, lambda metadata: metadata.get("lasting", False)) for chosen in games)
    for key, now in is_now.items():
        if was.get(key, now) != now:
            text = f"was {was[key]!r}, got {now!r}: the run's matches and models are of that game — start a new run"
            yield Problem(("environment", *key.rsplit(".", 1)), text)
    known = _players_of(store)
    suggested_fix = 'start a new run, or add a player; its init = "…" may name a model whose weights fit'
    for name, table in config.data["players"].items():
        was = _lasting(run.plugins, name, known.get(name, table))
        for key, now in _lasting(run.plugins, name, table).items():
            if was.get(key, now) != now:
                text = f"was {was[key]!r}, got {now!r}: models of {name!r} would play differently — {suggested_fix}"
                yield Problem(("players", name, *key.rsplit(".", 1)), text)


def _players_of(store: Store) -> dict[str, Mapping[str, Any]]:
    """Return the tables of players that have saved something: as their newest model was made, or as a start had them.

    That is the last start with the player: until something is saved, each may make another of it.
    """
    known: dict[str, Mapping[str, Any]] = tomllib.loads(store.meta("config", "")).get("players", {})
    known |= store.meta("players", {})
    known |= {model.player: model.manifest["config"] for model in store.models() if "config" in model.manifest}
    return {name: known[name] for name in store.saved_decisions() if name in known}


def _lasting(plugins: Plugins, player: str, table: Mapping[str, Any]) -> dict[str, object]:
    """Return what of a player's table its models rest on, by key; options of what is not installed are left out."""
    section = Reader(plugins).section({"players": {player: table}}, "players", player)
    values = {"algorithm": None, "network": None, "interfaces": [], **section.table}
    lasting: dict[str, object] = {key: values[key] for key in ("algorithm", "network", "interfaces")}
    if values.get("role"):  # where it may be left out there is one only
        lasting["role"] = values["role"]
    for chosen in (section.choose("network", "network"), *section.choose_many("interface", "interfaces")):
        lasting |= _options(chosen, lambda metadata: not metadata.get("learning"))
    return lasting


def _options(chosen: Chosen | None, wanted: Callable[[Mapping[str, Any]], bool]) -> dict[str, object]:
    """Return the options of a component whose metadata are wanted, by its name and theirs."""
    if chosen is None or chosen.config is None:
        return {}
    options = [field.name for field in fields(type(chosen.config)) if wanted(field.metadata)]
    return {f"{chosen.name}.{name}": getattr(chosen.config, name) for name in options}


def check_options(run: RunContext) -> None:
    """Check the options that the environment, this computer or a model file judges.

    Raises:
        ConfigError: With one line for every mistake.
        PluginError: What loads the model of `init` could not be made.
    """
    problems = [
        *_mistakes_of_run(run),
        *_mistakes_of_players(run),
        *_mistakes_of_matchmakers(run),
    ]
    evolve(run.config.reader, problems=problems).check()


def _mistakes_of_run(run: RunContext) -> Iterator[Problem]:
    config = run.config
    if text := device_problem(config.run.device):
        yield Problem(("run", "device"), text)
    for key, device in _options(config.inference, lambda metadata: metadata.get("device", False)).items():
        if text := device_problem(str(device)):
            yield Problem(("sampling", *key.rsplit(".", 1)), text)
    if config.launcher is not None and config.run.workers != 0:
        try:
            launcher: Launcher = make(config.launcher)
            launcher.check(count_samplers(config, launcher.cores) + config.learner_processes)
        except ConfigError as error:
            yield Problem(("run", "launcher"), str(error))
        except WorkerError as error:
            yield Problem(("run", "workers"), str(error))


def _mistakes_of_players(run: RunContext) -> Iterator[Problem]:
    players, spec = run.config.players, run.spec
    if not any(player.share for player in players.values()):
        yield Problem(("players", next(iter(players)), "share"), "0 for every player; expected one that trains")
    for name, player in players.items():
        try:
            _check_network(run, name)
            if player.init and not Path(player.init).is_file():
                yield Problem(("players", name, "init"), f"{player.init}: no such file")
            elif player.init or player.learner_processes > 1:
                trainer = make_trainer(run, name, 0, "", device="cpu")  # a GPU is the learner's
                if player.learner_processes > 1 and not isinstance(trainer, GroupTrainer):
                    text = f"expected 1, as {player.algorithm.name!r} learns in one process"
                    yield Problem(("players", name, "learner_processes"), text)
        except ConfigError as error:  # the mistakes of every player are wanted
            yield from _problems(error)
        except ModelError as error:
            yield Problem(("players", name, "init"), f"{player.init}: {error}")
    played = {player.role for player in players.values()}
    for role in spec.roles if len(spec.roles) > 1 and not run.config.anchors else ():
        if role.name not in played:
            text = f'add [players.NAME] with role = "{role.name}", or an anchor, [anchors.NAME]'
            yield Problem(("players",), f"role {role.name!r} has nobody who plays it: {text}")


def _check_network(run: RunContext, player: str) -> None:
    """Find out whether a player lacks its network; others are not made, as that takes torch and seconds.

    Raises:
        ConfigError: It does, or has no role.
    """
    chosen = run.config.players[player]
    learned_role(chosen, run.spec)
    if chosen.network is None:
        make_player_networks(run, player)


def _mistakes_of_matchmakers(run: RunContext) -> Iterator[Problem]:
    config = run.config
    sections: list[PlayerConfig | EvaluationSection] = [*config.players.values(), config.evaluation]
    for section in sections:
        if section.matchmaker is not None:
            try:
                make_matchmaker(run.plugins, section)
            except ConfigError as error:
                yield from _problems(error)
            except PluginError:  # whoever needs it says so
                continue


def _problems(error: ConfigError) -> Iterator[Problem]:
    """Yield the lines of an error, which begin with the option."""
    for line in error.problems:
        where, _, text = line.partition(": ")
        yield Problem(tuple(where.split(".")), text)
