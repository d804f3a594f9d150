"""DQN as an algorithm of ludus."""

from __future__ import annotations

import torch
from ludus.algorithm import AlgorithmContext
from ludus.errors import ContractError
from ludus.segment import Field
from ludus.spaces import label_sizes
from ludus_minimax.reward import OPPONENT_VALUE

from ludus_dqn.config import DQNConfig
from ludus_dqn.networks import QNetwork
from ludus_dqn.policy import DQNPolicy
from ludus_dqn.trainer import DQNTrainer

__all__ = ["DQN"]


class DQN:
    """Double DQN for one role with one discrete action label; see `ludus.algorithm.Algorithm`.

    Args:
        config: The options.
        context: The role and its network.

    Raises:
        ContractError: The role's action space is not supported.
    """

    def __init__(self, config: DQNConfig, *, context: AlgorithmContext) -> None:
        sizes = label_sizes(context.role.action_space)
        if len(sizes) != 1:
            raise ContractError(
                f"dqn needs a Discrete action space, but that of role {context.role.name} is "
                f"{context.role.action_space}; choose another algorithm, or an interface that makes it Discrete"
            )
        self._config = config
        self._context = context
        self._actions = sizes[0]

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return nothing, or the opponents' evaluation for the Minimax Exploiter."""
        return (Field(OPPONENT_VALUE, source="opponents"),) if self._config.minimax_alpha else ()

    @property
    def segment_decisions(self) -> int:
        """Return T."""
        return self._config.segment_decisions

    def make_policy(self) -> DQNPolicy:
        """Make a policy with arbitrary weights."""
        model = self._model()
        inference = self._context.build_inference(model.network, model.request)
        return DQNPolicy(inference, role=self._context.role.name)

    def make_trainer(self, *, seed: int, device: str = "cpu") -> DQNTrainer:
        """Make a trainer whose initial weights and draws follow from `seed`.

        Raises:
            ConfigError: The replay's memory is too small.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._model()
        return DQNTrainer(self._config, model.to(device), role=self._context.role, seed=seed)

    def _model(self) -> QNetwork:
        return QNetwork(self._context, self._actions, dueling=self._config.dueling)
