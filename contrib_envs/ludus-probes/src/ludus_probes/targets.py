"""``targets``: find the one entity that is sought among a varying number of them in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves, Role, RoleTick
from ludus.random import random_bits, random_integers

from ludus_probes.batch import ROLE, ProbeEnvironment, Rows
from ludus_probes.config import TargetsConfig
from ludus_probes.reflex import ReflexAgent
from ludus_probes.terminal import highlight

__all__ = ["PLACES", "make_targets", "make_targets_agent"]

#: Places for entities.
PLACES = 8


def make_targets(config: TargetsConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches."""
    return ProbeEnvironment(_Targets(config), num_matches=num_matches)


def make_targets_agent(config: None, *, spec: EnvironmentSpec, role: str) -> ReflexAgent:  # noqa: ARG001 - no options
    """Return an agent that presses the right button on the entity that is sought."""

    def decide(observation: Leaves) -> np.ndarray:
        fits = (observation["entities"] * observation["sought"][:, None]).sum(axis=2)  # [n, places]
        return np.stack([observation["button"].argmax(axis=1), fits.argmax(axis=1)], axis=1)

    return ReflexAgent(decide, value=1.0)


class _Targets:
    """One decision: which button, on which entity. Each of the two is worth ½, the button only on the right entity.

    1 to 8 entities, all numbers equally likely, stand in random places; exactly one is of the kind that is sought.
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
        player = Role(
            name=ROLE,
            observation_space=spaces.Dict(leaves),
            action_space=spaces.MultiDiscrete([config.buttons, PLACES]),
            teams=(0,),
        )
        self.spec = EnvironmentSpec(
            name="targets",
            roles=(player,),
            turn="simultaneous",
            max_ticks=1,
            perfect_information=True,
            reward_range=(0.0, 1.0),
        )
        self.words = tuple([str(choice) for choice in range(size)] for size in (config.buttons, PLACES))
        self._one_hot_kind = np.eye(config.kinds, dtype=np.float32)
        self._one_hot_button = np.eye(config.buttons, dtype=np.float32)

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Make room for what is right, and the mask: every button, and entities that are present."""
        self._seen = {name: leaf[:, 0] for name, leaf in player.observation.items()}
        self._reward, self._outcome = player.reward[:, 0], outcome[:, 0]
        player.action_mask = np.ones((len(outcome), 1, self._buttons + PLACES), bool)
        self._mask = player.action_mask[:, 0]
        self._right = np.zeros((len(outcome), 2), np.int64)

    def start(self, at: Rows, seeds: np.ndarray) -> None:
        """Place entities and say which is sought."""
        order = random_bits(seeds[:, None], np.arange(PLACES))  # places are filled in the order of these numbers
        numbers = random_bits(seeds[:, None], np.arange(PLACES, 2 * PLACES + 3))
        count = random_integers(numbers[:, PLACES], PLACES)
        sought = random_integers(numbers[:, PLACES + 1], self._kinds)
        button = random_integers(numbers[:, PLACES + 2], self._buttons)
        target = order.argmin(axis=1)
        last = np.take_along_axis(np.sort(order, axis=1), count[:, None], axis=1)
        present = order <= last
        others = random_integers(numbers[:, :PLACES], self._kinds - 1)
        kinds = (sought[:, None] + 1 + others) % self._kinds  # never that sought
        kinds[np.arange(len(seeds)), target] = sought
        self._seen["entities"][at] = self._one_hot_kind[kinds] * present[:, :, None]
        self._seen["present"][at] = present
        self._seen["sought"][at] = self._one_hot_kind[sought]
        self._seen["button"][at] = self._one_hot_button[button]
        self._mask[at, self._buttons :] = present
        self._right[at, 0] = button
        self._right[at, 1] = target

    def advance(self, at: Rows, actions: np.ndarray) -> np.ndarray:
        """Pay for what was right."""
        button, target = (actions[:, 0] == self._right[at]).T
        self._reward[at] = target * (0.5 + 0.5 * button)
        self._outcome[at] = target & button
        return np.ones(len(target), bool)

    def draw(self, match: int) -> str:
        """Return the kind of every entity by place, what is sought, and the button."""
        kinds, present = self._seen["entities"][match].argmax(axis=1), self._seen["present"][match] > 0
        shown = [f"{place}:{kinds[place] if present[place] else '-'}" for place in range(PLACES)]
        button, sought = int(self._right[match, 0]), int(self._seen["sought"][match].argmax())
        return f"{' '.join(shown)}; press {highlight(str(button))} on kind {highlight(str(sought))}"
