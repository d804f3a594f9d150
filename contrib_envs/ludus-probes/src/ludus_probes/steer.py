"""``steer``: two real numbers that must follow what is seen, judged by their squared distance."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves, RoleTick
from ludus.random import random_bits, random_floats

from ludus_probes.config import SteerConfig
from ludus_probes.environment import Indices, ProbeEnvironment, StatelessAgent, probe_spec

_SEEN = 3  # numbers in an observation


def best_actions(observation: np.ndarray) -> np.ndarray:
    """Return ``[n, 2] float32``: the best actions for ``observation [n, 3] float32``, (o₀·o₁, (o₁ + o₂)/2)."""
    first, second, third = observation.T
    best: np.ndarray = np.stack([first * second, (second + third) / np.float32(2.0)], axis=1)
    return best


def make_steer(config: SteerConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches."""
    return ProbeEnvironment(_Steer(config), num_matches=num_matches)


def make_steer_agent(config: None, *, spec: EnvironmentSpec, role: str) -> StatelessAgent:  # noqa: ARG001 - no options
    """Return a perfect agent, exact to the bit."""

    def decide(observation: Leaves) -> np.ndarray:
        return best_actions(observation["obs"])

    return StatelessAgent(decide, value=0.0)


class _Steer:
    """Every tick shows three numbers, uniform in [-1, 1]; the reward is minus the squared distance to `best_actions`.

    A match is won where the mean squared distance of its ticks is within the tolerance.
    """

    def __init__(self, config: SteerConfig) -> None:
        self._steps, self._tolerance = config.steps, config.tolerance
        self.spec = probe_spec(
            "steer",
            observation_space=spaces.Box(-1.0, 1.0, (_SEEN,), np.float32),
            action_space=spaces.Box(-1.0, 1.0, (2,), np.float32),
            max_ticks=config.steps,
            perfect_information=True,
            reward_range=(-8.0, 0.0),
        )
        self.choice_names = ()

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Store the arrays, and allocate the state."""
        self._obs, self._reward = player.observation["obs"][:, 0], player.reward[:, 0]
        self._outcome = outcome[:, 0]
        self._seeds = np.zeros(len(outcome), np.uint64)
        self._clock = np.zeros(len(outcome), np.int64)
        self._error = np.zeros(len(outcome))

    def start(self, at: Indices, seeds: np.ndarray) -> None:
        """Show the first numbers."""
        self._seeds[at] = seeds
        self._clock[at] = 0
        self._error[at] = 0.0
        self._show(at)

    def advance(self, at: Indices, actions: np.ndarray) -> np.ndarray:
        """Reward the actions, and show the next numbers."""
        missed = ((actions[:, 0] - best_actions(self._obs[at])) ** 2).sum(axis=1)
        self._reward[at] = -missed
        self._error[at] += missed
        self._clock[at] += 1
        self._outcome[at] = self._error[at] <= self._tolerance * self._steps
        self._show(at)
        ended: np.ndarray = self._clock[at] == self._steps
        return ended

    def _show(self, at: Indices) -> None:
        """Write the observations of the current tick."""
        numbers = random_bits(self._seeds[at, None], _SEEN * self._clock[at, None] + np.arange(_SEEN))
        self._obs[at] = 2.0 * random_floats(numbers) - 1.0

    def render_match(self, match: int) -> str:
        """Return the observation and the error so far as text."""
        seen = " ".join(f"{number:+.3f}" for number in self._obs[match])
        return f"{seen}; squared distance so far {self._error[match]:.4f}"
