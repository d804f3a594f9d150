"""DQN algorithm."""

from __future__ import annotations

import torch
from ludus.algorithm import AlgorithmContext, Weights
from ludus.errors import ContractError
from ludus.export import ActionPart, DecisionModule
from ludus.network import set_weights
from ludus.segment import Field
from ludus.spaces import label_sizes, real_sizes
from ludus_minimax.reward import MINIMAX_FIELDS

from ludus_dqn.config import DQNConfig
from ludus_dqn.networks import GreedyDecisions, QNetwork
from ludus_dqn.policy import DQNPolicy
from ludus_dqn.trainer import DQNTrainer


class DQN:
    """Double DQN for one role with one discrete action label; see `ludus.algorithm.Algorithm`.

    Args:
        config: Options.
        context: Role, and the functions that build its network and runtime.

    Raises:
        ContractError: The role's action space is not a single discrete label.
    """

    def __init__(self, config: DQNConfig, *, context: AlgorithmContext) -> None:
        sizes = label_sizes(context.role.action_space)
        if len(sizes) != 1 or real_sizes(context.role.action_space):
            raise ContractError(
                f"dqn: expected a Discrete action space, but role {context.role.name} has "
                f"{context.role.action_space}; choose another algorithm, or an interface with Discrete actions"
            )
        self._config = config
        self._context = context
        self._actions = sizes[0]

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the opponents' evaluations for the Minimax Exploiter; otherwise nothing."""
        return MINIMAX_FIELDS if self._config.minimax_alpha else ()

    @property
    def segment_decisions(self) -> int:
        """Return T, the largest number of decisions in a segment."""
        return self._config.segment_decisions

    def make_policy(self) -> DQNPolicy:
        """Return a policy with arbitrary weights."""
        model = self._make_model()
        inference = self._context.build_inference(model.network, model.request)
        return DQNPolicy(inference, role=self._context.role.name)

    def make_trainer(self, *, seed: int, device: str = "cpu") -> DQNTrainer:
        """Return a trainer whose initial weights and samples depend on `seed` alone.

        Raises:
            ConfigError: The replay buffer is too small.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._make_model()
        return DQNTrainer(self._config, model.to(device), role=self._context.role, seed=seed)

    def make_decision_module(self, weights: Weights) -> DecisionModule:
        """Make the decision module of a model; see `ludus.export.ExportableAlgorithm`."""
        model = self._make_model()
        set_weights(model, weights)
        part = ActionPart(kind="greedy", outputs=("q",), epsilon=float(model.epsilon))
        return DecisionModule(module=GreedyDecisions(model).eval(), parts=(part,))

    def _make_model(self) -> QNetwork:
        return QNetwork(self._context, self._actions, dueling=self._config.dueling)
