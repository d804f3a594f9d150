"""Events of one tick, which rewards are computed from."""

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
    """Counts, shares and flags of one tick as ``float32``, 0 where nothing happened.

    Args:
        matches: B.

    Attributes:
        lifted: ``[B, 5]``, as all up to `cake`: the mouse lifted a cheese for the first time.
        caught: The cat caught the mouse; likewise `eliminated`.
        rescued: The mouse freed another one.
        threw_late: The mouse threw a bomb shortly before its explosion.
        disarmed_trap: The mouse disarmed a trap at a key location; likewise `disarmed_glove`.
        pushed: Share of a cheese's way, divided by the number of mice that pushed it.
        cracked: Share of the crack that the mouse broke.
        wrecked: The cat destroyed the scout.
        cake: 1 for a mouse that took a cake, -1 for one that lost it.
        filled: ``[B]``, as all of the following: number of cheeses pushed through holes.
        opened: The crack was opened.
        laid: The cat placed a trap.
        tied: The cat tied a mouse.
        found_rocket: The cat found its first rocket; likewise `found_hole`, `first_damage`.
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
        """Set all events to 0."""
        self._agents.fill(0.0)
        self._matches.fill(0.0)
