"""Module that SAC trains: an actor, two critics and a temperature."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from ludus.algorithm import AlgorithmContext
from ludus.errors import ContractError
from ludus.network import LazyLeaves, NetworkRequest, RecurrentNetwork, update_statistics
from ludus.spaces import leaf_spaces
from torch import Tensor, nn

from ludus_sac.actions import ActionKind

CRITICS = 2


class Critics(nn.Module):
    """Two independent networks that estimate Q.

    Args:
        context: Role, and the function that builds the networks.
        kind: Kind of actions.

    Attributes:
        request: Request that both networks were built for.
        action_leaf: Name of the leaf with the action; empty for discrete actions.
    """

    def __init__(self, context: AlgorithmContext, kind: ActionKind) -> None:
        super().__init__()
        leaves = leaf_spaces(context.role.observation_space)
        self.action_leaf = ""
        if kind.critic_leaf is not None:
            self.action_leaf = "action"
            while self.action_leaf in leaves:
                self.action_leaf += "_"
            leaves = {**leaves, self.action_leaf: kind.critic_leaf}
        privileged = leaf_spaces(context.role.privileged_space)
        head = {"q": kind.critic_size}
        self.request = NetworkRequest(
            observation=leaves,
            privileged=privileged,
            heads={} if privileged else head,
            critic_heads=head if privileged else {},
            head_gain={"q": 0.1},
        )
        self.networks = nn.ModuleList([_build_feedforward(context, self.request) for _ in range(CRITICS)])

    def forward(
        self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor], action: Tensor | None
    ) -> Tensor:
        """Return Q(s, ·) or Q(s, a) by both networks, ``[2, n, C] float32``.

        Args:
            observation: Leaves ``[n, …]``.
            privileged: Leaves ``[n, …]``.
            action: ``[n, D]`` in [-1, 1]; None for discrete actions.
        """
        leaves = dict(observation) if action is None else {**observation, self.action_leaf: action}
        return torch.stack([network(leaves, dict(privileged), {})[0]["q"] for network in self.networks])

    def update_statistics(
        self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor], action: Tensor | None
    ) -> None:
        """Add rows to the statistics of both networks; arguments as for `forward`."""
        actions = {} if action is None else {self.action_leaf: action}
        leaves = LazyLeaves([*observation, *actions], lambda name: (actions if name in actions else observation)[name])
        for network in self.networks:
            update_statistics(network, leaves, privileged)


class ActorCritics(nn.Module):
    """Three instances of the player's network, an actor and two critics, and the log temperature.

    Args:
        context: Role, and the function that builds the networks.
        kind: Kind of actions.
        alpha: Initial temperature.

    Attributes:
        request: Request that the actor's network was built for.

    Raises:
        ContractError: The network is recurrent.
    """

    def __init__(self, context: AlgorithmContext, kind: ActionKind, *, alpha: float) -> None:
        super().__init__()
        self.request = NetworkRequest(
            observation=leaf_spaces(context.role.observation_space),
            heads={"policy": kind.policy_size},
            head_gain={"policy": 0.01},
            labels={"policy": kind.label_sizes} if kind.label_sizes else {},
        )
        self.actor = _build_feedforward(context, self.request)
        self.critics = Critics(context, kind)
        self.log_alpha = nn.Parameter(torch.tensor(math.log(alpha)))

    def policy(self, observation: Mapping[str, Tensor]) -> Tensor:
        """Return the parameters of the action distribution ``[n, P] float32``."""
        heads, _ = self.actor(dict(observation), {}, {})
        parameters: Tensor = heads["policy"]
        return parameters


class ActorDecisions(nn.Module):
    """The parameters of the actor's action distribution by name; see `ludus.export`.

    Values are no outputs: they need both critics, and their actions.

    Args:
        model: Actor and critics.
        kind: Kind of actions.
    """

    def __init__(self, model: ActorCritics, kind: ActionKind) -> None:
        super().__init__()
        self.actor = model.actor
        self._name_parameters = kind.name_parameters

    def forward(
        self, observation: dict[str, Tensor], action_mask: Tensor | None, state: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return ``logits/0 [n, A]``, or ``mean [n, D]`` and ``log_std [n, D]``, and the empty state."""
        heads, _ = self.actor(observation, {}, {})
        return self._name_parameters(heads["policy"], action_mask), state


def _build_feedforward(context: AlgorithmContext, request: NetworkRequest) -> nn.Module:
    network = context.build_network(request)
    if isinstance(network, RecurrentNetwork):
        raise ContractError("sac does not support recurrent networks; choose a network without memory")
    return network
