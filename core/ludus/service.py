"""The service contract: one supervised process beside the samplers that a component's runtimes may ask.

A component of kind ``inference`` with a ``service`` gets such a process in every run with processes of its own. How
its runtimes talk to it is up to the component; here is what they have in common with ludus: the place they meet, and a
way to build the networks of the run. The service is a `ludus.launcher.Worker` that serves what has come whenever it
works, waiting at most about 20 ms for it. It is ended after all workers that may ask it, and without a warning.
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
    """A module and what it was made for."""

    module: nn.Module
    request: NetworkRequest


@frozen(kw_only=True)
class ServiceEndpoint:
    """Where a runtime runs, and reaches the service of its component.

    Args:
        worker: The worker's name.
        player: The name under which the service finds networks of the same configuration.
        sockets: The private folder of sockets in which they meet.
        service: The worker name of the service.
    """

    worker: str
    player: str
    sockets: Path
    service: str


@frozen(kw_only=True)
class ServiceContext:
    """What the factory of a service is given besides the component's configuration.

    Args:
        name: The worker's name.
        sockets: The private folder of sockets in which runtimes meet it.
        networks: By player; makes the networks that a policy of the player runs, the same way as samplers do.
        link: Where its messages go, such as `ludus.wire.MetricsReport` to the coordinator.
        clock: Seconds.
    """

    name: str
    sockets: Path
    networks: Mapping[str, Callable[[], Sequence[Network]]]
    link: Link
    clock: Callable[[], float]
