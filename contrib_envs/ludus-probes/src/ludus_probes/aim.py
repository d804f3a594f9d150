"""``aim``: name the right target and hit it, by one action of a label and two real numbers."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves, RoleTick
from ludus.random import random_bits, random_floats, random_integers

from ludus_probes.config import AimConfig
from ludus_probes.environment import Indices, ProbeEnvironment, StatelessAgent, highlight, probe_spec


def make_aim(config: AimConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches."""
    return ProbeEnvironment(_Aim(config), num_matches=num_matches)


def make_aim_agent(config: None, *, spec: EnvironmentSpec, role: str) -> StatelessAgent:  # noqa: ARG001 - no options
    """Return a perfect agent."""

    def decide(observation: Leaves) -> np.ndarray:
        target = observation["sought"].argmax(axis=1).astype(np.float32)
        return np.concatenate([target[:, None], observation["place"]], axis=1)

    return StatelessAgent(decide, value=1.0)


class _Aim:
    """One decision: a target, and where to shoot at it.

    The observation shows the sought target, one-hot, and its place, uniform in [-1, 1]². The reward is 0 for another
    target, else 1 less the distance from the place, and at least 0.
    """

    def __init__(self, config: AimConfig) -> None:
        self._targets, self._tolerance = config.targets, config.tolerance
        self.spec = probe_spec(
            "aim",
            observation_space=spaces.Dict(
                {
                    "sought": spaces.Box(0.0, 1.0, (config.targets,), np.float32),
                    "place": spaces.Box(-1.0, 1.0, (2,), np.float32),
                }
            ),
            action_space=spaces.Dict(
                {"target": spaces.Discrete(config.targets), "place": spaces.Box(-1.0, 1.0, (2,), np.float32)}
            ),
            max_ticks=1,
            perfect_information=True,
            reward_range=(0.0, 1.0),
        )
        self.choice_names = ([str(choice) for choice in range(config.targets)],)

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Store the arrays, and allocate the targets."""
        self._sought, self._place = player.observation["sought"][:, 0], player.observation["place"][:, 0]
        self._reward, self._outcome = player.reward[:, 0], outcome[:, 0]
        self._right = np.zeros(len(outcome), np.int64)

    def start(self, at: Indices, seeds: np.ndarray) -> None:
        """Draw the sought target and its place."""
        numbers = random_bits(seeds[:, None], np.arange(3))
        right = random_integers(numbers[:, 0], self._targets)
        self._right[at] = right
        self._sought[at] = right[:, None] == np.arange(self._targets)
        self._place[at] = 2.0 * random_floats(numbers[:, 1:]) - 1.0

    def advance(self, at: Indices, actions: np.ndarray) -> np.ndarray:
        """Reward the shots."""
        target, place = actions[:, 0, 0], actions[:, 0, 1:]
        missed = np.linalg.norm(place - self._place[at], axis=1)
        is_right = target == self._right[at]
        self._reward[at] = is_right * np.maximum(1.0 - missed, 0.0)
        self._outcome[at] = is_right & (missed <= self._tolerance)
        return np.ones(len(target), bool)

    def render_match(self, match: int) -> str:
        """Return the sought target and its place as text."""
        x, y = self._place[match]
        return f"target {highlight(str(int(self._right[match])))} at {x:+.3f} {y:+.3f}"
