"""Reward parts: weighted gains of a side less those of the other one, so that every part sums to 0 [HoK §4]."""

from __future__ import annotations

import numpy as np

from ludus_moba.config import MobaConfig
from ludus_moba.rules import HERO, STRUCTURES
from ludus_moba.world import COLUMN, Indices, World, other

#: Parts, each with an option of the same name for its weight.
PARTS = ("health", "mana", "gold", "experience", "last_hit", "kill", "death", "tower", "win")
_TALLIES = {"gold": "gold", "experience": "experience", "last_hit": "last_hits", "kill": "kills", "death": "deaths"}


def _measure(world: World) -> np.ndarray:
    """Return ``[B, 2, 8] float32``: the quantity of every part but `win`, of which rewards are the gains."""
    values = np.zeros((*world.kind.shape, len(PARTS) - 1), np.float32)
    # The fourth root weighs the last health most, as changes near 0 decide fights.
    share = np.maximum(world.health[:, :, HERO] / np.maximum(world.max_health[:, :, HERO], 1.0), 0.0)
    values[..., 0] = np.sqrt(np.sqrt(share))
    values[..., 1] = world.mana / np.maximum(world.max_mana, 1.0)
    for number, part in enumerate(PARTS[2:7], 2):
        values[..., number] = world.tally[..., COLUMN[_TALLIES[part]]]
    values[..., 7] = (world.health[:, :, STRUCTURES] / np.maximum(world.max_health[:, :, STRUCTURES], 1.0)).sum(axis=2)
    return values


class Rewards:
    """Compares the state of two ticks.

    Args:
        config: Weights.
        num_matches: B.
    """

    def __init__(self, config: MobaConfig, num_matches: int) -> None:
        self._weights = np.array([getattr(config, part) for part in PARTS], np.float32)
        self._before = np.zeros((num_matches, 2, len(PARTS) - 1), np.float32)

    def start(self, world: World, at: Indices) -> None:
        """Forget the last tick of the matches `at`."""
        self._before[at] = _measure(world)[at]

    def score(self, world: World, parts: dict[str, np.ndarray], won: np.ndarray, running: np.ndarray) -> None:
        """Write the parts of a tick.

        Args:
            world: State after the tick.
            parts: ``[B, 2] float32`` by name.
            won: ``[B, 2] float32``: 1 for the winner, -1 for the loser, else 0.
            running: ``[B] bool``: matches that advanced.
        """
        now = _measure(world)
        gains = (now - self._before) * self._weights[:-1]
        gains -= other(gains)
        gains *= running[:, None, None]
        self._before[:] = now
        for number, part in enumerate(PARTS[:-1]):
            parts[part][:] = gains[..., number]
        np.multiply(won, self._weights[-1], out=parts["win"])
