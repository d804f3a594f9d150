"""The hosts that take part in a run: which may join, and which samplers they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field
from ludus.option import name as valid_name

from ludus_hosts.wire import MAX_HOSTS, MAX_SAMPLERS, MAX_WORKERS, JoinRejected, JoinRequest, sampler_names

_TIMEOUT_S = 15.0


@define(eq=False)
class JoinedHost:
    """A host that takes part.

    Attributes:
        key: Public key of its connections.
        route: Identity of its connection.
        token: Identifies its relay process.
        workers: Worker names of its samplers.
        last_seen_s: Time of its last message.
        bulk_route: Identity of its bulk connection; empty if it is not connected.
        delivered: Acknowledged weights by learner: name of the weight store and version.
        in_flight: Weights that are not acknowledged yet, likewise. They and their acknowledgements use the bulk
            connection, so they are lost only with it.
    """

    key: str
    route: bytes
    token: str
    workers: list[str]
    last_seen_s: float
    bulk_route: bytes = b""
    delivered: dict[str, tuple[str, int]] = field(factory=dict)
    in_flight: dict[str, tuple[str, int]] = field(factory=dict)

    def set_bulk_route(self, route: bytes) -> None:
        """Set the bulk connection; weights in flight on another one are lost."""
        if self.bulk_route != route:
            self.bulk_route = route
            self.in_flight.clear()

    def needs_weights(self, learner: str, newest: tuple[str, int]) -> bool:
        """Return whether the newest weights of a learner are to be sent now.

        Args:
            learner: Worker name of the learner.
            newest: Name of the weight store and version.
        """
        in_flight = self.in_flight.get(learner)
        is_busy = in_flight is not None and in_flight[0] == newest[0]
        return bool(self.bulk_route) and not is_busy and self.delivered.get(learner) != newest

    def acknowledge_weights(self, learner: str, version: int) -> None:
        """Record that weights have arrived; other versions than the one in flight are ignored."""
        in_flight = self.in_flight.get(learner)
        if in_flight is not None and in_flight[1] == version:
            self.delivered[learner] = self.in_flight.pop(learner)


@define(eq=False)
class HostRegistry:
    """The hosts that take part, by name, and the host of every remote sampler.

    Attributes:
        hosts: Hosts by name.
        workers: Hosts by worker name of their samplers.
        quarantined: Reasons by name of the hosts that may not take part until they are released.
    """

    hosts: dict[str, JoinedHost] = field(init=False, factory=dict)
    workers: dict[str, JoinedHost] = field(init=False, factory=dict)
    quarantined: Mapping[str, str] = field(init=False, factory=dict)

    def rejection(self, request: JoinRequest, key: str, *, stopping: bool) -> JoinRejected | None:
        """Return why a host may not take part, None if it may.

        Args:
            request: Its request.
            key: Public key of its connection.
            stopping: Whether the run is stopping; hosts that take part may stay.
        """
        known = self.hosts.get(request.host)
        if not valid_name().accepts(request.host) or not 0 <= request.samplers <= MAX_SAMPLERS:
            return JoinRejected(reason=f"a host needs a name of a-z 0-9 . _ - and at most {MAX_SAMPLERS} samplers")
        if request.host in self.quarantined:
            return JoinRejected(reason=self.quarantined[request.host], final=False)
        if known is None and stopping:
            return JoinRejected(reason="the run is stopping", final=False)
        if known is not None and (known.token, known.key) != (request.token, key):
            reason = f"another machine has joined as {request.host!r}; choose another name with --name"
            return JoinRejected(reason=reason, final=False)
        return self._rejection_if_full(request)

    def _rejection_if_full(self, request: JoinRequest) -> JoinRejected | None:
        others = [host for name, host in self.hosts.items() if name != request.host]
        samplers = sum(len(host.workers) for host in others)
        if len(others) < MAX_HOSTS and samplers + request.samplers <= MAX_WORKERS:
            return None
        limit = f"{MAX_HOSTS:,} hosts with {MAX_WORKERS:,} samplers"
        reason = f"the run is full: at most {limit} may join, and {len(others):,} with {samplers:,} have joined"
        return JoinRejected(reason=reason, final=False)

    def register(self, request: JoinRequest, key: str, route: bytes, now_s: float) -> list[str]:
        """Add a host or update it, and return the workers that it does not have any more.

        Args:
            request: Its request.
            key: Public key of its connection.
            route: Identity of its connection.
            now_s: Current time.
        """
        workers = sampler_names(request.host, request.samplers)
        known, removed = self.hosts.get(request.host), []
        if known is None or known.workers != workers:
            removed = self.remove(request.host)
            known = self.hosts[request.host] = JoinedHost(key, route, request.token, workers, now_s)
            self.workers |= dict.fromkeys(workers, known)
        known.key, known.route, known.last_seen_s = key, route, now_s
        return removed

    def remove(self, name: str) -> list[str]:
        """Remove a host if it takes part, and return its workers."""
        host = self.hosts.pop(name, None)
        workers = [] if host is None else host.workers
        for worker in workers:
            del self.workers[worker]
        return workers

    def disconnect(self, route: bytes) -> list[str]:
        """Remove the host of a lost connection, which joins again by another one, and return its workers."""
        found = self.find(route)
        if found is None:
            return []
        name, host = found
        if host.route == route:
            return self.remove(name)
        host.bulk_route = b""
        return []

    def find(self, route: bytes) -> tuple[str, JoinedHost] | None:
        """Return name and host of a connection, None if it is not known."""
        found = (item for item in self.hosts.items() if route in {item[1].route, item[1].bulk_route})
        return next(found, None)

    def with_key(self, key: str) -> list[str]:
        """Return the names of the hosts that use a key."""
        return [name for name, host in self.hosts.items() if host.key == key]

    def silent(self, now_s: float) -> Iterable[str]:
        """Return the names of hosts that have timed out."""
        return [name for name, host in self.hosts.items() if now_s - host.last_seen_s > _TIMEOUT_S]

    @property
    def sampler_counts(self) -> dict[str, int]:
        """Return the numbers of samplers by host."""
        return {name: len(host.workers) for name, host in self.hosts.items()}
