"""Reading runs: what commands, dashboards and scripts outside the core need of a run folder or of what is installed.

::

    with open_run("runs/run") as run:
        for name, player in run.league.players.items():
            print(name, player.decisions, run.league.rating(player.live))
        environment = run.make_environment(1)
        agent = run.agent("main_agent@latest", "player", environment=environment)

Nothing here writes but `change_pool`, and nothing imports torch before an agent is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from ludus._config.run_config import load_config, parse_config, read_rating, select_components
from ludus._config.sections import RunConfig
from ludus._league.league import League
from ludus._league.statistics import Score, score
from ludus._plugins.manager import Plugins, load_plugins
from ludus._run.context import RunContext
from ludus._run.factories import learned_role, make, make_agent, make_environment
from ludus._run.metrics import read_metrics
from ludus._run.status import earlier_models, spread_evenly
from ludus._sampling.evaluation import play_matches
from ludus._seeding import match_seeds
from ludus._store.database import DATABASE, wrap_database_errors
from ludus._store.model_files import check_model, is_hash, load_arrays, load_checkpoint, load_manifest
from ludus._store.records import PoolRecord
from ludus._store.store import Store
from ludus.errors import ConfigError, ModelError
from ludus.records import Fixture, FixtureRecord, MatchRecord, ModelRecord

if TYPE_CHECKING:
    import numpy as np

    from ludus._config.section_reader import SelectedComponent
    from ludus._messaging.messages import Checkpoint
    from ludus.agent import Agent
    from ludus.environment import Environment, EnvironmentSpec, Seat
    from ludus.matchmaker import LeagueView, PoolChange
    from ludus.metrics import Metric

__all__ = [
    "Fixture",
    "FixtureRecord",
    "Game",
    "MatchRecord",
    "ModelRecord",
    "PoolRecord",
    "Run",
    "Score",
    "change_pool",
    "check_model",
    "earlier_models",
    "load_agent",
    "load_checkpoint",
    "load_manifest",
    "match_seeds",
    "open_game",
    "open_run",
    "play_matches",
    "score",
    "spread_evenly",
]


def open_run(folder: str | Path, *, overrides: Sequence[str] = ()) -> Run:
    """Open a snapshot of a run for reading; works while the run goes on.

    Args:
        folder: The run folder.
        overrides: Replace options of its configuration, as ``key.path=value``.

    Raises:
        RunError: The folder holds no run.
        StoreError: The league is damaged or was written by a newer ludus.
        ConfigError: Its method of rating is not installed.
    """
    return Run(Path(folder), overrides=overrides)


class Run(AbstractContextManager["Run"]):
    """A run as it was when it was opened. Made by `open_run`; leaving the ``with`` block ends the snapshot.

    Players, models, pools, ratings, configuration and agents stay usable after that; the log does not. A snapshot
    that stays open keeps the run from tidying its database up, so hold it briefly.

    Attributes:
        folder: The run folder.
        league: What matchmakers see: players, anchors, pools by name, payoffs by pair, ratings.
        seats: The seats of a match, in the order of a fixture's participants.
        models: All frozen models by participant, in the order in which they were frozen.
        pools: The members of every pool, oldest first.
    """

    league: LeagueView

    def __init__(self, folder: Path, *, overrides: Sequence[str] = ()) -> None:
        self.folder = folder
        self._overrides = overrides
        self._store = Store.read(folder)
        try:
            rating = read_rating(folder / "run.toml", overrides=overrides, plugins=self.plugins)
            with wrap_database_errors(folder / DATABASE):
                self._league = self.league = League.of(self._store, partial(make, rating))
        except BaseException:
            self._store.close()
            raise
        self.seats: tuple[Seat, ...] = self._league.seats
        self.models: Mapping[str, ModelRecord] = self._league.models
        self.pools: Mapping[str, Sequence[str]] = self._league.pools

    def __exit__(self, *_: object) -> None:
        self._store.close()

    # --- what is configured and installed -------------------------------------------------------------------------

    @cached_property
    def plugins(self) -> Plugins:
        """Return what is installed."""
        return load_plugins()

    @cached_property
    def config(self) -> RunConfig:
        """Return the run's configuration, whose fields are the sections of a TOML file.

        Raises:
            ConfigError: It is not valid here, for example because a plugin is missing.
        """
        return load_config(self.folder / "run.toml", overrides=self._overrides, plugins=self.plugins)

    # --- the league -----------------------------------------------------------------------------------------------

    def resolve(self, name: str) -> str:
        """Return the participant that a person means by ``player``, ``player@latest``, ``player@live`` or its name.

        Raises:
            ConfigError: There is none; the message says which name comes close.
        """
        return self._league.roster.resolve(name)

    # --- the log --------------------------------------------------------------------------------------------------

    def _sound(self) -> AbstractContextManager[None]:
        """Tell of damage as a `StoreError`, which reading may raise at any row."""
        return wrap_database_errors(self.folder / DATABASE)

    def meta(self, key: str) -> Any:
        """Return a value noted when the run began (``"environment"``, ``"created_s"``, ``"seed"``), None if missing."""
        with self._sound():
            return self._store.meta(key)

    def counters(self) -> Mapping[str, float]:
        """Return what was counted over all starts, such as ``"elapsed_s"`` and training ``"matches"``."""
        with self._sound():
            return self._store.counters()

    def num_matches(self, *, kind: str | None = None) -> int:
        """Return the length of the match log.

        Args:
            kind: Only ``"train"`` or only ``"eval"`` matches.
        """
        with self._sound():
            return self._store.matches.count(kind=kind)

    def matches(self, *, last: int | None = None, kind: str | None = None) -> Iterator[MatchRecord]:
        """Return the match log ordered by fixture and number.

        Args:
            last: Only so many from its end.
            kind: Only ``"train"`` or only ``"eval"`` matches.
        """
        with self._sound():
            yield from self._store.matches.records(last=last, kind=kind)

    def fixtures(self, *, kind: str | None = None) -> Iterator[FixtureRecord]:
        """Return what was asked for, ordered by id, also where nothing of it was played.

        Args:
            kind: Only ``"train"`` or only ``"eval"`` fixtures.
        """
        with self._sound():
            yield from self._store.fixtures.records(kind=kind)

    def pool_log(self) -> Iterator[PoolRecord]:
        """Return the changes of pools with the times at which they were made, oldest first."""
        with self._sound():
            yield from self._store.pools.records()

    def metrics(self) -> Iterator[Metric]:
        """Return the run's metrics in the order in which they were written; none where the run wrote none.

        Raises:
            RunError: A line is damaged.
        """
        path = self.folder / "metrics.jsonl"
        return read_metrics(path) if path.exists() else iter(())

    def payoffs(self) -> Mapping[tuple[str, str, str], np.ndarray]:
        """Return by (kind, a, b) the ``[3] int64`` wins, draws and losses of a against b."""
        with self._sound():
            return self._store.payoffs.totals()

    def recompute_payoffs(self) -> Mapping[tuple[str, str, str], np.ndarray]:
        """Return the same counted from the match log alone.

        Raises:
            StoreError: The log has matches of fixtures that do not exist.
        """
        with self._sound():
            return self._store.payoffs.recompute()

    def checkpoints(self) -> Mapping[str, Checkpoint]:
        """Return by player the checkpoint to resume from: its ``path`` in the run folder and its ``hash``.

        They are those of now, not of the snapshot: a run that goes on soon deletes those that it has replaced.
        """
        with Store.read(self.folder) as now:
            return now.checkpoints.latest()

    def damage(self) -> list[str]:
        """Return what the database finds wrong with its file, one line each."""
        with self._sound():
            return self._store.damage()

    # --- playing --------------------------------------------------------------------------------------------------

    def make_environment(self, num_matches: int) -> Environment:
        """Make a batch of the run's environment; the caller closes it.

        Raises:
            ConfigError: As for `config`.
            PluginError: Its factory raised.
        """
        return make_environment(self.config.environment, num_matches)

    def agent(self, name: str, role: str, *, environment: Environment, deterministic: bool = False) -> Agent:
        """Make an agent of a frozen model or an anchor of the run, or of an installed agent with default options.

        Args:
            name: As for `resolve`, or the name of an installed agent.
            role: The role it sits in.
            environment: Where it will play.
            deterministic: A model takes its most likely actions instead of sampling.

        Raises:
            ConfigError: There is no such participant, or it is not frozen.
            ModelError: The model cannot be loaded.
        """
        from ludus._run.agent_factory import make_anchor_agent, make_model_agent  # noqa: PLC0415 - with all workers, which a reader does without

        league = self._league
        known = name.partition("@")[0] in league.players or name in league.anchors
        if not known and name in self.plugins.components("agent"):
            [chosen] = select_components(self.plugins, [("agent", name)])
            return make_agent(chosen, environment.spec, role)
        participant = league.roster.resolve(name)
        model = league.models.get(participant)
        if model is None and participant not in league.anchors:
            player = name.partition("@")[0]
            some = f"one, for example {player}@latest, or " if league.players[player].models else ""
            raise ConfigError(f"{name} is no frozen model; name {some}a scripted agent")
        spec, players = environment.spec, self.config.players
        if model is None:
            return make_anchor_agent(self.config, participant, role, spec)
        if model.player not in players:
            raise ModelError(f"model {participant!r} belongs to no player of this run; there are {', '.join(players)}")
        weights = load_arrays(self.folder / "models", model.hash)
        run, rows = RunContext(config=self.config, plugins=self.plugins, run_dir=self.folder), environment.num_matches
        return make_model_agent(run, model.player, weights, spec=spec, rows=rows, deterministic=deterministic)


def change_pool(folder: str | Path, change: PoolChange) -> bool:
    """Let a model enter or leave a pool of a run that is not going on; whoever resumes it finds the pool so.

    While a run goes on, its coordinator is the only one who writes the league.

    Args:
        folder: The run folder.
        change: What to do.

    Returns:
        Whether that changed anything.

    Raises:
        RunError: The run is going on, or the folder holds none.
        StoreError: The model is unknown, or the league is damaged.
    """
    with wrap_database_errors(Path(folder) / DATABASE), Store.open(Path(folder)) as store:
        league = League.of(store)
        before = list(league.pool(change.pool))
        league.apply([change])
        store.commit()
        return before != list(league.pool(change.pool))


def load_agent(file: str | Path, role: str, *, spec: EnvironmentSpec, deterministic: bool = False) -> Agent:
    """Make an agent of a frozen model of any run; the manifest beside its file says how it plays.

    Args:
        file: ``…/<hash>.safetensors``, with ``<hash>.json`` beside it, as they lie in a run's folder ``models``.
        role: The role it sits in.
        spec: What is known of the environment it plays.
        deterministic: It takes its most likely actions instead of sampling.

    Raises:
        ModelError: A file is missing or damaged, or the model learned another environment or role.
        ConfigError: What it is made of is not installed.
    """
    from ludus._run.agent_factory import make_model_agent  # noqa: PLC0415 - with all workers, which a reader does without

    path = Path(file)
    if not is_hash(path.stem):
        raise ModelError(f"{path}: expected …/<hash>.safetensors, a file of a run's folder models under its own name")
    weights, manifest = load_arrays(path.parent, path.stem), load_manifest(path.parent, path.stem)
    learned = manifest.get("environment")
    if learned != spec.name:
        raise ModelError(f"{path}: learned {learned}, so it cannot play {spec.name}")
    players = {manifest.get("player"): manifest.get("config")}
    data = {"run": {"workers": 0}, "environment": {"name": learned}, "players": players}
    plugins = load_plugins()
    config = parse_config(data, source=str(path.with_suffix(".json")), plugins=plugins)
    (player,) = config.players.values()
    own = learned_role(player, spec).name
    if own != role:
        raise ModelError(f"{path}: learned the role {own}, so it cannot play {role}")
    run = RunContext(config=config, plugins=plugins, run_dir=path.parent)
    return make_model_agent(run, player.name, weights, spec=spec, deterministic=deterministic)


@frozen
class Game:
    """An installed environment and agents that play it, without a run. Made by `open_game`."""

    _environment: SelectedComponent
    _agents: Mapping[str, SelectedComponent]

    def make_environment(self, num_matches: int) -> Environment:
        """Make a batch of the environment; the caller closes it.

        Raises:
            PluginError: Its factory raised.
        """
        return make_environment(self._environment, num_matches)

    def agent(self, name: str, role: str, *, environment: Environment) -> Agent:
        """Make one of the agents for a role.

        Raises:
            PluginError: Its factory raised.
        """
        return make_agent(self._agents[name], environment.spec, role)


def open_game(
    environment: str,
    agents: Sequence[str] = (),
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    overrides: Sequence[str] = (),
) -> Game:
    """Choose an installed environment and agents by name.

    Args:
        environment: The environment's name.
        agents: Names of the agents that will play.
        options: Options of any of them, as tables by name.
        overrides: The same as ``name.option=value``, which go before `options`.

    Raises:
        ConfigError: With one line for every mistake.
    """
    wanted = [("environment", environment), *(("agent", agent) for agent in agents)]
    first, *others = select_components(load_plugins(), wanted, options=options, overrides=overrides)
    return Game(first, {agent.name: agent for agent in others})
