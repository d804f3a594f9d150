"""Means and differences over few seeds, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen


@frozen
class Estimate:
    """A mean with its 95 % interval; None where a single value does not tell how wide it is."""

    mean: float
    low: float | None
    high: float | None

    @property
    def verdict(self) -> str:
        """Return whether a difference is above zero: ``"yes"``, ``"no"``, or ``"not told apart"``."""
        if self.low is not None and self.low > 0:
            return "yes"
        if self.high is not None and self.high < 0:
            return "no"
        return "not told apart"


def t_quantile(degrees: float, *, probability: float = 0.975) -> float:
    """Return the quantile of Student's distribution for a number of degrees of freedom, which may be broken, >= 1.

    With x = √degrees tan a the density becomes cos(a)^(degrees - 1), which is integrated from -π/2 to π/2.
    """
    angles = np.linspace(-np.pi / 2, np.pi / 2, 20_001)
    density = np.cos(angles).clip(0) ** (degrees - 1)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return float(np.sqrt(degrees) * np.tan(np.interp(probability * below[-1], below, angles)))


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of one or more values, one per seed, with the interval of Student's distribution."""
    mean, squared, degrees = _mean(values)
    return _around(mean, squared, degrees)


def difference(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Return mean(a) - mean(b), one value per seed each, with Welch's interval, which allows unequal deviations."""
    (mean_a, squared_a, degrees_a), (mean_b, squared_b, degrees_b) = _mean(a), _mean(b)
    squared = squared_a + squared_b
    if not degrees_a or not degrees_b:
        return Estimate(mean_a - mean_b, None, None)
    spread = squared_a**2 / degrees_a + squared_b**2 / degrees_b
    degrees = squared**2 / spread if spread else float(degrees_a + degrees_b)
    return _around(mean_a - mean_b, squared, degrees)


def _mean(values: Sequence[float]) -> tuple[float, float, int]:
    """Return the mean, the squared error of it, and the degrees of freedom."""
    degrees = len(values) - 1
    return float(np.mean(values)), float(np.var(values, ddof=1)) / len(values) if degrees else 0.0, degrees


def _around(mean: float, squared: float, degrees: float) -> Estimate:
    if not degrees:
        return Estimate(mean, None, None)
    near = t_quantile(degrees) * squared**0.5
    return Estimate(mean, mean - near, mean + near)
