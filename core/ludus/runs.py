"""Read runs and play with their models: the API of commands, dashboards and scripts.

::

    with open_run("runs/run") as run:
        for name, player in run.league.players.items():
            print(name, player.decisions, run.league.rating(player.live))
        environment = run.make_environment(1)
        agent = run.agent("main_agent@latest", "player", environment=environment)

Only `change_pool`, `change_share`, `repair_files` and `request_release` write. torch is imported when an agent of a
model is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludus._config.run_config import load_config, read_rating
from ludus._config.sections import RunConfig
from ludus._league.change_requests import change_pool, change_share
from ludus._league.host_quarantine import request_release
from ludus._league.league import League
from ludus._league.repair import repair_files
from ludus._league.return_outcome import BASELINE, ReturnOutcome
from ludus._league.statistics import Mean, Score, mean_of, score
from ludus._plugins.manager import Plugins, load_plugins
from ludus._run.context import RunContext
from ludus._run.factories import make, make_agent, make_environment
from ludus._run.metric_file import MetricReport, MetricTail, read_metrics
from ludus._run.metrics import earlier_models, spread_evenly
from ludus._run.trained_model import TrainedModel, load_trained_model
from ludus._run.worker_factories import make_anchor_agent, make_model_agent
from ludus._sampling.actors import PolicyAgent
from ludus._sampling.evaluation import play_matches
from ludus._seeding import match_seeds
from ludus._store.database import DATABASE, wrap_database_errors
from ludus._store.foreign_files import check_folder, open_regular
from ludus._store.lock_holder import running_pid
from ludus._store.model_files import check_model, load_arrays, load_checkpoint, load_manifest
from ludus._store.search import RunLog
from ludus._store.store import Store
from ludus._store.tables import PoolRecord
from ludus._store.verification import Verification, recount, verify_store
from ludus._store.verified_point import VerifiedPoint
from ludus.errors import ConfigError, ModelError
from ludus.installed import can_make, default_agents, only_role, select_agent
from ludus.lineup import Participant
from ludus.records import Fixture, FixtureRecord, FixtureSearch, MatchRecord, ModelRecord

if TYPE_CHECKING:
    import numpy as np

    from ludus._messaging.messages import Checkpoint
    from ludus.agent import Agent
    from ludus.environment import Environment, EnvironmentSpec, Seat
    from ludus.matchmaker import LeagueView
    from ludus.metrics import Metric

__all__ = [
    "Fixture",
    "FixtureRecord",
    "FixtureSearch",
    "MatchRecord",
    "Mean",
    "MetricReport",
    "MetricTail",
    "ModelRecord",
    "PolicyAgent",
    "PoolRecord",
    "ReturnOutcome",
    "Run",
    "RunLog",
    "Score",
    "TrainedModel",
    "Verification",
    "change_pool",
    "change_share",
    "check_folder",
    "check_model",
    "earlier_models",
    "find_damage",
    "kept_checkpoints",
    "load_checkpoint",
    "load_manifest",
    "match_seeds",
    "mean_of",
    "open_regular",
    "open_run",
    "play_matches",
    "repair_files",
    "request_release",
    "running_pid",
    "score",
    "spread_evenly",
    "verify_database",
]


def open_run(folder: str | Path, *, overrides: Sequence[str] = ()) -> Run:
    """Open a snapshot of a run for reading, even while the run goes on.

    Args:
        folder: The run folder.
        overrides: Texts ``key.path=value`` that replace options of its configuration.

    Raises:
        RunError: The folder holds no run.
        StoreError: The league is damaged or was written by a newer ludus.
        ConfigError: The rating method of the run is not installed.
    """
    return Run(Path(folder), overrides=overrides)


class Run(AbstractContextManager["Run"]):
    """A snapshot of a run, made by `open_run` and closed at the end of its ``with`` block.

    Players, models, pools, ratings, configuration and agents stay usable after that; the log does not. While a snapshot
    is open, the run cannot shrink its database file, so close it soon.

    Attributes:
        folder: The run folder.
        league: The league as matchmakers read it: players, anchors, pools, payoffs, ratings and statistics.
        seats: The seats of a match, in the order of a fixture's participants.
        sides: Side by player, see `ludus.matchmaker.team_sides`.
        models: All frozen models by participant name, in the order of freezing.
        pools: The members of every pool, oldest first.
        quarantined: How the files of quarantined models are damaged, by participant.
        retired: Models whose weights were deleted, or will be; they play no more.
        return_outcome: How the outcomes of matches follow from returns; None if the environment gives outcomes.
    """

    league: LeagueView

    def __init__(self, folder: Path, *, overrides: Sequence[str] = ()) -> None:
        self.folder = folder
        self._overrides = overrides
        #: Wraps database errors, which reading may raise at any row, in a `StoreError`.
        self._wrap_errors = partial(wrap_database_errors, folder / DATABASE)
        self._store = Store.read(folder)
        try:
            rating = read_rating(folder / "run.toml", overrides=overrides, plugins=self.plugins)
            with self._wrap_errors():
                self._league = self.league = League.of(self._store, partial(make, rating))
        except BaseException:
            self._store.close()
            raise
        self.seats: tuple[Seat, ...] = self._league.seats
        self.sides: Mapping[str, str] = self._league.sides
        self.models: Mapping[str, ModelRecord] = self._league.models
        self.pools: Mapping[str, Sequence[str]] = self._league.pools
        with self._wrap_errors():
            records = self._store.quarantine.records()
            self.retired: frozenset[str] = self._store.retired.names()
            baseline = self._store.meta(BASELINE)
        self.return_outcome = None if baseline is None else ReturnOutcome.of(self.seats, baseline)
        self.quarantined: Mapping[str, str] = {name: record.damage for name, record in records.items()}

    def __exit__(self, *_: object) -> None:
        self._store.close()

    # --- configuration -----------------------------------------------------------------------------------------

    @cached_property
    def plugins(self) -> Plugins:
        """Return the installed plugins."""
        return load_plugins()

    @cached_property
    def config(self) -> RunConfig:
        """Return the run's configuration, whose fields are the sections of a TOML file.

        Raises:
            ConfigError: It is not valid on this host, for example because a plugin is missing.
        """
        return load_config(self.folder / "run.toml", overrides=self._overrides, plugins=self.plugins)

    # --- the league -----------------------------------------------------------------------------------------------

    def resolve(self, name: str) -> str:
        """Return the participant of a name: ``player``, ``player@latest``, ``player@live`` or a participant's own name.

        Raises:
            ConfigError: There is no such participant; the message suggests a similar name.
        """
        return self._league.roster.resolve(name)

    # --- the log --------------------------------------------------------------------------------------------------

    def meta(self, key: str) -> Any:
        """Return a value stored at the start (``"environment"``, ``"created_s"``, ``"seed"``); None if missing."""
        with self._wrap_errors():
            return self._store.meta(key)

    def counters(self) -> Mapping[str, float]:
        """Return the counters over all sessions, such as ``"elapsed_s"`` and training ``"matches"``."""
        with self._wrap_errors():
            return self._store.counters()

    def num_matches(self, *, kind: str | None = None) -> int:
        """Return the number of matches in the log.

        Args:
            kind: ``"train"`` or ``"eval"`` matches only; None for all.
        """
        with self._wrap_errors():
            return self._store.matches.count(kind=kind)

    def matches(self, *, last: int | None = None, kind: str | None = None, first: int = 0) -> Iterator[MatchRecord]:
        """Yield the match log, ordered by fixture and match number.

        Args:
            last: Number of matches from the end of the log; None for all.
            kind: ``"train"`` or ``"eval"`` matches only; None for all.
            first: Matches of fixtures from this id on.
        """
        with self._wrap_errors():
            yield from self._store.matches.records(last=last, kind=kind, first=first)

    def fixtures(self, *, kind: str | None = None, first: int = 0) -> Iterator[FixtureRecord]:
        """Yield all fixtures ordered by id, including those without a played match.

        Args:
            kind: ``"train"`` or ``"eval"`` fixtures only; None for all.
            first: Fixtures from this id on only.
        """
        with self._wrap_errors():
            yield from self._store.fixtures.records(kind=kind, first=first)

    def pool_log(self) -> Iterator[PoolRecord]:
        """Yield the changes of pools with their times, oldest first."""
        with self._wrap_errors():
            yield from self._store.pools.records()

    def metrics(self) -> Iterator[Metric]:
        """Yield the metrics of the run in the order of writing; damaged lines are skipped and logged."""
        path = self.folder / "metrics.jsonl"
        return read_metrics(path) if path.exists() else iter(())

    def payoffs(self) -> Mapping[tuple[str, str, str], np.ndarray]:
        """Return ``[3] int64`` wins, draws and losses of a against b, by (kind, a, b)."""
        with self._wrap_errors():
            return self._store.payoffs.totals()

    def recompute_payoffs(self) -> Mapping[tuple[str, str, str], np.ndarray]:
        """Return the payoffs computed from the match log.

        Raises:
            StoreError: The log has matches of fixtures that do not exist.
        """
        with self._wrap_errors():
            return recount(self._store).payoffs

    # --- playing --------------------------------------------------------------------------------------------------

    def make_environment(self, num_matches: int) -> Environment:
        """Make a batch of the run's environment; the caller closes it.

        Raises:
            ConfigError: As for `config`.
            PluginError: The factory raised.
        """
        return make_environment(self.config.environment, num_matches)

    def participant(self, name: str, spec: EnvironmentSpec) -> Participant:
        """Return the frozen model, anchor or installed agent of a name, and the role that it plays.

        Args:
            name: As for `resolve`, or the name of an installed agent.
            spec: Specification of the environment.

        Returns:
            The participant. Its role is the one that a model learned, or the only one that an agent can play; empty for
            an agent that can play several.

        Raises:
            ConfigError: There is no such participant, or it is a live player.
        """
        league = self._league
        player = name.partition("@")[0]
        in_league = player in league.players or name in league.anchors
        if not in_league and name in self.plugins.components("agent"):
            return Participant(name, only_role(spec, partial(_scripted_agent, self, name, spec)))
        try:
            participant = league.roster.resolve(name)
        except ConfigError as error:
            others = ", ".join(default_agents(self.plugins, spec.name))
            raise ConfigError(f"{error}; installed agents are {others or 'none'}") from None
        if participant in league.anchors:
            return Participant(participant, only_role(spec, partial(_scripted_agent, self, participant, spec)))
        if participant not in league.models:
            if not league.players[player].models:
                raise ConfigError(f"{name}: {player} has no frozen model yet; name a scripted agent, or train on")
            raise ConfigError(f"{name} is no frozen model; name one, for example {player}@latest, or a scripted agent")
        return Participant(participant, league.players[player].role if player in league.players else "")

    def default_participants(self, role: str, spec: EnvironmentSpec) -> Iterator[str]:
        """Yield the participants that can fill unnamed seats of a role.

        These are the newest models of the players that learn the role, in the order of the configuration, then the
        anchors, then installed agents that play the environment.
        """
        for player in self.league.players.values():
            if player.role == role and player.models:
                yield player.models[-1]
        for name in (*self.league.anchors, *default_agents(self.plugins, spec.name)):
            if can_make(partial(_scripted_agent, self, name, spec, role)):
                yield name

    def agent(self, name: str, role: str, *, environment: Environment, deterministic: bool = False) -> Agent:
        """Make an agent of a frozen model or an anchor of the run, or of an installed agent with default options.

        Args:
            name: As for `participant`.
            role: Role that it plays.
            environment: Environment in which it will play.
            deterministic: Take the most likely actions instead of sampling; for models only.

        Raises:
            ConfigError: There is no such participant, it is a live player, or it plays another role.
            ModelError: The model cannot be loaded.
        """
        spec = environment.spec
        participant = self.participant(name, spec)
        if participant.name not in self.models:
            return _scripted_agent(self, participant.name, spec, role)
        model = self._frozen_model(participant.name)
        if participant.role != role:
            raise ConfigError(f"{name} plays the role {participant.role}, so it cannot play {role}")
        run, weights = _context(self), load_arrays(self.folder / "models", model.hash)
        rows = environment.num_matches
        return make_model_agent(run, model.player, weights, spec=spec, rows=rows, deterministic=deterministic)

    def trained_model(self, name: str, spec: EnvironmentSpec) -> TrainedModel:
        """Load a frozen model, named as for `resolve`, with the components that its player decides through.

        Raises:
            ConfigError: There is no such participant, or it is no frozen model.
            ModelError: The model cannot be loaded.
        """
        participant = self.participant(name, spec).name
        if participant not in self.models:
            raise ConfigError(f"{name} is no frozen model; expected one, such as {next(iter(self.models), 'none yet')}")
        return load_trained_model(_context(self), self._frozen_model(participant), spec)

    def _frozen_model(self, participant: str) -> ModelRecord:
        model, players = self.models[participant], self.config.players
        if model.player not in players:
            raise ModelError(f"model {participant!r} belongs to no player of this run; there are {', '.join(players)}")
        if participant in self.retired:
            raise ModelError(f"the weights of {participant} were deleted (league.retention); name another model")
        return model


def kept_checkpoints(folder: str | Path) -> Mapping[str, Sequence[Checkpoint]]:
    """Return the checkpoints of every player, newest first: their ``path`` in the run folder and their ``hash``.

    They are read from the current database, not a snapshot: a running run deletes replaced checkpoints.
    """
    with Store.read(Path(folder)) as current, wrap_database_errors(Path(folder) / DATABASE):
        return {player: current.checkpoints.kept(player) for player in current.checkpoints.latest()}


def find_damage(run: Run) -> list[str]:
    """Return one line for every problem of the database of an open run, see `verify_database`."""
    return list(verify_database(run).problems)


def verify_database(run: Run, *, go_on: bool = False) -> Verification:
    """Verify the database of an open run: its pages, the checksums of its rows, and its sums against the match log.

    Args:
        run: The run.
        go_on: Skip the part of the log that an earlier call has verified and recorded in ``RUN/verified.json``, unless
            its checksums have changed since, and record how far this call came if it found no problem.

    Raises:
        OSError: The point cannot be written.
    """
    point = VerifiedPoint.load(run.folder) if go_on else None
    with run._wrap_errors():
        verification = verify_store(run._store, point=point)
    if go_on and verification.point is not None:
        verification.point.save(run.folder)
    return verification


def _context(run: Run) -> RunContext:
    return RunContext(config=run.config, plugins=run.plugins, run_dir=run.folder)


def _scripted_agent(run: Run, name: str, spec: EnvironmentSpec, role: str) -> Agent:
    """Make the agent of an anchor, or an installed agent with default options."""
    if name in run.league.anchors:
        return make_anchor_agent(run.config, name, role, spec)
    return make_agent(select_agent(run.plugins, name), spec, role)
