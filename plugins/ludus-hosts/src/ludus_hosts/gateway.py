"""The gateway: a process on the machine of the run that brings messages of workers from and to other machines.

It listens at one TCP port, for those whose keys are allowed. To learners and coordinator it is the `FORWARDER`: what
workers elsewhere say passes through as it is. Weights it reads where a learner shows them, and sends the newest to
every host once, however many samplers that has; frozen models it sends when a host asks for their hash.

Started as ``python -m ludus_hosts.gateway`` by its launcher.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zmq
from attrs import define, field
from ludus.errors import ConfigError, LinkError, WireError
from ludus.launcher import COORDINATOR, Link
from ludus.option import name as a_name
from ludus.wire import FixtureRequest, Heartbeat, Hello, Message, MetricsReport, Results, SamplerLeft, Segments, Stop
from ludus_local import codec
from ludus_local.block_transfer import BlockReference, transfer_methods
from ludus_local.codec import Frame
from ludus_local.link import CapabilitiesRequest, HostLink, LinkCapabilities, WeightStoreUnavailable
from ludus_local.memory import SharedFolder
from ludus_local.transport import FORWARDER, Sockets, ZmqEndpoint, drain, ipc_address
from ludus_local.weight_store import WeightStoreReader
from ludus_local.worker import WorkerArguments, run_process

from ludus_hosts.keys import RunKey
from ludus_hosts.line import Listener
from ludus_hosts.wire import (
    GATEWAY,
    MAX_HOSTS,
    MAX_SAMPLERS,
    MAX_WORKERS,
    Hosts,
    Joined,
    Joining,
    Leaving,
    ModelFile,
    ModelWanted,
    Newest,
    Refused,
    Taken,
    installed,
    sampler_names,
)

__all__ = ["Gateway"]

_WAIT_MS = 20
_THREADS = 4  # each encrypts a few hundred MB/s
_ASK_S = 1.0  # between two questions where a learner shows its weights, and two reports of who takes part
_GONE_S = 15.0  # a host that was silent for so long does not take part any more
_PART_BYTES = 2**20  # of a model's file, in one frame: one that is too long under way ends the connection
_HASH = re.compile(r"[0-9a-f]{64}")
#: What samplers say to the coordinator; nobody elsewhere freezes models, saves checkpoints or ends the run.
_TO_COORDINATOR = {kind.__name__ for kind in (Hello, FixtureRequest, Results, MetricsReport, Heartbeat)}
_TO_LEARNERS = {kind.__name__ for kind in (Hello, Segments, BlockReference, WeightStoreUnavailable)}
_log = logging.getLogger(__name__)


@define(eq=False)
class _Host:
    """A host that takes part.

    Attributes:
        route: Its connection.
        bulk: That for what is large; empty as long as it is not known.
        token: Of the process there.
        workers: Names of its samplers.
        last_seen_s: When it was heard last.
        had: Which weights it has got, by learner: name of the board and version.
        under_way: The same for weights that it has not taken yet. They, and the word that they are taken, go by `bulk`,
            so they are lost with that connection only.
    """

    route: bytes
    token: str
    workers: list[str]
    last_seen_s: float
    bulk: bytes = b""
    had: dict[str, tuple[str, int]] = field(factory=dict)
    under_way: dict[str, tuple[str, int]] = field(factory=dict)


@define(eq=False)
class _Source:
    """The weights of a learner.

    Attributes:
        socket: The way to the learner.
        board: Where it shows them; None as long as that is not known, or if it does not.
        asked_s: When it was asked for that.
        newest: Name of the board and version of `frames`.
        frames: The newest weights as a message.
    """

    socket: zmq.Socket[bytes]
    board: WeightStoreReader | None = None
    asked_s: float = -1e9
    newest: tuple[str, int] = ("", -1)
    frames: list[Frame] = field(factory=list)


class Gateway:
    """A worker of the run on whose machine it is.

    Args:
        run_dir: The run folder.
        sockets: Folder of the sockets of the run's workers.
        listen: Address.
        key: Of the run.
        link: To the coordinator.
        clock: Seconds.

    Raises:
        ConfigError: The address or the key cannot be used.
    """

    name = GATEWAY

    def __init__(
        self, *, run_dir: Path, sockets: Path, listen: str, key: Path, link: Link, clock: Callable[[], float]
    ) -> None:
        RunKey.read(key)  # before there is anything to close
        self.count = 0
        self.stopped = False  # it is ended when all others have
        self.drained = True
        self._run_dir, self._sockets, self._link, self._clock = run_dir, sockets, link, clock
        self._own = Sockets(threads=_THREADS)
        self._listener = Listener(self._own, listen, key)
        self._folder = SharedFolder.beside(sockets, GATEWAY)
        self._coordinator = self._dealer(COORDINATOR)
        self._sources: dict[str, _Source] = {}
        self._hosts: dict[str, _Host] = {}
        self._workers: dict[str, _Host] = {}  # whose they are
        self._stopping = False
        self._told: tuple[dict[str, int], float] = ({}, -1e9)
        self._drops: Counter[str] = Counter()

    def _dealer(self, peer: str) -> zmq.Socket[bytes]:
        return self._own.dealer(FORWARDER, ipc_address(self._sockets, peer))

    # -- the worker --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Nothing to introduce."""

    def handle(self, peer: str, message: Any) -> None:  # noqa: ARG002 - signature of workers
        """Take a message; only one that the run stops matters."""
        self._stopping |= isinstance(message, Stop)

    def work(self) -> bool:
        """Pass on what has come, waiting 20 ms for it."""
        ready = dict(self._own.poller.poll(_WAIT_MS))
        if self._listener.socket in ready:
            self._hear_hosts()
        if self._coordinator in ready:
            self._hear(COORDINATOR, self._coordinator)
        for learner, source in self._sources.items():
            if source.socket in ready:
                self._hear(learner, source.socket)
        now = self._clock()
        for learner, source in self._sources.items():
            self._refresh(learner, source, now)
        self._report(now)
        return True

    def close(self) -> None:
        """Close the sockets."""
        self._listener.close()
        self._own.close()

    # -- from other hosts --------------------------------------------------------------------------------------

    def _hear_hosts(self) -> None:
        for route, *frames in drain(self._listener.socket):
            if len(frames) < 3:
                self._drop("short")
                continue
            peer, worker = (bytes(frame).decode("latin-1") for frame in frames[:2])
            if peer:
                self._carry(bytes(route), peer, worker, frames)
            else:
                self._answer(bytes(route), frames[2:])

    def _carry(self, route: bytes, peer: str, worker: str, frames: list[Frame]) -> None:
        """Pass on what a worker elsewhere says to somebody here."""
        host = self._workers.get(worker)
        if host is None or host.route != route:
            self._drop("foreign")  # of a host that was forgotten; it will join again
            return
        if peer == COORDINATOR:
            socket, said = self._coordinator, _TO_COORDINATOR
        elif peer in self._sources or self._is_here(peer):
            if peer not in self._sources:
                self._sources[peer] = _Source(self._dealer(peer))
            socket, said = self._sources[peer].socket, _TO_LEARNERS
        else:
            self._drop("misdirected")
            return
        try:
            if (kind := codec.message_kind(frames[2:])) not in said:
                raise WireError(f"samplers say no {kind[:64]!r} to {peer}")
        except WireError as error:
            self._drop("unfit", str(error))
            return
        host.last_seen_s = (
            self._clock()
        )  # where blocks fill a slow way, what the host says for itself waits behind them
        self._send(socket, frames[1:])
        self.count += 1

    def _is_here(self, learner: str) -> bool:
        """Return whether there is a learner of a name, as far as it listens already."""
        kind, _, player = learner.partition("-")
        address = ipc_address(self._sockets, learner)
        return kind == "learner" and a_name().accepts(player) and Path(address.removeprefix("ipc://")).exists()

    def _answer(self, route: bytes, frames: Sequence[Frame]) -> None:
        try:
            message = codec.decode(frames)
        except WireError as error:  # most likely of another version
            self._say(route, Refused(why=f"incompatible version of ludus: {error}"))
            return
        host = next((host for host in self._hosts.values() if route in {host.route, host.bulk}), None)
        match message:
            case Joining():
                self._join(route, message)
            case ModelWanted() if host is not None and _HASH.fullmatch(message.hash):
                self._say(host.bulk, ModelFile(hash=message.hash, parts=self._model(message.hash)))
            case Taken() if host is not None and message.learner in host.under_way:
                if host.under_way[message.learner][1] == message.version:
                    host.had[message.learner] = host.under_way.pop(message.learner)
            case Leaving() if host is not None and host is self._hosts.get(message.host):
                self._forget(message.host)

    def _join(self, route: bytes, joining: Joining) -> None:
        name, known = joining.host, self._hosts.get(joining.host)
        if joining.bulk:
            if known is not None and known.token == joining.token and known.bulk != route:
                known.bulk = route
                known.under_way.clear()  # lost with the connection before
        elif not a_name().accepts(name) or not 0 <= joining.samplers <= MAX_SAMPLERS:
            why = f"a host needs a name of a-z 0-9 . _ - and at most {MAX_SAMPLERS} samplers"
            self._say(route, Refused(why=why))
        elif known is None and self._stopping:
            self._say(route, Refused(why="the run is stopping", final=False))
        elif known is not None and known.token != joining.token:
            why = f"a machine called {name!r} takes part already; choose another name with --name"
            self._say(route, Refused(why=why, final=False))
        elif full := self._full(joining):  # told before it starts samplers, and again if those are too many
            self._say(route, Refused(why=full, final=False))
        elif joining.run != self._sockets.name:  # it knows nothing of this start of the run yet
            config = (self._run_dir / "run.toml").read_text(encoding="utf-8")
            able = transfer_methods("tcp:", shared=False)
            self._say(route, Joined(run=self._sockets.name, config=config, ways=able, versions=installed()))
        else:
            workers = sampler_names(name, joining.samplers)
            if known is None or known.workers != workers:
                self._forget(name)
                known = self._hosts[name] = _Host(route, joining.token, workers, self._clock())
                self._workers |= dict.fromkeys(workers, known)
            known.route, known.last_seen_s = route, self._clock()
            self._say(route, Joined(run=self._sockets.name))

    def _full(self, joining: Joining) -> str:
        """Return why a host cannot take part besides the others, if so; who has a key may say any number of names."""
        others = [host for name, host in self._hosts.items() if name != joining.host]
        samplers = sum(len(host.workers) for host in others)
        if len(others) < MAX_HOSTS and samplers + joining.samplers <= MAX_WORKERS:
            return ""
        room = f"{MAX_HOSTS:,} machines with {MAX_WORKERS:,} samplers"
        return f"the run has room for {room}, of which {len(others):,} with {samplers:,} take part"

    def _forget(self, name: str) -> None:
        host = self._hosts.pop(name, None)
        for worker in () if host is None else host.workers:
            del self._workers[worker]
            for source in self._sources.values():
                self._send(source.socket, [worker.encode(), *codec.encode(SamplerLeft())])

    def _model(self, digest: str) -> dict[str, np.ndarray]:
        """Return a model's file in parts; the host compares its hash."""
        try:
            data = np.fromfile(self._run_dir / "models" / f"{digest}.safetensors", np.uint8)
        except OSError as error:
            _log.warning("model %s cannot be sent: %s", digest, error)
            return {}
        if data.size > codec.MAX_TOTAL_BYTES - codec.MAX_HEADER_BYTES:
            _log.warning("model %s of %d bytes cannot be sent: it is too large for a message", digest, data.size)
            return {}
        return {f"{start:012d}": data[start : start + _PART_BYTES] for start in range(0, data.size, _PART_BYTES)}

    # -- from workers here -------------------------------------------------------------------------------------

    def _hear(self, peer: str, socket: zmq.Socket[bytes]) -> None:
        for frames in drain(socket):
            worker = bytes(frames[0]).decode("latin-1")
            try:
                if codec.message_kind(frames[1:]) != LinkCapabilities.__name__:
                    self._pass_on(peer, worker, frames)
                elif worker == GATEWAY:  # to workers elsewhere what is shared here is of no use
                    self._find(peer, codec.decode(frames[1:]))
            except WireError as error:
                self._drop("undecodable", str(error))

    def _pass_on(self, peer: str, worker: str, frames: list[Frame]) -> None:
        """Pass on what somebody here says to a worker elsewhere."""
        host = self._workers.get(worker)
        if host is None:
            self._drop("unknown")
        else:
            self._send(self._listener.socket, [host.route, peer.encode(), *frames])
            self.count += 1

    def _find(self, learner: str, offer: Message) -> None:
        """Look for a learner's weights where it says that it shows them."""
        source = self._sources[learner]
        assert isinstance(offer, LinkCapabilities)
        if self._folder is None or not offer.weight_store:  # where there is no shared memory they come in its messages
            source.board = None
        elif source.board is None or source.board.name != offer.weight_store:
            try:
                source.board = WeightStoreReader(self._folder, learner, offer.weight_store, offer.layout)
            except (LinkError, WireError) as error:  # of a learner that was just replaced, or no more files may be open
                _log.warning("%s: %s", learner, error)
                source.board = None

    # -- again and again ---------------------------------------------------------------------------------------

    def _refresh(self, learner: str, source: _Source, now: float) -> None:
        """Send the newest weights of a learner to hosts that have taken the last ones."""
        if now - source.asked_s >= _ASK_S:
            source.asked_s = now
            self._send(source.socket, [GATEWAY.encode(), *codec.encode(CapabilitiesRequest())])
        if source.board is None or source.board.version < 0:
            return
        shown = (source.board.name, source.board.version)
        for name, host in [*self._hosts.items()]:
            under_way = host.under_way.get(learner)
            waits = under_way is not None and under_way[0] == shown[0]
            if waits or host.had.get(learner) == shown or not host.bulk:
                continue
            if source.newest[0] != shown[0] or source.newest[1] < shown[1]:
                try:
                    source.newest, source.frames = self._read(learner, source.board)
                except WireError as error:  # on one machine there is no such limit
                    self._say(host.route, Refused(why=f"the weights of {learner} cannot travel: {error}"))
                    self._forget(name)
                    continue
            if self._send(self._listener.socket, [host.bulk, b"", b"", *source.frames]):
                host.under_way[learner] = source.newest

    def _read(self, learner: str, board: WeightStoreReader) -> tuple[tuple[str, int], list[Frame]]:
        """Return a copy of what a board shows, as a message: it is sent while the board changes."""
        found: dict[str, tuple[int, dict[str, np.ndarray]]] = {}
        board.load(lambda weights, version: found.update(newest=(version, {k: w.copy() for k, w in weights.items()})))
        version, weights = found["newest"]
        newest = Newest(learner=learner, board=board.name, version=version, weights=weights)
        return (board.name, version), codec.encode(newest)

    def _report(self, now: float) -> None:
        """Forget hosts that are silent, and tell the crew who takes part."""
        for name in [name for name, host in self._hosts.items() if now - host.last_seen_s > _GONE_S]:
            self._forget(name)
        hosts = {name: len(host.workers) for name, host in self._hosts.items()}
        told, told_s = self._told
        if hosts != told or now - told_s > _ASK_S:
            self._link.send(COORDINATOR, Hosts(hosts=hosts))
            self._told = (hosts, now)

    # -- sending -----------------------------------------------------------------------------------------------

    def _say(self, route: bytes, message: Message) -> None:
        self._send(self._listener.socket, [route, b"", b"", *codec.encode(message)])

    def _send(self, socket: zmq.Socket[bytes], frames: Sequence[Frame]) -> bool:
        try:
            socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.ZMQError as error:  # workers repeat what matters
            if error.errno == zmq.EHOSTUNREACH:  # who joins again does so by another connection
                self._disconnect(bytes(frames[0]))
            elif error.errno != zmq.EAGAIN:
                raise
            self._drop("full or gone")
            return False
        return True

    def _disconnect(self, route: bytes) -> None:
        for name, host in list(self._hosts.items()):
            if host.route == route:
                self._forget(name)
            elif host.bulk == route:
                host.bulk = b""

    def _drop(self, reason: str, problem: str = "") -> None:
        self._drops[reason] += 1
        if self._drops[reason].bit_count() == 1:  # 1, 2, 4, 8 …
            _log.warning("dropped %s message %d%s", reason, self._drops[reason], problem and f": {problem}")


def _make(command: WorkerArguments, endpoint: ZmqEndpoint) -> tuple[Gateway, HostLink]:
    listen, key = command.extra
    link = HostLink(endpoint, None)
    try:
        gateway = Gateway(
            run_dir=command.run,
            sockets=command.sockets,
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
