"""Policy and critic as two networks that share nothing, in the shape of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from ludus.network import NetworkRequest, RecurrentNetwork, update_statistics
from torch import Tensor, nn

from ludus_mappo.own import own_policies

__all__ = ["RecurrentSeparateNetworks", "SeparateNetworks", "separate_networks"]

_Leaves = dict[str, Tensor]


class SeparateNetworks(nn.Module):
    """Two networks, one for the heads and one for the critic heads; see `ludus.network`.

    Args:
        policy: Reads observations alone.
        critic: Reads privileged leaves too, if it needs any.
        needs_privileged: Whether it does; there are no critic heads without them then.
    """

    def __init__(self, policy: nn.Module, critic: nn.Module, *, needs_privileged: bool) -> None:
        super().__init__()
        self.policy = policy
        self.critic = critic
        self._needs_privileged = needs_privileged

    def forward(self, observation: _Leaves, privileged: _Leaves, state: _Leaves) -> tuple[_Leaves, _Leaves]:
        """Return the heads ``[n, size] float32`` and the unchanged, empty state."""
        heads, _ = self.policy(observation, {}, {})
        if self._needs_privileged and not privileged:
            return heads, state
        values, _ = self.critic(observation, privileged if self._needs_privileged else {}, {})
        return {**heads, **values}, state

    def update_statistics(self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor]) -> None:
        """Add rows to the statistics of both; see `ludus.network.NormalizingNetwork`."""
        update_statistics(self.policy, observation, {})
        update_statistics(self.critic, observation, privileged if self._needs_privileged else {})


class RecurrentSeparateNetworks(SeparateNetworks):
    """Two networks that remember, each for itself; see `ludus.network.RecurrentNetwork`.

    The critic's memory stays as it is while the privileged leaves that it needs are missing.
    """

    def forward(self, observation: _Leaves, privileged: _Leaves, state: _Leaves) -> tuple[_Leaves, _Leaves]:
        """Return the heads ``[n, size] float32`` and the state after one step."""
        return self._run(lambda network: network, observation, privileged, state)

    def initial_state(self, rows: int) -> _Leaves:
        """Return the state at the start of a match, leaves ``[rows, …]``."""
        policy, critic = (_recurrent(network).initial_state(rows) for network in (self.policy, self.critic))
        return _named("policy", policy) | _named("critic", critic)

    def unroll(
        self,
        observation: _Leaves,
        privileged: _Leaves,
        state: _Leaves,
        *,
        starts: Tensor,
    ) -> tuple[_Leaves, _Leaves]:
        """Return the heads ``[T, N, size]`` and the state after the last entry; see `RecurrentNetwork.unroll`."""

        def unrolling(network: nn.Module) -> Callable[..., Any]:
            return lambda *leaves: _recurrent(network).unroll(*leaves, starts=starts)

        return self._run(unrolling, observation, privileged, state)

    def _run(
        self,
        method: Callable[[nn.Module], Callable[..., Any]],
        observation: _Leaves,
        privileged: _Leaves,
        state: _Leaves,
    ) -> tuple[_Leaves, _Leaves]:
        heads, after = method(self.policy)(observation, {}, _of("policy", state))
        after = state | _named("policy", after)
        if self._needs_privileged and not privileged:
            return heads, after
        seen = privileged if self._needs_privileged else {}
        values, memory = method(self.critic)(observation, seen, _of("critic", state))
        return heads | values, after | _named("critic", memory)


def separate_networks(
    request: NetworkRequest, *, build: Callable[[NetworkRequest], nn.Module], seat_leaf: str = ""
) -> SeparateNetworks:
    """Build what is requested as two networks, whatever network it is.

    Args:
        request: With heads and critic heads.
        build: Builds either.
        seat_leaf: The observation leaf that tells seats apart, for policies of their own; empty: they share one.

    Raises:
        ContractError: There is no such leaf.
    """
    wanted = attrs.evolve(request, critic_heads={})
    policy = own_policies(wanted, build=build, leaf=seat_leaf) if seat_leaf else build(wanted)
    critic = build(attrs.evolve(request, heads={}, labels={}))
    kind = RecurrentSeparateNetworks if isinstance(policy, RecurrentNetwork) else SeparateNetworks
    return kind(policy, critic, needs_privileged=bool(request.privileged))


def _recurrent(network: nn.Module) -> RecurrentNetwork:
    assert isinstance(network, RecurrentNetwork)
    return network


def _named(owner: str, state: _Leaves) -> _Leaves:
    return {f"{owner}.{name}": leaf for name, leaf in state.items()}


def _of(owner: str, state: _Leaves) -> _Leaves:
    return {name.removeprefix(f"{owner}."): leaf for name, leaf in state.items() if name.startswith(f"{owner}.")}
