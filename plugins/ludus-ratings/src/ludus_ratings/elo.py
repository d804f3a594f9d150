"""Elo ratings: the scale, and the classical update after every match."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Elo points in one unit of log-odds: 400 points are odds of 10 to 1.
ELO_POINTS = 400.0 / math.log(10.0)


def expected_score(rating: ArrayLike, opponent: ArrayLike) -> Any:
    """Return the share of points that Elo expects: 1 / (1 + 10^((opponent - rating) / 400)); arrays broadcast."""
    difference = np.asarray(rating, np.float64) - np.asarray(opponent, np.float64)
    return 0.5 * (1.0 + np.tanh(0.5 * difference / ELO_POINTS))


def sequential_elo(
    a: ArrayLike, b: ArrayLike, score: ArrayLike, *, num: int, k: float = 16.0, start: float = 0.0
) -> NDArray[np.float64]:
    """Return classical Elo ratings: each match changes both ratings by k times (score - expected score).

    The order of the matches matters, late matches count more than early ones, and there is no standard error. The sum
    of all ratings is constant, so ratings of different components cannot be compared.

    Args:
        a: ``[m] int``: first participant of every match.
        b: ``[m] int``: second participant; a match of a participant against itself changes nothing.
        score: ``[m] float``: points of the first participant, in [0, 1].
        num: Number n of participants.
        k: Largest change by one match, in Elo points.
        start: Rating of a participant without matches.

    Returns:
        ``[n] float64`` in Elo points.
    """
    ratings = [start] * num
    firsts, seconds, scores = (np.asarray(array).tolist() for array in (a, b, score))
    for i, j, won in zip(firsts, seconds, scores, strict=True):
        if i != j:
            change = k * (won - 1.0 / (1.0 + math.pow(10.0, (ratings[j] - ratings[i]) / 400.0)))
            ratings[i] += change
            ratings[j] -= change
    return np.array(ratings, np.float64)
