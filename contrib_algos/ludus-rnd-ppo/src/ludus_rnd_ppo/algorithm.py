"""RND-PPO as an algorithm of ludus."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from ludus.errors import ConfigError
from ludus_ppo.algorithm import PPO
from ludus_ppo.loss_terms import LossTerm
from ludus_ppo.trainer import PPOTrainer

from ludus_rnd_ppo.config import RNDPPOConfig
from ludus_rnd_ppo.networks import Novelty
from ludus_rnd_ppo.trainer import NOVELTY_TERM, VALUE_HEADS, RNDPPOTrainer


class RNDPPO(PPO):
    """PPO with random network distillation for one role [DIS eq. 3-5]; see `ludus.algorithm.Algorithm`.

    Args:
        config: The options.
        context: The role and its network.

    Raises:
        ContractError: As for PPO.
    """

    _config: RNDPPOConfig
    _trainer = RNDPPOTrainer
    _value_heads = VALUE_HEADS

    def make_trainer(self, *, seed: int, device: str = "cpu") -> PPOTrainer:
        """Make a trainer whose initial weights, target network and minibatch order follow from `seed`.

        Raises:
            ConfigError: The device does not support 64-bit numbers.
        """
        if torch.device(device).type == "mps":
            raise ConfigError(
                f"run.device: rnd-ppo keeps statistics in 64 bits, which {device} does not support; choose cpu or cuda"
            )
        return super().make_trainer(seed=seed, device=device)

    def make_loss_terms(self) -> Mapping[str, LossTerm]:
        """Make the loss of the predictor, which also computes the intrinsic rewards."""
        return {NOVELTY_TERM: Novelty(self._config, context=self._context)}
