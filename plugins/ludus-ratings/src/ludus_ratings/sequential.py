"""The sequential test whether one participant is stronger than another, as the test farms of chess engines run it.

Two matches on one seed with exchanged seats are a *pair*, whose score 0, ½, 1, 1½ or 2 is one observation: the luck of
the seed and the advantage of a seat cancel out. Strength is measured in *normalized Elo*, the mean of a match above ½
divided by its standard deviation, times 800 / ln 10. A pair has twice the mean and √2 times the deviation of a match,
so t = √2 · elo / (800 / ln 10) is its mean over its deviation. Without draws and near equality normalized Elo is about
Elo, and the number of matches that a test needs does not depend on the share of draws.

With H0: t = t0 and H1: t = t1 > t0, the test stops when the generalized log-likelihood ratio

    LLR = sum_i n_i log(p1_i / p0_i)

leaves (log(beta / (1 - alpha)), log((1 - beta) / alpha)) [Wald 1945], where n_i counts the pairs of score i, and p0 and
p1 are the most likely distributions of pair scores with t0 and t1 [Van den Bergh, "Comments on normalized Elo"].
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, gt, le, lt
from numpy.typing import ArrayLike, NDArray

from ludus_ratings.elo import ELO_POINTS
from ludus_ratings.strengths import Z95

__all__ = ["MAX_ELO", "SequentialTest", "Verdict", "normalized_elo"]

Verdict = Literal["passed", "refused", "undecided"]

#: Largest normalized Elo of a hypothesis, whose distributions the fixed point finds for all counts.
MAX_ELO = 200.0

_POINTS = 2.0 * ELO_POINTS  # normalized Elo of a match whose mean is one standard deviation above ½
_UNSEEN = 1e-3  # count of a score that has not occurred, without which its probability could only be 0
_ROUNDS = 50  # of the fixed point; it converges in about ten
_STEPS = 60  # towards a zero; Newton's method needs less than ten unless almost all pairs have one score
_TOLERANCE = 1e-9


@frozen(kw_only=True)
class SequentialTest:
    """A sequential probability ratio test on normalized Elo.

    Args:
        elo0: Normalized Elo of H0, the hypothesis that the test refuses the candidate for; in [-200, 200].
        elo1: Normalized Elo of H1, the hypothesis that the candidate passes for; above `elo0`, at most 200.
        alpha: Probability that a candidate of strength `elo0` passes.
        beta: Probability that a candidate of strength `elo1` is refused.
    """

    elo0: float = field(default=0.0, validator=[ge(-MAX_ELO), le(MAX_ELO)])
    elo1: float = field(default=50.0, validator=le(MAX_ELO))
    alpha: float = field(default=0.05, validator=[gt(0.0), lt(0.5)])
    beta: float = field(default=0.05, validator=[gt(0.0), lt(0.5)])

    @elo1.validator
    def _check_order(self, _attribute: object, value: float) -> None:
        if not self.elo0 < value:
            raise ValueError(f"expected elo0 < elo1, got elo0 = {self.elo0:g} and elo1 = {value:g}")

    @property
    def lower(self) -> float:
        """Return the log-likelihood ratio at which the candidate is refused."""
        return math.log(self.beta / (1.0 - self.alpha))

    @property
    def upper(self) -> float:
        """Return the log-likelihood ratio at which the candidate passes."""
        return math.log((1.0 - self.beta) / self.alpha)

    def log_likelihood_ratio(self, counts: ArrayLike) -> Any:
        """Return the log-likelihood ratio of H1 and H0; a float, or ``[...] float64`` for several tests at once.

        Args:
            counts: ``[..., 5]``: pairs in which the candidate scored 0, ½, 1, 1½ and 2. ``[..., 3]``: matches that are
                no pairs, lost, drawn and won.
        """
        observed = np.asarray(counts, np.float64)
        if observed.shape[-1:] not in ((3,), (5,)) or (observed < 0).any():
            raise ValueError(f"counts: expected [..., 5] or [..., 3] numbers ≥ 0, got the shape {observed.shape}")
        seen = np.where(observed > 0, observed, _UNSEEN)
        share = seen / seen.sum(axis=-1, keepdims=True)
        scale = math.sqrt((observed.shape[-1] - 1) / 2) / _POINTS
        p0, p1 = (_most_likely(share, t=elo * scale) for elo in (self.elo0, self.elo1))
        ratio = (seen * np.log(p1 / p0)).sum(axis=-1)
        return np.where(observed.sum(axis=-1) > 0, ratio, 0.0)[()]

    def verdict(self, counts: ArrayLike) -> Verdict:
        """Return what the counts of one test decide; arguments as for `log_likelihood_ratio`."""
        ratio = float(self.log_likelihood_ratio(counts))
        return "passed" if ratio >= self.upper else "refused" if ratio <= self.lower else "undecided"


def normalized_elo(counts: ArrayLike) -> tuple[float, float, float] | None:
    """Return the normalized Elo behind the pairs of one test, and the ends of its 95 % interval.

    None if all pairs have one score, since their deviation is unknown then. The interval is that of a fixed number of
    pairs; a test that stops early overestimates the difference a little.

    Args:
        counts: ``[5]``: pairs in which the candidate scored 0, ½, 1, 1½ and 2.
    """
    observed = np.asarray(counts, np.float64)
    if np.count_nonzero(observed) < 2:
        return None
    mean, deviation = _moments(observed / observed.sum())
    t, half = float((mean[0] - 0.5) / deviation[0]), Z95 / math.sqrt(float(observed.sum()))
    elo, low, high = (_POINTS / math.sqrt(2.0) * value for value in (t, t - half, t + half))
    return elo, low, high


def _scores(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``[k]``: the score of every column as a share of the points."""
    return np.linspace(0.0, 1.0, share.shape[-1])


def _moments(share: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``[..., 1]`` mean and standard deviation of distributions ``[..., k]`` of the score."""
    score = _scores(share)
    mean = (share * score).sum(axis=-1, keepdims=True)
    return mean, np.sqrt((share * (score - mean) ** 2).sum(axis=-1, keepdims=True))


def _most_likely(share: NDArray[np.float64], *, t: float) -> NDArray[np.float64]:
    """Return ``[..., k]``: the distributions p with (mean - ½) / deviation = t that maximize sum_i share_i log p_i.

    With Lagrange multipliers p_i = share_i / (1 + x g_i), where

        g_i = a_i - mean - t ((a_i - mean)² - deviation²) / (2 deviation)

    is the gradient of the constraint at p, less its mean over p, and a_i are the scores. Mean and deviation are those
    of p itself, so this is solved as a fixed point.
    """
    score = _scores(share)
    p: NDArray[np.float64] = np.full_like(share, 1.0 / share.shape[-1])
    for _ in range(_ROUNDS):
        mean, deviation = _moments(p)
        gradient = score - 0.5 - 0.5 * t * deviation * (1.0 + ((score - mean) / deviation) ** 2)
        before, p = p, _with_mean_zero(share, gradient)
        if np.abs(p - before).max() < _TOLERANCE:
            break
    return p


def _with_mean_zero(share: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``[..., k]``: the distributions p with sum_i p_i values_i = 0 that maximize sum_i share_i log p_i.

    The multiplier x is the only zero of a decreasing function between the poles -1 / max(values) and -1 / min(values),
    which have different signs. It is found by Newton's method, with a bisection where that leaves the interval.
    """
    low, high = (-1.0 / extreme(values, axis=-1, keepdims=True) for extreme in (np.max, np.min))
    x = np.zeros_like(low)
    for _ in range(_STEPS):
        terms = values / (1.0 + x * values)
        total = (share * terms).sum(axis=-1, keepdims=True)
        if np.abs(total).max() < _TOLERANCE:
            break
        low, high = np.where(total > 0, x, low), np.where(total > 0, high, x)
        newton = x + total / (share * terms**2).sum(axis=-1, keepdims=True)
        x = np.where((low < newton) & (newton < high), newton, 0.5 * (low + high))
    weight = share / (1.0 + x * values)
    p: NDArray[np.float64] = weight / weight.sum(axis=-1, keepdims=True)
    return p
