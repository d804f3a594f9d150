"""Policy and critic as two separate networks with the interface of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
from ludus.network import NetworkRequest, RecurrentNetwork, update_statistics
from torch import Tensor, nn

from ludus_mappo.seat_policies import CombinedNetworks, make_seat_policies

_Leaves = dict[str, Tensor]


class SeparateNetworks(CombinedNetworks):
    """Two networks, one for the heads and one for the critic heads; see `ludus.network`.

    Args:
        policy: Network that reads observations only.
        critic: Network that also reads privileged leaves, if it needs them.
        needs_privileged: Whether the critic needs privileged leaves. If so, calls without them return no critic heads.
    """

    def __init__(self, policy: nn.Module, critic: nn.Module, *, needs_privileged: bool) -> None:
        super().__init__()
        self.policy = policy
        self.critic = critic
        self._needs_privileged = needs_privileged

    def update_statistics(self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor]) -> None:
        """Add rows to the statistics of both networks; see `ludus.network.NormalizingNetwork`."""
        update_statistics(self.policy, observation, {})
        update_statistics(self.critic, observation, privileged if self._needs_privileged else {})

    def _run(
        self,
        call: Callable[..., tuple[_Leaves, _Leaves]],
        observation: _Leaves,
        privileged: _Leaves,
        state: _Leaves,
    ) -> tuple[_Leaves, _Leaves]:
        """Call both networks, each with its part of the state."""
        heads, policy_state = call(self.policy, observation, {}, _without_prefix("policy", state))
        state = state | _with_prefix("policy", policy_state)
        if self._needs_privileged and not privileged:
            return heads, state
        critic_input = privileged if self._needs_privileged else {}
        values, critic_state = call(self.critic, observation, critic_input, _without_prefix("critic", state))
        return heads | values, state | _with_prefix("critic", critic_state)


class RecurrentSeparateNetworks(SeparateNetworks):
    """Two recurrent networks, each with its own state; see `ludus.network.RecurrentNetwork`.

    Calls without the privileged leaves that the critic needs do not change the critic's state.
    """

    def initial_state(self, rows: int) -> _Leaves:
        """Return the state at the start of a match, leaves ``[rows, …]``."""
        policy, critic = (_recurrent(network).initial_state(rows) for network in (self.policy, self.critic))
        return _with_prefix("policy", policy) | _with_prefix("critic", critic)


def separate_networks(
    request: NetworkRequest, *, build: Callable[[NetworkRequest], nn.Module], seat_leaf: str = ""
) -> SeparateNetworks:
    """Build the requested network as two networks.

    Args:
        request: Request for heads and critic heads.
        build: Builds a network.
        seat_leaf: Observation leaf that identifies the kind of seat, for one policy each; empty: one shared policy.

    Raises:
        ContractError: The observation has no such leaf.
    """
    policy_request = attrs.evolve(request, critic_heads={})
    policy = make_seat_policies(policy_request, build=build, leaf=seat_leaf) if seat_leaf else build(policy_request)
    critic = build(attrs.evolve(request, heads={}, labels={}))
    kind = RecurrentSeparateNetworks if isinstance(policy, RecurrentNetwork) else SeparateNetworks
    return kind(policy, critic, needs_privileged=bool(request.privileged))


def _recurrent(network: nn.Module) -> RecurrentNetwork:
    assert isinstance(network, RecurrentNetwork)
    return network


def _with_prefix(owner: str, state: _Leaves) -> _Leaves:
    return {f"{owner}.{name}": leaf for name, leaf in state.items()}


def _without_prefix(owner: str, state: _Leaves) -> _Leaves:
    return {name.removeprefix(f"{owner}."): leaf for name, leaf in state.items() if name.startswith(f"{owner}.")}
