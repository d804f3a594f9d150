"""The launcher ``hosts``: that of one machine, and a gateway by which samplers of other machines join."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ludus.launcher import Session, WorkerSpec
from ludus.wire import MetricsReport
from ludus_local.launcher import LocalLauncher, LocalWorkerPool

from ludus_hosts.config import HostsConfig
from ludus_hosts.keys import RunKey
from ludus_hosts.wire import GATEWAY, Hosts, sampler_names

__all__ = ["HostsLauncher", "HostsWorkerPool"]

_LEAVE_S = 10.0  # what other hosts get to finish when the run stops


class HostsLauncher(LocalLauncher):
    """Starts workers on this machine and lets others join.

    Args:
        config: Its options.

    Raises:
        ConfigError: The key cannot be used.
    """

    def __init__(self, config: HostsConfig) -> None:
        RunKey.read(Path(config.key))
        self._config = config

    def launch(self, session: Session, workers: Sequence[WorkerSpec]) -> HostsWorkerPool:
        """Start workers, see `ludus.launcher.Launcher.launch`.

        Raises:
            WorkerError: A worker could not be started.
            LinkError: There is no place for sockets.
        """
        worker_pool = HostsWorkerPool(
            session, {GATEWAY: ("ludus_hosts.gateway", self._config.listen, self._config.key)}
        )
        worker_pool.start([*workers, WorkerSpec(GATEWAY, 1)])
        session.print_line(f"machines that `ludus join` are awaited at {self._config.listen}")
        return worker_pool


class HostsWorkerPool(LocalWorkerPool):
    """Workers of this machine, and those of hosts that take part; see `ludus.launcher.WorkerPool`."""

    def __init__(self, session: Session, modules: dict[str, Sequence[str]]) -> None:
        super().__init__(session, modules)
        self._say = session.print_line
        self._hosts: dict[str, int] = {}

    def receive(self, timeout_s: float) -> list[tuple[str, Any]]:
        """Return what workers said, waiting so long for the first."""
        received: list[tuple[str, Any]] = []
        for peer, message in super().receive(timeout_s):
            if peer == GATEWAY and isinstance(message, Hosts):
                received += self._meet(message)
            elif not isinstance(message, MetricsReport) or self._takes_part(peer):
                received.append((peer, message))
        return received

    def _takes_part(self, worker: str) -> bool:
        """Return whether a worker is one of those here or elsewhere; what one reported last may come after its end."""
        return worker in self._supervisor.pids or worker in _samplers(self._hosts)

    def _meet(self, message: Hosts) -> list[tuple[str, Any]]:
        """Take note of who takes part; samplers that are gone report nothing any more."""
        before, self._hosts = self._hosts, dict(message.hosts)
        for host, samplers in self._hosts.items() - before.items():
            self._say(f"{host} takes part with {samplers} sampler{'s' if samplers > 1 else ''}")
        for host in before.keys() - self._hosts.keys():
            self._say(f"{host} does not take part any more")
        gone = set(_samplers(before)) - set(_samplers(self._hosts))
        return [(worker, MetricsReport(values={})) for worker in sorted(gone)]

    @property
    def alive(self) -> list[str]:
        """Return the names of the running workers, wherever they are."""
        return [*super().alive, *_samplers(self._hosts)]

    def finish(self, *, timeout_s: float, poll: Callable[[], None]) -> list[str]:
        """Wait for all workers to end by themselves, those of other hosts not for as long; then kill the rest here."""
        began_s = time.monotonic()
        while self._hosts and time.monotonic() - began_s < min(_LEAVE_S, timeout_s):
            poll()
        killed = super().finish(timeout_s=max(0.0, timeout_s - (time.monotonic() - began_s)), poll=poll)
        for host in self._hosts:
            self._say(f"{host}: did not finish in time; matches that it had not reported are lost")
        return killed


def _samplers(hosts: dict[str, int]) -> list[str]:
    return [name for host, count in hosts.items() for name in sampler_names(host, count)]
