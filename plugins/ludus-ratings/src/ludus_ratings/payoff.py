"""Tables of results: how often everybody scored against everybody.

The table that all ratings start from is ``points [n, n] float64``: what participant i got against j, a win counting 1
and a draw ½. So ``points + points.T`` are the numbers of matches, and who never met has 0 in both places.

Leagues grow to thousands of participants of which each has met a few; `Meetings` hold the same by pairs that have met.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen
from numpy.typing import ArrayLike, NDArray

__all__ = ["Meetings", "checked_points", "components", "connected", "log_odds", "points_of", "win_rates"]


@frozen(eq=False, kw_only=True)
class Meetings:
    """Results of the pairs that have met, each pair once.

    Attributes:
        num: n, how many participants there are.
        ends: ``[pairs, 2] int64``: the two participants of every pair.
        points: ``[pairs, 2] float64``: what each of the two got, wins + ½ draws; together they are the matches.
        draws: ``[pairs] float64``: how many of the matches were drawn; 0 where that is not known.
    """

    num: int
    ends: NDArray[np.int64]
    points: NDArray[np.float64]
    draws: NDArray[np.float64]

    @classmethod
    def of(cls, points: ArrayLike, draws: ArrayLike | None = None) -> Meetings:
        """Return the pairs of ``[n, n]`` tables of points and, if they are known, of drawn matches.

        Raises:
            ValueError: `points` is no such table, or `draws` is not of its shape.
        """
        table = checked_points(points)
        drawn = np.zeros_like(table) if draws is None else np.asarray(draws, np.float64)
        if drawn.shape != table.shape:
            raise ValueError(f"draws: expected {list(table.shape)} as points, got {list(drawn.shape)}")
        i, j = np.nonzero(np.triu(table + table.T))
        ends, won = np.stack([i, j], axis=1), np.stack([table[i, j], table[j, i]], axis=1)
        return cls(num=len(table), ends=ends, points=won, draws=drawn[i, j])


def points_of(a: ArrayLike, b: ArrayLike, score: ArrayLike, *, num: int) -> NDArray[np.float64]:
    """Add a list of matches up.

    Args:
        a: ``[m] int``: the participant of every match who is listed first.
        b: ``[m] int``: the other one.
        score: ``[m] float``: what a got of the 1 point.
        num: n, how many participants there are.

    Returns:
        ``[n, n] float64``; matches of somebody against themselves are left out.
    """
    first, second, won = np.asarray(a, np.int64), np.asarray(b, np.int64), np.asarray(score, np.float64)
    points = np.zeros((num, num))
    np.add.at(points, (first, second), won)
    np.add.at(points, (second, first), 1.0 - won)
    np.fill_diagonal(points, 0.0)
    return points


def checked_points(points: ArrayLike) -> NDArray[np.float64]:
    """Return a table as ``[n, n] float64``.

    Raises:
        ValueError: It is not square, or holds negative or infinite numbers, or matches against oneself.
    """
    table = np.asarray(points, np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        raise ValueError(f"points: expected a square table [n, n], got {list(table.shape)}")
    if not np.all(np.isfinite(table) & (table >= 0)) or np.any(np.diag(table)):
        raise ValueError("points: expected finite numbers >= 0, and zeros on the diagonal")
    return table


def components(points: ArrayLike) -> NDArray[np.int64]:
    """Say who is connected by chains of matches; only their ratings can be compared.

    Args:
        points: ``[n, n]``.

    Returns:
        ``[n] int64``: equal numbers for who is connected, counted from 0 in the order of the first members.
    """
    meetings = Meetings.of(points)
    return np.unique(connected(meetings.ends, meetings.num), return_inverse=True)[1].astype(np.int64)


def connected(ends: NDArray[np.int64], num: int) -> NDArray[np.int64]:
    """Return ``[num]`` for everybody the first participant that chains of pairs ``[pairs, 2]`` connect with it."""
    label = np.arange(num)
    while True:
        joined = label.copy()
        np.minimum.at(joined, label[ends], label[ends].min(axis=1, keepdims=True))
        while (joined[joined] != joined).any():  # whoever was joined to somebody who was joined
            joined = joined[joined]
        if (joined == label).all():
            return label
        label = joined


def win_rates(points: ArrayLike, *, expected: ArrayLike = 0.5, weight: float = 1.0) -> NDArray[np.float64]:
    """Return shares of points that are neither 0 nor 1 nor unknown: `weight` matches are added that went as expected.

    Args:
        points: ``[n, n]``.
        expected: ``[n, n]`` in (0, 1) with ``expected + expected.T == 1``, or ½: what is believed of pairs that have
            not met, for example `Strengths.expected`.
        weight: > 0, in matches.

    Returns:
        ``[n, n] float64`` in (0, 1); ½ on the diagonal; with its transpose it adds up to 1.
    """
    table = checked_points(points)
    if weight <= 0:
        raise ValueError(f"weight: expected > 0 matches, got {weight}")
    rates = (table + weight * np.asarray(expected, np.float64)) / (table + table.T + weight)
    np.fill_diagonal(rates, 0.5)
    return rates


def log_odds(points: ArrayLike, *, expected: ArrayLike = 0.5, weight: float = 1.0) -> NDArray[np.float64]:
    """Return ``[n, n] float64``, antisymmetric: log(w / (1 - w)) of the win rates w; arguments as for `win_rates`."""
    rates = win_rates(points, expected=expected, weight=weight)
    odds = np.log(rates) - np.log1p(-rates)
    return np.asarray(0.5 * (odds - odds.T))
