"""Policies of their own for the seats of a team, in the shape of one network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.network import LazyLeaves, NetworkRequest, RecurrentNetwork, update_statistics
from torch import Tensor, nn

__all__ = ["OwnPolicies", "own_policies"]

_Leaves = dict[str, Tensor]


class OwnPolicies(nn.Module):
    """As many networks as there are kinds of seats; a row is decided for by the one that its observation points to.

    All of them run on all rows, and what a row's own one says is taken: nothing else reaches the result or a gradient.

    Args:
        policies: The networks, equal in shape.
        leaf: The observation leaf that says whose a row is, ``[n, len(policies)]``: one 1 among zeros.
    """

    def __init__(self, policies: list[nn.Module], leaf: str) -> None:
        super().__init__()
        self.policies = nn.ModuleList(policies)
        self._leaf = leaf

    def forward(self, observation: _Leaves, privileged: _Leaves, state: _Leaves) -> tuple[_Leaves, _Leaves]:
        """Return the heads ``[n, size] float32`` and the state after one step."""
        return self._run(lambda policy: policy, observation, privileged, state)

    def update_statistics(self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor]) -> None:
        """Add to each network's statistics the rows that it decides for; see `ludus.network.NormalizingNetwork`."""
        whose = observation[self._leaf].argmax(dim=-1)
        for index, policy in enumerate(self.policies):
            update_statistics(policy, *(_chosen(leaves, whose == index) for leaves in (observation, privileged)))

    def _run(
        self,
        method: Callable[[nn.Module], Callable[..., Any]],
        observation: _Leaves,
        privileged: _Leaves,
        state: _Leaves,
    ) -> tuple[_Leaves, _Leaves]:
        said = [method(policy)(observation, privileged, state) for policy in self.policies]
        heads, after = ([leaves for leaves, _ in said], [leaves for _, leaves in said])
        whose = observation[self._leaf].argmax(dim=-1)
        return _own(heads, whose), _own(after, whose[-1] if whose.dim() > 1 else whose)


class RecurrentOwnPolicies(OwnPolicies):
    """The same for networks that remember; a row has the memory of its own network alone."""

    def initial_state(self, rows: int) -> _Leaves:
        """Return the state at the start of a match, leaves ``[rows, …]``, equal for all networks."""
        first = self.policies[0]
        assert isinstance(first, RecurrentNetwork)
        return first.initial_state(rows)

    def unroll(
        self,
        observation: _Leaves,
        privileged: _Leaves,
        state: _Leaves,
        *,
        starts: Tensor,
    ) -> tuple[_Leaves, _Leaves]:
        """Return the heads ``[T, N, size]`` and the state after the last entry; see `RecurrentNetwork.unroll`."""

        def unrolling(policy: nn.Module) -> Callable[..., Any]:
            assert isinstance(policy, RecurrentNetwork)
            return lambda *leaves: policy.unroll(*leaves, starts=starts)

        return self._run(unrolling, observation, privileged, state)


def own_policies(request: NetworkRequest, *, build: Callable[[NetworkRequest], nn.Module], leaf: str) -> OwnPolicies:
    """Build one network for each kind of seat.

    Args:
        request: For one of them.
        build: Builds one.
        leaf: The observation leaf that tells seats apart.

    Raises:
        ContractError: There is no such leaf, or it is not a vector of two numbers or more.
    """
    space = request.observation.get(leaf)
    if not (isinstance(space, spaces.Box | spaces.MultiBinary) and len(space.shape) == 1 and space.shape[0] > 1):
        raise ContractError(
            f"own policies need an observation leaf {leaf!r} that tells seats apart, one 1 among zeros; there are "
            f"{', '.join(request.observation)} — set seat_leaf, or share_policy = true"
        )
    policies = [build(request) for _ in range(space.shape[0])]
    kind = RecurrentOwnPolicies if isinstance(policies[0], RecurrentNetwork) else OwnPolicies
    return kind(policies, leaf)


def _chosen(leaves: Mapping[str, Tensor], rows: Tensor) -> LazyLeaves:
    return LazyLeaves(leaves, lambda name: leaves[name][rows])


def _own(leaves: list[_Leaves], whose: Tensor) -> _Leaves:
    """Return of every leaf ``[…, n, …]`` the rows of the network ``whose [n]`` (or ``[T, n]``) they are."""
    return {name: _pick(torch.stack([one[name] for one in leaves]), whose) for name in leaves[0]}


def _pick(stacked: Tensor, whose: Tensor) -> Tensor:
    index = whose.reshape(1, *whose.shape, *[1] * (stacked.dim() - 1 - whose.dim())).expand(1, *stacked.shape[1:])
    return stacked.gather(0, index)[0]
