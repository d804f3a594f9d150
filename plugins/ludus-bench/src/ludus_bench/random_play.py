"""Environments, and libraries without ludus, that play random legal actions."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from attrs import define, field
from ludus.environment import Environment, Role, RoleTick, Tick
from ludus.runs import match_seeds
from ludus.spaces import action_dtype, action_width, random_actions

from ludus_bench.timing import Stopwatch


class LibraryMatch(Protocol):
    """Random play of a library without ludus, one match after another."""

    description: str

    def choose(self) -> None:
        """Choose the actions of the next tick."""

    def advance(self) -> None:
        """Play a tick with them, and start a new match if this one ends."""

    def close(self) -> None:
        """Close the game."""


@define
class LibraryPlay:
    """A library that plays random legal actions.

    Args:
        match: Play of the library.
        stopwatch: Runs while a tick is played; not while actions are chosen.
    """

    match: LibraryMatch
    stopwatch: Stopwatch

    def step(self) -> float:
        """Play one tick and return 1, the number of matches."""
        self.match.choose()
        self.stopwatch.start()
        self.match.advance()
        self.stopwatch.stop()
        return 1.0


@define
class RandomPlay:
    """All matches of an environment, restarted when they end.

    Args:
        environment: Environment to play.
        stopwatch: Runs during `step` of the environment, and during `reset` of the matches that ended.
    """

    environment: Environment
    stopwatch: Stopwatch
    ticks: int = field(init=False, default=0)
    decisions: int = field(init=False, default=0)
    _rng: np.random.Generator = field(init=False, factory=lambda: np.random.default_rng(0))
    _started: int = field(init=False, default=0)
    _tick: Tick = field(init=False)
    _actions: dict[str, np.ndarray] = field(init=False)

    def __attrs_post_init__(self) -> None:
        matches = self.environment.num_matches
        self._tick = self.environment.reset(self._next_seeds(matches))
        self._actions = {
            role.name: np.zeros(
                (matches, role.num_seats, action_width(role.action_space)), action_dtype(role.action_space)
            )
            for role in self.environment.spec.roles
        }

    @property
    def decisions_per_tick(self) -> float:
        """Return the mean number of decisions in a tick of one match so far."""
        return self.decisions / self.ticks

    def step(self) -> float:
        """Play one tick of every match and return the number of matches."""
        for role in self.environment.spec.roles:
            tick = self._tick.roles[role.name]
            self.decisions += int(np.count_nonzero(tick.acting))
            self._sample_actions(role, tick)
        self.stopwatch.start()
        self._tick = self.environment.step(self._actions)
        self.stopwatch.stop()
        ended = np.flatnonzero(self._tick.terminated | self._tick.truncated)
        if ended.size:
            seeds = self._next_seeds(ended.size)
            self.stopwatch.start()
            self._tick = self.environment.reset(seeds, indices=ended)
            self.stopwatch.stop()
        self.ticks += self.environment.num_matches
        return float(self.environment.num_matches)

    def mean_acting_seats(self) -> int:
        """Return the rounded number of seats that act on a tick, measured over a few ticks; ≥ 1."""
        ticks, decisions = self.ticks, self.decisions
        for _ in range(9):
            self.step()
        steps = (self.ticks - ticks) / self.environment.num_matches
        return max(1, round((self.decisions - decisions) / steps))

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()

    def _next_seeds(self, count: int) -> np.ndarray:
        self._started += count
        return match_seeds(0, np.arange(self._started - count, self._started))

    def _sample_actions(self, role: Role, tick: RoleTick) -> None:
        actions, mask = self._actions[role.name], tick.action_mask
        rows = tick.acting.size
        mask = None if mask is None else mask.reshape(rows, -1)
        actions[:] = random_actions(role.action_space, rows, self._rng, mask=mask).reshape(actions.shape)
