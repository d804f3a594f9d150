"""The launcher contract: starts the workers of a run and carries their messages.

The coordinator's process calls `Launcher.launch`, which returns a `WorkerPool`: running workers that it supervises and
exchanges messages with. In every process that it starts, a launcher makes the worker and runs its loop::

    worker = make_worker(spec, env, WorkerContext(link=link, clock=time.monotonic))
    worker.start()
    while not (worker.stopped and worker.drained):
        for peer, message in …:
            worker.handle(peer, message)
        worker.work()

The launcher sends `ludus.wire.Heartbeat` to the coordinator on behalf of the worker at regular intervals, and
`ludus.wire.Failure` if the worker raises. Workers address each other by name. No message contains its sender; the
launcher identifies the sender from the connection. Delivery is best effort and in order per direction; workers send
again what was not acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from attrs import frozen

from ludus.group import Group

if TYPE_CHECKING:
    import numpy as np

    from ludus.algorithm import Weights

__all__ = [
    "COORDINATOR",
    "Launcher",
    "Link",
    "PendingGroup",
    "ProcessGroup",
    "RemoteSamplerSpec",
    "Rendezvous",
    "Session",
    "Shapes",
    "SharedMemory",
    "Worker",
    "WorkerContext",
    "WorkerEnv",
    "WorkerPool",
    "WorkerSpec",
    "helper_name",
    "learner_name",
    "sampler_host",
    "worker_kind",
]

COORDINATOR = "coordinator"

#: Names to shapes and dtypes of arrays.
Shapes: TypeAlias = "Mapping[str, tuple[tuple[int, ...], np.dtype[np.generic]]]"


def learner_name(player: str) -> str:
    """Return the worker name of a player's learner."""
    return f"learner-{player}"


def helper_name(player: str, rank: int) -> str:
    """Return the worker name of a helper of a player's learner; its rank in the process group is at least 1."""
    return f"helper-{rank}-{player}"


def worker_kind(worker: str) -> str:
    """Return the kind of a worker, with which its name starts: ``coordinator``, ``sampler``, ``learner`` and so on."""
    return worker.partition("-")[0]


def sampler_host(worker: str) -> str:
    """Return the host of a worker: that of ``sampler-HOST-N``, empty for all workers of the run's own host."""
    kind, _, rest = worker.partition("-")
    return rest.rpartition("-")[0] if kind == "sampler" else ""


# -- in the coordinator's process -----------------------------------------------------------------------------------


@frozen
class WorkerSpec:
    """One worker.

    Args:
        name: Worker name; it starts with the kind of worker.
        threads: Number of threads it computes with.
    """

    name: str
    threads: int


@frozen(kw_only=True)
class Session:
    """One start of a run, with the settings of its launcher.

    Args:
        run_dir: The run folder; logs go to its ``logs`` folder.
        number: Number of this start, counted over the run.
        stall_s: Seconds without a message after which a worker is restarted; a starting worker gets minutes.
        restarts: Restarts of one worker before the run is given up; see `ludus.recovery.RestartHistory`.
        print_line: Prints one line for the user.
        log_mb: Largest size of the log of one worker, in MiB.
        sampler_memory_mb: Memory of a sampler or evaluator and its children, in MiB, above which they are killed; 0:
            their parts of 80 % of the memory.
        sampler_processes: Largest number of processes of a sampler or evaluator.
    """

    run_dir: Path
    number: int
    stall_s: float
    restarts: int
    print_line: Callable[[str], None]
    log_mb: float = 16.0
    sampler_memory_mb: int = 0
    sampler_processes: int = 1024


class Link(Protocol):
    """Sends messages of a worker or of the coordinator."""

    def send(self, peer: str, message: Any) -> bool:
        """Send without blocking; returns False if the peer cannot be reached or its queue is full.

        The sender must not write to the arrays of the message afterwards.
        """


class WorkerPool(Link, Protocol):
    """The running workers of one session. Used only by the thread that launched them."""

    def receive(self, timeout_s: float) -> list[tuple[str, Any]]:
        """Return messages to the coordinator as (worker, message), waiting up to `timeout_s` for the first."""

    def check(self, *, last_seen_s: Mapping[str, float], errors: dict[str, str]) -> None:
        """Restart workers that ended or hang; called between two calls of `receive`.

        Args:
            last_seen_s: Time of the last message of every worker, by the monotonic clock.
            errors: Errors that workers have reported; removed once printed.

        Raises:
            WorkerError: A worker fails repeatedly.
        """

    @property
    def alive(self) -> list[str]:
        """Return the names of the running workers."""

    def cut_off(self, worker: str, reason: str) -> None:
        """Receive nothing more from a worker that breaks the protocol: restart it, or disconnect its host.

        Args:
            worker: Worker name.
            reason: Why its last message was refused.
        """

    def quarantine(self, hosts: Mapping[str, str]) -> None:
        """Keep hosts out of the run until they are released; without other hosts this does nothing.

        Args:
            hosts: All hosts that are quarantined, with one line each for their users.
        """

    def finish(self, *, timeout_s: float, poll: Callable[[], None]) -> list[str]:
        """Wait for all workers to exit, then kill the rest; services last, since others may wait for their answers.

        Workers that never connected hold no unsaved state and are killed at once.

        Args:
            timeout_s: Seconds to wait.
            poll: Called repeatedly while waiting, to answer the last messages.

        Returns:
            The names of workers that were killed, without services.
        """

    def close(self) -> None:
        """Kill the workers that still run, and release all resources."""


class Launcher(Protocol):
    """Starts workers; one implementation per engine (local processes, Ray, Slurm, …)."""

    @property
    def cores(self) -> float:
        """Return how many processor cores the workers of a run may use together."""

    def check(self, workers: int) -> None:
        """Check that there is room for so many workers; called before anything is written.

        Raises:
            WorkerError: There is no room.
        """

    def launch(self, session: Session, workers: Sequence[WorkerSpec]) -> WorkerPool:
        """Start workers, in that order.

        Raises:
            WorkerError: One could not be started.
        """


# -- in a worker's process -------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class WorkerEnv:
    """The environment of a worker.

    Args:
        run_dir: The run folder.
        session: Session number, increased by every restart; part of random seeds.
        sockets: Private folder for the sockets of services; None without.
    """

    run_dir: Path
    session: int = 0
    sockets: Path | None = None


class SharedMemory(Protocol):
    """Memory that samplers and learners share, so that blocks and weights are not copied into messages."""

    def allocate(self, player: str, shapes: Shapes) -> Mapping[str, np.ndarray] | None:
        """Return uninitialized arrays for the next block of a player; None if there is no room.

        The block is sent as `ludus.wire.Segments` with views of these arrays. The buffer is allocated again once a
        `ludus.wire.Credit` has released the block.
        """

    def expect_blocks(self, check: Callable[[Shapes], None]) -> None:
        """Check the shapes and dtypes that a received block declares before its arrays are read or decompressed.

        Args:
            check: Raises `ludus.errors.ContractError` for arrays that are no block of this learner.
        """

    def publish(self, weights: Weights, version: int) -> None:
        """Publish newer weights of this learner; samplers that cannot map the memory get them in messages."""

    def refresh(self, learner: str, version: int, load: Callable[[Weights, int], None]) -> None:
        """Load the newest weights of a learner unless they have the given version.

        Args:
            learner: Worker name of the learner.
            version: Version that is loaded already.
            load: Copies weights of a version; called again if they were overwritten during the copy.
        """


class ProcessGroup(Group, Protocol):
    """One process's handle of a process group. Used by one thread."""

    def close(self) -> None:
        """Leave the group. Processes that wait for this one get a `LinkError` at once, as if it had died."""


class PendingGroup(Protocol):
    """A process group that is being formed, as rank 0 sees it."""

    def poll(self) -> ProcessGroup | None:
        """Return the group once all processes have joined, None before; does not block.

        Raises:
            LinkError: A process has joined and left again.
        """

    def close(self) -> None:
        """Disconnect the processes that have joined, unless the group was returned."""


class Rendezvous(Protocol):
    """Forms process groups of one learner. A group has a unique name: 1 to 40 characters ``a-z 0-9 -``."""

    def open(self, name: str, *, size: int, timeout_s: float) -> PendingGroup:
        """Open a group as rank 0.

        Args:
            name: Name of the group.
            size: Number of processes.
            timeout_s: Seconds to wait for the others in every exchange of the group.

        Raises:
            LinkError: No socket could be made.
        """

    def join(self, name: str, *, rank: int, size: int, timeout_s: float) -> ProcessGroup:
        """Join a group that was opened.

        Args:
            name: Name of the group.
            rank: Rank of this process, from 1.
            size: Number of processes.
            timeout_s: As in `open`.

        Raises:
            LinkError: The group was given up.
        """


class Worker(Protocol):
    """Runs in a process of its own, or in turn with other workers in one process."""

    @property
    def name(self) -> str:
        """Return the worker name."""

    @property
    def count(self) -> int:
        """Return the amount of useful work done so far; heartbeats report it."""

    @property
    def stopped(self) -> bool:
        """Return whether the worker has received `ludus.wire.Stop`."""

    @property
    def drained(self) -> bool:
        """Return whether everything that the worker sent is committed."""

    def start(self) -> None:
        """Register with the coordinator."""

    def handle(self, peer: str, message: Any) -> None:
        """Handle one message."""

    def work(self) -> bool:
        """Do a small piece of work and return whether there was any."""

    def close(self) -> None:
        """Release all resources."""


@frozen(kw_only=True)
class WorkerContext:
    """What a launcher provides to a worker.

    Args:
        link: Sends its messages.
        clock: Seconds.
        memory: Shared memory; None without.
        rendezvous: Forms process groups of a learner; None if the launcher cannot.
    """

    link: Link
    clock: Callable[[], float]
    memory: SharedMemory | None = None
    rendezvous: Rendezvous | None = None


@frozen(kw_only=True)
class RemoteSamplerSpec:
    """Requirements of a run's samplers on another host.

    Attributes:
        threads: Threads of every sampler.
        service: Worker name of the service that must run beside them; empty without.
        learners: Worker names of the learners that they send blocks to.
        stall_s: As in `Session`.
        restarts: As in `Session`.
        log_mb: As in `Session`.
        sampler_memory_mb: As in `Session`.
        sampler_processes: As in `Session`.
    """

    threads: int
    service: str
    learners: tuple[str, ...]
    stall_s: float
    restarts: int
    log_mb: float = 16.0
    sampler_memory_mb: int = 0
    sampler_processes: int = 1024
