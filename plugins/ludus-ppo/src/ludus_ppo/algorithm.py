"""PPO as an algorithm of ludus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from ludus.algorithm import AlgorithmContext, Weights
from ludus.errors import ContractError
from ludus.export import DecisionModule
from ludus.network import set_weights
from ludus.segment import Field
from torch import nn

from ludus_ppo.config import PPOConfig
from ludus_ppo.distributions import distribution_for
from ludus_ppo.export import PPODecisions
from ludus_ppo.loss_terms import LossTerm
from ludus_ppo.networks import ActorCritic
from ludus_ppo.policy import PPOPolicy
from ludus_ppo.trainer import PPOTrainer


class PPO:
    """Dual-clip PPO for one role; see `ludus.algorithm.Algorithm`.

    Args:
        config: The options.
        context: The role and its network.

    Raises:
        ContractError: The role's action space is not supported, or `burn_in` leaves nothing of a segment.
    """

    _trainer: ClassVar[type[PPOTrainer]] = PPOTrainer
    #: Value heads, and the fields in which their values are recorded. The first one predicts the rewards of the game.
    _value_heads: ClassVar[tuple[str, ...]] = ("value",)

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
        """Return ``log_prob [L]``, one field ``[]`` per value head, and ``unbounded_action [D]`` if continuous."""
        return (*self._distribution.fields, *(Field(head) for head in self._value_heads))

    @property
    def segment_decisions(self) -> int:
        """Return T."""
        return self._config.segment_decisions

    def make_policy(self) -> PPOPolicy:
        """Make a policy with arbitrary weights."""
        model = self._make_model()
        own = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items() if "." not in name}
        start = {} if model.recurrent is None else model.recurrent.initial_state(1)
        return PPOPolicy(
            self._context.build_inference(model.network, model.request),
            self._distribution,
            values=self._value_heads,
            own=own,
            initial_state={name: leaf.detach().numpy() for name, leaf in start.items()},
        )

    def make_trainer(self, *, seed: int, device: str = "cpu") -> PPOTrainer:
        """Make a trainer whose initial weights and minibatch order follow from `seed`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._make_model()
            loss_terms = self.make_loss_terms()
        for term in loss_terms.values():
            if isinstance(term, nn.Module):
                term.to(device)
        return self._trainer(
            self._config, model.to(device), distribution=self._distribution, seed=seed, loss_terms=loss_terms
        )

    def make_decision_module(self, weights: Weights) -> DecisionModule:
        """Make the decision module of a model; see `ludus.export.ExportableAlgorithm`."""
        model = self._make_model()
        set_weights(model, weights)
        module = PPODecisions(model, self._context.role)
        start = {} if model.recurrent is None else model.recurrent.initial_state(1)
        return DecisionModule(
            module=module.eval(),
            parts=module.parts,
            initial_state={name: leaf.detach().numpy() for name, leaf in start.items()},
        )

    def make_loss_terms(self) -> Mapping[str, LossTerm]:
        """Make the further terms of the loss, by name; none unless a subclass overrides this."""
        return {}

    def _make_model(self) -> ActorCritic:
        return ActorCritic(
            self._context,
            self._distribution,
            initial_log_std=self._config.initial_log_std,
            values=self._value_heads,
            normalize_value=self._config.normalize_value,
        )
