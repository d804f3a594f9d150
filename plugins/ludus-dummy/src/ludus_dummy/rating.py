"""The rating ``dummy-share``: the share of points of a participant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from ludus.environment import Seat
from ludus.matchmaker import Rating
from ludus.runs import MatchRecord

from ludus_dummy.config import ShareConfig

__all__ = ["ShareTable"]


class ShareTable:
    """Rates by the share of points in percent, regardless of the opponents."""

    def __init__(self, config: ShareConfig, *, anchors: Sequence[str], seats: Sequence[Seat]) -> None:  # noqa: ARG002
        self._prior = config.prior_matches
        self._counts: dict[str, np.ndarray] = {}

    def add(self, a: str, b: str, count: np.ndarray) -> None:  # noqa: ARG002 - opponents do not matter
        """Add wins, draws and losses of a."""
        self._counts[a] = self._counts.get(a, np.zeros(3, np.int64)) + count

    def replay(self, first: int, matches: Iterable[MatchRecord]) -> None:
        """Do nothing: the rating depends on sums only."""

    def rating(self, participant: str) -> Rating:
        """Return the share of points in percent."""
        wins, draws, losses = (int(n) for n in self._counts.get(participant, (0, 0, 0)))
        weight = wins + draws + losses + self._prior
        mean = 100 * (wins + (draws + self._prior) / 2) / weight
        return Rating(mean, 50 / math.sqrt(weight), wins + draws + losses)
