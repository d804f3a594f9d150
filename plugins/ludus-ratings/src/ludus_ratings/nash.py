"""Nash averaging: ratings that do not change when a participant is copied or an easy opponent is added.

The results define a zero-sum game in which each side chooses a participant. The rating of a participant is its expected
log-odds against an opponent drawn from the Nash equilibrium of that game (Balduzzi et al. 2018, "Re-evaluating
Evaluation"). Among several equilibria the one of maximum entropy is used, which is unique. A linear program returns an
arbitrary one, so the equilibrium is computed as a limit of softmax equilibria.
"""

from __future__ import annotations

import numpy as np
from attrs import define
from numpy.typing import ArrayLike, NDArray

_SHARPNESS = 1e8  # final λ, in units of the largest advantage; the error of the equilibrium is about its inverse
_GROWTH = 2.0
_STEPS = 200


@define(frozen=True, eq=False, kw_only=True)
class NashAverage:
    """Result of Nash averaging.

    Attributes:
        mass: ``[n] float64``: probability of every participant in the equilibrium; the sum is 1 for every role.
        rating: ``[n] float64``: mean advantage over the equilibrium, in the unit of the advantages. With one role it is
            at most 0, and 0 for every participant of mass > 0.
    """

    mass: NDArray[np.float64]
    rating: NDArray[np.float64]


def nash_average(advantage: ArrayLike, *, roles: ArrayLike | None = None) -> NashAverage:
    """Return the mean advantages over the maximum-entropy equilibrium; arguments as for `maximum_entropy_nash`."""
    mass = maximum_entropy_nash(advantage, roles=roles)
    return NashAverage(mass=mass, rating=np.asarray(advantage, np.float64) @ mass)


def maximum_entropy_nash(advantage: ArrayLike, *, roles: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return the equilibrium of highest entropy of a zero-sum game between participants.

    The equilibrium is the limit of the solution of p = softmax(λ A p) for λ → ∞. The equation has one solution for
    every λ, which Newton's method follows from λ = 0.

    Args:
        advantage: ``[n, n]``, antisymmetric: advantage of i over j, for example `ludus_ratings.log_odds`. With roles,
            only entries between different roles count.
        roles: ``[n] int``: role of every participant, where a game has several; each role has its own equilibrium.
            None: one role.

    Returns:
        ``[n] float64``: probabilities, exact to about 1e-7; empty for n = 0.

    Raises:
        ValueError: `advantage` is not antisymmetric or not finite.
    """
    a = np.asarray(advantage, np.float64)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or not np.allclose(a, -a.T, atol=1e-9) or not np.all(np.isfinite(a)):
        raise ValueError("advantage: expected a finite antisymmetric table [n, n]")
    role = np.zeros(len(a), np.int64) if roles is None else np.unique(np.asarray(roles), return_inverse=True)[1]
    same = role[:, None] == role[None, :]
    if roles is not None:
        a = np.where(same, 0.0, a)
    largest = np.max(np.abs(a), initial=0.0)
    scores = np.zeros(len(a))
    if largest > 0.0:
        a = a / largest
        sharpness = 1.0
        while sharpness < _SHARPNESS:
            scores = _solve(scores, a, same, sharpness)
            ahead = scores + (_GROWTH - 1.0) * sharpness * _slope(scores, a, same, sharpness)
            scores, sharpness = ahead, sharpness * _GROWTH
        scores = _solve(scores, a, same, sharpness)
    return _softmax(scores, same)


def _softmax(scores: NDArray[np.float64], same: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return ``[n]``: the softmax of the scores within every role."""
    top = np.max(np.where(same, scores[None, :], -np.inf), axis=1, initial=-np.inf)
    weight = np.exp(scores - top)
    return np.asarray(weight / (same @ weight))


def _jacobian(
    p: NDArray[np.float64], a: NDArray[np.float64], same: NDArray[np.bool_], sharpness: float
) -> NDArray[np.float64]:
    """Return ``[n, n]``: the Jacobian of u - λ A softmax(u); never singular, because A is antisymmetric."""
    covariance = np.diag(p) - np.where(same, np.outer(p, p), 0.0)
    return np.asarray(np.eye(len(p)) - sharpness * (a @ covariance))


def _slope(
    scores: NDArray[np.float64], a: NDArray[np.float64], same: NDArray[np.bool_], sharpness: float
) -> NDArray[np.float64]:
    """Return ``[n]``: the derivative of the solution with respect to λ."""
    p = _softmax(scores, same)
    return np.asarray(np.linalg.solve(_jacobian(p, a, same, sharpness), a @ p))


def _solve(
    scores: NDArray[np.float64], a: NDArray[np.float64], same: NDArray[np.bool_], sharpness: float
) -> NDArray[np.float64]:
    """Return the solution of u = λ A softmax(u) by Newton's method with step halving."""

    def residual(u: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(u - sharpness * (a @ _softmax(u, same)))

    error = residual(scores)
    for _ in range(_STEPS):
        if np.max(np.abs(error)) < 1e-15 * sharpness + 1e-12:
            break
        step = np.linalg.solve(_jacobian(_softmax(scores, same), a, same, sharpness), error)
        size = 1.0
        while size > 1e-9:
            moved = scores - size * step
            left = residual(moved)
            if np.sum(left * left) < (1.0 - 1e-4 * size) * np.sum(error * error):
                break
            size /= 2
        else:
            break
        scores, error = moved, left
    return scores
