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
from ludus._learning.learner import arrays_of
from ludus._messaging.messages import Checkpoint
from ludus._plugins.error_wrapping import wrap_errors
from ludus._plugins.manager import Plugins
from ludus._run.assembly import Assembly
from ludus._run.factories import learned_role, make, make_agent, make_matchmaker
from ludus._run.threads import device_problem
from ludus._store.model_files import load_checkpoint
from ludus._store.store import Store
from ludus.algorithm import GroupTrainer
from ludus.errors import ConfigError, ModelError, PluginError, WorkerError
from ludus.launcher import Launcher


def check(assembly: Assembly, store: Store | None = None) -> None:
    """Make what a mistake in the configuration would break, before anything is written.

    Args:
        assembly: Of the run.
        store: Of the run to go on with, whose game and weights must fit; None for a new one.

    Raises:
        LudusError: The run would not start.
    """
    if store is not None:
        _check_unchanged(assembly, store)
    check_options(assembly)
    config, spec = assembly.config, assembly.spec
    for player, chosen in config.players.items():
        assembly.parts_of(player, spec)
        make_matchmaker(assembly.plugins, chosen)
    for rule in config.league.rules:
        make(rule)
    make(config.league.rating, anchors=tuple(config.anchors), seats=spec.seats)
    for anchor in config.anchors.values():
        for role in spec.roles:
            make_agent(anchor.agent, spec, role.name)
    if store is not None:
        store.declare(**assembly.taking_part())
        for player, saved in store.checkpoints().items():
            if player in config.players:
                _check_saved(assembly, player, saved)


def _check_saved(assembly: Assembly, player: str, saved: Checkpoint) -> None:
    """Load what a learner would go on from, as it and its samplers would.

    Raises:
        ModelError: It does not fit, or the file is missing or damaged.
    """
    spec = assembly.spec
    arrays, _ = load_checkpoint(assembly.run_dir, saved.path, saved.hash)
    weights = arrays_of(arrays, "weights")
    _, _, algorithm = assembly.parts_of(player, spec)
    try:
        with wrap_errors(f"player {player!r}"):
            assembly.frozen(player, weights, spec=spec)
            trainer = algorithm.make_trainer(seed=0)  # on the CPU: a GPU is the learner's
            trainer.load_weights(weights)
            trainer.load_state(arrays_of(arrays, "state"))
    except ModelError as error:
        raise ModelError(f"player {player!r} in environment {assembly.config.environment.name!r}: {error}") from error


def _check_unchanged(assembly: Assembly, store: Store) -> None:
    """Compare the game and the players with those of a run's models, which would otherwise play differently.

    Args:
        assembly: Of the run as it is to go on.
        store: Of the run.

    Raises:
        ConfigError: With one line for every option that must stay as it was.
    """
    evolve(assembly.config.reader, problems=[*_changes(assembly, store)]).check()


def _changes(assembly: Assembly, store: Store) -> Iterator[Problem]:
    config = assembly.config
    game = config.environment.name
    if (before := store.meta("environment", game)) != game:
        text = f"was {before!r}, got {game!r}: the run's matches and models are of that game — start a new run"
        yield Problem(("environment", "name"), text)
    began = Reader(assembly.plugins).section(tomllib.loads(store.meta("config", "")), "environment")
    games = began.choose("environment", "name"), config.environment
    was, is_now = (_options(chosen, lambda metadata: metadata.get("lasting", False)) for chosen in games)
    for key, now in is_now.items():
        if was.get(key, now) != now:
            text = f"was {was[key]!r}, got {now!r}: the run's matches and models are of that game — start a new run"
            yield Problem(("environment", *key.rsplit(".", 1)), text)
    known = _players_of(store)
    suggested_fix = 'start a new run, or add a player; its init = "…" may name a model whose weights fit'
    for name, table in config.data["players"].items():
        was = _lasting(assembly.plugins, name, known.get(name, table))
        for key, now in _lasting(assembly.plugins, name, table).items():
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


def check_options(assembly: Assembly) -> None:
    """Check the options that the environment, this computer or a model file judges.

    Raises:
        ConfigError: With one line for every mistake.
        PluginError: What loads the model of `init` could not be made.
    """
    problems = [
        *_mistakes_of_run(assembly),
        *_mistakes_of_players(assembly),
        *_mistakes_of_matchmakers(assembly),
    ]
    evolve(assembly.config.reader, problems=problems).check()


def _mistakes_of_run(assembly: Assembly) -> Iterator[Problem]:
    config = assembly.config
    if text := device_problem(config.run.device):
        yield Problem(("run", "device"), text)
    for key, device in _options(config.inference, lambda metadata: metadata.get("device", False)).items():
        if text := device_problem(str(device)):
            yield Problem(("sampling", *key.rsplit(".", 1)), text)
    if config.launcher is not None and config.run.workers != 0:
        try:
            launcher: Launcher = make(config.launcher)
            launcher.check(assembly.samplers(launcher.cores) + config.learner_processes)
        except ConfigError as error:
            yield Problem(("run", "launcher"), str(error))
        except WorkerError as error:
            yield Problem(("run", "workers"), str(error))


def _mistakes_of_players(assembly: Assembly) -> Iterator[Problem]:
    players, spec = assembly.config.players, assembly.spec
    if not any(player.share for player in players.values()):
        yield Problem(("players", next(iter(players)), "share"), "0 for every player; expected one that trains")
    for name, player in players.items():
        try:
            _check_network(assembly, name)
            if player.init and not Path(player.init).is_file():
                yield Problem(("players", name, "init"), f"{player.init}: no such file")
            elif player.init or player.learner_processes > 1:
                trainer = assembly.trainer(name, 0, "", device="cpu")  # a GPU is the learner's
                if player.learner_processes > 1 and not isinstance(trainer, GroupTrainer):
                    text = f"expected 1, as {player.algorithm.name!r} learns in one process"
                    yield Problem(("players", name, "learner_processes"), text)
        except ConfigError as error:  # the mistakes of every player are wanted
            yield from _problems(error)
        except ModelError as error:
            yield Problem(("players", name, "init"), f"{player.init}: {error}")
    played = {player.role for player in players.values()}
    for role in spec.roles if len(spec.roles) > 1 and not assembly.config.anchors else ():
        if role.name not in played:
            text = f'add [players.NAME] with role = "{role.name}", or an anchor, [anchors.NAME]'
            yield Problem(("players",), f"role {role.name!r} has nobody who plays it: {text}")


def _check_network(assembly: Assembly, player: str) -> None:
    """Find out whether a player lacks its network; others are not made, as that takes torch and seconds.

    Raises:
        ConfigError: It does, or has no role.
    """
    chosen = assembly.config.players[player]
    learned_role(chosen, assembly.spec)
    if chosen.network is None:
        assembly.networks(player)


def _mistakes_of_matchmakers(assembly: Assembly) -> Iterator[Problem]:
    config = assembly.config
    sections: list[PlayerConfig | EvaluationSection] = [*config.players.values(), config.evaluation]
    for section in sections:
        if section.matchmaker is not None:
            try:
                make_matchmaker(assembly.plugins, section)
            except ConfigError as error:
                yield from _problems(error)
            except PluginError:  # whoever needs it says so
                continue


def _problems(error: ConfigError) -> Iterator[Problem]:
    """Yield the lines of an error, which begin with the option."""
    for line in error.problems:
        where, _, text = line.partition(": ")
        yield Problem(tuple(where.split(".")), text)
