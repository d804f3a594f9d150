"""Gateway and relay as receivers: the two ends of the connection between a run and a joined host."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import zmq
from attrs import define, field
from ludus.errors import LudusError, WireError
from ludus.launcher import COORDINATOR
from ludus.records import Fixture
from ludus.wire import Fixtures, Message, Refusals
from ludus_hosts import host_agent, wire
from ludus_hosts.connection import Connection
from ludus_hosts.gateway import Gateway
from ludus_hosts.host_agent import JoinOptions
from ludus_hosts.keys import RUN_KEY, JoinKey, make_keys
from ludus_hosts.relay import Relay
from ludus_hosts.weight_source import find_source
from ludus_local import codec
from ludus_local.codec import Frame
from ludus_local.link import HostLink
from ludus_local.memory import remove, shared_path
from ludus_local.supervisor import Supervisor
from ludus_local.transport import Sockets, ZmqEndpoint, drain, ipc_address, private_ipc_dir

from fuzz.coordinator import launch_idle
from fuzz.endpoint import FrameEndpoint
from fuzz.league import Trained
from fuzz.stage import RELAY, Stage

_TICK_S = 0.001
_SETTLES_PER_WORK = 16  # the gateway waits 20 ms for a message that does not come
_JOIN_TIMEOUT_MS = 10_000
_NEEDS_MODEL = Fixture(
    id=1,
    kind="train",
    player="main",
    participants=("main@1", "main@1"),
    seed=1,
    matches=1,
    reason="fuzz",
    models={"main@1": "0" * 64},  # which the host does not have
)


@define(eq=False, slots=False)
class GatewayReceiver:
    """The gateway of a run in which the hosts ``box`` and ``den`` take part; the fuzzer is ``box``.

    Args:
        trained: The league.
        folder: Folder of the copy of its run.
    """

    trained: Trained
    folder: Path
    forgives: tuple[type[Exception], ...] = field(init=False, default=())
    gateway: Gateway = field(init=False)
    _routes: dict[str, tuple[str, bytes]] = field(init=False, factory=dict)  # by host: key and route
    _injected: list[tuple[str, list[Frame]]] = field(init=False, factory=list)
    _now_s: float = field(init=False, default=0.0)
    _settles: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        run_dir = self.folder / "run"
        self.trained.copy(run_dir)
        self._ipc = private_ipc_dir()
        self._workers = [ZmqEndpoint(name) for name in (COORDINATOR, "learner-main")]
        for worker in self._workers:
            worker.bind(ipc_address(self._ipc, worker.name))
        self._endpoint = FrameEndpoint(wire.GATEWAY)
        self._link = HostLink(self._endpoint, None)
        keys = {host: JoinKey.read(make_keys(self.folder / "keys", host)) for host in ("box", "den")}
        self.gateway = Gateway(
            run_dir=run_dir,
            sockets=self._ipc,
            listen="tcp://127.0.0.1:*",
            key=self.folder / "keys" / RUN_KEY,
            link=self._link,
            clock=lambda: self._now_s,
        )
        address = self.gateway._listener.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._own = Sockets()
        self._connections = [self._connect(host, address, key) for host, key in keys.items()]
        self.gateway._listener.receive = self._take  # type: ignore[method-assign]
        self.settle()

    def _connect(self, host: str, address: str, key: JoinKey) -> Connection:
        """Connect as a host, and find out the identity of the connection."""
        connection = Connection(self._own, address, key)
        frames = [b"", b"", *codec.encode(self._request(host))]
        waited = 0
        while not connection.send(frames):
            self._own.poller.poll(20)
            waited += 20
            assert waited < _JOIN_TIMEOUT_MS, "the gateway does not accept the connection"
        assert self.gateway._listener.socket.poll(_JOIN_TIMEOUT_MS)
        ((public, (route, *_)),) = self.gateway._listener.receive()
        self._routes[host] = (public, bytes(route))
        return connection

    def _request(self, host: str) -> Message:
        return wire.JoinRequest(host=host, token=host, samplers=2, run=self._ipc.name)

    def _take(self) -> Iterator[tuple[str, list[Frame]]]:
        taken, self._injected = self._injected, []
        return iter(taken)

    def deliver(self, sender: str, receiver: str, frames: list[bytes]) -> Stage:
        """Pass a message of the host ``box``, or of a worker of the run, to the gateway."""
        self._now_s += _TICK_S
        gateway = self.gateway
        gateway._refused = Refusals(gateway._clock)  # else the host would be cut off after a few messages
        before, count = gateway._drops.copy(), gateway.count
        if sender == RELAY:
            return self._deliver_relay(frames)
        if receiver != wire.GATEWAY:
            self._inject(receiver, sender, frames)
        elif sender.startswith("learner"):
            find_source(gateway._sources, sender, self._ipc, gateway._own)
            try:
                gateway._forward_to_host(sender, [wire.GATEWAY.encode(), *frames])
            except WireError:  # which its caller counts
                return Stage.UNDECODED
        else:
            return self._deliver_coordinator(sender, frames)
        if gateway.count == count and gateway._drops != before:
            return Stage.UNREAD if gateway._refused.total else Stage.REFUSED
        return Stage.HANDLED

    def _inject(self, peer: str, worker: str, frames: list[bytes]) -> None:
        key, route = self._routes["box"]
        self._injected.append((key, [route, peer.encode(), worker.encode(), *frames]))
        self.gateway._receive_from_hosts()

    def _deliver_relay(self, frames: list[bytes]) -> Stage:
        self._inject("", "", frames)
        if self.gateway._refused.total:
            return Stage.UNREAD
        try:
            codec.decode(frames)
        except LudusError:
            return Stage.UNDECODED
        return Stage.HANDLED

    def _deliver_coordinator(self, sender: str, frames: list[bytes]) -> Stage:
        drops = self._endpoint.drops.copy()
        self._endpoint.put(sender, frames)
        for peer, message in self._link.receive(0.0):
            self.gateway.handle(peer, message)
        if self._endpoint.drops == drops:
            return Stage.HANDLED
        return Stage.UNDECODED if self._endpoint.drops["undecodable"] > drops["undecodable"] else Stage.UNREAD

    def owned(self, sender: str) -> object:
        """Return what ``box`` must not change: the other host, and whether the run stops."""
        if sender == COORDINATOR:
            return None
        registry, admission = self.gateway._registry, self.gateway._admission
        den = registry.hosts.get("den")
        state = None if den is None else (den.key, den.route, den.token, tuple(den.workers))
        return (state, admission.stopping, dict(registry.quarantined))

    def settle(self) -> None:
        """Drop what hosts and workers have received, and let both hosts take part again."""
        gateway = self.gateway
        sockets = [one.socket for one in self._connections]
        sockets += [socket for worker in self._workers for socket in worker.sockets]
        for socket in sockets:
            for _ in drain(socket):
                pass
        gateway._admission.stopping = False
        gateway._admission.quarantine({})
        gateway._listener._blocked.clear()
        for host, (key, route) in self._routes.items():
            if host not in gateway._registry.hosts:
                gateway._handle_relay(key, route, codec.encode(self._request(host)))
        self._settles += 1
        if self._settles % _SETTLES_PER_WORK == 0:
            gateway.work()

    def restart(self) -> None:
        """Do nothing: no exception ends a gateway."""

    def open_fixtures(self) -> list[int]:
        """Return none: only the coordinator receives results."""
        return []

    def verify(self) -> list[str]:
        """Return a line if the tables of the gateway have grown beyond their limits."""
        registry, admission = self.gateway._registry, self.gateway._admission
        sizes = (len(registry.hosts), len(registry.workers), len(admission.refusals), len(self.gateway._sources))
        limits = (wire.MAX_HOSTS, wire.MAX_WORKERS, 64, 2)
        registry.remove("box")
        self.settle()
        return [] if all(map(int.__le__, sizes, limits)) else [f"hosts, workers, refusals, learners: {sizes}"]

    def close(self) -> None:
        """Close all sockets and remove their folders."""
        self.gateway.close()
        self._own.close()
        for worker in self._workers:
            worker.close()
        self._endpoint.close()
        for folder in (self._ipc, shared_path(self._ipc), self.folder):
            remove(folder)


@define(eq=False, slots=False)
class RelayReceiver:
    """The relay of a host, whose samplers wait; the fuzzer is the run.

    Args:
        trained: The league.
        folder: Folder of the host.
    """

    trained: Trained
    folder: Path
    forgives: tuple[type[Exception], ...] = field(init=False, default=(LudusError,))
    relay: Relay = field(init=False)
    _settles: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        place = self.folder / "place"
        place.mkdir(parents=True)
        vars(host_agent)["Supervisor"] = partial(Supervisor, launch=launch_idle)
        key = JoinKey.read(make_keys(self.folder / "keys", "join"))
        options = JoinOptions(
            address="tcp://127.0.0.1:1", key=key, host="box", samplers=1, folder=place, cache_bytes=10**6
        )
        self.relay = Relay(options, lambda _line: None)
        self._join()

    def _join(self) -> None:
        config = (self.trained.folder / "run.toml").read_text(encoding="utf-8")
        self._handle("", "", codec.encode(wire.JoinAccepted(run="ludus-run", config=config)))

    def _handle(self, peer: str, worker: str, frames: list[Frame]) -> None:
        self.relay._handle_frames([peer.encode(), worker.encode(), *frames])

    def deliver(self, sender: str, receiver: str, frames: list[bytes]) -> Stage:
        """Pass a message of the gateway, or one of a worker that it forwards, to the relay."""
        is_gateway = sender == wire.GATEWAY
        try:
            codec.decode(frames)
        except LudusError:
            stage = Stage.UNDECODED
        else:
            stage = Stage.HANDLED
        self._handle("" if is_gateway else sender, "" if is_gateway else receiver, [*frames])
        return stage

    def owned(self, sender: str) -> object:  # noqa: ARG002 - nothing belongs to another worker
        """Return nothing: the run alone sends to a relay."""
        return None

    def settle(self) -> None:
        """Drop what waits, start samplers if there are none, and let them need a model."""
        self.relay._outbox.clear()
        self._settles += 1
        if self.relay._agent is None and self._settles % _SETTLES_PER_WORK == 0:
            self._join()
        agent = self.relay._agent
        if agent is not None:
            agent.stop_reason, agent._stopping = "", False
            agent._inbox.clear()
            agent.deliver(COORDINATOR, agent.workers[0], Fixtures(fixtures=(_NEEDS_MODEL,)))

    def restart(self) -> None:
        """Do nothing: `settle` starts samplers again."""

    def open_fixtures(self) -> list[int]:
        """Return none: only the coordinator receives results."""
        return []

    def verify(self) -> list[str]:
        """Return a line for every file outside of the folders of a joined host."""
        place = self.folder / "place"
        own = ("run.toml", "logs", "models")
        strange = [path.name for path in place.iterdir() if path.name not in own]
        beside = [path.name for path in self.folder.iterdir() if path.name not in {"place", "keys"}]
        return [f"the relay wrote {name}" for name in (*strange, *beside)]

    def close(self) -> None:
        """Stop the waiting processes and close the sockets."""
        self.relay._close_agent()
        self.relay._own.close()
        shutil.rmtree(self.folder, ignore_errors=True)
