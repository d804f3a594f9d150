"""Worlds without games: who wins follows from strategies by a formula, and so does what training does to a strategy.

A strategy is a vector, and a step of training moves it so that it wins more often against the opponents that it has
just met. So a league of hundreds of models is trained in seconds, and what becomes of it depends on who meets whom.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from attrs import frozen

__all__ = ["EloWorld", "RockPaperScissors", "SpinningTop", "World"]


class World(Protocol):
    """A game in which strategies are vectors ``[d] float64``."""

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Return ``[d]``: the strategy of somebody who has not been trained."""

    def win_rate(self, one: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return ``[n]``: how likely strategy ``[d]`` wins against each of ``[n, d]``; there are no draws."""

    def trained(self, one: np.ndarray, others: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
        """Return ``[d]``: what strategy ``[d]`` becomes by one step of training against ``[n, d]``.

        Args:
            one: The strategy.
            others: Those that it has met, each as often as it has met it.
            rate: How fast it learns.
        """


@frozen(kw_only=True)
class EloWorld:
    """Everybody has a strength, and nothing else counts.

    A strategy is ``[1]``, a strength in log-odds: 1 is 174 Elo points. One learns most from even opponents.

    Args:
        step: By which a step against even opponents raises the strength.
    """

    step: float = 0.02

    def start(self, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG002 - the contract
        """Return strength 0."""
        return np.zeros(1)

    def win_rate(self, one: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return ``[n]``: 1 / (1 + exp(their strength - mine))."""
        return _sigmoid(one[0] - others[:, 0])

    def trained(self, one: np.ndarray, others: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
        """Return the strategy, stronger by the step times the mean of 4 P (1 - P)."""
        p = self.win_rate(one, others)
        return one + rate * self.step * float(np.mean(4 * p * (1 - p)))


@frozen(kw_only=True)
class RockPaperScissors:
    """Nobody is stronger than others, but everybody beats somebody.

    A strategy is ``[3]``, the logits of playing rock, paper and scissors. Training is a gradient step with an entropy
    bonus. Its step is so long that somebody who only meets himself runs in circles; whoever meets the average of the
    past comes to rest where all three are equally likely.

    Args:
        step: Of the gradient.
        entropy: Weight of the bonus.
    """

    step: float = 1.2
    entropy: float = 0.15

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Return logits of size about 1."""
        logits = rng.normal(size=3)
        return np.asarray(logits - logits.mean())

    def plays(self, strategies: np.ndarray) -> np.ndarray:
        """Return ``[…, 3]``: how likely strategies ``[…, 3]`` play rock, paper and scissors."""
        weights = np.exp(strategies - strategies.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def win_rate(self, one: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return ``[n]``: wins and half the ties."""
        return np.asarray(0.5 + 0.5 * self.plays(one) @ _BEATS @ self.plays(others).T)

    def trained(self, one: np.ndarray, others: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
        """Return logits + step (what each choice wins - entropy · logits)."""
        gradient = _BEATS @ self.plays(others).mean(axis=0) - self.entropy * one
        moved = one + rate * self.step * gradient
        return np.asarray(moved - moved.mean())


#: ``[3, 3]``: what rock, paper and scissors (rows) win against rock, paper and scissors.
_BEATS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


@frozen(kw_only=True)
class SpinningTop:
    """Strength, and at every strength cycles of styles, which are wide for the weak and narrow for the strong.

    A strategy is ``[3]``: a strength s and a style (u, v) with a length of at most exp(-s / `height`). One wins against
    another with the log-odds s - s' + `spin` (u v' - v u'): each style beats those a quarter of a turn ahead of it. A
    step of training has the length `step` in the direction of the gradient of the win rate, in which strength counts
    `effort` times less than style: a new style is found sooner than strength.

    Args:
        step: Length of a step.
        spin: How much the style counts.
        effort: How much harder strength is to get than style.
        height: Strength at which the cycles are e times narrower than at the beginning.
    """

    step: float = 0.05
    spin: float = 6.0
    effort: float = 4.0
    height: float = 6.0

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Return strength 0 and a style of length 0.1."""
        turn = rng.uniform(0, 2 * np.pi)
        return np.array([0.0, 0.1 * np.cos(turn), 0.1 * np.sin(turn)])

    def win_rate(self, one: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return ``[n]``: 1 / (1 + exp(-log-odds))."""
        return _sigmoid(one[0] - others[:, 0] + self.spin * (one[1] * others[:, 2] - one[2] * others[:, 1]))

    def trained(self, one: np.ndarray, others: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
        """Return the strategy moved by one step, with its style inside the circle of its strength."""
        p = self.win_rate(one, others)
        slope = p * (1 - p)
        style = self.spin * np.stack([others[:, 2], -others[:, 1]], axis=1)
        gradient = np.array([slope.mean() / self.effort, *(slope[:, None] * style).mean(axis=0)])
        moved = one + rate * self.step * gradient / max(float(np.linalg.norm(gradient)), 1e-12)
        width, length = np.exp(-moved[0] / self.height), float(np.hypot(moved[1], moved[2]))
        moved[1:] *= min(1.0, width / max(length, 1e-12))
        return np.asarray(moved)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))
