"""The gateway: a worker on the run's host through which samplers of other hosts take part.

It accepts hosts at one TCP port and forwards the messages of their samplers to coordinator and learners, and back. It
sends the newest weights of every learner to every host once, and model files on request.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import zmq
from ludus.errors import ConfigError, LinkError, WireError
from ludus.launcher import COORDINATOR, Link
from ludus.wire import Message, Refusals, SamplerLeft, Stop, check_kind
from ludus_local import codec
from ludus_local.codec import Frame
from ludus_local.link import CapabilitiesRequest, HostLink, LinkCapabilities
from ludus_local.memory import SharedFolder
from ludus_local.transport import FORWARDER, Sockets, ZmqEndpoint, drain, ipc_address
from ludus_local.worker import WorkerArguments, run_process

from ludus_hosts import wire
from ludus_hosts.admission import Admission
from ludus_hosts.connection import Listener
from ludus_hosts.fair_queue import FairQueue
from ludus_hosts.host_registry import HostRegistry, JoinedHost
from ludus_hosts.keys import RunKey
from ludus_hosts.model_requests import ModelRequests
from ludus_hosts.weight_source import WeightSource, find_source

_POLL_MS = 20
_IO_THREADS = 4  # each encrypts a few hundred MB/s
_MAX_RELAY_BYTES = 16 * 1024  # of a message of a relay itself
_HASH = re.compile(r"[0-9a-f]{64}")
_KEY_INTERVAL_S = 1.0  # between two looks at the keys that may join
_log = logging.getLogger(__name__)


class Gateway:
    """Connects samplers of other hosts to coordinator and learners.

    Args:
        run_dir: The run folder.
        sockets: Folder of the sockets of the run's workers.
        listen: TCP address for other hosts.
        key: Key file of the run.
        link: Link to the coordinator.
        clock: Seconds.

    Raises:
        ConfigError: The key file cannot be used.
        LinkError: The address cannot be used.
    """

    name = wire.GATEWAY

    def __init__(
        self, *, run_dir: Path, sockets: Path, listen: str, key: Path, link: Link, clock: Callable[[], float]
    ) -> None:
        RunKey.read(key)  # raises before there is anything to close
        self.count = 0
        self.stopped = False  # launchers kill it after all other workers
        self.drained = True
        self._sockets, self._link, self._clock = sockets, link, clock
        self._own = Sockets(threads=_IO_THREADS)
        self._listener = Listener(self._own, listen, key)
        self._folder = SharedFolder.beside(sockets, wire.GATEWAY)
        self._coordinator = self._own.dealer(FORWARDER, ipc_address(sockets, COORDINATOR))
        self._sources: dict[str, WeightSource] = {}  # by learner
        self._registry = HostRegistry()
        self._requests = ModelRequests(run_dir, clock)
        self._queues: defaultdict[str, FairQueue] = defaultdict(FairQueue)  # by receiver
        self._admission = Admission(
            run_dir=run_dir,
            session=sockets.name,
            listener=self._listener,
            registry=self._registry,
            send=self._send_relay,
            clock=clock,
            on_left=self._report_left,
        )
        self._drops: Counter[str] = Counter()
        self._refused = Refusals(clock)  # by key
        self._keys_checked_s = clock()

    # -- worker ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Do nothing; the gateway does not register."""

    def handle(self, peer: str, message: Any) -> None:  # noqa: ARG002 - signature of workers
        """Handle a message of the coordinator's process."""
        match message:
            case Stop():
                self._admission.stopping = True
            case wire.Exclude():
                self._admission.exclude_host(message.host, message.reason)
            case wire.Quarantine():
                self._admission.quarantine(message.hosts)

    def work(self) -> bool:
        """Forward received messages, waiting up to 20 ms for one."""
        ready = dict(self._own.poller.poll(0 if self._requests else _POLL_MS))
        if self._listener.socket in ready:
            self._receive_from_hosts()
        self._send_queued()
        if self._coordinator in ready:
            self._receive_from_worker(COORDINATOR, self._coordinator)
        for learner, source in self._sources.items():
            if source.socket in ready:
                self._receive_from_worker(learner, source.socket)
        self._requests.send_some(self._registry.hosts, self._send_relay)
        now_s = self._clock()
        for source in self._sources.values():
            self._forward_weights(source, now_s)
        for name in self._registry.silent(now_s):
            self._admission.remove(name)
        if now_s - self._keys_checked_s >= _KEY_INTERVAL_S:
            self._keys_checked_s = now_s
            self._admission.check_keys()
        self._admission.report(self._link, now_s)
        return True

    def close(self) -> None:
        """Close the sockets."""
        self._listener.close()
        self._own.close()

    # -- from other hosts --------------------------------------------------------------------------------------

    def _receive_from_hosts(self) -> None:
        for key, (route, *frames) in self._listener.receive():
            try:
                if len(frames) < 3:
                    raise WireError("a message without receiver or sender")
                peer, worker = (bytes(frame).decode("latin-1") for frame in frames[:2])
                if peer:
                    self._forward_to_run(bytes(route), peer, worker, frames)
                else:
                    self._handle_relay(key, bytes(route), frames[2:])
            except WireError as error:
                self._drop("refused", str(error))
                self._refused.add(key, str(error))
        for key, problem in self._refused.take_cut_off().items():
            self._admission.exclude(key, f"the run has refused too many messages of this key; the last: {problem}")

    def _forward_to_run(self, route: bytes, peer: str, worker: str, frames: list[Frame]) -> None:
        """Forward a message of a remote sampler to the coordinator or a learner; its fields are checked there.

        Raises:
            WireError: The sampler must not send it.
        """
        host = self._registry.workers.get(worker)
        if host is None or host.route != route:
            self._drop("foreign")  # its host was removed and will join again
            return
        message = frames[2:]
        check_kind(worker, peer, codec.message_kind(message), size=codec.message_bytes(message), remote=True)
        if peer != COORDINATOR and not find_source(self._sources, peer, self._sockets, self._own):
            self._drop("misdirected")  # its learner has not started yet
            return
        host.last_seen_s = self._clock()  # on a slow network join requests are queued behind blocks
        if self._queues[peer].put(host.key, frames[1:]):
            self.count += 1
        else:
            self._drop("surplus")

    def _send_queued(self) -> None:
        """Send what is queued for coordinator and learners, one message of each key in turn."""
        for peer, queue in self._queues.items():
            target = self._coordinator if peer == COORDINATOR else self._sources[peer].socket
            queue.send_all(partial(self._send, target, full_is_dropped=False))

    def _handle_relay(self, key: str, route: bytes, frames: Sequence[Frame]) -> None:
        """Handle a message of a relay itself.

        Raises:
            WireError: It is too large.
        """
        if codec.message_bytes(frames) > _MAX_RELAY_BYTES:
            raise WireError(f"a message of a relay of more than {_MAX_RELAY_BYTES} bytes")
        try:
            message = codec.decode(frames)
        except WireError as error:  # most likely another version
            self._send_relay(route, wire.JoinRejected(reason=f"incompatible version of ludus: {error}"))
            return
        if isinstance(message, wire.JoinRequest):
            self._admission.handle(key, route, message)
        elif (found := self._registry.find(route)) is not None:
            self._handle_joined(found[0], found[1], message)
        elif isinstance(message, wire.HostLeft):
            self._admission.record_refusal(message)

    def _handle_joined(self, name: str, host: JoinedHost, message: Message) -> None:
        """Handle a message of the relay of a host that takes part."""
        match message:
            case wire.ModelRequest() if _HASH.fullmatch(message.hash):
                self._requests.add(name, message.hash)
            case wire.WeightsAck():
                host.acknowledge_weights(message.learner, message.version)
            case wire.HostLeft() if message.host == name:
                self._admission.remove(name)
                self._admission.record_refusal(message)

    def _report_left(self, workers: Sequence[str], *, excluded: bool = False) -> None:
        """Notify learners of samplers that have left."""
        for worker in workers:
            for source in self._sources.values():
                self._send(source.socket, [worker.encode(), *codec.encode(SamplerLeft(excluded=excluded))])

    # -- from the run ------------------------------------------------------------------------------------------

    def _receive_from_worker(self, peer: str, socket: zmq.Socket[bytes]) -> None:
        """Forward messages of the coordinator or a learner to remote samplers."""
        for frames in drain(socket):
            try:
                self._forward_to_host(peer, frames)
            except WireError as error:
                self._drop("undecodable", str(error))

    def _forward_to_host(self, peer: str, frames: list[Frame]) -> None:
        """Forward a message of the coordinator or a learner to the remote sampler that its first frame names.

        Raises:
            WireError: It is not a message.
        """
        worker = bytes(frames[0]).decode("latin-1")
        is_forwarded = codec.message_kind(frames[1:]) != LinkCapabilities.__name__
        host = self._registry.workers.get(worker)
        if is_forwarded and host is None:
            self._drop("unknown")
        elif is_forwarded and host is not None:
            self._send(self._listener.socket, [host.route, peer.encode(), *frames])
            self.count += 1
        elif worker == wire.GATEWAY:  # remote samplers cannot use shared memory of this host
            capabilities = codec.decode(frames[1:])
            assert isinstance(capabilities, LinkCapabilities)
            self._sources[peer].map(self._folder, capabilities)

    def _forward_weights(self, source: WeightSource, now_s: float) -> None:
        """Send the newest weights of a learner to hosts that have acknowledged the last ones."""
        if source.request_due(now_s):
            self._send(source.socket, [wire.GATEWAY.encode(), *codec.encode(CapabilitiesRequest())])
        newest = source.newest
        if newest is None:
            return
        for name, host in list(self._registry.hosts.items()):
            if host.needs_weights(source.learner, newest):
                self._send_weights(name, host, source)

    def _send_weights(self, name: str, host: JoinedHost, source: WeightSource) -> None:
        try:
            frames = source.encode()
        except WireError as error:  # shared memory has no such limit
            reason = f"the weights of {source.learner} cannot be sent to other hosts: {error}"
            self._send_relay(host.route, wire.JoinRejected(reason=reason))
            self._admission.remove(name)
            return
        if self._send(self._listener.socket, [host.bulk_route, b"", b"", *frames]):
            host.in_flight[source.learner] = source.encoded

    # -- sending -----------------------------------------------------------------------------------------------

    def _send_relay(self, route: bytes, message: Message) -> bool:
        return self._send(self._listener.socket, [route, b"", b"", *codec.encode(message)])

    def _send(self, socket: zmq.Socket[bytes], frames: Sequence[Frame], *, full_is_dropped: bool = True) -> bool:
        """Send without blocking; workers send again what is lost."""
        try:
            socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                self._report_left(self._registry.disconnect(bytes(frames[0])))
            elif error.errno != zmq.EAGAIN:
                raise
            elif not full_is_dropped:
                return False
            self._drop("full or gone")
            return False
        return True

    def _drop(self, reason: str, problem: str = "") -> None:
        self._drops[reason] += 1
        if self._drops[reason].bit_count() == 1:  # 1, 2, 4, 8 …
            _log.warning("dropped %s message %d%s", reason, self._drops[reason], problem and f": {problem}")


def _make(arguments: WorkerArguments, endpoint: ZmqEndpoint) -> tuple[Gateway, HostLink]:
    listen, key = arguments.extra
    link = HostLink(endpoint, None)
    try:
        gateway = Gateway(
            run_dir=arguments.run,
            sockets=arguments.sockets,
            listen=listen,
            key=Path(key),
            link=link,
            clock=time.monotonic,
        )
    except LinkError as error:
        raise ConfigError(f"run.hosts.listen: {error}") from error
    return gateway, link


if __name__ == "__main__":
    sys.exit(run_process(_make))
