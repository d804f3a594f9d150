"""Tables of results by pair of participants.

Ratings are computed from a table ``points [n, n] float64``: the points of participant i against j, 1 for a win and ½
for a draw. So ``points + points.T`` are the numbers of matches, and both entries of a pair that never met are 0.

In a league of thousands each participant has met a few others; `PairResults` stores only the pairs that have met.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen
from numpy.typing import ArrayLike, NDArray


@frozen(eq=False, kw_only=True)
class PairResults:
    """Results of the pairs that have met, each pair once.

    Attributes:
        num: Number n of participants.
        pairs: ``[pairs, 2] int64``: the two participants of every pair.
        points: ``[pairs, 2] float64``: points of each of the two, wins + ½ draws; their sum is the number of matches.
        draws: ``[pairs] float64``: number of drawn matches; 0 where it is unknown.
    """

    num: int
    pairs: NDArray[np.int64]
    points: NDArray[np.float64]
    draws: NDArray[np.float64]

    @classmethod
    def from_points(cls, points: ArrayLike, draws: ArrayLike | None = None) -> PairResults:
        """Return the pairs of a table of points ``[n, n]`` and, if known, of a table of drawn matches.

        Raises:
            ValueError: `points` is not a valid table, or `draws` has another shape.
        """
        table = check_points(points)
        drawn = np.zeros_like(table) if draws is None else np.asarray(draws, np.float64)
        if drawn.shape != table.shape:
            raise ValueError(f"draws: expected {list(table.shape)} as points, got {list(drawn.shape)}")
        i, j = np.nonzero(np.triu(table + table.T))
        pairs, won = np.stack([i, j], axis=1), np.stack([table[i, j], table[j, i]], axis=1)
        return cls(num=len(table), pairs=pairs, points=won, draws=drawn[i, j])


def points_from_matches(a: ArrayLike, b: ArrayLike, score: ArrayLike, *, num: int) -> NDArray[np.float64]:
    """Return the table of points of a list of matches.

    Args:
        a: ``[m] int``: first participant of every match.
        b: ``[m] int``: second participant.
        score: ``[m] float``: points of the first participant, in [0, 1].
        num: Number n of participants.

    Returns:
        ``[n, n] float64``; matches of a participant against itself are left out.
    """
    first, second, won = np.asarray(a, np.int64), np.asarray(b, np.int64), np.asarray(score, np.float64)
    points = np.zeros((num, num))
    np.add.at(points, (first, second), won)
    np.add.at(points, (second, first), 1.0 - won)
    np.fill_diagonal(points, 0.0)
    return points


def check_points(points: ArrayLike) -> NDArray[np.float64]:
    """Return a table as ``[n, n] float64``.

    Raises:
        ValueError: The table is not square, holds negative or infinite numbers, or has entries on the diagonal.
    """
    table = np.asarray(points, np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        raise ValueError(f"points: expected a square table [n, n], got {list(table.shape)}")
    if not np.all(np.isfinite(table) & (table >= 0)) or np.any(np.diag(table)):
        raise ValueError("points: expected finite numbers >= 0, and zeros on the diagonal")
    return table


def components(points: ArrayLike) -> NDArray[np.int64]:
    """Return the connected components of the graph of matches; ratings of different ones cannot be compared.

    Args:
        points: ``[n, n]``.

    Returns:
        ``[n] int64``: component of every participant, numbered from 0 in the order of their first members.
    """
    results = PairResults.from_points(points)
    return np.unique(component_labels(results.pairs, results.num), return_inverse=True)[1].astype(np.int64)


def component_labels(pairs: NDArray[np.int64], num: int) -> NDArray[np.int64]:
    """Return ``[num] int64``: the lowest participant of the component of every participant, for ``[pairs, 2]``."""
    from scipy.sparse import coo_array  # noqa: PLC0415 - slow to import
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(num, num))
    label = connected_components(graph, directed=False)[1]
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    return first[inverse].astype(np.int64)


def win_rates(points: ArrayLike, *, expected: ArrayLike = 0.5, weight: float = 1.0) -> NDArray[np.float64]:
    """Return shares of points smoothed by a prior of `weight` matches with the expected result.

    Args:
        points: ``[n, n]``.
        expected: ``[n, n]`` in (0, 1) with ``expected + expected.T == 1``, or ½: expected shares, for example
            `Strengths.expected`.
        weight: Weight of the prior in matches, > 0.

    Returns:
        ``[n, n] float64`` in (0, 1), ½ on the diagonal; the sum with its transpose is 1.
    """
    table = check_points(points)
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
