"""Check a run before it starts: make every component that a mistake in the configuration could break."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attrs import evolve

from ludus._config.sections import EvaluationSection, PlayerConfig
from ludus._config.structuring import Problem
from ludus._run.compatibility import check_checkpoints, check_unchanged, options_where
from ludus._run.context import RunContext
from ludus._run.coordinator_factory import league_members
from ludus._run.factories import learned_role, make, make_agent, make_matchmaker
from ludus._run.learner_factory import make_trainer
from ludus._run.service_factory import make_player_networks
from ludus._run.threads import find_device_problem
from ludus._run.worker_plan import count_samplers
from ludus._store.store import Store
from ludus.algorithm import GroupTrainer
from ludus.errors import ConfigError, ModelError, PluginError, WorkerError
from ludus.launcher import Launcher


def check_run(run: RunContext, store: Store | None = None) -> None:
    """Check that a run can start; nothing is written.

    Args:
        run: The run.
        store: Store of a run to resume, which the configuration must fit; None for a new run.

    Raises:
        LudusError: The run would not start.
    """
    if store is not None:
        check_unchanged(run, store)
    check_options(run)
    config, spec = run.config, run.spec
    for name, player in config.players.items():
        run.player_components(name, spec)
        make_matchmaker(run.plugins, player)
    for rule in config.league.rules:
        make(rule)
    make(config.league.rating, anchors=tuple(config.anchors), seats=spec.seats)
    for anchor in config.anchors.values():
        for role in spec.roles:
            make_agent(anchor.agent, spec, role.name)
    if store is not None:
        store.declare(**league_members(run))
        check_checkpoints(run, store)


def check_options(run: RunContext) -> None:
    """Check the options whose values depend on the environment, this host or a model file.

    Raises:
        ConfigError: With one line for every mistake.
        PluginError: The trainer that loads the model of an ``init`` option could not be made.
    """
    problems = [
        *_run_problems(run),
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
    config = run.player(player)
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
    if len(roles) == 1 or run.config.anchors:
        return
    learned = {player.role for player in run.config.players.values()}
    for role in roles:
        if role.name not in learned:
            suggested_fix = f'add [players.NAME] with role = "{role.name}", or an anchor, [anchors.NAME]'
            yield Problem(("players",), f"role {role.name!r} has no player and no anchor: {suggested_fix}")


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
