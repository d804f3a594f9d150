"""The trainer of PPO with a second reward: novelty."""

from __future__ import annotations

import attrs
import numpy as np
from ludus.algorithm import UpdateResult
from ludus.group import Group
from ludus.segment import SegmentBatch
from ludus_ppo.advantages import RewardStream
from ludus_ppo.distributions import Distribution
from ludus_ppo.networks import ActorCritic
from ludus_ppo.trainer import PPOTrainer

from ludus_rnd_ppo.config import RNDPPOConfig
from ludus_rnd_ppo.networks import Novelty

__all__ = ["VALUES", "RNDPPOTrainer"]

#: The value heads, and the fields in which they are recorded: of the game's rewards, and of novelty.
VALUES = ("value", "intrinsic_value")


class RNDPPOTrainer(PPOTrainer):
    """Learns from the game's rewards and from novelty [DIS eq. 3-5]; see `PPOTrainer`.

    Args:
        config: The options.
        model: The module to train, with the value heads `VALUES`.
        novelty: Makes the intrinsic rewards, on the same device.
        distribution: What the policy head parametrises.
        seed: Seeds the minibatch order.
    """

    def __init__(
        self, config: RNDPPOConfig, model: ActorCritic, *, novelty: Novelty, distribution: Distribution, seed: int
    ) -> None:
        extrinsic, intrinsic = VALUES
        streams = (
            RewardStream(head=extrinsic, gamma=config.gamma, weight=config.extrinsic_coef),
            RewardStream(
                head=intrinsic,
                gamma=config.intrinsic_gamma,
                weight=config.intrinsic_coef,
                value_weight=config.intrinsic_value_weight,
                ends=config.intrinsic_ends,
                reward=self._intrinsic_reward,
            ),
        )
        super().__init__(config, model, distribution=distribution, seed=seed, streams=streams, auxiliary=novelty)
        self._novelty = novelty
        self._predictor_coef = config.predictor_coef

    def _intrinsic_reward(self, batch: SegmentBatch) -> np.ndarray:
        """Return the intrinsic rewards ``[T+1, N] float32`` in the precision in which the predictor learns."""
        with self._autocast():
            return self._novelty.reward(batch)

    def join(self, group: Group) -> None:
        """Compute updates as one of a group; see `PPOTrainer.join`."""
        super().join(group)
        self._novelty.group = group

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Learn from a batch; see `PPOTrainer.update`."""
        result = super().update(batch, progress=progress)
        metrics = dict(result.metrics)
        metrics["predictor_loss"] = metrics.pop("auxiliary_loss") / self._predictor_coef
        metrics["intrinsic_reward_mean"] = self._novelty.reward_mean
        return attrs.evolve(result, metrics=metrics)
