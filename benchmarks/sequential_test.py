"""Error rates and lengths of the sequential test of ``ludus gate``, from simulated tests.

Pairs of matches are drawn from a distribution of pair scores that has the true normalized Elo. As in ``ludus gate`` the
test looks at its bounds after every round of eight pairs. The test of fixed size that it is compared with has the error
rates that the sequential one turned out to have. ::

    python benchmarks/sequential_test.py --tests 2000
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from attrs import frozen
from ludus_ratings.elo import ELO_POINTS
from ludus_ratings.sequential import SequentialTest
from scipy.optimize import brentq
from scipy.stats import norm

_ROUND = 8  # pairs

#: Probabilities of pair scores 0, ½, 1, 1½ and 2 between equals.
GAMES = {
    "few draws": (0.24, 0.02, 0.48, 0.02, 0.24),
    "many draws": (0.02, 0.20, 0.56, 0.20, 0.02),
    "the first seat wins": (0.05, 0.05, 0.80, 0.05, 0.05),
}

COLUMNS = (
    *("game", "elo1", "alpha, beta", "passed at elo0", "refused at elo1"),
    *("matches at elo0", "at elo1", "between", "fixed size", "share"),
)


@frozen
class Outcome:
    """The results of simulated tests: the share that passed, and the mean number of matches."""

    passed: float
    matches: float


def pair_distribution(base: tuple[float, ...], elo: float) -> np.ndarray:
    """Return ``[5]``: a distribution tilted so that it has a normalized Elo."""
    score, t = np.linspace(0, 1, 5), math.sqrt(2) * elo / (2 * ELO_POINTS)

    def tilted(x: float) -> np.ndarray:
        weight = np.asarray(base) * np.exp(x * score)
        return np.asarray(weight / weight.sum())

    def excess(x: float) -> float:
        p = tilted(x)
        mean = p @ score
        return float((mean - 0.5) / math.sqrt(p @ (score - mean) ** 2) - t)

    return tilted(brentq(excess, -20, 20))


def simulate(test: SequentialTest, p: np.ndarray, *, tests: int, rng: np.random.Generator) -> Outcome:
    """Run tests at once, all to their end, with pair scores of the probabilities ``p [5]``."""
    counts, passed, active = np.zeros((tests, 5)), 0.0, np.arange(tests)
    while active.size:
        counts[active] += rng.multinomial(_ROUND, p, size=active.size)
        ratio = test.log_likelihood_ratio(counts[active])
        passed += float((ratio >= test.upper).sum())
        active = active[(ratio > test.lower) & (ratio < test.upper)]
    return Outcome(passed / tests, 2 * float(counts.sum()) / tests)


def fixed_matches(test: SequentialTest, alpha: float, beta: float) -> float:
    """Return the matches of a test of fixed size on the same pairs with the same hypotheses, and with error rates."""
    distance = math.sqrt(2) * (test.elo1 - test.elo0) / (2 * ELO_POINTS)
    return 2 * float((norm.isf(alpha) + norm.isf(beta)) / distance) ** 2


def row(game: str, test: SequentialTest, *, tests: int, rng: np.random.Generator) -> str:
    """Simulate participants of three strengths, and return a row of the table."""
    strengths = (test.elo0, (test.elo0 + test.elo1) / 2, test.elo1)
    low, middle, high = (simulate(test, pair_distribution(GAMES[game], elo), tests=tests, rng=rng) for elo in strengths)
    alpha, beta = low.passed, 1 - high.passed
    fixed = fixed_matches(test, max(alpha, 1 / tests), max(beta, 1 / tests))
    mean = (low.matches + high.matches) / 2
    return (
        f"| {game} | {test.elo1:g} | {test.alpha:.0%} | {alpha:.1%} | {beta:.1%} | {low.matches:.0f} | "
        f"{high.matches:.0f} | {middle.matches:.0f} | {fixed:.0f} | {mean / fixed:.2f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tests", type=int, default=2000, help="simulated tests per strength (2000)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(
        "| game | elo1 | alpha, beta | passed at elo0 | refused at elo1 | matches at elo0 | at elo1 | between | ",
        end="",
    )
    print("fixed size | share |\n|" + "---|" * 10)
    rng = np.random.default_rng(arguments.seed)
    for game in GAMES:
        for test in (SequentialTest(), SequentialTest(alpha=0.01, beta=0.01), SequentialTest(elo1=25.0)):
            print(row(game, test, tests=arguments.tests, rng=rng), flush=True)


if __name__ == "__main__":
    main()
