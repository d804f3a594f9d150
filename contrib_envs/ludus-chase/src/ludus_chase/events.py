"""What happened on a tick, for rewards: arrays of numbers, all 0 at its beginning."""

from __future__ import annotations

import numpy as np

from ludus_chase.world import AGENTS

__all__ = ["Events"]

_BY_AGENT = (
    "lifted",
    "caught",
    "eliminated",
    "rescued",
    "threw_late",
    "disarmed_trap",
    "disarmed_glove",
    "pushed",
    "cracked",
    "wrecked",
    "cake",
)
_BY_MATCH = ("filled", "opened", "laid", "tied", "found_rocket", "found_hole", "first_damage", "crack")


class Events:
    """Counts, shares and flags of one tick as ``float32``.

    Args:
        matches: B.

    Attributes:
        lifted: ``[B, 5]``, as all of the following: who lifted a cheese for its first time.
        caught: Mice that the cat caught; likewise `eliminated`.
        rescued: Who freed somebody.
        threw_late: Who threw a bomb shortly before it went off.
        disarmed_trap: Who did so near something that matters; likewise `disarmed_glove`.
        pushed: The share of a cheese's way, divided by the number of those who pushed it.
        cracked: The share of the crack.
        wrecked: Whose scout the cat destroyed.
        cake: 1 for who took a cake, -1 for who lost it again.
        filled: ``[B]``, as all of the following: cheeses that went through holes.
        opened: The crack.
        laid: Traps.
        tied: Mice.
        found_rocket: For the first time; likewise `found_hole`, `first_damage`.
        crack: Change of the crack's share.
    """

    lifted: np.ndarray
    caught: np.ndarray
    eliminated: np.ndarray
    rescued: np.ndarray
    threw_late: np.ndarray
    disarmed_trap: np.ndarray
    disarmed_glove: np.ndarray
    pushed: np.ndarray
    cracked: np.ndarray
    wrecked: np.ndarray
    cake: np.ndarray
    filled: np.ndarray
    opened: np.ndarray
    laid: np.ndarray
    tied: np.ndarray
    found_rocket: np.ndarray
    found_hole: np.ndarray
    first_damage: np.ndarray
    crack: np.ndarray

    def __init__(self, matches: int) -> None:
        self._agents = np.zeros((len(_BY_AGENT), matches, AGENTS), np.float32)
        self._matches = np.zeros((len(_BY_MATCH), matches), np.float32)
        for names, arrays in ((_BY_AGENT, self._agents), (_BY_MATCH, self._matches)):
            for name, array in zip(names, arrays, strict=True):
                setattr(self, name, array)

    def clear(self) -> None:
        """Begin a tick."""
        self._agents.fill(0.0)
        self._matches.fill(0.0)
