"""What the two ends of the way between hosts say to each other, and what the crew is told of it.

::

    relay   → gateway   Joining (again and again), ModelWanted, Taken, Leaving
    gateway → relay     Joined, Refused, ModelFile, Newest
    gateway → crew      Hosts (again and again)

Besides, both carry the messages of workers, which they do not change. On the way between hosts every message begins
with two frames, its addressee and its speaker from the run's point of view; both are empty where the ends themselves
are meant::

    relay   → gateway   to | worker | frames of the message
    gateway → relay     from | worker | frames of the message

A relay has two connections, one of them for weights, the word that they are taken, and models.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping

import numpy as np
from attrs import field, frozen
from ludus_local.codec import register

__all__ = [
    "GATEWAY",
    "MAX_HOSTS",
    "MAX_SAMPLERS",
    "MAX_WORKERS",
    "Hosts",
    "Joined",
    "Joining",
    "Leaving",
    "ModelFile",
    "ModelWanted",
    "Newest",
    "Refused",
    "Taken",
    "installed",
    "sampler_names",
]

#: Worker name of the gateway; a launcher's services end after all others.
GATEWAY = "service-gateway"
#: Of a run at once; `Hosts` names them all in one header.
MAX_HOSTS = 1024
#: Samplers of one host, and of all hosts together.
MAX_SAMPLERS = 4096
MAX_WORKERS = 16384


def sampler_names(host: str, count: int) -> list[str]:
    """Return the worker names of the samplers of a host."""
    return [f"sampler-{host}-{i}" for i in range(count)]


def installed() -> dict[str, str]:
    """Return the versions of ludus and of the installed distributions with plugins."""
    points = importlib.metadata.entry_points(group="ludus")
    found = {point.dist.name: point.dist.version for point in points if point.dist is not None}
    return {"ludus": importlib.metadata.version("ludus"), **found}


@frozen(kw_only=True)
class Joining:
    """A host takes part, or wants to; every second.

    Attributes:
        host: Its name.
        token: Of the process that says so, as another machine may have the same name.
        samplers: How many it has; 0: none yet.
        run: The run that it knows, as in `Joined`; empty: none yet.
        bulk: Whether this is the connection for what is large, which must not hold up the rest.
    """

    host: str
    token: str
    samplers: int = 0
    run: str = ""
    bulk: bool = False


@frozen(kw_only=True)
class Joined:
    """The host takes part.

    Attributes:
        run: Of this start of the run.
        config: Its ``run.toml``; empty where the host knows the run.
        ways: How blocks may come besides plain arrays, see `ludus_local.block_transfer`.
        versions: Of the installed plugins, by distribution; empty where the host knows the run.
    """

    run: str
    config: str = ""
    ways: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(factory=dict)


@frozen(kw_only=True)
class Refused:
    """The host does not take part.

    Attributes:
        why: One line.
        final: Whether asking again is in vain.
    """

    why: str
    final: bool = True


@frozen(kw_only=True)
class Leaving:
    """The host does not take part any more."""

    host: str


@frozen(kw_only=True)
class Newest:
    """The newest weights of a learner; the next ones come when these are `Taken`.

    Attributes:
        board: Where they were shown, which tells equal versions of a learner and its successor apart.
    """

    learner: str
    board: str
    version: int
    weights: Mapping[str, np.ndarray]


@frozen(kw_only=True)
class Taken:
    """The host has got weights of a learner; said by the connection by which they came."""

    learner: str
    version: int


@frozen(kw_only=True)
class ModelWanted:
    """The host needs a frozen model."""

    hash: str


@frozen(kw_only=True)
class ModelFile:
    """The bytes of a model's file, in parts that are ``uint8``; none where there is no such file."""

    hash: str
    parts: Mapping[str, np.ndarray]


@frozen(kw_only=True)
class Hosts:
    """The hosts that take part now and the numbers of their samplers."""

    hosts: Mapping[str, int]


register(Joining, Joined, Refused, Leaving, Newest, Taken, ModelWanted, ModelFile, Hosts)
