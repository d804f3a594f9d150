"""Outcomes that follow from scores, which are sums of rewards.

Sums of floats depend on the order of their terms: 0.1 + 0.2 is not 0.3. Scores are therefore equal if they differ by at
most 10⁻⁶, or by at most 10⁻⁶ of the larger one. Whole numbers, whose sums are exact, are compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_TOLERANCE = 1e-6


def is_equal(one: float, other: float) -> bool:
    """Return whether two scores differ by rounding at most."""
    if one == other or (float(one).is_integer() and float(other).is_integer()):
        return one == other
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def is_reached(score: float, least: float) -> bool:
    """Return whether a score is at least `least`, or equal to it by `is_equal`."""
    return score >= least or is_equal(score, least)


def winner_points(scores: Sequence[float]) -> list[float]:
    """Return the points of teams: 1 for the highest score, ½ each where several are highest, 0 for the others."""
    best = max(scores)
    is_best = [is_equal(score, best) for score in scores]
    share = 1.0 if sum(is_best) == 1 else 0.5
    return [share if wins else 0.0 for wins in is_best]


def sign_points(score: float) -> float:
    """Return 1 for a positive score, ½ for 0, 0 for a negative one."""
    return 0.5 if is_equal(score, 0.0) else float(score > 0)
