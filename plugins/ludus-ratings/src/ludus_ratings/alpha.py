"""Alpha-rank (Omidshafiei et al. 2019): ranks from the stationary distribution of an evolutionary process.

All individuals of a population play one participant. At times a mutant plays another participant, and either takes over
the population or dies out. The rank of a participant is the share of time that the population plays it. Results that
form cycles need no best participant.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MIN_PROBABILITY = 1e-250  # lower bound of transition probabilities, so that the stationary distribution is unique
_EQUAL = 1e-12  # win rates that differ by less are equal


def alpha_rank(
    win_rates: ArrayLike, *, alpha: float = math.inf, population: int = 50, noise: float = 1e-10
) -> NDArray[np.float64]:
    """Return the alpha-rank of participants of one role.

    Args:
        win_rates: ``[n, n]``: share of points of i against j, ½ on the diagonal; the sum with its transpose is 1.
            `ludus_ratings.win_rates` returns such a table.
        alpha: Selection intensity, > 0; infinite: a better mutant always takes over, an equal one in half of the cases.
        population: Number of individuals of a population; used where `alpha` is finite.
        noise: Probability that a worse mutant takes over where `alpha` is infinite; it makes the result unique.

    Returns:
        ``[n] float64``: probabilities; empty for n = 0.

    Raises:
        ValueError: `win_rates` is not a valid table.
    """
    rates = np.asarray(win_rates, np.float64)
    if rates.ndim != 2 or not np.allclose(rates + rates.T, 1.0):
        raise ValueError("win_rates: expected a square table [n, n] that adds up to 1 with its transpose")
    gain = (rates - 0.5).T * (population / (population - 1) if math.isfinite(alpha) else 1.0)
    return _stationary(_takeover(gain, alpha=alpha, population=population, noise=noise))


def alpha_rank_roles(
    win_rates: ArrayLike, *, alpha: float = math.inf, population: int = 50, noise: float = 1e-10
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the alpha-rank of participants of a game with two roles; each role has its own population.

    The cost grows with the cube of n · m: a few seconds for 50 against 50.

    Args:
        win_rates: ``[n, m]``: the share of points of participant i of the first role against j of the second.
        alpha: As for `alpha_rank`.
        population: As for `alpha_rank`.
        noise: As for `alpha_rank`.

    Returns:
        The probabilities of the participants of the first role ``[n]`` and of the second one ``[m]``.
    """
    rates = np.asarray(win_rates, np.float64)
    if rates.ndim != 2:
        raise ValueError(f"win_rates: expected [n, m], got {list(rates.shape)}")
    n, m = rates.shape
    transitions = np.zeros((n, m, n, m))
    rows, columns = np.arange(n), np.arange(m)
    first = _takeover(rates.T[:, None, :] - rates.T[:, :, None], alpha=alpha, population=population, noise=noise)
    second = _takeover(rates[:, :, None] - rates[:, None, :], alpha=alpha, population=population, noise=noise)
    transitions[:, columns, :, columns] = first  # [m, n, n]: column j, from row, to row
    transitions[rows, :, rows, :] += second  # [n, m, m]: row i, from column, to column
    mass = _stationary(transitions.reshape(n * m, n * m)).reshape(n, m)
    return mass.sum(axis=1), mass.sum(axis=0)


def alpha_sweep(
    win_rates: ArrayLike, *, population: int = 50, tolerance: float = 1e-6
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the alpha-rank for alpha = 1e-4, 2e-4, 4e-4, … until it converges (at most 40 values).

    Args:
        win_rates: As for `alpha_rank`.
        population: As for `alpha_rank`.
        tolerance: Largest change between two values of alpha that counts as convergence. It is tested only once alpha
            times the largest difference of win rates is above 1, because small values of alpha change nothing.

    Returns:
        The values of alpha, ``[k]``, and the probabilities for each, ``[k, n]``.
    """
    rates = np.asarray(win_rates, np.float64)
    min_alpha = 1.0 / max(float(np.max(np.abs(rates - 0.5), initial=0.0)), _EQUAL)
    alphas: list[float] = []
    masses: list[NDArray[np.float64]] = []
    alpha = 1e-4
    while len(alphas) < 40:
        alphas.append(alpha)
        masses.append(alpha_rank(rates, alpha=alpha, population=population))
        if alpha > min_alpha and len(masses) > 1 and np.max(np.abs(masses[-1] - masses[-2]), initial=0.0) < tolerance:
            break
        alpha *= 2.0
    return np.array(alphas), np.stack(masses)


def _takeover(gain: NDArray[np.float64], *, alpha: float, population: int, noise: float) -> NDArray[np.float64]:
    """Return the probability that a mutant takes over, for every advantage over the population."""
    if not (alpha > 0 and population > 1 and 0 < noise < 0.5):
        raise ValueError(f"expected alpha > 0, population > 1, noise in (0, ½), got {alpha}, {population}, {noise}")
    if math.isinf(alpha):
        return np.where(np.abs(gain) < _EQUAL, 0.5, np.where(gain > 0, 1.0 - noise, noise))
    u = np.abs(alpha * gain)
    with np.errstate(under="ignore", invalid="ignore"):
        better = np.where(u < _EQUAL, 1.0 / population, np.expm1(-u) / np.expm1(-population * u))
        # (1 - e^u) / (1 - e^(m u)) in a form that does not overflow
        chance = np.where(gain < 0, better * np.exp(-(population - 1) * u), better)
    return np.maximum(chance, _MIN_PROBABILITY)


def _stationary(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``[n]``: the stationary distribution of a Markov chain with these transition rates ``[n, n]``.

    Uses the elimination of Grassmann, Taksar and Heyman. It never subtracts, so every probability has full relative
    accuracy, also for rates of very different size. Rates need not sum to 1; the diagonal is ignored.
    """
    r = rates.astype(np.float64, copy=True)
    np.fill_diagonal(r, 0.0)
    n = len(r)
    for last in range(n - 1, 0, -1):
        r[:last, last] /= r[last, :last].sum()
        r[:last, :last] += np.outer(r[:last, last], r[last, :last])
    mass = np.ones(n)
    for i in range(1, n):
        mass[i] = mass[:i] @ r[:i, i]
        if mass[i] > 1e100:  # only ratios matter; this avoids overflow
            mass[: i + 1] /= mass[i]
    return mass / mass.sum() if n else mass
