"""Messages between gateway and relay, and from the gateway to the worker pool.

::

    relay   → gateway       JoinRequest (at regular intervals), ModelRequest, WeightsAck, HostLeft
    gateway → relay         JoinAccepted, JoinRejected, ModelFile, WeightsUpdate
    gateway → worker pool   HostList (at regular intervals)
    worker pool → gateway   Exclude, Quarantine (at regular intervals)

Both also forward the messages of workers without decoding them. Between hosts every message begins with two frames:
the worker on the run's host and the remote worker. Both are empty for messages of gateway and relay themselves::

    relay   → gateway   receiver | remote worker | frames of the message
    gateway → relay     sender   | remote worker | frames of the message

A relay has two connections. The bulk connection carries weights, their acknowledgements, and models.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping

import numpy as np
from attrs import field, frozen
from ludus.wire import permit
from ludus_local.codec import MAX_HEADER_BYTES, register

#: Worker name of the gateway; launchers end services after all other workers.
GATEWAY = "service-gateway"
#: Hosts of a run at once; `HostList` lists them all in one header.
MAX_HOSTS = 1024
#: Samplers of one host, and of all hosts together.
MAX_SAMPLERS = 4096
MAX_WORKERS = 16384


def sampler_names(host: str, count: int) -> list[str]:
    """Return the worker names of the samplers of a host."""
    return [f"sampler-{host}-{i}" for i in range(count)]


@functools.cache
def installed_versions() -> dict[str, str]:
    """Return the versions of ludus and of the installed distributions with plugins."""
    points = importlib.metadata.entry_points(group="ludus")
    found = {point.dist.name: point.dist.version for point in points if point.dist is not None}
    return {"ludus": importlib.metadata.version("ludus"), **found}


@frozen(kw_only=True)
class JoinRequest:
    """Requests that a host may join, or reports that it still takes part; sent every second.

    Attributes:
        host: Name of the host.
        token: Identifies the relay process, since another machine may have the same name.
        samplers: Number of samplers; 0 before the first are started.
        run: Session of the run that the host knows, as in `JoinAccepted`; empty: none yet.
        bulk: Whether this is the bulk connection.
    """

    host: str
    token: str
    samplers: int = 0
    run: str = ""
    bulk: bool = False


@frozen(kw_only=True)
class JoinAccepted:
    """The host takes part.

    Attributes:
        run: Identifies the session of the run.
        config: Contents of its ``run.toml``; empty if the host knows the session.
        methods: Transfer methods of blocks besides plain arrays, see `ludus_local.block_transfer`.
        versions: Versions of ludus and the plugins, by distribution; empty if the host knows the session.
    """

    run: str
    config: str = ""
    methods: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(factory=dict)


@frozen(kw_only=True)
class JoinRejected:
    """The host does not take part.

    Attributes:
        reason: One line.
        final: Whether further requests are pointless.
    """

    reason: str
    final: bool = True


@frozen(kw_only=True)
class HostLeft:
    """The host leaves the run, or does not join it.

    Attributes:
        host: Name of the host.
        reason: What the host lacks, one line; empty if it leaves as requested.
    """

    host: str
    reason: str = ""


@frozen(kw_only=True)
class WeightsUpdate:
    """The newest weights of a learner. The next ones are sent after its `WeightsAck`.

    Attributes:
        learner: Worker name of the learner.
        weight_store: Name of the weight store they were read from; distinguishes equal versions of a learner and its
            successor.
        version: Version of the weights.
        weights: The weights.
    """

    learner: str
    weight_store: str
    version: int
    weights: Mapping[str, np.ndarray]


@frozen(kw_only=True)
class WeightsAck:
    """Acknowledges weights of a learner; sent by the bulk connection."""

    learner: str
    version: int


@frozen(kw_only=True)
class ModelRequest:
    """Requests a frozen model by its hash."""

    hash: str


@frozen(kw_only=True)
class ModelFile:
    """The bytes of a model file in ``uint8`` parts; no parts if there is no such file."""

    hash: str
    parts: Mapping[str, np.ndarray]


@frozen(kw_only=True)
class HostList:
    """The hosts that take part, and those that could not.

    Attributes:
        hosts: Number of samplers by host.
        refusals: Why hosts could not take part, as each of them reported.
    """

    hosts: Mapping[str, int]
    refusals: Mapping[str, str] = field(factory=dict)


@frozen(kw_only=True)
class Exclude:
    """Excludes the key of a host from the run, and with it all hosts that use it, until the run is started again.

    Attributes:
        host: The host.
        reason: One line for its user.
    """

    host: str
    reason: str


@frozen(kw_only=True)
class Quarantine:
    """All hosts that are quarantined, with one line each for their users; others may take part again."""

    hosts: Mapping[str, str]


register(
    JoinRequest,
    JoinAccepted,
    JoinRejected,
    HostLeft,
    WeightsUpdate,
    WeightsAck,
    ModelRequest,
    ModelFile,
    HostList,
    Exclude,
    Quarantine,
)
permit(HostList, senders=["service"], receivers=["coordinator"], max_bytes=MAX_HEADER_BYTES)
permit(Exclude, senders=["coordinator"], receivers=["service"], max_bytes=4096)
permit(Quarantine, senders=["coordinator"], receivers=["service"], max_bytes=MAX_HEADER_BYTES)
