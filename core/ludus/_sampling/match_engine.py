"""The match engine: steps one environment, starts and ends matches, and returns results.

Samplers, evaluators, ``ludus eval`` and tests share the engine. It does not depend on processes or messages: fixtures
go in; results go to a callback.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from ludus._plugins.error_wrapping import close_environment, format_error
from ludus._replays.recorder import ReplayRecorder
from ludus._sampling.actor_calls import ActorCalls, OpponentValues
from ludus._sampling.fixture_scheduling import FixtureScheduler, ResolveSeat, Seating, lane_numbers
from ludus._sampling.match_state import RunningMatches, SeatTotals, TickChecks
from ludus._sampling.seats import Actor, ValueObserver
from ludus.activity import STARTING_MATCHES, report_activity
from ludus.environment import Environment, Tick
from ludus.errors import ContractError, LudusError
from ludus.records import Fixture

_SLOW_START_S = 1.0


@define(eq=False)
class MatchEngine:
    """Plays the matches of fixtures.

    Args:
        environment: The batch; no other object may use it.
        resolve: Returns actor and slot of a seat of a fixture; called when a lane starts the fixture. The slot must
            keep its model while it is among `slots_in_use`.
        on_results: Called with arrays of the matches that ended: ``fixture``, ``number``, ``ticks``, ``outcome``,
            ``returns [n, seats] float32``, the sum of each seat's rewards, ``"part/ROLE/NAME" [n]``, the sums of
            reward parts as means over the seats of a role, and ``"statistic/ROLE/NAME" [n, S] float32``. With
            `EnvironmentSpec.logs_returns` the returns are statistics too, ``"statistic/ROLE/return"``.
        matches_per_lane: Number of matches that play one fixture together.
        observers: Actors that record the values of their opponents.
        players: Actors whose returns are to be reported, by name.
        skip_damaged: Skip fixtures of models whose files are damaged; false: raise `DamagedFileError`.
        replays: Records the matches; None: they are not recorded.

    Attributes:
        ticks: Number of ticks of all matches together.
    """

    environment: Environment
    resolve: ResolveSeat
    on_results: Callable[[dict[str, np.ndarray]], None]
    matches_per_lane: int = 32
    observers: Sequence[ValueObserver] = ()
    players: Mapping[str, Actor] = field(factory=dict)
    skip_damaged: bool = False
    replays: ReplayRecorder | None = None
    ticks: int = field(init=False, default=0)
    _running: RunningMatches = field(init=False)
    _seating: Seating = field(init=False)
    _scheduler: FixtureScheduler = field(init=False)
    _totals: SeatTotals = field(init=False)
    _checks: TickChecks = field(init=False)
    _actors: ActorCalls = field(init=False)
    _actions: Mapping[str, np.ndarray] = field(init=False)
    _tick: Tick | None = field(init=False, default=None)
    _starts_slowly: bool = field(init=False, default=True)  # whether matches took long to start, or may do so
    _has_seat_endings: bool = field(init=False)
    _logs_returns: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        spec, num_matches = self.environment.spec, self.environment.num_matches
        lanes = lane_numbers(num_matches, self.matches_per_lane)
        self._running = RunningMatches(num_matches)
        self._seating = Seating(num_matches, lanes=int(lanes[-1]) + 1, seats=len(spec.seats), resolve=self.resolve)
        self._scheduler = FixtureScheduler(
            lanes,
            self._seating,
            skip_damaged=self.skip_damaged,
            on_start=None if self.replays is None else self.replays.add_fixture,
        )
        self._totals = SeatTotals(spec, num_matches)
        self._checks = TickChecks(spec, self._running)
        values = None
        if self.observers:
            values = OpponentValues(spec, num_matches, seating=self._seating, observers=self.observers)
        self._actors = ActorCalls(self._seating, self._totals, self._running, self._checks, self.observers, values)
        self._actions = {role.name: role.actions for role in self._totals.roles}
        self._has_seat_endings = any(role.seat_endings for role in spec.roles)
        self._logs_returns = spec.logs_returns

    # -- fixtures ----------------------------------------------------------------------------------------------

    def add_fixture(self, fixture: Fixture) -> None:
        """Add a fixture to the queue."""
        self._scheduler.queue.append(fixture)

    def num_wanted_fixtures(self, spare: int = 0) -> int:
        """Return how many more fixtures the queue needs so that no match index waits, plus `spare`."""
        return max(0, self._scheduler.num_low_lanes + 1 + spare - len(self._scheduler.queue))

    @property
    def num_started_fixtures(self) -> int:
        """Return the number of fixtures that have started."""
        return self._scheduler.num_started_fixtures

    @property
    def waits_for_fixtures(self) -> bool:
        """Return whether match indices are idle, after the first tick, because the queue is empty."""
        return bool(self._running.num_idle and self.ticks and not self._scheduler.queue)

    @property
    def num_running(self) -> int:
        """Return the number of running matches."""
        return self._running.num_running

    @property
    def decisions(self) -> int:
        """Return the number of decisions so far."""
        return self._actors.decisions

    def slots_in_use(self, actor: Actor) -> np.ndarray:
        """Return ``[k] int64``, ascending: the slots of an actor that a match or a lane uses."""
        return self._seating.slots_in_use(actor)

    # -- one tick ----------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Play one tick of all running matches.

        Returns:
            False if no match is running.

        Raises:
            ContractError: The environment, an agent, an interface or a policy raised, or the environment returned a
                reward, observation or statistic that is not finite, an outcome outside [0, 1], or an acting seat
                without a legal action.
        """
        try:
            return self._step()
        except (LudusError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise ContractError(format_error(error, f"after {self._running.steps} ticks")) from error

    def _step(self) -> bool:
        running = self._running
        if running.num_idle and self._scheduler.queue:
            self._start_matches(np.flatnonzero(running.idle))
        if self._tick is None or not running.num_running:
            return False
        try:
            self._actors.collect_actions(self._tick)
        except Exception as error:
            self._checks.check_observations(self._totals.roles, self._tick, error)
            raise
        self._tick = tick = self._advance(self._tick)
        running.steps += 1
        self.ticks += running.num_running
        self._checks.check_rewards(self._totals.roles, tick)
        self._totals.add(tick)
        ended = tick.terminated | tick.truncated
        if running.num_idle:
            ended &= ~running.idle
        indices = ended.nonzero()[0]
        if indices.size or self._has_seat_endings:
            self._end_seats(indices, tick)
        if indices.size:
            self._end_matches(indices, tick)
            self._start_matches(indices)
        self._restart_void_matches(tick)
        return True

    def _restart_void_matches(self, tick: Tick) -> None:
        """Start void matches again: same fixture, number and seed. Their pending decisions are dropped."""
        if tick.void is None:
            return
        indices = (tick.void & ~self._running.idle).nonzero()[0]
        if indices.size:
            self._actors.end_matches(indices, tick)
            self._running.end(indices)
            self._reset_matches(indices)

    def _advance(self, tick: Tick) -> Tick:
        """Record the collected actions, and step the environment."""
        if self.replays is not None:
            self.replays.add_tick(tick, self._actions)
        return self._call_environment("step", self._actions)

    def _start_matches(self, indices: np.ndarray) -> None:
        """Start the next matches at idle match indices, ascending, as far as there are fixtures."""
        indices = self._scheduler.assign_matches(indices)
        if indices.size:
            self._reset_matches(indices)

    def _reset_matches(self, indices: np.ndarray) -> None:
        """Start the matches that are assigned to idle match indices, ascending."""
        self._running.start(indices)
        if self.replays is not None:
            self.replays.start_matches(indices)
        self._totals.reset(indices)
        self._actors.start_matches(indices)
        seeds, scenarios = self._scheduler.seeds(indices), self._scheduler.scenarios(indices)
        if self._starts_slowly:
            report_activity(STARTING_MATCHES, 0, indices.size)
        started_s = time.monotonic()
        self._tick = self._call_environment("reset", seeds, indices=indices, scenarios=scenarios)
        self._starts_slowly = time.monotonic() - started_s > _SLOW_START_S

    def _end_seats(self, indices: np.ndarray, tick: Tick) -> None:
        """Call the actors of all seats that end on this tick: alone, or with the matches at `indices`."""
        try:
            if self._has_seat_endings:
                self._actors.end_seats(tick)
            if indices.size:
                self._actors.end_matches(indices, tick)
        except Exception as error:
            self._checks.check_observations(self._totals.roles, tick, error)
            raise

    def _end_matches(self, indices: np.ndarray, tick: Tick) -> None:
        outcome = self._checks.checked_outcome(indices, tick)
        returns = self._totals.returns.take(indices, axis=0)
        results: dict[str, np.ndarray] = {
            "fixture": self._scheduler.fixture_ids.take(indices),
            "number": self._scheduler.match_numbers.take(indices),
            "ticks": self._running.ages(indices).astype(np.int32),
            "outcome": outcome,
            "returns": returns,
            **self._player_returns(indices, returns),
            **self._totals.reward_part_means(indices),
            **(self._totals.return_statistics(indices) if self._logs_returns else {}),
            **self._checks.checked_statistics(self._totals.roles, indices, tick),
        }
        if self.replays is not None:
            self.replays.end_matches(indices, tick, results)
        self.on_results(results)
        self._running.end(indices)

    def _player_returns(self, indices: np.ndarray, returns: np.ndarray) -> dict[str, np.ndarray]:
        """Return by ``"player/NAME"`` the mean return ``[n] float64`` of a player's seats; NaN where it has none."""
        if not self.players:
            return {}
        seated = self._seating.actor_index.take(indices, axis=0)
        means = {}
        for name, actor in self.players.items():
            own = seated == self._seating.position(actor)
            count = own.sum(axis=1)
            means[f"player/{name}"] = np.where(count, (returns * own).sum(axis=1) / np.maximum(count, 1), np.nan)
        return means

    def _call_environment(self, method: str, *arguments: Any, **options: Any) -> Tick:
        """Call the environment; wrap its exceptions in a `ContractError` that names it."""
        try:
            return getattr(self.environment, method)(*arguments, **options)  # type: ignore[no-any-return]
        except (LudusError, KeyboardInterrupt):
            raise
        except BaseException as error:
            reason = format_error(error, f"in {method} after {self._running.steps} ticks")
            raise ContractError(f"environment {self.environment.spec.name!r}: {reason}") from error

    def close(self) -> None:
        """Close the environment."""
        close_environment(self.environment)


def reported_results(
    results: Mapping[str, np.ndarray], *, kind: str, with_returns: bool = False
) -> dict[str, np.ndarray]:
    """Return the results that the coordinator reads: no reward parts, and statistics of evaluations only.

    Args:
        results: See `MatchEngine.on_results`.
        kind: ``"train"`` or ``"eval"``.
        with_returns: Whether the outcome of a match follows from the returns of all seats, which are kept then.
    """
    dropped = (
        "part/",
        "player/",
        *(() if with_returns else ("returns",)),
        *(() if kind == "eval" else ("statistic/",)),
    )
    return {name: array for name, array in results.items() if not name.startswith(dropped)}
