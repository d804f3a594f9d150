"""Playing an environment with random legal actions, and nothing else."""

from __future__ import annotations

import numpy as np
from attrs import define, field
from gymnasium import spaces
from ludus.environment import Environment, Role, RoleTick, Tick
from ludus.runs import match_seeds
from ludus.spaces import action_dtype, action_width, label_sizes

from ludus_bench.timing import Stopwatch

__all__ = ["RandomPlay"]

_WIDEST = 10.0  # stands for an unbounded side of a Box


@define
class RandomPlay:
    """All rows of a batch, always running.

    Args:
        environment: What is played.
        inside: Runs while the environment works: in `step`, and in `reset` of the rows that ended.
    """

    environment: Environment
    inside: Stopwatch
    ticks: int = field(init=False, default=0)
    decisions: int = field(init=False, default=0)
    _rng: np.random.Generator = field(init=False, factory=lambda: np.random.default_rng(0))
    _started: int = field(init=False, default=0)
    _tick: Tick = field(init=False)
    _actions: dict[str, np.ndarray] = field(init=False)

    def __attrs_post_init__(self) -> None:
        rows = self.environment.num_matches
        self._tick = self.environment.reset(self._seeds(rows))
        self._actions = {
            role.name: np.zeros(
                (rows, role.num_seats, action_width(role.action_space)), action_dtype(role.action_space)
            )
            for role in self.environment.spec.roles
        }

    @property
    def decisions_per_tick(self) -> float:
        """Return how many decisions a tick of one row took, in the mean so far."""
        return self.decisions / self.ticks

    def _seeds(self, count: int) -> np.ndarray:
        self._started += count
        return match_seeds(0, np.arange(self._started - count, self._started))

    def step(self) -> float:
        """Play one tick of every row and return how many ticks that were: one per row."""
        for role in self.environment.spec.roles:
            tick = self._tick.roles[role.name]
            self.decisions += int(np.count_nonzero(tick.acting))
            self._choose(role, tick)
        self.inside.start()
        self._tick = self.environment.step(self._actions)
        self.inside.stop()
        ended = np.flatnonzero(self._tick.terminated | self._tick.truncated)
        if ended.size:
            seeds = self._seeds(ended.size)
            self.inside.start()
            self._tick = self.environment.reset(seeds, indices=ended)
            self.inside.stop()
        self.ticks += self.environment.num_matches
        return float(self.environment.num_matches)

    def _choose(self, role: Role, tick: RoleTick) -> None:
        space, actions = role.action_space, self._actions[role.name]
        if isinstance(space, spaces.Box):
            low, high = np.maximum(space.low, -_WIDEST).ravel(), np.minimum(space.high, _WIDEST).ravel()
            actions[:] = low + (high - low) * self._rng.random(actions.shape, np.float32)
            return
        sizes = label_sizes(space)
        keys = self._rng.random((*actions.shape[:2], sum(sizes)), np.float32)
        if tick.action_mask is not None:
            keys += tick.action_mask  # what is legal lies above everything that is not
        end = 0
        for label, size in enumerate(sizes):
            keys[..., end : end + size].argmax(axis=-1, out=actions[..., label])
            end += size
