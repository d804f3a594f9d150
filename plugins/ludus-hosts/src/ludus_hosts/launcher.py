"""The launcher ``hosts``: the launcher ``local`` with a gateway, through which other hosts join."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ludus.launcher import Session, WorkerSpec, sampler_host
from ludus.printing import printable
from ludus.wire import MetricsReport, RefusedMessage
from ludus_local.launcher import LocalLauncher, LocalWorkerPool

from ludus_hosts.config import HostsConfig
from ludus_hosts.keys import RunKey
from ludus_hosts.wire import GATEWAY, MAX_SAMPLERS, MAX_WORKERS, Exclude, HostList, Quarantine, sampler_names

_LEAVE_TIMEOUT_S = 10.0  # for other hosts to finish when the run stops


class HostsLauncher(LocalLauncher):
    """Starts workers on this machine and accepts other hosts.

    Args:
        config: Options of the launcher.

    Raises:
        ConfigError: The key file cannot be used.
    """

    def __init__(self, config: HostsConfig) -> None:
        RunKey.read(Path(config.key))
        self._config = config

    def launch(self, session: Session, workers: Sequence[WorkerSpec]) -> HostsWorkerPool:
        """Start workers; see `ludus.launcher.Launcher.launch`.

        Raises:
            WorkerError: A worker could not be started.
            LinkError: There is no folder for sockets.
        """
        pool = HostsWorkerPool(session, {GATEWAY: ("ludus_hosts.gateway", self._config.listen, self._config.key)})
        pool.start([*workers, WorkerSpec(GATEWAY, 1)])
        number = len(RunKey.read(Path(self._config.key)).allowed)
        keys = f"one of the {number} keys" if number != 1 else "the key"
        session.print_line(
            f"other machines with {keys} of {self._config.key} can join at {self._config.listen} (`ludus join`)"
        )
        return pool


class HostsWorkerPool(LocalWorkerPool):
    """The workers of this machine and of joined hosts; see `ludus.launcher.WorkerPool`."""

    def __init__(self, session: Session, modules: dict[str, Sequence[str]]) -> None:
        super().__init__(session, modules)
        self._print_line = session.print_line
        self._hosts: dict[str, int] = {}
        self._refusals: dict[str, str] = {}
        self._quarantined: dict[str, str] = {}

    def receive(self, timeout_s: float) -> list[tuple[str, Any]]:
        """Return messages of workers, waiting up to `timeout_s` for the first."""
        received: list[tuple[str, Any]] = []
        for peer, message in super().receive(timeout_s):
            if peer == GATEWAY and isinstance(message, HostList):
                received += self._update_hosts(message)
            elif not isinstance(message, MetricsReport) or self._is_member(peer):
                received.append((peer, message))
        return received

    def _is_member(self, worker: str) -> bool:
        """Return whether a worker belongs to the pool; its last metrics may arrive after it has left."""
        return worker in self._supervisor.pids or worker in _samplers(self._hosts)

    def _update_hosts(self, message: HostList) -> list[tuple[str, Any]]:
        """Print which hosts have joined or left, and return empty metrics for samplers that have left."""
        counts = message.hosts.values()
        if not all(0 <= count <= MAX_SAMPLERS for count in counts) or sum(counts) > MAX_WORKERS:
            return [(GATEWAY, RefusedMessage("a list of hosts with an impossible number of samplers"))]
        self.quarantine(self._quarantined)  # again, since the gateway may have been restarted
        before, self._hosts = self._hosts, dict(message.hosts)
        for host, samplers in self._hosts.items() - before.items():
            self._print_line(f"{host} takes part with {samplers} sampler{'s' if samplers > 1 else ''}")
        for host in before.keys() - self._hosts.keys():
            self._print_line(f"{host} does not take part any more")
        for host, reason in message.refusals.items() - self._refusals.items():
            self._print_line(f"{host} cannot take part: {printable(reason)}")
        self._refusals = dict(message.refusals)
        removed = set(_samplers(before)) - set(_samplers(self._hosts))
        return [(worker, MetricsReport(values={})) for worker in sorted(removed)]

    def cut_off(self, worker: str, reason: str) -> None:
        """Exclude the host of a sampler that breaks the protocol, or restart a worker of this machine.

        Raises:
            WorkerError: A worker of this machine fails repeatedly.
        """
        host = sampler_host(worker)
        if not host:
            super().cut_off(worker, reason)
        elif host in self._hosts:
            self._print_line(f"{host} is excluded until the run is started again: {worker}: {reason}")
            self._endpoint.send(GATEWAY, Exclude(host=host, reason=f"excluded by the run: {reason}"[:1000]))

    def quarantine(self, hosts: Mapping[str, str]) -> None:
        """Keep hosts out of the run until they are released; see `ludus.launcher.WorkerPool.quarantine`."""
        self._quarantined = dict(hosts)
        self._endpoint.send(GATEWAY, Quarantine(hosts=self._quarantined))

    @property
    def alive(self) -> list[str]:
        """Return the names of the running workers on all hosts."""
        return [*super().alive, *_samplers(self._hosts)]

    def finish(self, *, timeout_s: float, poll: Callable[[], None]) -> list[str]:
        """Wait for all workers to exit, less long for those of other hosts; then kill the rest on this host."""
        started_s = time.monotonic()
        while self._hosts and time.monotonic() - started_s < min(_LEAVE_TIMEOUT_S, timeout_s):
            poll()
        killed = super().finish(timeout_s=max(0.0, timeout_s - (time.monotonic() - started_s)), poll=poll)
        for host in self._hosts:
            self._print_line(f"{host}: did not finish in time; matches that it had not reported are lost")
        return killed


def _samplers(hosts: dict[str, int]) -> list[str]:
    return [name for host, count in hosts.items() for name in sampler_names(host, count)]
