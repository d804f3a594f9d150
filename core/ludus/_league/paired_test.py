"""A sequential test of whether the results of another host differ from those of the run's own host.

Some fixtures of the host are also played on the run's host, with the same participants and seeds. Let

    D_j = mean over the matches i of fixture j of (y_ij - y'_ij), in [-1, 1]

where y_ij are the points of one team in match i on the other host and y'_ij those in the match of the same number on
the run's host. The two hosts play a fixture with live weights that differ by some updates, and these change the points
of all its matches together, so that matches of one fixture are not independent: a fixture counts as one observation.
If the hosts play alike, |E[D_j | past]| <= delta, where delta allows for weights that are older on one of the hosts.
For a bet lambda in [0, 1 / (1 + delta)) and a sign s = ±1 the wealth

    W_n(s, lambda) = prod_{j <= n} (1 + lambda (s D_j - delta))

is then a nonnegative supermartingale that starts at 1. So is the mean E_n of W_n over signs, bets and views, where a
view is a choice of the team whose points are compared. By Ville's inequality P(sup_n E_n >= 1 / alpha) <= alpha: a host
that plays alike is found with probability alpha at most, however long the run is and however often E_n is looked at
[Ville 1939; Shafer 2021, "Testing by betting"].
"""

from __future__ import annotations

import math

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

#: Probability that a host that plays alike is ever found to differ.
ALPHA = 0.01
#: Mean difference in points that is tolerated: about 20 Elo between equal participants.
TOLERANCE = 0.03
#: Sizes of the bets. The best for a mean difference m and variance v is about (m - delta) / v.
BETS = np.array([0.05, 0.1, 0.2, 0.4, 0.8])

_THRESHOLD = -math.log(ALPHA)


def log_growth(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``[..., 2 L]``: the logarithm of the factor by which every wealth grows, for both signs of L bets.

    Args:
        differences: ``[..., n]``: D_j of n fixtures.
    """
    signed = np.stack([differences, -differences], axis=-2)[..., None, :] - TOLERANCE  # [..., 2, 1, n]
    grown: NDArray[np.float64] = np.log1p(BETS[:, None] * signed).sum(axis=-1)
    return grown.reshape(*grown.shape[:-2], -1)


def log_mean_exp(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of the mean of ``exp(values)`` over the last axis."""
    top = values.max(axis=-1, keepdims=True)
    mean: NDArray[np.float64] = top[..., 0] + np.log(np.exp(values - top).mean(axis=-1))
    return mean


@define
class PairedTest:
    """The test of one host.

    Args:
        views: Names of the views; differences are added under these names.

    Attributes:
        fixtures: Pairs of fixtures so far.
        matches: Pairs of matches in them.
    """

    views: tuple[str, ...]
    fixtures: int = field(init=False, default=0)
    matches: int = field(init=False, default=0)
    _log_wealth: dict[str, NDArray[np.float64]] = field(init=False)
    _sums: dict[str, float] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._log_wealth = {view: np.zeros(2 * len(BETS)) for view in self.views}
        self._sums = dict.fromkeys(self.views, 0.0)

    def add(self, differences: dict[str, NDArray[np.float64]]) -> None:
        """Add a pair of fixtures.

        Args:
            differences: ``[n]`` by view: those of its matches. Views that the fixture does not concern are left out.
        """
        self.fixtures += 1
        self.matches += max(values.size for values in differences.values())
        for view, values in differences.items():
            self._log_wealth[view] += log_growth(values.mean(keepdims=True))
            self._sums[view] += float(values.sum())

    @property
    def log_evidence(self) -> float:
        """Return log E_n."""
        return float(log_mean_exp(np.concatenate([*self._log_wealth.values()])))

    @property
    def differs(self) -> bool:
        """Return whether the host has been found to differ."""
        return self.log_evidence >= _THRESHOLD

    @property
    def strongest_view(self) -> str:
        """Return the view with most evidence."""
        return max(self.views, key=lambda view: float(self._log_wealth[view].max()))

    def mean(self, view: str) -> float:
        """Return the sum of the differences of a view over all pairs, divided by their number."""
        return self._sums[view] / max(self.matches, 1)
