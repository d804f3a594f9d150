"""The module PPO trains: a network with a policy head and a value head."""

from __future__ import annotations

import torch
from ludus.algorithm import AlgorithmContext
from ludus.errors import ContractError
from ludus.network import NetworkRequest
from ludus.spaces import leaf_spaces
from torch import Tensor, nn

from ludus_ppo.distributions import Distribution

__all__ = ["ActorCritic"]


class ActorCritic(nn.Module):
    """The player's network, asked for the parameters of an action distribution and a value.

    Args:
        context: The role and the network to build.
        distribution: What the policy head parametrises.
        initial_log_std: Start of the state-independent log standard deviations, where the distribution has them.
    """

    def __init__(self, context: AlgorithmContext, distribution: Distribution, *, initial_log_std: float) -> None:
        super().__init__()
        request = NetworkRequest(
            observation=leaf_spaces(context.role.observation_space),
            privileged=leaf_spaces(context.role.privileged_space),
            heads={"policy": distribution.head_size},
            critic_heads={"value": 1},
            head_gain={"policy": 0.01, "value": 1.0},
        )
        self.request = request
        self.network = context.build_network(request)
        size = distribution.log_std_size
        self.log_std = nn.Parameter(torch.full((size,), initial_log_std)) if size else None

    def forward(self, observation: dict[str, Tensor], privileged: dict[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        """Return distribution parameters ``[n, P] float32`` and values ``[n] float32``.

        The values are None where the critic needs privileged leaves and there are none.

        Raises:
            ContractError: The network is recurrent.
        """
        heads, state = self.network(observation, privileged, {})
        if state:
            raise ContractError("ppo trains networks without recurrent state; choose another network")
        parameters = heads["policy"]
        if self.log_std is not None:
            parameters = torch.cat([parameters, self.log_std.expand_as(parameters)], dim=1)
        value = heads.get("value")
        return parameters, None if value is None else value.squeeze(1)
