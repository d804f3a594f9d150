"""``labels``: an action of three labels of which two count, and the first says which. Or all must be right together."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces
from ludus.environment import EnvironmentSpec, Leaves, Role, RoleTick

from ludus_probes.batch import ROLE, ProbeEnvironment, Rows
from ludus_probes.config import LabelsConfig
from ludus_probes.lots import below, draw
from ludus_probes.reflex import ReflexAgent
from ludus_probes.terminal import highlight

__all__ = ["make_labels", "make_labels_agent"]


def make_labels(config: LabelsConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches."""
    return ProbeEnvironment(_Labels(config), num_matches=num_matches)


def make_labels_agent(config: None, *, spec: EnvironmentSpec, role: str) -> ReflexAgent:  # noqa: ARG001 - no options
    """Return an agent that does what the observation asks for."""

    def decide(observation: Leaves) -> np.ndarray:
        return np.stack([leaf.argmax(axis=1) for leaf in (observation[name] for name in _LEAVES)], axis=1)

    return ReflexAgent(decide, value=1.0)


_LEAVES = ("wanted", "second", "third")  # what is asked of the first, second and third label, one-hot


class _Labels:
    """One decision: choose the wanted label by the first label, and set that label to what is asked of it: reward 1.

    The label that was not chosen changes nothing. Where `coupled`, it must be right too.
    """

    def __init__(self, config: LabelsConfig) -> None:
        self._coupled = config.coupled
        self._sizes = (2, config.choices, config.choices)
        leaves: dict[str, Space[Any]] = {
            name: spaces.Box(0.0, 1.0, (size,), np.float32) for name, size in zip(_LEAVES, self._sizes, strict=True)
        }
        player = Role(
            name=ROLE,
            observation_space=spaces.Dict(leaves),
            action_space=spaces.MultiDiscrete(list(self._sizes)),
            teams=(0,),
            labels_used=None if config.coupled else ((True, True, False), (True, False, True)),
        )
        self.spec = EnvironmentSpec(
            name="labels",
            roles=(player,),
            turn="simultaneous",
            max_ticks=1,
            perfect_information=True,
            reward_range=(0.0, 1.0),
        )
        self.words = (("second", "third"), *([str(choice) for choice in range(size)] for size in self._sizes[1:]))
        self._one_hot = [np.eye(size, dtype=np.float32) for size in self._sizes]

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Make room for what is asked."""
        self._leaves = [player.observation[name][:, 0] for name in _LEAVES]
        self._reward, self._outcome = player.reward[:, 0], outcome[:, 0]
        self._asked = np.zeros((len(outcome), 3), np.int64)

    def start(self, at: Rows, seeds: np.ndarray) -> None:
        """Ask for something."""
        numbers = draw(seeds[:, None], np.arange(3))
        for label, size in enumerate(self._sizes):
            asked = below(numbers[:, label], size)
            self._asked[at, label] = asked
            self._leaves[label][at] = self._one_hot[label][asked]

    def advance(self, at: Rows, actions: np.ndarray) -> np.ndarray:
        """Pay for what was right."""
        chosen, asked = actions[:, 0], self._asked[at]
        right = chosen == asked  # [n, 3]
        second_counts = asked[:, 0] == 0
        needed = right[:, 1:].all(axis=1) if self._coupled else np.where(second_counts, right[:, 1], right[:, 2])
        paid = right[:, 0] & needed
        self._reward[at] = paid
        self._outcome[at] = paid
        return np.ones(len(paid), bool)

    def draw(self, match: int) -> str:
        """Return what is asked."""
        wanted, second, third = (int(label) for label in self._asked[match])
        return f"{highlight(self.words[0][wanted])} wanted; second: {second}, third: {third}"
