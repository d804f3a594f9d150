"""Module that DQN trains: a network whose heads give Q(s, a)."""

from __future__ import annotations

import torch
from ludus.algorithm import AlgorithmContext
from ludus.errors import ContractError
from ludus.export import MASKED
from ludus.network import NetworkRequest, RecurrentNetwork
from ludus.spaces import leaf_spaces
from torch import Tensor, nn

from ludus_dqn.losses import dueling_q


class QNetwork(nn.Module):
    """The player's network with the head ``q [A]``, and ``value [1]`` if it is dueling.

    Args:
        context: Role, and the function that builds the network.
        actions: A, the number of actions.
        dueling: Whether ``q`` gives advantages, to be added to a value.

    Raises:
        ContractError: The network is recurrent.
    """

    # buffers, so that samplers receive them with the weights
    epsilon: Tensor  # [] float32
    value_min: Tensor  # [] float32: lowest V(s) = max_a Q(s, a) of a gradient step so far, at most 0

    def __init__(self, context: AlgorithmContext, actions: int, *, dueling: bool) -> None:
        super().__init__()
        self.request = NetworkRequest(
            observation=leaf_spaces(context.role.observation_space),
            heads={"q": actions} | ({"value": 1} if dueling else {}),
            head_gain={"q": 0.1, "value": 1.0},
        )
        self.network = context.build_network(self.request)
        if isinstance(self.network, RecurrentNetwork):
            raise ContractError("dqn does not support recurrent networks; choose a network without memory")
        self.register_buffer("epsilon", torch.zeros(()))
        self.register_buffer("value_min", torch.zeros(()))

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Return Q(s, ·) ``[n, A] float32``."""
        heads, _ = self.network(observation, {}, {})
        value = heads.get("value")
        q: Tensor = heads["q"]
        return q if value is None else dueling_q(value, q)


class GreedyDecisions(nn.Module):
    """Q(s, a) of all actions, masked, and the largest of them as the value; see `ludus.export`.

    Args:
        model: The network.
    """

    def __init__(self, model: QNetwork) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, observation: dict[str, Tensor], action_mask: Tensor | None, state: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return ``q [n, A]`` and ``value [n]``, and the empty state."""
        assert action_mask is not None
        q = torch.where(action_mask, self.model(observation), MASKED)
        return {"q": q, "value": q.amax(dim=1)}, state
