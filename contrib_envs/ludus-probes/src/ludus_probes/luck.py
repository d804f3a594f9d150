"""``luck``: easy questions, with rewards blurred by luck per match that only critics may observe."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces
from ludus.environment import EnvironmentSpec, Leaves, RoleTick
from ludus.random import random_bits, random_floats, random_integers

from ludus_probes.config import LuckConfig
from ludus_probes.environment import Indices, ProbeEnvironment, StatelessAgent, highlight, probe_spec


def make_luck(config: LuckConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches."""
    return ProbeEnvironment(_Luck(config), num_matches=num_matches)


def make_luck_agent(config: None, *, spec: EnvironmentSpec, role: str) -> StatelessAgent:  # noqa: ARG001 - no options
    """Return a perfect agent; its value is the expected return, in which luck averages out."""

    def decide(observation: Leaves) -> np.ndarray:
        return np.asarray(observation["obs"].argmax(axis=1)[:, None])

    return StatelessAgent(decide, value=1.0)


class _Luck:
    """Every tick shows a sign; the right answer is worth 1 / ticks. A match is won if every answer was right.

    The luck of a match is independent of the actions and paid in equal parts on all ticks. Critics observe the luck to
    come.
    """

    def __init__(self, config: LuckConfig) -> None:
        self._choices, self._length, self._spread = config.choices, config.ticks, config.spread
        hidden: dict[str, Space[Any]] = {"luck": spaces.Box(-config.spread, config.spread, (1,), np.float32)}
        self.spec = probe_spec(
            "luck",
            observation_space=spaces.Box(0.0, 1.0, (config.choices,), np.float32),
            action_space=spaces.Discrete(config.choices),
            privileged_space=spaces.Dict(hidden) if config.told else None,
            max_ticks=config.ticks,
            reward_range=(-config.spread / config.ticks, (1.0 + config.spread) / config.ticks),
        )
        self.choice_names = ([str(choice) for choice in range(config.choices)],)
        self._one_hot = np.eye(config.choices, dtype=np.float32)

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Store the arrays, and allocate the state."""
        self._obs, self._reward, self._outcome = player.observation["obs"][:, 0], player.reward[:, 0], outcome[:, 0]
        self._to_come = player.privileged["luck"][:, 0, 0] if player.privileged else np.zeros(len(outcome), np.float32)
        self._seeds = np.zeros(len(outcome), np.uint64)
        self._luck = np.zeros(len(outcome))
        self._sign, self._clock, self._right = (np.zeros(len(outcome), np.int64) for _ in range(3))

    def start(self, at: Indices, seeds: np.ndarray) -> None:
        """Draw the luck and show the first sign."""
        self._seeds[at] = seeds
        self._luck[at] = (2.0 * random_floats(random_bits(seeds, 0)) - 1.0) * self._spread
        self._clock[at] = 0
        self._right[at] = 0
        self._show(at)

    def advance(self, at: Indices, actions: np.ndarray) -> np.ndarray:
        """Pay, and show the next sign."""
        right = actions[:, 0, 0] == self._sign[at]
        self._reward[at] = (right + self._luck[at]) / self._length
        self._right[at] += right
        self._clock[at] += 1
        ended = self._clock[at] == self._length
        self._outcome[at] = ended & (self._right[at] == self._length)
        self._show(at)
        return np.asarray(ended)

    def _show(self, at: Indices) -> None:
        clock = self._clock[at]
        sign = random_integers(random_bits(self._seeds[at], clock + 1), self._choices)
        self._sign[at] = sign
        self._obs[at] = self._one_hot[sign]
        self._to_come[at] = self._luck[at] * (1.0 - clock / self._length)

    def render_match(self, match: int) -> str:
        """Return the sign and the luck to come."""
        return f"sign {highlight(str(int(self._sign[match])))}, luck to come {self._to_come[match]:+.2f}"
