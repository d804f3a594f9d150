"""``targets``: find the wanted entity among a varying number of entities in random order."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves, RoleTick
from ludus.random import random_bits, random_integers

from ludus_probes.config import TargetsConfig
from ludus_probes.environment import Indices, ProbeEnvironment, StatelessAgent, highlight, probe_spec

#: Number of places for entities.
PLACES = 8


def make_targets(config: TargetsConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches."""
    return ProbeEnvironment(_Targets(config), num_matches=num_matches)


def make_targets_agent(config: None, *, spec: EnvironmentSpec, role: str) -> StatelessAgent:  # noqa: ARG001 - no options
    """Return a perfect agent."""

    def decide(observation: Leaves) -> np.ndarray:
        fits = (observation["entities"] * observation["sought"][:, None]).sum(axis=2)  # [n, places]
        return np.stack([observation["button"].argmax(axis=1), fits.argmax(axis=1)], axis=1)

    return StatelessAgent(decide, value=1.0)


class _Targets:
    """One decision: a button and an entity. Each is worth ½, the button only on the right entity.

    1 to 8 entities, all numbers equally likely, are in random places; exactly one is of the wanted kind.
    Absent entities are all zeros and masked.
    """

    def __init__(self, config: TargetsConfig) -> None:
        self._kinds, self._buttons = config.kinds, config.buttons
        leaves: dict[str, spaces.Space[Any]] = {
            "entities": spaces.Box(0.0, 1.0, (PLACES, config.kinds), np.float32),
            "present": spaces.MultiBinary(PLACES),
            "sought": spaces.Box(0.0, 1.0, (config.kinds,), np.float32),
            "button": spaces.Box(0.0, 1.0, (config.buttons,), np.float32),
        }
        self.spec = probe_spec(
            "targets",
            observation_space=spaces.Dict(leaves),
            action_space=spaces.MultiDiscrete([config.buttons, PLACES]),
            max_ticks=1,
            perfect_information=True,
            reward_range=(0.0, 1.0),
        )
        self.choice_names = tuple([str(choice) for choice in range(size)] for size in (config.buttons, PLACES))
        self._one_hot_kind = np.eye(config.kinds, dtype=np.float32)
        self._one_hot_button = np.eye(config.buttons, dtype=np.float32)

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Store the arrays, and allocate the targets and the mask of buttons and present entities."""
        self._seen = {name: leaf[:, 0] for name, leaf in player.observation.items()}
        self._reward, self._outcome = player.reward[:, 0], outcome[:, 0]
        player.action_mask = np.ones((len(outcome), 1, self._buttons + PLACES), bool)
        self._mask = player.action_mask[:, 0]
        self._right = np.zeros((len(outcome), 2), np.int64)

    def start(self, at: Indices, seeds: np.ndarray) -> None:
        """Draw entities, the wanted kind and the button."""
        order = random_bits(seeds[:, None], np.arange(PLACES))  # places are filled in the order of these numbers
        numbers = random_bits(seeds[:, None], np.arange(PLACES, 2 * PLACES + 3))
        count = random_integers(numbers[:, PLACES], PLACES)
        sought = random_integers(numbers[:, PLACES + 1], self._kinds)
        button = random_integers(numbers[:, PLACES + 2], self._buttons)
        target = order.argmin(axis=1)
        last = np.take_along_axis(np.sort(order, axis=1), count[:, None], axis=1)
        present = order <= last
        others = random_integers(numbers[:, :PLACES], self._kinds - 1)
        kinds = (sought[:, None] + 1 + others) % self._kinds  # never the wanted kind
        kinds[np.arange(len(seeds)), target] = sought
        self._seen["entities"][at] = self._one_hot_kind[kinds] * present[:, :, None]
        self._seen["present"][at] = present
        self._seen["sought"][at] = self._one_hot_kind[sought]
        self._seen["button"][at] = self._one_hot_button[button]
        self._mask[at, self._buttons :] = present
        self._right[at, 0] = button
        self._right[at, 1] = target

    def advance(self, at: Indices, actions: np.ndarray) -> np.ndarray:
        """Reward right answers."""
        button, target = (actions[:, 0] == self._right[at]).T
        self._reward[at] = target * (0.5 + 0.5 * button)
        self._outcome[at] = target & button
        return np.ones(len(target), bool)

    def render_match(self, match: int) -> str:
        """Return the kinds by place, the wanted kind and the button as text."""
        kinds, present = self._seen["entities"][match].argmax(axis=1), self._seen["present"][match] > 0
        shown = [f"{place}:{kinds[place] if present[place] else '-'}" for place in range(PLACES)]
        button, sought = int(self._right[match, 0]), int(self._seen["sought"][match].argmax())
        return f"{' '.join(shown)}; press {highlight(str(button))} on kind {highlight(str(sought))}"
