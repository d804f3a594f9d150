"""An algorithm on one role, with the helpers that its checks share."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from attrs import frozen

from ludus.algorithm import Algorithm, Policy, Trainer
from ludus.environment import Role
from ludus.segment import SegmentBatch
from ludus.testing._synthetic import synthetic_batch

__all__ = ["MAX_WARM_UP_UPDATES", "AlgorithmCase", "same_arrays", "with_nan"]

#: Updates after which an algorithm must have learned something; replay buffers may have to fill first.
MAX_WARM_UP_UPDATES = 20


@frozen
class AlgorithmCase:
    """An algorithm and the role that it was made for.

    Args:
        algorithm: Algorithm to check.
        role: Role of the player.
    """

    algorithm: Algorithm
    role: Role

    def make_pair(self, seed: int = 0) -> tuple[Trainer, Policy]:
        """Return a trainer and a policy with its weights."""
        trainer, policy = self.algorithm.make_trainer(seed=seed), self.algorithm.make_policy()
        policy.load(trainer.weights())
        return trainer, policy

    def make_batch(self, policy: Policy, seed: int) -> SegmentBatch:
        """Return new segments of a policy, read-only as in a run."""
        return synthetic_batch(self.algorithm, self.role, policy, rng=np.random.default_rng(seed)).read_only()


def same_arrays(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    """Return whether two sets of arrays have equal names and values."""
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


def with_nan(batch: SegmentBatch) -> SegmentBatch:
    """Return the batch with NaN as the first rewards."""
    reward = batch.reward.copy()
    reward[0] = np.nan
    return attrs.evolve(batch, reward=reward).read_only()
