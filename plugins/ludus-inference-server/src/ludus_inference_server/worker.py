"""The worker that runs the server."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from attrs import define, field
from ludus.launcher import COORDINATOR, Link
from ludus.service import ServiceContext
from ludus.wire import Hello, MetricsReport

from ludus_inference_server.config import ServerConfig
from ludus_inference_server.service import InferenceService

__all__ = ["ServiceWorker", "make_worker"]

_REPORT_S = 1.0


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
