"""The service contract: a supervised process beside the samplers that answers requests of a component's runtimes.

A component of kind ``inference`` with a ``service`` gets such a process in every multi-process run. The component
defines its own protocol; ludus provides a folder for its sockets and makes the networks of the run. The service is a
`ludus.launcher.Worker` whose `work` answers the requests that have arrived, waiting at most about 20 ms for one. It is
killed, without `Stop`, after all workers that may send requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attrs import frozen

if TYPE_CHECKING:
    from torch import nn

    from ludus.launcher import Link
    from ludus.network import NetworkRequest

__all__ = ["Network", "ServiceContext", "ServiceEndpoint"]


class Network(NamedTuple):
    """A module and the request that it was made for."""

    module: nn.Module
    request: NetworkRequest


@frozen(kw_only=True)
class ServiceEndpoint:
    """The address of a service, as a runtime of a worker uses it.

    Args:
        worker: Name of the worker that the runtime belongs to.
        player: Name under which the service finds networks of the same configuration.
        sockets: Private folder of the sockets.
        service: Worker name of the service.
    """

    worker: str
    player: str
    sockets: Path
    service: str


@frozen(kw_only=True)
class ServiceContext:
    """What the factory of a service gets besides the component's configuration.

    Args:
        name: Worker name of the service.
        sockets: Private folder of the sockets.
        networks: By player: a function that makes the networks of the player's policy, as samplers make them.
        link: Sends messages, such as `ludus.wire.MetricsReport` to the coordinator.
        clock: Seconds.
    """

    name: str
    sockets: Path
    networks: Mapping[str, Callable[[], Sequence[Network]]]
    link: Link
    clock: Callable[[], float]
