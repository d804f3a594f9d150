"""The trainer of PPO with a second reward signal: novelty."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from ludus.algorithm import UpdateResult
from ludus.group import Group
from ludus.segment import SegmentBatch
from ludus_ppo.advantages import RewardSignal
from ludus_ppo.distributions import Distribution
from ludus_ppo.loss_terms import LossTerm
from ludus_ppo.networks import ActorCritic
from ludus_ppo.trainer import PPOTrainer

from ludus_rnd_ppo.config import RNDPPOConfig
from ludus_rnd_ppo.networks import Novelty

#: Value heads, and the fields in which their values are recorded: of the rewards of the game, and of intrinsic rewards.
VALUE_HEADS = ("value", "intrinsic_value")
#: Name of the loss term that trains the predictor.
NOVELTY_TERM = "rnd"


class RNDPPOTrainer(PPOTrainer):
    """Learns from the rewards of the game and from intrinsic rewards [DIS eq. 3-5]; see `PPOTrainer`.

    Args:
        config: The options.
        model: The module to train, with the value heads `VALUE_HEADS`.
        distribution: Action distribution of the policy.
        seed: Seed of the minibatch order.
        loss_terms: Further terms of the loss by name, on the device of the model; `NOVELTY_TERM` is a `Novelty`.
    """

    def __init__(
        self,
        config: RNDPPOConfig,
        model: ActorCritic,
        *,
        distribution: Distribution,
        seed: int,
        loss_terms: Mapping[str, LossTerm],
    ) -> None:
        extrinsic_head, intrinsic_head = VALUE_HEADS
        signals = (
            RewardSignal(head=extrinsic_head, gamma=config.gamma, weight=config.extrinsic_coef),
            RewardSignal(
                head=intrinsic_head,
                gamma=config.intrinsic_gamma,
                weight=config.intrinsic_coef,
                value_weight=config.intrinsic_value_weight,
                ends_with_match=config.intrinsic_ends,
                metric_prefix="intrinsic_",
                reward=self._intrinsic_reward,
            ),
        )
        novelty = loss_terms[NOVELTY_TERM]
        assert isinstance(novelty, Novelty)
        self._novelty = novelty
        super().__init__(
            config, model, distribution=distribution, seed=seed, reward_signals=signals, loss_terms=loss_terms
        )

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Learn from a batch; see `PPOTrainer.update`."""
        result = super().update(batch, progress=progress)
        metrics = {**result.metrics, "intrinsic_reward_mean": self._novelty.reward_mean}
        return attrs.evolve(result, metrics=metrics)

    def _intrinsic_reward(self, batch: SegmentBatch, group: Group) -> np.ndarray:
        """Return the intrinsic rewards ``[T+1, N] float32`` in the precision in which the predictor is trained."""
        with self._numerics.autocast():
            return self._novelty.reward(batch, group)
