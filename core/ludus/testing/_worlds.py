"""Synthetic worlds: formulas for the win rates of strategies and for the effect of training.

A strategy is a vector. A step of training moves it so that it wins more often against its opponents. So a league of
hundreds of models is trained in seconds, and its result depends on the choice of opponents.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from attrs import frozen

__all__ = ["EloWorld", "RockPaperScissors", "SpinningTop", "World"]


class World(Protocol):
    """A game in which strategies are vectors ``[d] float64``."""

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Return an untrained strategy ``[d]``."""

    def win_rate(self, one: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the win probabilities ``[n]`` of strategy ``[d]`` against each of ``[n, d]``; there are no draws."""

    def trained(self, one: np.ndarray, others: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
        """Return strategy ``[d]`` after one step of training against ``[n, d]``.

        Args:
            one: Strategy to train.
            others: Opponents, one row for each match.
            rate: Factor of the step.
        """


@frozen(kw_only=True)
class EloWorld:
    """A transitive world: a strategy is a strength.

    A strategy is ``[1]``, a strength in log-odds: 1 is 174 Elo points. Even opponents have the largest effect.

    Args:
        step: Increase of the strength by a step against even opponents.
    """

    step: float = 0.02

    def start(self, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG002 - see the protocol
        """Return strength 0."""
        return np.zeros(1)

    def win_rate(self, one: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return ``[n]``: 1 / (1 + exp(strength of the other - own strength))."""
        return _sigmoid(one[0] - others[:, 0])

    def trained(self, one: np.ndarray, others: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
        """Return the strength increased by step · mean of 4 P (1 - P)."""
        p = self.win_rate(one, others)
        return one + rate * self.step * float(np.mean(4 * p * (1 - p)))


@frozen(kw_only=True)
class RockPaperScissors:
    """A cyclic world without differences in strength.

    A strategy is ``[3]``, the logits of rock, paper and scissors. Training is a gradient step with an entropy bonus.
    The step is so long that pure self-play cycles; against the average of the past a strategy converges to equal
    probabilities.

    Args:
        step: Factor of the gradient.
        entropy: Weight of the entropy bonus.
    """

    step: float = 1.2
    entropy: float = 0.15

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Return logits of size about 1."""
        logits = rng.normal(size=3)
        return np.asarray(logits - logits.mean())

    def probabilities(self, strategies: np.ndarray) -> np.ndarray:
        """Return the probabilities ``[…, 3]`` of rock, paper and scissors."""
        weights = np.exp(strategies - strategies.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def win_rate(self, one: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return ``[n]``: the probability of a win plus half that of a tie."""
        return np.asarray(0.5 + 0.5 * self.probabilities(one) @ _BEATS @ self.probabilities(others).T)

    def trained(self, one: np.ndarray, others: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
        """Return logits + step (payoff of each choice - entropy · logits)."""
        gradient = _BEATS @ self.probabilities(others).mean(axis=0) - self.entropy * one
        moved = one + rate * self.step * gradient
        return np.asarray(moved - moved.mean())


#: ``[3, 3]``: payoff of rock, paper and scissors (rows) against rock, paper and scissors.
_BEATS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


@frozen(kw_only=True)
class SpinningTop:
    """A world with strength and cyclic styles, which matter less the stronger a strategy is.

    A strategy is ``[3]``: a strength s and a style (u, v) of length at most exp(-s / `height`). The log-odds of a win
    are s - s' + `spin` (u v' - v u'): each style beats those a quarter of a turn ahead of it. A step of training has
    the length `step` in the direction of the gradient of the win rate, in which strength is divided by `effort`:
    style changes faster than strength.

    Args:
        step: Length of a step.
        spin: Weight of the style.
        effort: Divisor of the gradient of the strength.
        height: Strength at which the maximum length of a style is 1/e.
    """

    step: float = 0.05
    spin: float = 6.0
    effort: float = 4.0
    height: float = 6.0

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Return strength 0 and a style of length 0.1."""
        angle = rng.uniform(0, 2 * np.pi)
        return np.array([0.0, 0.1 * np.cos(angle), 0.1 * np.sin(angle)])

    def win_rate(self, one: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return ``[n]``: 1 / (1 + exp(-log-odds))."""
        return _sigmoid(one[0] - others[:, 0] + self.spin * (one[1] * others[:, 2] - one[2] * others[:, 1]))

    def trained(self, one: np.ndarray, others: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
        """Return the strategy after one step, with the style clipped to its maximum length."""
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
