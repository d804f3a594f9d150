"""RND-PPO as an algorithm of ludus."""

from __future__ import annotations

import torch
from ludus.algorithm import AlgorithmContext
from ludus.errors import ConfigError
from ludus_ppo.algorithm import PPO

from ludus_rnd_ppo.config import RNDPPOConfig
from ludus_rnd_ppo.networks import Novelty
from ludus_rnd_ppo.trainer import VALUE_HEADS, RNDPPOTrainer

__all__ = ["RNDPPO"]


class RNDPPO(PPO):
    """PPO with random network distillation for one role [DIS eq. 3-5]; see `ludus.algorithm.Algorithm`.

    Args:
        config: The options.
        context: The role and its network.

    Raises:
        ContractError: As for PPO.
    """

    _config: RNDPPOConfig
    _value_heads = VALUE_HEADS

    def __init__(self, config: RNDPPOConfig, *, context: AlgorithmContext) -> None:
        super().__init__(config, context=context)

    def make_trainer(self, *, seed: int, device: str = "cpu") -> RNDPPOTrainer:
        """Make a trainer whose initial weights, target network and minibatch order follow from `seed`.

        Raises:
            ConfigError: The device does not support 64-bit numbers.
        """
        if torch.device(device).type == "mps":
            raise ConfigError(
                f"run.device: rnd-ppo keeps statistics in 64 bits, which {device} does not support; choose cpu or cuda"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._make_model()
            novelty = Novelty(self._config, context=self._context)
        return RNDPPOTrainer(
            self._config,
            model.to(device),
            novelty=novelty.to(device),
            distribution=self._distribution,
            seed=seed,
        )
