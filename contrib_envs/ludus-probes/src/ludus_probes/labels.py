"""``labels``: actions of several labels, of which the first selects the one that counts, or all must be right."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces
from ludus.environment import EnvironmentSpec, Leaves, RoleTick
from ludus.random import random_bits, random_integers
from ludus.spaces import action_width

from ludus_probes.config import LabelsConfig
from ludus_probes.environment import Indices, ProbeEnvironment, StatelessAgent, highlight, probe_spec


def make_labels(config: LabelsConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches."""
    return ProbeEnvironment(_Labels(config), num_matches=num_matches)


def make_labels_agent(config: None, *, spec: EnvironmentSpec, role: str) -> StatelessAgent:  # noqa: ARG001 - no options
    """Return a perfect agent."""
    leaves = _leaves(action_width(spec.role(role).action_space))

    def decide(observation: Leaves) -> np.ndarray:
        action = np.stack([leaf.argmax(axis=1) for leaf in (observation[name] for name in leaves)], axis=1)
        if _KEY in observation:
            key = observation[_KEY]
            action[:, 1:] = (action[:, 1:] + key.argmax(axis=1)[:, None]) % key.shape[1]
        return action

    return StatelessAgent(decide, value=1.0)


_ORDINALS = (
    *("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"),
    *("thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth"),
)
_KEY = "key"


def _leaves(labels: int) -> tuple[str, ...]:
    """Return the names of the one-hot leaves, one per label."""
    return ("wanted", *_ORDINALS[: labels - 1])


class _Labels:
    """One decision: select the wanted label by the first label, and set that label to its target: reward 1.

    Labels that are not selected have no effect. If `coupled`, all must be right; if also `shared`, the reward is the
    share of right labels. If `keyed`, the target of all labels but the first is the shown choice plus a key, modulo the
    number of choices.
    """

    def __init__(self, config: LabelsConfig) -> None:
        self._coupled, self._shared = config.coupled, config.shared
        self._sizes = (config.labels, *[config.choices] * config.labels)
        self._names = _leaves(len(self._sizes))
        leaves: dict[str, Space[Any]] = {
            name: spaces.Box(0.0, 1.0, (size,), np.float32) for name, size in zip(self._names, self._sizes, strict=True)
        }
        self._keyed, self._choices = config.keyed, config.choices
        if config.keyed:
            leaves[_KEY] = spaces.Box(0.0, 1.0, (config.choices,), np.float32)
        chosen = tuple((True, *row) for row in np.eye(config.labels, dtype=bool).tolist())
        self.spec = probe_spec(
            "labels",
            observation_space=spaces.Dict(leaves),
            action_space=spaces.MultiDiscrete(list(self._sizes)),
            labels_used=None if config.coupled else chosen,
            max_ticks=1,
            perfect_information=True,
            reward_range=(0.0, 1.0),
        )
        self.choice_names = (self._names[1:], *([str(choice) for choice in range(size)] for size in self._sizes[1:]))
        self._one_hot = [np.eye(size, dtype=np.float32) for size in self._sizes]

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Store the arrays, and allocate the targets."""
        self._leaves = [player.observation[name][:, 0] for name in self._names]
        self._key = player.observation[_KEY][:, 0] if self._keyed else None
        self._reward, self._outcome = player.reward[:, 0], outcome[:, 0]
        self._asked = np.zeros((len(outcome), len(self._sizes)), np.int64)

    def start(self, at: Indices, seeds: np.ndarray) -> None:
        """Draw the targets."""
        numbers = random_bits(seeds[:, None], np.arange(len(self._sizes) + 1))
        for label, size in enumerate(self._sizes):
            shown = random_integers(numbers[:, label], size)
            self._asked[at, label] = shown
            self._leaves[label][at] = self._one_hot[label][shown]
        if self._key is not None:
            key = random_integers(numbers[:, -1], self._choices)
            self._key[at] = self._one_hot[-1][key]
            self._asked[at, 1:] = (self._asked[at, 1:] + key[:, None]) % self._choices

    def advance(self, at: Indices, actions: np.ndarray) -> np.ndarray:
        """Reward right answers."""
        chosen, asked = actions[:, 0], self._asked[at]
        right = chosen == asked  # [n, labels + 1]
        if self._coupled:
            won = right.all(axis=1)
        else:
            won = right[:, 0] & np.take_along_axis(right, asked[:, :1] + 1, axis=1)[:, 0]
        self._reward[at] = right.mean(axis=1) if self._coupled and self._shared else won
        self._outcome[at] = won
        return np.ones(len(won), bool)

    def render_match(self, match: int) -> str:
        """Return the targets as text."""
        wanted, *others = (int(label) for label in self._asked[match])
        asked = ", ".join(f"{name}: {choice}" for name, choice in zip(self._names[1:], others, strict=True))
        return f"{highlight(self._names[1 + wanted])} wanted; {asked}"
