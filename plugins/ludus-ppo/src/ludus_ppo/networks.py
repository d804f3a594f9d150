"""The module that PPO trains: a network with a policy head and value heads."""

from __future__ import annotations

import torch
from attrs import frozen
from ludus.algorithm import AlgorithmContext
from ludus.errors import ContractError
from ludus.network import NetworkRequest, RecurrentNetwork
from ludus.spaces import leaf_spaces
from torch import Tensor, nn

from ludus_ppo.distributions import Distribution


class ActorCritic(nn.Module):
    """The player's network with a head for the parameters of the action distribution and value heads.

    Args:
        context: The role and the network to build.
        distribution: Action distribution of the policy.
        initial_log_std: Initial value of the state-independent log standard deviations, if the distribution has any.
        values: Names of the value heads.
        normalize_value: Whether buffers of the model scale the outputs of the value heads to returns.
    """

    value_scale: Tensor | None  # [values, 2] float32: mean and deviation of the returns of each head
    value_min: Tensor  # [] float32: lowest value of a decision that was learned from, at most 0; of the first head

    def __init__(
        self,
        context: AlgorithmContext,
        distribution: Distribution,
        *,
        initial_log_std: float,
        values: tuple[str, ...] = ("value",),
        normalize_value: bool = False,
    ) -> None:
        super().__init__()
        request = NetworkRequest(
            observation=leaf_spaces(context.role.observation_space),
            privileged=leaf_spaces(context.role.privileged_space),
            heads=dict(distribution.head_sizes),
            critic_heads=dict.fromkeys(values, 1),
            head_gain={**dict.fromkeys(distribution.head_sizes, 0.01), **dict.fromkeys(values, 1.0)},
            labels={"policy": distribution.label_sizes} if distribution.label_sizes else {},
        )
        self.request = request
        self._policy_heads = tuple(distribution.head_sizes)
        self._values = values
        self.network = context.build_network(request)
        size = distribution.log_std_size
        self.log_std = nn.Parameter(torch.full((size,), initial_log_std)) if size else None
        self.register_buffer("value_scale", torch.tensor([[0.0, 1.0]] * len(values)) if normalize_value else None)
        self.register_buffer("value_min", torch.zeros(()))

    @property
    def recurrent(self) -> RecurrentNetwork | None:
        """Return the network if it is recurrent."""
        return self.network if isinstance(self.network, RecurrentNetwork) else None

    def forward(
        self, observation: dict[str, Tensor], privileged: dict[str, Tensor], unrolled: Unrolled | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return distribution parameters ``[n, P] float32`` and values ``[n] float32`` by head.

        The values are empty if the critic needs privileged leaves and `privileged` is empty.

        Args:
            observation: Leaves ``[n, …]``; ``[T, N, …]`` if `unrolled` is given.
            privileged: Likewise.
            unrolled: How to run a recurrent network over segments, and which of their entries are the n rows.
        """
        if unrolled is None:
            heads, _ = self.network(observation, privileged, {})
        else:
            heads = unrolled.heads(self.network, observation, privileged)
        return self.join_heads(heads)

    def join_heads(self, heads: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return distribution parameters ``[n, P] float32`` and values ``[n] float32`` from heads ``[n, size]``."""
        parts = [heads[name] for name in self._policy_heads]
        if self.log_std is not None:
            parts.append(self.log_std.expand(parts[0].shape[0], -1))  # exporters trace the number of rows
        parameters = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        values = {name: heads[name].squeeze(1) for name in self._values if name in heads}
        if self.value_scale is not None:
            scales = dict(zip(self._values, self.value_scale, strict=True))
            values = {name: value * scales[name][1] + scales[name][0] for name, value in values.items()}
        return parameters, values


@frozen(kw_only=True)
class Unrolled:
    """How a recurrent network runs over segments.

    Attributes:
        state: State before entry 0, leaves ``[N, …]``.
        starts: ``[T, N] bool``: entries at which a match starts.
        burn_in: Number of entries at the start that only update the state, without gradients.
        kept: ``[n] int64``: the entries of the n rows, t · N + segment each.
    """

    state: dict[str, Tensor]
    starts: Tensor
    burn_in: int
    kept: Tensor

    def heads(
        self, network: nn.Module, observation: dict[str, Tensor], privileged: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """Return the heads ``[n, size]`` of the network at the kept entries.

        Raises:
            ContractError: The network is not recurrent.
        """
        if not isinstance(network, RecurrentNetwork):
            raise ContractError("ppo: segments hold a recurrent state, but the network has none")
        state, burn_in = self.state, self.burn_in
        if burn_in:
            with torch.no_grad():
                _, state = network.unroll(
                    _slice(observation, stop=burn_in),
                    _slice(privileged, stop=burn_in),
                    state,
                    starts=self.starts[:burn_in],
                )
        heads, _ = network.unroll(
            _slice(observation, start=burn_in),
            _slice(privileged, start=burn_in),
            state,
            starts=self.starts[burn_in:],
        )
        skipped = burn_in * self.starts.shape[1]
        return {name: head.flatten(0, 1).index_select(0, self.kept - skipped) for name, head in heads.items()}


def _slice(leaves: dict[str, Tensor], *, start: int = 0, stop: int | None = None) -> dict[str, Tensor]:
    return {name: leaf[start:stop] for name, leaf in leaves.items()}
