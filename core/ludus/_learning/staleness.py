"""Staleness: how many updates lie between the weights that decided and the weights that learn.

One limit serves three purposes: the learner drops staler segments, grants no credits for blocks that would be too stale
by the time of their update, and warns if even one block per sampler is too much.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

from ludus.algorithm import OffPolicyTrainer, Trainer

_TARGET_SHARE = 0.75  # of the most updates in flight; the rest is a margin for blocks that take longer than others


@frozen
class StalenessLimit:
    """The largest staleness of segments that are learned from.

    Args:
        max_updates: Updates between recording and learning; infinite for off-policy trainers.
    """

    max_updates: float

    @classmethod
    def for_trainer(cls, trainer: Trainer, max_staleness: int) -> StalenessLimit:
        """Return the limit `max_staleness`, or none if the trainer learns off-policy."""
        off_policy = isinstance(trainer, OffPolicyTrainer) and trainer.off_policy
        return cls(math.inf if off_policy else max_staleness)

    @staticmethod
    def measure(versions: np.ndarray, current_version: int) -> np.ndarray:
        """Return ``[N] int64``: the staleness of segments recorded with these versions."""
        staleness: np.ndarray = np.maximum(current_version - versions, 0)
        return staleness

    def is_exceeded(self, staleness: np.ndarray) -> np.ndarray:
        """Return ``[N] bool``: which segments are too stale."""
        exceeded: np.ndarray = staleness > self.max_updates
        return exceeded

    @property
    def max_updates_in_flight(self) -> float:
        """Return how many updates' worth of decisions may be in flight.

        By Little's law, a segment that enters behind n - 1 others of an update each is n - 1 updates stale when it is
        learned from.
        """
        return self.max_updates + 1

    def blocks_in_time(self, blocks_per_update: float) -> float:
        """Return how many blocks a sampler may have in flight without any of them becoming too stale.

        Args:
            blocks_per_update: The sampler's part of an update, in blocks.
        """
        most = self.max_updates_in_flight
        return min(most, max(2.0, _TARGET_SHARE * most)) * blocks_per_update

    def too_much_in_flight(self, decisions: int, *, batch_decisions: int) -> bool:
        """Return whether so many decisions in flight are more than can be learned from in time."""
        return decisions > self.max_updates_in_flight * batch_decisions
