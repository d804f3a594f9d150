"""The trainer of PPO whose rewards hold the opponents' evaluations."""

from __future__ import annotations

import math

import attrs
import numpy as np
import torch
from ludus.algorithm import UpdateResult
from ludus.segment import SegmentBatch
from ludus_ppo.advantages import RewardStream
from ludus_ppo.distributions import Distribution
from ludus_ppo.networks import ActorCritic
from ludus_ppo.trainer import PPOTrainer

from ludus_minimax.config import MinimaxPPOConfig
from ludus_minimax.reward import lowest, minimax_reward, opponent_value, shift

__all__ = ["MinimaxPPOTrainer"]


class MinimaxPPOTrainer(PPOTrainer):
    """Learns from R' instead of R [Minimax eq. 3, 4]; see `PPOTrainer`.

    Args:
        config: The options.
        model: The module to train, on its device; the trainer owns it.
        distribution: What the policy head parametrises.
        seed: Seeds the minibatch order.
    """

    def __init__(self, config: MinimaxPPOConfig, model: ActorCritic, *, distribution: Distribution, seed: int) -> None:
        streams = (RewardStream(gamma=config.gamma, reward=self._reward),) if config.minimax_alpha else ()
        super().__init__(config, model, distribution=distribution, seed=seed, streams=streams)
        self._options = config
        self._added = 0.0  # the mean of what the latest batch got besides
        self._state["opponent_min"] = torch.tensor(math.inf, dtype=torch.float64)

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Learn from a batch; see `PPOTrainer.update`.

        Raises:
            ContractError: As there, or segments do not carry the opponents' evaluations, or one is infinite.
        """
        result = super().update(batch, progress=progress)
        if not self._options.minimax_alpha:
            return result
        return attrs.evolve(result, metrics={**result.metrics, "minimax_reward": self._added})

    def _reward(self, batch: SegmentBatch) -> np.ndarray:
        """Return R' ``[T+1, N] float32``, by the least evaluation of today where it is tracked."""
        options, least = self._options, self._state["opponent_min"]
        value = opponent_value(batch, algorithm="minimax-ppo")
        least.clamp_(max=self._group.least(lowest(value)))
        reward = minimax_reward(
            batch.reward,
            value,
            alpha=options.minimax_alpha,
            gamma=options.minimax_gamma,
            r_min=shift(options.minimax_shift, fixed=options.minimax_r_min, tracked=float(least)),
        )
        added = torch.tensor((reward - batch.reward)[batch.trainable()].mean())
        self._group.mean([added], weight=batch.num_decisions)
        self._added = added.item()
        return reward
