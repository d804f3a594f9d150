"""The launcher contract: processes for the workers of a run, and the way of everything between them.

The coordinator's process asks a launcher for a *crew*: running workers, which it watches, takes messages to and from,
and ends. In each process that it starts, a launcher makes the worker, gives it the messages that come for it, and lets
it work::

    worker = make_worker(spec, place, WorkerContext(link=link, clock=time.monotonic))
    worker.start()
    while not (worker.stopped and worker.settled):
        for peer, message in …:
            worker.handle(peer, message)
        worker.work()

It sends `ludus.wire.Heartbeat` for the worker to the coordinator at regular intervals, and `ludus.wire.Failure` if the
worker raises. Workers address each other by name. No message names its sender; the launcher knows the sender from the
connection. Delivery is best effort and in order per direction; workers resend what is lost.
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
]

COORDINATOR = "coordinator"

#: Names to shapes and dtypes of arrays.
Shapes: TypeAlias = "Mapping[str, tuple[tuple[int, ...], np.dtype[np.generic]]]"


def learner_name(player: str) -> str:
    """Return the worker name of a player's learner."""
    return f"learner-{player}"


def helper_name(player: str, rank: int) -> str:
    """Return the worker name of a process that helps a player's learner; its rank in their group is 1 or more."""
    return f"helper-{rank}-{player}"


# -- in the coordinator's process -----------------------------------------------------------------------------------


@frozen
class WorkerSpec:
    """One worker: its name, which begins with its kind, and its threads."""

    name: str
    threads: int


@frozen(kw_only=True)
class Session:
    """One start of a run, as a launcher needs to know it.

    Args:
        run_dir: The run folder; logs go to its ``logs`` folder.
        number: Counts the starts of the run.
        stall_s: A worker that is silent for so long is restarted; one that starts may be silent for minutes.
        restarts: Restarts of one worker within a minute, in which silence does not count, or with nothing committed in
            between (`ludus.wire.CheckpointAck`, `ludus.wire.ResultsAck`; of a service, with nobody served by
            `ludus.wire.Heartbeat`); more means that restarting does not help.
        say: Tells the person one line.
    """

    run_dir: Path
    number: int
    stall_s: float
    restarts: int
    say: Callable[[str], None]


class Link(Protocol):
    """What a worker, or the coordinator, needs to send messages."""

    def send(self, peer: str, message: Any) -> bool:
        """Send without waiting; False where the peer cannot take it now. Its arrays are not written afterwards."""


class WorkerPool(Link, Protocol):
    """The workers of one start of a run. Used by the thread that launched them."""

    def receive(self, timeout_s: float) -> list[tuple[str, Any]]:
        """Return what has arrived for the coordinator as (worker, message), waiting so long for the first."""

    def check(self, *, last_seen_s: Mapping[str, float], errors: dict[str, str]) -> None:
        """See to it that all are at work; called between two calls of `receive`, again and again.

        Args:
            last_seen_s: When each worker was heard last, by the monotonic clock.
            errors: Why workers said they would end; taken out once told.

        Raises:
            WorkerError: A worker dies again and again.
        """

    @property
    def alive(self) -> list[str]:
        """Return the names of the running workers."""

    def finish(self, *, timeout_s: float, poll: Callable[[], None]) -> list[str]:
        """Wait for all workers to end by themselves, then end the rest; services last, as others may wait for them.

        Who has not been heard yet has nothing to lose, and need not be waited for.

        Args:
            timeout_s: How long to wait.
            poll: Called again and again meanwhile, to answer their last messages.

        Returns:
            The names of those that had to be ended, services left out.
        """

    def close(self) -> None:
        """End at once whoever is left, and free everything."""


class Launcher(Protocol):
    """Runs workers; one per engine (local processes, Ray, Slurm, …)."""

    @property
    def cores(self) -> float:
        """Return how many processor cores the workers of a run may use together."""

    def check(self, workers: int) -> None:
        """Find out whether there is room for so many workers; called before anything is written.

        Raises:
            WorkerError: There is not.
        """

    def launch(self, session: Session, workers: Sequence[WorkerSpec]) -> WorkerPool:
        """Start workers, in that order.

        Raises:
            WorkerError: One could not be started.
        """


# -- in a worker's process -------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class WorkerEnv:
    """Where a worker finds itself.

    Args:
        run_dir: The run folder.
        session: Number of the session; another one for every restart, which keeps random streams apart.
        sockets: A private folder of the run on this machine, where components with a service meet; None without.
    """

    run_dir: Path
    session: int = 0
    sockets: Path | None = None


class SharedMemory(Protocol):
    """Memory that a sampler and its learners share, so that what is large need not be copied into messages."""

    def allocate(self, player: str, shapes: Shapes) -> Mapping[str, np.ndarray] | None:
        """Return arrays for the next block of a player, with whatever is left in them; None where there is no room.

        The block leaves as `ludus.wire.Segments` with parts of these arrays. They are lent again when a
        `ludus.wire.Credit` has released it.
        """

    def publish(self, weights: Weights, version: int) -> None:
        """Show newer weights of this learner to samplers; whoever cannot see them gets them as messages."""

    def refresh(self, learner: str, version: int, load: Callable[[Weights, int], None]) -> None:
        """Hand over the newest weights of a learner if they are not of that version.

        Args:
            learner: Whose.
            version: Of those that are known.
            load: Copies weights and is told their version; called again if they changed under its hands.
        """


class ProcessGroup(Group, Protocol):
    """A group of processes, as one of them sees it. Used by one thread."""

    def close(self) -> None:
        """Leave. Whoever waits for this process hears of it at once, as when it dies."""


class PendingGroup(Protocol):
    """A group that is to be, as its first process sees it."""

    def poll(self) -> ProcessGroup | None:
        """Return the group once all have come, None before; never waits.

        Raises:
            LinkError: One has come and gone again.
        """

    def close(self) -> None:
        """Let go those who have come, unless the group was handed over."""


class Rendezvous(Protocol):
    """How processes of one learner become a group. A name is that of one meeting: 1 to 40 characters ``a-z 0-9 -``."""

    def call(self, name: str, *, size: int, timeout_s: float) -> PendingGroup:
        """Open a meeting, as its first process.

        Args:
            name: By which the others find it.
            size: Of the group.
            timeout_s: How long others are waited for whenever the group exchanges something.

        Raises:
            LinkError: There is no place for it.
        """

    def join(self, name: str, *, rank: int, size: int, timeout_s: float) -> ProcessGroup:
        """Come to a meeting that has been opened.

        Args:
            name: Of the meeting.
            rank: Of this process, from 1.
            size: Of the group.
            timeout_s: As in `call`.

        Raises:
            LinkError: It was given up.
        """


class Worker(Protocol):
    """What runs in a process of its own, or in turn with the others."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def count(self) -> int:
        """Return how many useful things were done so far."""

    @property
    def stopped(self) -> bool:
        """Return whether it was told to stop."""

    @property
    def drained(self) -> bool:
        """Return whether all it said is committed."""

    def start(self) -> None:
        """Introduce itself."""

    def handle(self, peer: str, message: Any) -> None:
        """Take a message."""

    def work(self) -> bool:
        """Do a small piece of work and return whether there was any."""

    def close(self) -> None:
        """Free everything."""


@frozen(kw_only=True)
class WorkerContext:
    """What a worker has to work with.

    Args:
        link: Where its messages go.
        clock: Seconds.
        memory: Shared with the others; None without.
        rendezvous: How processes of one learner become a group; None where they cannot.
    """

    link: Link
    clock: Callable[[], float]
    memory: SharedMemory | None = None
    rendezvous: Rendezvous | None = None


@frozen(kw_only=True)
class RemoteSamplerSpec:
    """What samplers of a run need on a computer of their own.

    Attributes:
        threads: Of every sampler.
        service: Worker name of the service that must run beside them; empty without.
        learners: Worker names of those that they reach through the launcher.
        stall_s: As in `Session`, and so is `restarts`.
    """

    threads: int
    service: str
    learners: tuple[str, ...]
    stall_s: float
    restarts: int
