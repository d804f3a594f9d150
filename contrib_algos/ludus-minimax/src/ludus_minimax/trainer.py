"""The trainer of PPO with the minimax reward."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import torch
from ludus.algorithm import UpdateResult
from ludus.group import Group
from ludus.segment import SegmentBatch
from ludus_ppo.advantages import RewardSignal
from ludus_ppo.distributions import Distribution
from ludus_ppo.loss_terms import LossTerm
from ludus_ppo.networks import ActorCritic
from ludus_ppo.trainer import PPOTrainer

from ludus_minimax.config import MinimaxPPOConfig
from ludus_minimax.reward import minimax_reward, opponent_value, shift


class MinimaxPPOTrainer(PPOTrainer):
    """Learns from R' instead of R [Minimax eq. 3, 4]; see `PPOTrainer`.

    Args:
        config: The options.
        model: The module to train, on its device; the trainer owns it.
        distribution: Action distribution of the policy.
        seed: Seed of the minibatch order.
        loss_terms: Further terms of the loss by name.
    """

    def __init__(
        self,
        config: MinimaxPPOConfig,
        model: ActorCritic,
        *,
        distribution: Distribution,
        seed: int,
        loss_terms: Mapping[str, LossTerm] | None = None,
    ) -> None:
        signals = (RewardSignal(gamma=config.gamma, reward=self._reward),) if config.minimax_alpha else ()
        super().__init__(
            config, model, distribution=distribution, seed=seed, reward_signals=signals, loss_terms=loss_terms
        )
        self._options = config
        self._added_mean = 0.0  # mean of R' - R over the latest batch

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Learn from a batch; see `PPOTrainer.update`.

        Raises:
            ContractError: As there, or the segments lack the opponents' evaluations, or an evaluation is infinite.
        """
        result = super().update(batch, progress=progress)
        if not self._options.minimax_alpha:
            return result
        return attrs.evolve(result, metrics={**result.metrics, "minimax_reward": self._added_mean})

    def _reward(self, batch: SegmentBatch, group: Group) -> np.ndarray:
        """Return R' ``[T+1, N] float32``."""
        options = self._options
        value = opponent_value(batch, algorithm="minimax-ppo")
        reward = minimax_reward(
            batch.reward,
            value,
            shift(batch, value, kind=options.minimax_shift, fixed=options.minimax_r_min),
            alpha=options.minimax_alpha,
            gamma=options.minimax_gamma,
        )
        added = torch.tensor((reward - batch.reward)[batch.trainable()].mean())
        group.mean([added], weight=batch.num_decisions)
        self._added_mean = added.item()
        return reward
