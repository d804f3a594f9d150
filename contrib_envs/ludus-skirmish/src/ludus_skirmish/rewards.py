"""Reward parts: what each side has done since the last tick."""

from __future__ import annotations

import numpy as np

from ludus_skirmish.config import SkirmishConfig
from ludus_skirmish.world import COLUMN, Indices, World

#: Parts, each with an option of the same name for its weight; all but `win` are gains of a column of the tally.
PARTS = ("dealt", "taken", "kill", "loss", "win")
_TALLIES = [COLUMN[name] for name in ("dealt", "taken", "kills", "losses")]
_DAMAGE = 2  # the first parts are damage, in shares of the strength of an army


def is_zero_sum(config: SkirmishConfig) -> bool:
    """Return whether gains of one side are losses of the other one.

    Exploding units are losses that need not be kills, so they must not count.
    """
    no_deaths = config.kill == config.loss == 0
    return config.dealt == -config.taken and (no_deaths or (config.kill == -config.loss and config.battle != "mab"))


class Rewards:
    """Compares the tallies of two ticks.

    Args:
        config: Weights.
        num_matches: B.
    """

    def __init__(self, config: SkirmishConfig, num_matches: int) -> None:
        self._weights = np.array([getattr(config, part) for part in PARTS], np.float32)
        self._before = np.zeros((num_matches, 2, len(_TALLIES)), np.float32)

    def start(self, at: Indices) -> None:
        """Forget the last tick of the matches `at`."""
        self._before[at] = 0

    def score(self, world: World, won: np.ndarray) -> np.ndarray:
        """Return the parts ``[B, 2, 5] float32`` of a tick.

        Args:
            world: State after the tick.
            won: ``[B, 2] float32``: 1 for the winner, -1 for the loser, else 0.
        """
        now = world.tally[..., _TALLIES]
        parts = np.concatenate([now - self._before, won[..., None]], axis=2)
        parts[..., :_DAMAGE] /= np.maximum(world.strength, 1)[:, None, None]
        self._before[:] = now
        parts *= self._weights
        return np.asarray(parts, np.float32)
