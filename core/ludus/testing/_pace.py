"""How fast a player would get decisions, and which options suit a slow game."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
from attrs import define, field, frozen

from ludus._run.factories import make
from ludus._run.worker_plan import count_samplers
from ludus.option import presets_of
from ludus.testing._finding import Finding

if TYPE_CHECKING:
    from ludus._config.sections import PlayerConfig, RunConfig
    from ludus._sampling.match_engine import MatchEngine
    from ludus.environment import Environment, EnvironmentSpec, Scenario, Tick

_WARM_UP_STEPS = 3  # the first steps compile and allocate
_SLOW_UPDATE_S = 30.0
_SLOW_START_S = 10.0
_FILL_S = 10.0  # of the batch that is suggested
_FREEZE_S = 300.0  # between two models of those that are suggested
_MIN_BATCH = 256
_PRESET = "slow-game"


@frozen(kw_only=True)
class Pace:
    """The pace of one sampler.

    Attributes:
        start_s: Seconds to start one match.
        decisions_per_s: Decisions of the learned role per second, starts of matches included.
    """

    start_s: float
    decisions_per_s: float


@define
class PaceMeter:
    """An environment that measures how long the starts of matches take, and the steps of its engine.

    Args:
        environment: The environment.
    """

    environment: Environment
    spec: EnvironmentSpec = field(init=False)
    num_matches: int = field(init=False)
    _starting_s: float = field(init=False, default=0.0)
    _starts: int = field(init=False, default=0)
    _ended: int = field(init=False, default=0)
    _steps: int = field(init=False, default=0)
    _playing_s: float = field(init=False, default=0.0)
    _ticks: int = field(init=False, default=0)
    _decisions: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self.spec, self.num_matches = self.environment.spec, self.environment.num_matches

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches, and measure how long it takes."""
        started_s = time.perf_counter()
        tick = self.environment.reset(seeds, indices=indices, scenarios=scenarios)
        self._starting_s += time.perf_counter() - started_s
        self._starts += seeds.size
        return tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick."""
        return self.environment.step(actions)

    def close(self) -> None:
        """Do nothing: the environment belongs to the caller."""

    def count_ended(self, results: Mapping[str, np.ndarray]) -> None:
        """Count the matches that have ended."""
        self._ended += results["number"].size

    @property
    def is_warm(self) -> bool:
        """Return whether a step was measured."""
        return self._steps > _WARM_UP_STEPS

    def measure_step(self, engine: MatchEngine) -> None:
        """Play one tick and measure it, without the starts of matches."""
        ticks, decisions, starting_s, started_s = engine.ticks, engine.decisions, self._starting_s, time.perf_counter()
        engine.step()
        self._steps += 1
        if self.is_warm:
            self._playing_s += time.perf_counter() - started_s - (self._starting_s - starting_s)
            self._ticks += engine.ticks - ticks
            self._decisions += engine.decisions - decisions

    def pace(self, engine: MatchEngine, *, share_of_seats: float) -> Pace:
        """Return the pace of the matches played so far.

        Args:
            engine: The engine of all measured steps.
            share_of_seats: Share of the decisions that the learned role takes.
        """
        start_s = self._starting_s / max(self._starts, 1)
        match_ticks = engine.ticks / max(self._ended, 1)
        seconds_per_tick = self._playing_s / max(self._ticks, 1) + start_s / max(match_ticks, 1.0)
        decisions_per_tick = share_of_seats * self._decisions / max(self._ticks, 1)
        return Pace(start_s=start_s, decisions_per_s=decisions_per_tick / max(seconds_per_tick, 1e-9))


def check_pace(config: RunConfig, player: PlayerConfig, pace: Pace, *, batch: int, seats: int) -> Iterator[Finding]:
    """Yield warnings about matches that start slowly, and about updates that take long to fill, with remedies.

    Args:
        config: Configuration of the run.
        player: The player.
        pace: Pace of one sampler.
        batch: Decisions of one update.
        seats: Seats of the learned role.
    """
    subject = f"player {player.name}"
    starts_s = pace.start_s * config.sampling.matches
    if starts_s > _SLOW_START_S:
        yield Finding(
            "warn",
            subject,
            f"a match takes {pace.start_s:.2g} s to start, the first {config.sampling.matches} of a sampler "
            f"{starts_s:,.0f} s: fewer sampling.matches, or more environment.{config.environment.name}.workers, start "
            f"sooner; run.stall_s has to be above the time of one start",
        )
    shares = sum(other.share for other in config.players.values())
    rate = pace.decisions_per_s * configured_samplers(config) * player.share / max(shares, 1e-9)
    fill_s = batch / max(rate, 1e-9)
    if rate and fill_s > _SLOW_UPDATE_S:
        settings = ", ".join(_settings(config, player, rate, batch=batch, seats=seats))
        yield Finding(
            "warn",
            subject,
            f"at {rate:,.3g} decisions/s an update of {batch:,} decisions fills in about {fill_s:,.0f} s; for a slow "
            f"game: {settings}",
        )


def configured_samplers(config: RunConfig) -> int:
    """Return the number of samplers of a run."""
    if config.run.workers == 0 or config.launcher is None:
        return 1
    return count_samplers(config, make(config.launcher).cores)


def _settings(config: RunConfig, player: PlayerConfig, rate: float, *, batch: int, seats: int) -> Iterator[str]:
    """Yield the options that suit a rate of decisions, as lines of TOML."""
    options, table = player.algorithm.config, f"players.{player.name}"
    algorithm = f"{table}.{player.algorithm.name}"
    smaller = max(_MIN_BATCH, _round(rate * _FILL_S))
    if smaller < batch:
        yield f"{algorithm}.batch_decisions = {smaller}"
    if getattr(options, "epochs", 6) < 4:
        yield f"{algorithm}.epochs = 6"
    segment = getattr(options, "segment_decisions", 0)
    if segment and seats * segment * config.sampling.matches > smaller:
        yield from _smaller_blocks(algorithm, segment, smaller, seats=seats)
    if player.freeze_every_decisions > 2 * rate * _FREEZE_S:
        yield f"{table}.freeze_every_decisions = {max(smaller, _round(rate * _FREEZE_S))}"
    if config.evaluation.enabled and not config.evaluation.share:
        yield "evaluation.share = 0.1"
    if _PRESET in presets_of(type(options) if attrs.has(type(options)) else None):
        yield f'or {algorithm}.preset = "{_PRESET}"'
    yield "or more run.workers"


def _smaller_blocks(algorithm: str, segment: int, batch: int, *, seats: int) -> Iterator[str]:
    """Yield the options by which all matches of a sampler fill at most a batch with their segments."""
    shorter = min(segment, max(16, batch // (4 * seats)))
    if shorter < segment:
        yield f"{algorithm}.segment_decisions = {shorter}"
    yield f"sampling.matches = {max(1, batch // (seats * shorter))}"


def _round(value: float) -> int:
    """Return a number with two significant digits."""
    return int(float(f"{value:.2g}"))
