"""The worker around the service of a component."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from attrs import define, field

from ludus._messages import Hello, MetricsReport
from ludus.launcher import COORDINATOR, Link
from ludus.service import Service

_REPORT_S = 1.0


def service_name(component: str) -> str:
    """Return the worker name of a component's service."""
    return f"service-{component}"


@define(kw_only=True)
class ServiceWorker:
    """Runs a service and reports its numbers. It is not told to stop: others may still wait for it."""

    name: str
    service: Service
    link: Link
    clock: Callable[[], float]
    stopped: bool = field(init=False, default=False)
    settled: bool = field(init=False, default=True)
    _reported_s: float = field(init=False, default=-1e9)

    @property
    def count(self) -> int:
        """Return how many useful things were done so far."""
        return self.service.count

    def start(self) -> None:
        """Introduce itself."""
        self.link.send(COORDINATOR, Hello(worker=self.name, pid=os.getpid()))

    def handle(self, peer: str, message: Any) -> None:
        """Nothing is asked of it here."""

    def work(self) -> bool:
        """Serve, and be called again at once: it is the service that waits."""
        self.service.work()
        if self.clock() - self._reported_s > _REPORT_S:
            self._reported_s = self.clock()
            self.link.send(COORDINATOR, MetricsReport(worker=self.name, values=dict(self.service.metrics())))
        return True

    def close(self) -> None:
        """Free everything."""
        self.service.close()
