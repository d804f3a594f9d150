"""The host agent: starts the samplers of this host and acts as coordinator and learners for them."""

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
from ludus.launcher import COORDINATOR, RemoteSamplerSpec, Session, WorkerSpec
from ludus.processes import memory_bytes
from ludus.wire import (
    Activity,
    Credit,
    Failure,
    Fixtures,
    Heartbeat,
    Hello,
    Message,
    MetricsReport,
    RefusedMessage,
    ResultsAck,
    Segments,
    Stop,
)
from ludus.workers import remote_sampler_spec
from ludus_local.block_transfer import encode_block
from ludus_local.link import HostLink
from ludus_local.memory import SharedFolder, remove, shared_path
from ludus_local.process import available_cores
from ludus_local.supervisor import Supervisor, is_service
from ludus_local.transport import ZmqEndpoint, ipc_address, private_ipc_dir

from ludus_hosts.keys import JoinKey
from ludus_hosts.model_cache import ModelCache
from ludus_hosts.wire import JoinAccepted, ModelFile, WeightsUpdate, sampler_names

_MOST_LOG_MB, _MOST_PROCESSES = 16.0, 1024  # defaults of a run


@frozen(kw_only=True)
class JoinOptions:
    """Options of ``ludus join``.

    Args:
        address: Address of the run.
        key: Key for the run.
        host: Name of this host.
        samplers: Number of samplers; 0: one per available core.
        folder: Folder for configuration, logs and frozen models.
        cache_bytes: Size limit of the frozen models that are kept.
        any_versions: Whether plugins may have other versions than those of the run.
    """

    address: str
    key: JoinKey
    host: str
    samplers: int
    folder: Path
    cache_bytes: int
    any_versions: bool = False


@define(eq=False)
class _LearnerProxy:
    """The endpoint that samplers use instead of a learner.

    Attributes:
        link: Link to the samplers.
        endpoint: Endpoint of the link.
        weights: Newest weights of the learner.
        sent_versions: Version of the last credit by sampler.
        held_credits: Credits that wait for the first weights, by sampler.
    """

    link: HostLink
    endpoint: ZmqEndpoint
    weights: WeightsUpdate | None = None
    sent_versions: dict[str, int] = field(factory=dict)
    held_credits: dict[str, Credit] = field(factory=dict)

    def is_new(self, update: WeightsUpdate) -> bool:
        """Return whether weights differ from the newest ones."""
        known = self.weights
        return known is None or (known.weight_store, known.version) != (update.weight_store, update.version)

    def send_credit(self, worker: str, credit: Credit) -> None:
        """Send a credit of the learner with the weights of this host; hold it back until there are any."""
        if self.weights is None:
            self.held_credits[worker] = credit
            return
        version = self.weights.version
        is_new = self.sent_versions.get(worker) != version
        credit = evolve(credit, version=version, weights=self.weights.weights if is_new else {})
        if self.link.send(worker, credit):
            self.sent_versions[worker] = version

    def publish(self, update: WeightsUpdate) -> None:
        """Publish weights, and send held credits."""
        self.weights = update
        self.link.publish(update.weights, update.version)
        held, self.held_credits = self.held_credits, {}
        for worker, credit in held.items():
            self.send_credit(worker, credit)


class HostAgent:
    """The samplers of this host in one session of a run.

    Args:
        options: Options of ``ludus join``.
        accepted: The gateway's answer.
        print_line: Prints one line for the user.
        send: Sends a message to the gateway.

    Attributes:
        run: Identifies the session of the run.
        stop_reason: Why the run has stopped; empty while it runs.
        workers: Worker names of the samplers.

    Raises:
        LudusError: A component of the run is not installed, or a worker could not be started.
    """

    def __init__(
        self,
        options: JoinOptions,
        accepted: JoinAccepted,
        *,
        print_line: Callable[[str], None],
        send: Callable[[Message], None],
    ) -> None:
        self.run, self.stop_reason = accepted.run, ""
        self._methods, self._print_line = accepted.methods, print_line
        (options.folder / "run.toml").write_text(accepted.config, encoding="utf-8")
        self._models = ModelCache(options.folder / "models", options.cache_bytes, send)
        spec = remote_sampler_spec(options.folder)
        count = options.samplers or max(1, int(available_cores()) // spec.threads - bool(spec.service))
        self.workers = sampler_names(options.host, count)
        self._inbox: defaultdict[str, deque[Any]] = defaultdict(deque)  # by worker; fixtures may wait for models
        self._last_seen_s: dict[str, float] = {}
        self._metrics: dict[str, Mapping[str, float]] = {}  # by sampler
        self._errors: dict[str, str] = {}
        self._acknowledged: set[str] = set()  # samplers with committed results: a restart may help them
        self._stopping = False
        self._sockets = private_ipc_dir()
        self._endpoint = ZmqEndpoint(COORDINATOR)
        self._proxies: dict[str, _LearnerProxy] = {}
        session = Session(
            run_dir=options.folder,
            number=secrets.randbelow(2**31),  # so that its matches differ from those of other sessions
            stall_s=spec.stall_s,
            restarts=spec.restarts,
            print_line=print_line,
            **_limits(spec, count),
        )
        self._supervisor = Supervisor(session=session, sockets=self._sockets)
        try:
            self._endpoint.bind(ipc_address(self._sockets, COORDINATOR))
            for learner in spec.learners:
                self._proxies[learner] = self._make_proxy(learner)
            names = [*([spec.service] if spec.service else []), *self.workers]
            self._supervisor.start([WorkerSpec(name, spec.threads) for name in names])
        except BaseException:
            self.close()
            raise

    def _make_proxy(self, learner: str) -> _LearnerProxy:
        endpoint = ZmqEndpoint(learner)
        address = endpoint.bind(ipc_address(self._sockets, learner))
        return _LearnerProxy(HostLink(endpoint, SharedFolder.beside(self._sockets, learner), address=address), endpoint)

    @property
    def sockets(self) -> list[zmq.Socket[bytes]]:
        """Return the sockets that receive messages of workers."""
        endpoints = [self._endpoint, *(proxy.endpoint for proxy in self._proxies.values())]
        return [socket for endpoint in endpoints for socket in endpoint.sockets]

    @property
    def alive(self) -> bool:
        """Return whether a sampler is running."""
        return any(name in self.workers for name in self._supervisor.alive)

    @property
    def status(self) -> str:
        """Return the rate of the samplers and how many are waiting, as a text."""
        rate = sum(values.get("decisions_per_s", 0.0) for values in self._metrics.values())
        waiting = sum(values.get("waiting", 0.0) > 0 for values in self._metrics.values())
        suffix = f", {waiting} of {len(self.workers)} wait for a learner" if waiting else ""
        return f"{rate:,.0f} decisions/s{suffix}"

    # -- from samplers -----------------------------------------------------------------------------------------

    def receive(self) -> Iterator[tuple[str, str, Message]]:
        """Yield messages of samplers to the run, as (receiver, worker, message).

        Raises:
            WorkerError: A worker has failed, and a restart would not help.
        """
        for worker, message in self._endpoint.receive(0.0):
            if isinstance(message, Activity):
                self._supervisor.record_activity(worker, message)
                continue
            self._handle_worker(worker, message)
            if worker in self.workers and not isinstance(message, Failure | RefusedMessage):  # handled on this host
                yield COORDINATOR, worker, message
        for learner, proxy in self._proxies.items():
            for worker, message in proxy.link.receive(0.0):
                if isinstance(message, RefusedMessage):
                    continue
                if isinstance(message, Hello):
                    proxy.sent_versions.pop(worker, None)
                if isinstance(message, Segments):
                    yield learner, worker, encode_block(message, None, self._methods)
                else:
                    yield learner, worker, message

    def _handle_worker(self, worker: str, message: Message) -> None:
        """Record heartbeats, metrics and errors of a worker."""
        self._last_seen_s[worker] = time.monotonic()
        match message:
            case Heartbeat() if message.count and is_service(worker):
                self._supervisor.record_progress(worker)
            case MetricsReport() if worker in self.workers:
                self._metrics[worker] = message.values
            case Failure():
                self._errors[worker] = message.error
                if message.fatal and worker not in self._acknowledged:
                    raise WorkerError(f"{worker}: {message.error}")
                if self._stopping:  # it is not restarted, which would print the error
                    self._print_line(f"{worker}: {message.error}, while it stopped; what it had not reported is lost")

    def check(self) -> None:
        """Restart workers that ended or hang, unless they are stopping.

        Raises:
            WorkerError: A worker fails repeatedly.
        """
        for worker in list(self._inbox):
            self._deliver_inbox(worker)  # requests missing models again
        if not self._stopping:
            self._supervisor.check(last_seen_s=self._last_seen_s, errors=self._errors)

    # -- from the run ------------------------------------------------------------------------------------------

    def deliver(self, peer: str, worker: str, message: Any) -> None:
        """Deliver a message of the coordinator or a learner to a worker."""
        if peer in self._proxies:
            if isinstance(message, Credit):
                self._deliver_credit(self._proxies[peer], worker, message)
            return
        if isinstance(message, ResultsAck):
            self._supervisor.record_progress(worker)
            self._acknowledged.add(worker)
        elif isinstance(message, Stop):
            self._supervisor.expect_exit(worker)
            self._stopping, self.stop_reason = True, message.reason or "the run was stopped"
            self._inbox[worker] = deque(queued for queued in self._inbox[worker] if not isinstance(queued, Fixtures))
        self._inbox[worker].append(message)
        self._deliver_inbox(worker)

    def _deliver_inbox(self, worker: str) -> None:
        """Send queued messages to a worker, up to fixtures whose models are missing."""
        inbox = self._inbox[worker]
        while inbox and self._models.has_models(inbox[0]):
            self._endpoint.send(worker, inbox.popleft())

    def add_model(self, message: ModelFile) -> None:
        """Add a model to the cache, and send fixtures that have waited for it."""
        self._models.add(message)
        for worker in list(self._inbox):
            self._deliver_inbox(worker)

    def publish(self, update: WeightsUpdate) -> None:
        """Publish newer weights to the samplers."""
        proxy = self._proxies.get(update.learner)
        if proxy is not None and proxy.is_new(update):
            proxy.publish(update)

    def _deliver_credit(self, proxy: _LearnerProxy, worker: str, credit: Credit) -> None:
        if credit.weights:  # the run's host has no shared memory
            learner = proxy.endpoint.name
            self.publish(
                WeightsUpdate(learner=learner, weight_store="", version=credit.version, weights=credit.weights)
            )
        proxy.send_credit(worker, credit)

    # -- end ---------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop the samplers, which send their last results first."""
        self._stopping = True
        if not self.stop_reason:
            for worker in self.workers:
                self._supervisor.expect_exit(worker)
                self._endpoint.send(worker, Stop(reason="interrupted"))

    def close(self) -> None:
        """Kill the workers that still run, and remove sockets and shared memory; models stay in the folder."""
        self._supervisor.finish(timeout_s=0.0, poll=lambda: None)
        self._endpoint.close()
        for proxy in self._proxies.values():
            proxy.link.close()
        for folder in (self._sockets, shared_path(self._sockets)):
            remove(folder)


def _limits(spec: RemoteSamplerSpec, samplers: int) -> dict[str, Any]:
    """Return the limits of the samplers: those of the run, but at most the defaults of this machine."""
    fits = spec.sampler_memory_mb * samplers * 2**20 <= memory_bytes()
    return {
        "log_mb": min(spec.log_mb, _MOST_LOG_MB),
        "sampler_memory_mb": spec.sampler_memory_mb if fits else 0,
        "sampler_processes": min(spec.sampler_processes, _MOST_PROCESSES),
    }
