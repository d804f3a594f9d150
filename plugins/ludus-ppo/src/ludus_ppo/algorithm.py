"""PPO as an algorithm of ludus."""

from __future__ import annotations

from typing import ClassVar

import torch
from ludus.algorithm import AlgorithmContext
from ludus.errors import ContractError
from ludus.segment import Field

from ludus_ppo.config import PPOConfig
from ludus_ppo.distributions import Distribution, distribution_for
from ludus_ppo.networks import ActorCritic
from ludus_ppo.policy import PPOPolicy
from ludus_ppo.trainer import PPOTrainer

__all__ = ["PPO", "make_policy"]


class PPO:
    """Dual-clip PPO for one role; see `ludus.algorithm.Algorithm`.

    Args:
        config: The options.
        context: The role and its network.

    Raises:
        ContractError: The role's action space is not supported, or `burn_in` leaves nothing of a segment.
    """

    _trainer: ClassVar[type[PPOTrainer]] = PPOTrainer

    def __init__(self, config: PPOConfig, *, context: AlgorithmContext) -> None:
        if config.burn_in >= config.segment_decisions:
            raise ContractError(
                f"burn_in = {config.burn_in} must be less than segment_decisions = {config.segment_decisions}"
            )
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
        return make_policy(self._model(), self._distribution, self._context)

    def make_trainer(self, *, seed: int, device: str = "cpu") -> PPOTrainer:
        """Make a trainer whose initial weights and minibatch order follow from `seed`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._model()
        return self._trainer(self._config, model.to(device), distribution=self._distribution, seed=seed)

    def _model(self) -> ActorCritic:
        return ActorCritic(
            self._context,
            self._distribution,
            initial_log_std=self._config.initial_log_std,
            normalize_value=self._config.normalize_value,
        )


def make_policy(
    model: ActorCritic, distribution: Distribution, context: AlgorithmContext, *, values: tuple[str, ...] = ("value",)
) -> PPOPolicy:
    """Make the policy that plays what a model learns; it takes the model over.

    Args:
        model: As trained.
        distribution: What its policy head parametrises.
        context: Knows the inference runtime.
        values: The model's value heads.
    """
    own = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items() if "." not in name}
    start = {} if model.recurrent is None else model.recurrent.initial_state(1)
    return PPOPolicy(
        context.build_inference(model.network, model.request),
        distribution,
        values=values,
        own=own,
        initial_state={name: leaf.detach().numpy() for name, leaf in start.items()},
    )
