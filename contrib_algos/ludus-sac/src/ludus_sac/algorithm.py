"""SAC algorithm."""

from __future__ import annotations

import torch
from ludus.algorithm import AlgorithmContext, Weights
from ludus.export import DecisionModule
from ludus.network import set_weights
from ludus.segment import Field

from ludus_sac.actions import action_kind
from ludus_sac.config import SACConfig
from ludus_sac.networks import ActorCritics, ActorDecisions
from ludus_sac.policy import SACPolicy
from ludus_sac.trainer import SACTrainer


class SAC:
    """Soft actor-critic for one role with a Box or one discrete action label; see `ludus.algorithm.Algorithm`.

    Args:
        config: Options.
        context: Role, and the functions that build its networks and runtimes.

    Raises:
        ContractError: The role's action space is not supported.
    """

    def __init__(self, config: SACConfig, *, context: AlgorithmContext) -> None:
        self._config = config
        self._context = context
        self._kind = action_kind(context.role)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return nothing: the trainer needs no other fields than the actions."""
        return ()

    @property
    def segment_decisions(self) -> int:
        """Return T, the largest number of decisions in a segment."""
        return self._config.segment_decisions

    def make_policy(self) -> SACPolicy:
        """Return a policy with arbitrary weights."""
        model, build = self._make_model(), self._context.build_inference
        critics = model.critics
        return SACPolicy(
            build(model.actor, model.request),
            [build(network, critics.request) for network in critics.networks],
            kind=self._kind,
            action_leaf=critics.action_leaf,
            decision_values=self._config.decision_values,
        )

    def make_trainer(self, *, seed: int, device: str = "cpu") -> SACTrainer:
        """Return a trainer whose initial weights and samples depend on `seed` alone.

        Raises:
            ConfigError: The replay buffer is too small.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._make_model()
        return SACTrainer(self._config, model.to(device), kind=self._kind, role=self._context.role, seed=seed)

    def make_decision_module(self, weights: Weights) -> DecisionModule:
        """Make the decision module of a model; see `ludus.export.ExportableAlgorithm`."""
        model = self._make_model()
        set_weights(model, weights)
        return DecisionModule(module=ActorDecisions(model, self._kind).eval(), parts=(self._kind.part,))

    def _make_model(self) -> ActorCritics:
        return ActorCritics(self._context, self._kind, alpha=self._config.alpha)
