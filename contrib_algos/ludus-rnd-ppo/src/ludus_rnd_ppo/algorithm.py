"""RND-PPO as an algorithm of ludus."""

from __future__ import annotations

import torch
from ludus.algorithm import AlgorithmContext
from ludus.errors import ConfigError
from ludus.segment import Field
from ludus_ppo.algorithm import PPO, make_policy
from ludus_ppo.distributions import distribution_for
from ludus_ppo.networks import ActorCritic
from ludus_ppo.policy import PPOPolicy

from ludus_rnd_ppo.config import RNDPPOConfig
from ludus_rnd_ppo.networks import Novelty
from ludus_rnd_ppo.trainer import VALUES, RNDPPOTrainer

__all__ = ["RNDPPO"]


class RNDPPO:
    """PPO with random network distillation for one role [DIS eq. 3-5]; see `ludus.algorithm.Algorithm`.

    Args:
        config: The options.
        context: The role and its network.

    Raises:
        ContractError: As PPO does.
    """

    def __init__(self, config: RNDPPOConfig, *, context: AlgorithmContext) -> None:
        self._ppo = PPO(config, context=context)
        self._config = config
        self._context = context
        self._distribution = distribution_for(context.role)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return PPO's fields and ``intrinsic_value []``."""
        return (*self._ppo.fields, Field(VALUES[1]))

    @property
    def segment_decisions(self) -> int:
        """Return T."""
        return self._ppo.segment_decisions

    def make_policy(self) -> PPOPolicy:
        """Make a policy with arbitrary weights."""
        return make_policy(self._model(), self._distribution, self._context, values=VALUES)

    def make_trainer(self, *, seed: int, device: str = "cpu") -> RNDPPOTrainer:
        """Make a trainer whose initial weights, random network included, and minibatch order follow from `seed`.

        Raises:
            ConfigError: The device computes in 32 bits only.
        """
        if torch.device(device).type == "mps":
            raise ConfigError(f"run.device: rnd-ppo counts in 64 bits, which {device} lacks; choose cpu or cuda")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._model()
            novelty = Novelty(self._config, context=self._context)
        return RNDPPOTrainer(
            self._config,
            model.to(device),
            novelty=novelty.to(device),
            distribution=self._distribution,
            seed=seed,
        )

    def _model(self) -> ActorCritic:
        return ActorCritic(
            self._context,
            self._distribution,
            initial_log_std=self._config.initial_log_std,
            values=VALUES,
            normalize_value=self._config.normalize_value,
        )
