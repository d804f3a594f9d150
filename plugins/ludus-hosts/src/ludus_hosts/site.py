"""The samplers of this host and all that they meet: a coordinator, learners, weights, and frozen models."""

from __future__ import annotations

import secrets
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import zmq
from attrs import define, evolve, field, frozen
from ludus.errors import WorkerError
from ludus.launcher import COORDINATOR, Session, WorkerSpec
from ludus.wire import Credit, Failure, Fixtures, Heartbeat, Hello, Message, MetricsReport, ResultsAck, Segments, Stop
from ludus.workers import remote_sampler_spec
from ludus_local.block_transfer import encode_block
from ludus_local.link import HostLink
from ludus_local.memory import SharedFolder, remove, shared_path
from ludus_local.process import available_cores
from ludus_local.supervisor import Supervisor, is_service
from ludus_local.transport import ZmqEndpoint, ipc_address, private_ipc_dir

from ludus_hosts.keys import JoinKey
from ludus_hosts.models import Models
from ludus_hosts.wire import Joined, ModelFile, Newest, sampler_names

__all__ = ["Options", "RemoteHost"]


@frozen(kw_only=True)
class Options:
    """How this machine takes part.

    Args:
        address: Of the run.
        key: Shows that it may.
        host: Its name.
        samplers: How many; 0: as many as there are cores for.
        folder: For the configuration, logs and frozen models.
        cache_bytes: Of frozen models that are kept.
        any_versions: Whether plugins may have other versions than where the run is.
    """

    address: str
    key: JoinKey
    host: str
    samplers: int
    folder: Path
    cache_bytes: int
    any_versions: bool = False


@define(eq=False)
class _Lane:
    """What comes from a learner.

    Attributes:
        link: As which this host's samplers meet it.
        endpoint: Of the link.
        newest: Its weights.
        had: The version each sampler was told last.
        held: What it said to samplers before there were weights.
    """

    link: HostLink
    endpoint: ZmqEndpoint
    newest: Newest | None = None
    had: dict[str, int] = field(factory=dict)
    held: dict[str, Credit] = field(factory=dict)


class RemoteHost:
    """The samplers of this host in one start of a run, and all that they meet.

    Args:
        options: How this machine takes part.
        joined: What the run has told it.
        print_line: Tells the person one line.
        ask: Tells the run.

    Attributes:
        run: Which start of the run.
        over: Why the run is over; empty while it is not.
        workers: Names of the samplers.

    Raises:
        LudusError: What the run needs is not here, or a worker could not be started.
    """

    def __init__(
        self, options: Options, joined: Joined, *, print_line: Callable[[str], None], ask: Callable[[Message], None]
    ) -> None:
        self.run, self.over = joined.run, ""
        self._ways, self._say = joined.ways, print_line
        (options.folder / "run.toml").write_text(joined.config, encoding="utf-8")
        self._models = Models(options.folder / "models", options.cache_bytes, ask)
        needs = remote_sampler_spec(options.folder)
        count = options.samplers or max(1, int(available_cores()) // needs.threads - bool(needs.service))
        self.workers = sampler_names(options.host, count)
        self._waiting: defaultdict[str, deque[Any]] = defaultdict(deque)  # fixtures whose models are still to come
        self._last_seen_s: dict[str, float] = {}
        self._values: dict[str, Mapping[str, float]] = {}  # what samplers reported last
        self._errors: dict[str, str] = {}
        self._proven: set[str] = set()  # those of whom the run has taken results: a restart may help them
        self._stopping = False
        self._sockets = private_ipc_dir()
        self._endpoint = ZmqEndpoint(COORDINATOR)
        self._lanes: dict[str, _Lane] = {}
        session = Session(
            run_dir=options.folder,
            number=secrets.randbelow(2**31),  # its matches differ from those of another time
            stall_s=needs.stall_s,
            restarts=needs.restarts,
            print_line=print_line,
        )
        self._supervisor = Supervisor(session=session, sockets=self._sockets)
        try:
            self._endpoint.bind(ipc_address(self._sockets, COORDINATOR))
            for learner in needs.learners:
                endpoint = ZmqEndpoint(learner)
                address = endpoint.bind(ipc_address(self._sockets, learner))
                link = HostLink(endpoint, SharedFolder.beside(self._sockets, learner), address=address)
                self._lanes[learner] = _Lane(link, endpoint)
            names = [*([needs.service] if needs.service else []), *self.workers]
            self._supervisor.start([WorkerSpec(name, needs.threads) for name in names])
        except BaseException:
            self.close()
            raise

    @property
    def sockets(self) -> list[zmq.Socket[bytes]]:
        """Return what becomes readable when a worker says something."""
        endpoints = [self._endpoint, *(lane.endpoint for lane in self._lanes.values())]
        return [socket for endpoint in endpoints for socket in endpoint.sockets]

    @property
    def alive(self) -> bool:
        """Return whether a sampler still runs."""
        return any(name in self.workers for name in self._supervisor.alive)

    @property
    def pace(self) -> str:
        """Return what samplers do, in a few words."""
        played = sum(values.get("decisions_per_s", 0.0) for values in self._values.values())
        waiting = sum(values.get("waiting", 0.0) > 0 for values in self._values.values())
        return f"{played:,.0f} decisions/s" + (f", {waiting} of {len(self.workers)} wait for a learner" * bool(waiting))

    # -- from samplers -----------------------------------------------------------------------------------------

    def hear(self) -> Iterator[tuple[str, str, Message]]:
        """Yield what samplers say, as (to whom, worker, message).

        Raises:
            WorkerError: One of them ended, and restarting it would not help.
        """
        for worker, message in self._endpoint.receive(0.0):
            self._note(worker, message)
            if worker in self.workers and not isinstance(message, Failure):  # of this machine; the run goes on without
                yield COORDINATOR, worker, message
        for learner, lane in self._lanes.items():
            for worker, message in lane.link.receive(0.0):
                if isinstance(message, Hello):
                    lane.had.pop(worker, None)
                if isinstance(message, Segments):
                    message = encode_block(message, None, self._ways)  # noqa: PLW2901 - the same, smaller
                yield learner, worker, message

    def _note(self, worker: str, message: Message) -> None:
        """Take note of what a worker says to the coordinator."""
        self._last_seen_s[worker] = time.monotonic()
        match message:
            case Heartbeat() if message.count and is_service(worker):
                self._supervisor.record_progress(worker)
            case MetricsReport() if worker in self.workers:
                self._values[worker] = message.values
            case Failure():
                self._errors[worker] = message.error
                if message.fatal and worker not in self._proven:
                    raise WorkerError(f"{worker}: {message.error}")
                if self._stopping:  # nobody starts it again, and tells why
                    self._say(f"{worker}: {message.error}, while it stopped; what it had not reported is lost")

    def check(self) -> None:
        """Restart workers that ended or hang, unless they are to end.

        Raises:
            WorkerError: One of them dies again and again.
        """
        for worker in list(self._waiting):
            self._pass_on(worker)  # asks again for what may be lost
        if not self._stopping:
            self._supervisor.check(last_seen_s=self._last_seen_s, errors=self._errors)

    # -- from the run ------------------------------------------------------------------------------------------

    def take(self, peer: str, worker: str, message: Any) -> None:
        """Give a worker what somebody of the run says to it."""
        if peer in self._lanes:
            if isinstance(message, Credit):
                self._credit(self._lanes[peer], worker, message)
            return
        if isinstance(message, ResultsAck):
            self._supervisor.record_progress(worker)
            self._proven.add(worker)
        elif isinstance(message, Stop):
            self._supervisor.expect_exit(worker)
            self._stopping, self.over = True, message.reason or "the run was stopped"
            self._waiting[worker] = deque(left for left in self._waiting[worker] if not isinstance(left, Fixtures))
        self._waiting[worker].append(message)
        self._pass_on(worker)

    def _pass_on(self, worker: str) -> None:
        """Give a worker what has come for it, up to fixtures with models that are still to come."""
        waiting = self._waiting[worker]
        while waiting and self._models.has(waiting[0]):
            self._endpoint.send(worker, waiting.popleft())

    def keep(self, message: ModelFile) -> None:
        """Keep a model, and go on with fixtures that need it."""
        self._models.keep(message)
        for worker in list(self._waiting):
            self._pass_on(worker)

    def publish(self, newest: Newest) -> None:
        """Show newer weights to samplers."""
        lane = self._lanes.get(newest.learner)
        if lane is None:
            return
        if lane.newest is not None and (lane.newest.board, lane.newest.version) == (newest.board, newest.version):
            return
        lane.newest = newest
        lane.link.publish(newest.weights, newest.version)
        held, lane.held = lane.held, {}
        for worker, credit in held.items():
            self._credit(lane, worker, credit)

    def _credit(self, lane: _Lane, worker: str, credit: Credit) -> None:
        """Pass on what a learner says to a sampler, with the weights that are here."""
        if credit.weights:  # they cannot be shown where the run is
            self.publish(Newest(learner=lane.endpoint.name, board="", version=credit.version, weights=credit.weights))
        if lane.newest is None:
            lane.held[worker] = credit
            return
        version, fresh = lane.newest.version, lane.had.get(worker) != lane.newest.version
        credit = evolve(credit, version=version, weights=lane.newest.weights if fresh else {})
        if lane.link.send(worker, credit):
            lane.had[worker] = version

    # -- the end -----------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ask samplers to finish what they must say."""
        self._stopping = True
        if not self.over:
            for worker in self.workers:
                self._supervisor.expect_exit(worker)
                self._endpoint.send(worker, Stop(reason="interrupted"))

    def close(self) -> None:
        """End whoever is left and remove sockets and shared memory; models stay with the folder."""
        self._supervisor.finish(timeout_s=0.0, poll=lambda: None)
        self._endpoint.close()
        for lane in self._lanes.values():
            lane.link.close()
        for folder in (self._sockets, shared_path(self._sockets)):
            remove(folder)
