"""PPO as an algorithm of ludus."""

from __future__ import annotations

import torch
from ludus.algorithm import AlgorithmContext
from ludus.segment import Field

from ludus_ppo.config import PPOConfig
from ludus_ppo.distributions import distribution_for
from ludus_ppo.networks import ActorCritic
from ludus_ppo.policy import PPOPolicy
from ludus_ppo.trainer import PPOTrainer

__all__ = ["PPO"]


class PPO:
    """Dual-clip PPO for one role; see `ludus.algorithm.Algorithm`.

    Args:
        config: The options.
        context: The role and its network.

    Raises:
        ContractError: The role's action space is not supported.
    """

    def __init__(self, config: PPOConfig, *, context: AlgorithmContext) -> None:
        self._config = config
        self._context = context
        self._distribution = distribution_for(context.role)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return ``log_prob [L]`` and ``value []``, and ``unbounded_action [D]`` for continuous actions."""
        return (*self._distribution.fields, Field("value"))

    @property
    def segment_decisions(self) -> int:
        """Return T."""
        return self._config.segment_decisions

    def make_policy(self) -> PPOPolicy:
        """Make a policy with arbitrary weights."""
        model = self._model()
        return PPOPolicy(
            self._context.build_inference(model.network, model.request),
            self._distribution,
            log_std=None if model.log_std is None else model.log_std.detach().numpy(),
        )

    def make_trainer(self, *, seed: int, device: str = "cpu") -> PPOTrainer:
        """Make a trainer whose initial weights and minibatch order follow from `seed`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._model()
        return PPOTrainer(self._config, model.to(device), distribution=self._distribution, seed=seed)

    def _model(self) -> ActorCritic:
        return ActorCritic(self._context, self._distribution, initial_log_std=self._config.initial_log_std)
