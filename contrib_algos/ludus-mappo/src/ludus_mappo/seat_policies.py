"""One policy per kind of seat, with the interface of one network."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.network import LazyLeaves, NetworkRequest, RecurrentNetwork, update_statistics
from torch import Tensor, nn

_Leaves = dict[str, Tensor]


class CombinedNetworks(nn.Module):
    """Several networks with the interface of one; subclasses define how their results are combined."""

    def forward(self, observation: _Leaves, privileged: _Leaves, state: _Leaves) -> tuple[_Leaves, _Leaves]:
        """Return the heads ``[n, size] float32`` and the state after one step."""
        return self._run(lambda network, *leaves: network(*leaves), observation, privileged, state)

    def unroll(
        self, observation: _Leaves, privileged: _Leaves, state: _Leaves, *, starts: Tensor
    ) -> tuple[_Leaves, _Leaves]:
        """Return the heads ``[T, N, size]`` and the state after the last entry; see `RecurrentNetwork.unroll`."""

        def unroll(network: nn.Module, *leaves: _Leaves) -> tuple[_Leaves, _Leaves]:
            assert isinstance(network, RecurrentNetwork)
            return network.unroll(*leaves, starts=starts)

        return self._run(unroll, observation, privileged, state)

    def _run(
        self,
        call: Callable[..., tuple[_Leaves, _Leaves]],
        observation: _Leaves,
        privileged: _Leaves,
        state: _Leaves,
    ) -> tuple[_Leaves, _Leaves]:
        """Call each network as ``call(network, observation, privileged, state)`` and combine the results."""
        raise NotImplementedError


class SeatPolicies(CombinedNetworks):
    """One network per kind of seat; a one-hot observation leaf selects the network of each row.

    All networks run on all rows. Results and gradients of a row come from its own network only.

    Args:
        policies: Networks of equal shape.
        leaf: Observation leaf that identifies the kind of seat, ``[n, len(policies)]``, one-hot.
    """

    def __init__(self, policies: list[nn.Module], leaf: str) -> None:
        super().__init__()
        self.policies = nn.ModuleList(policies)
        self._leaf = leaf

    def update_statistics(self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor]) -> None:
        """Add its own rows to the statistics of each network; see `ludus.network.NormalizingNetwork`."""
        seat = observation[self._leaf].argmax(dim=-1)
        for index, policy in enumerate(self.policies):
            update_statistics(policy, *(_select_rows(leaves, seat == index) for leaves in (observation, privileged)))

    def _run(
        self,
        call: Callable[..., tuple[_Leaves, _Leaves]],
        observation: _Leaves,
        privileged: _Leaves,
        state: _Leaves,
    ) -> tuple[_Leaves, _Leaves]:
        """Call all networks and select the results of each row."""
        results = [call(policy, observation, privileged, state) for policy in self.policies]
        heads, states = [heads for heads, _ in results], [after for _, after in results]
        seat = observation[self._leaf].argmax(dim=-1)  # [n] or [T, n]
        return _select_network(heads, seat), _select_network(states, seat[-1] if seat.dim() > 1 else seat)


class RecurrentSeatPolicies(SeatPolicies):
    """One recurrent network per kind of seat; a row has the state of its own network."""

    def initial_state(self, rows: int) -> _Leaves:
        """Return the state at the start of a match, leaves ``[rows, …]``, equal for all networks."""
        first = self.policies[0]
        assert isinstance(first, RecurrentNetwork)
        return first.initial_state(rows)


def make_seat_policies(
    request: NetworkRequest, *, build: Callable[[NetworkRequest], nn.Module], leaf: str
) -> SeatPolicies:
    """Build one network for each kind of seat.

    Args:
        request: Request for one network.
        build: Builds a network.
        leaf: Observation leaf that identifies the kind of seat.

    Raises:
        ContractError: The observation has no such leaf, or it is not a vector of two numbers or more.
    """
    space = request.observation.get(leaf)
    if not (isinstance(space, spaces.Box | spaces.MultiBinary) and len(space.shape) == 1 and space.shape[0] > 1):
        raise ContractError(
            f"one policy per kind of seat needs a one-hot observation leaf {leaf!r} that identifies the kind; the "
            f"observation has {', '.join(request.observation)} — set seat_leaf, or share_policy = true"
        )
    policies = [build(request) for _ in range(space.shape[0])]
    make = RecurrentSeatPolicies if isinstance(policies[0], RecurrentNetwork) else SeatPolicies
    return make(policies, leaf)


def _select_rows(leaves: Mapping[str, Tensor], rows: Tensor) -> LazyLeaves:
    return LazyLeaves(leaves, lambda name: leaves[name][rows])


def _select_network(leaves: list[_Leaves], seat: Tensor) -> _Leaves:
    """Return every leaf ``[…, n, …]`` with the rows of the network ``seat [n]`` or ``[T, n]``."""

    def select(stacked: Tensor) -> Tensor:
        index = seat.reshape(1, *seat.shape, *[1] * (stacked.dim() - 1 - seat.dim())).expand(1, *stacked.shape[1:])
        return stacked.gather(0, index)[0]

    return {name: select(torch.stack([one[name] for one in leaves])) for name in leaves[0]}
