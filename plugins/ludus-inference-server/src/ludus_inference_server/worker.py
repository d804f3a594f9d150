"""The worker of the server: the server with its socket, run as a service of the launcher."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import zmq
from attrs import define, field
from ludus.errors import LinkError, RunError
from ludus.launcher import COORDINATOR, Link
from ludus.service import Network, ServiceContext
from ludus.wire import Hello, MetricsReport
from ludus_local.memory import SharedFolder

from ludus_inference_server.config import ServerConfig
from ludus_inference_server.models import ModelCache
from ludus_inference_server.protocol import MAX_FRAME_BYTES, service_address
from ludus_inference_server.runtimes import make_runtime
from ludus_inference_server.server import Server

_REPORT_S = 1.0
_IDLE_MS = 20
_MAX_MESSAGES = 1024  # received before batches are checked again


class InferenceService:
    """The server with a socket.

    Args:
        config: Options of the server.
        name: Worker name of the service.
        sockets: Folder of the sockets.
        networks: As in `ludus.service.ServiceContext`.

    Raises:
        RunError: There is no shared memory.
        LinkError: The address cannot be bound.
    """

    def __init__(
        self, config: ServerConfig, *, name: str, sockets: Path, networks: Mapping[str, Callable[[], Sequence[Network]]]
    ) -> None:
        torch.set_num_threads(config.threads)
        address = service_address(sockets, name)
        folder = SharedFolder.beside(sockets, name)
        if folder is None:
            raise RunError("the inference server needs shared memory; choose another sampling.inference")
        self._server = Server(
            networks=networks,
            make_runtime=lambda network: make_runtime(config, network.module, network.request),
            folder=folder,
            model_cache=ModelCache(config.cache_mb * 2**20),
            max_rows=config.max_rows,
            deadline_s=config.deadline_ms / 1000,
        )
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
        self._socket.setsockopt(zmq.LINGER, 0)
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            self.close()
            raise LinkError(f"cannot bind {address}: {error}") from None
        self._reported: Counter[str] = Counter()
        self._reported_s = (time.monotonic(), 0.0)  # time, and `waited_s` at that time

    @property
    def count(self) -> int:
        """Return the number of evaluated rows."""
        return self._server.counts["rows"]

    def work(self) -> None:
        """Handle received messages, waiting up to 20 ms for one, and run the batches that are due."""
        wait_s = self._server.wait_s(time.monotonic())
        if self._socket.poll(_IDLE_MS if wait_s is None else min(_IDLE_MS, math.ceil(wait_s * 1000))):
            self._receive()
        self._server.advance(time.monotonic())
        for peer, frame in self._server.outbox:
            self._socket.send_multipart([peer.encode(), frame], zmq.NOBLOCK)  # dropped if the client has disconnected
        self._server.outbox.clear()

    def _receive(self) -> None:
        now_s = time.monotonic()
        for _ in range(_MAX_MESSAGES):
            try:
                peer, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._server.handle(peer.decode("latin-1"), frames[0] if len(frames) == 1 else b"", now_s)

    def metrics(self) -> Mapping[str, float]:
        """Return rates, batch sizes and waits since the last call, and the current numbers."""
        now_s, waited_s, counts = time.monotonic(), self._server.waited_s, Counter(self._server.counts)
        seconds, waited = now_s - self._reported_s[0], waited_s - self._reported_s[1]
        new = {name: counts[name] - self._reported[name] for name in counts}
        self._reported, self._reported_s = counts, (now_s, waited_s)
        rows, batches, requests = (new.get(name, 0) for name in ("rows", "batches", "requests"))
        return {
            "rows_per_s": rows / seconds,
            "batches_per_s": batches / seconds,
            "batch_rows": rows / max(batches, 1),
            "batch_requests": requests / max(batches, 1),
            "wait_ms": 1000 * waited / max(requests, 1),
            "models": float(self._server.models),
            "clients": float(self._server.clients),
            "dropped": float(counts["dropped"]),
        }

    def close(self) -> None:
        """Close the socket."""
        self._context.destroy(linger=0)


@define(kw_only=True)
class ServiceWorker:
    """Runs the server and reports its metrics. It ignores `Stop`, since samplers may still wait for answers."""

    name: str
    service: InferenceService
    link: Link
    clock: Callable[[], float]
    stopped: bool = field(init=False, default=False)
    drained: bool = field(init=False, default=True)
    _reported_s: float = field(init=False, default=-1e9)

    @property
    def count(self) -> int:
        """Return the number of evaluated rows."""
        return self.service.count

    def start(self) -> None:
        """Register with the coordinator."""
        self.link.send(COORDINATOR, Hello(pid=os.getpid()))

    def handle(self, peer: str, message: Any) -> None:
        """Ignore messages; clients use a socket of their own."""

    def work(self) -> bool:
        """Serve requests; always returns True, since the service itself waits for them."""
        self.service.work()
        if self.clock() - self._reported_s > _REPORT_S:
            self._reported_s = self.clock()
            self.link.send(COORDINATOR, MetricsReport(values=dict(self.service.metrics())))
        return True

    def close(self) -> None:
        """Close the service."""
        self.service.close()


def make_worker(config: ServerConfig, *, context: ServiceContext) -> ServiceWorker:
    """Make the service of the runtime ``server``; errors are those of `InferenceService`."""
    service = InferenceService(config, name=context.name, sockets=context.sockets, networks=context.networks)
    return ServiceWorker(name=context.name, service=service, link=context.link, clock=context.clock)
