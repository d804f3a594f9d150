"""Which hosts take part in a run: join requests, deleted keys, exclusion and quarantine."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import define, field
from ludus.launcher import COORDINATOR, Link
from ludus.option import name as valid_name
from ludus.wire import Message
from ludus_local.block_transfer import transfer_methods

from ludus_hosts import wire
from ludus_hosts.connection import Listener
from ludus_hosts.host_registry import HostRegistry

_MAX_REFUSALS, _MAX_REASON = 64, 400  # hosts, and characters of each reason
_REPORT_INTERVAL_S = 1.0
_log = logging.getLogger(__name__)


@define(kw_only=True)
class Admission:
    """Admits hosts to a run and removes them.

    Args:
        run_dir: The run folder.
        session: Identifies the session of the run.
        listener: The socket at which hosts connect.
        registry: The hosts that take part.
        send: Sends a message to the relay at a route.
        clock: Seconds.
        on_left: Notifies learners of samplers that have left, with ``excluded=``.

    Attributes:
        stopping: Whether the run stops; no further hosts may join then.
        refusals: Reasons by host for which hosts have declined to take part.
    """

    run_dir: Path
    session: str
    listener: Listener
    registry: HostRegistry
    send: Callable[[bytes, Message], bool]
    clock: Callable[[], float]
    on_left: Callable[..., None]
    stopping: bool = field(init=False, default=False)
    refusals: dict[str, str] = field(init=False, factory=dict)
    _reported: dict[str, int] = field(init=False, factory=dict)
    _reported_s: float = field(init=False, default=-math.inf)

    def handle(self, key: str, route: bytes, request: wire.JoinRequest) -> None:
        """Answer a join request.

        Args:
            key: Public key of the connection.
            route: Identity of the connection.
            request: The request.
        """
        if request.bulk:
            known = self.registry.hosts.get(request.host)
            if known is not None and (known.token, known.key) == (request.token, key):
                known.set_bulk_route(route)
            return
        rejected = self.registry.rejection(request, key, stopping=self.stopping)
        if rejected is not None:
            self.send(route, rejected)
        elif request.run != self.session:  # the host does not know this session yet
            accepted = wire.JoinAccepted(
                run=self.session,
                config=(self.run_dir / "run.toml").read_text(encoding="utf-8"),
                methods=transfer_methods("tcp:", shared=False),
                versions=wire.installed_versions(),
            )
            self.send(route, accepted)
        else:
            self.on_left(self.registry.register(request, key, route, self.clock()))
            self.send(route, wire.JoinAccepted(run=self.session))

    def report(self, link: Link, now_s: float) -> None:
        """Send the list of hosts to the worker pool if it has changed, and at intervals."""
        hosts = self.registry.sampler_counts
        if hosts != self._reported or now_s - self._reported_s > _REPORT_INTERVAL_S:
            link.send(COORDINATOR, wire.HostList(hosts=hosts, refusals=dict(self.refusals)))
            self._reported, self._reported_s = hosts, now_s

    def record_refusal(self, message: wire.HostLeft) -> None:
        """Record why a host does not take part, for a limited number of hosts."""
        is_known = message.host in self.refusals or len(self.refusals) < _MAX_REFUSALS
        if message.reason and is_known and valid_name().accepts(message.host):
            self.refusals[message.host] = message.reason[:_MAX_REASON]

    def check_keys(self) -> None:
        """Disconnect the hosts of keys that were deleted from the key file, or excluded."""
        for key in self.listener.check_keys():
            for name in self.registry.with_key(key):
                _log.warning("%s was disconnected: its key was deleted", name)
                self.remove(name)

    def exclude(self, key: str, reason: str) -> None:
        """Exclude all hosts of a key and drop what they have sent; `check_keys` disconnects them."""
        for name in self.registry.with_key(key):
            self._reject(name, wire.JoinRejected(reason=reason))
        self.listener.block(key)

    def exclude_host(self, name: str, reason: str) -> None:
        """Exclude the key of a host, if it takes part: only the key is authenticated, its name is not."""
        if name in self.registry.hosts:
            self.exclude(self.registry.hosts[name].key, reason)

    def quarantine(self, hosts: Mapping[str, str]) -> None:
        """Keep hosts out until they are released.

        Args:
            hosts: Reason by name of all hosts that are quarantined.
        """
        self.registry.quarantined = hosts
        for name in hosts.keys() & self.registry.hosts.keys():
            self._reject(name, wire.JoinRejected(reason=hosts[name], final=False))

    def _reject(self, name: str, rejected: wire.JoinRejected) -> None:
        self.send(self.registry.hosts[name].route, rejected)
        self.remove(name, excluded=True)

    def remove(self, name: str, *, excluded: bool = False) -> None:
        """Remove a host, and notify learners."""
        self.on_left(self.registry.remove(name), excluded=excluded)
