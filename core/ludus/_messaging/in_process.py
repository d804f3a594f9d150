"""The in-process network: endpoints that exchange messages through queues, deterministically and without blocking.

It replaces the endpoints of a launcher if all workers run in one process (``--workers 0``, tests, debuggers). Messages
to a worker that has no endpoint yet are queued; sending to a full queue returns False.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence

from attrs import define, field

from ludus.errors import PluginError, WorkerError
from ludus.launcher import COORDINATOR, Link, Worker, WorkerSpec
from ludus.wire import Message

_HIGH_WATER = 256  # messages in a queue


@define(slots=False)
class InprocEndpoint:
    """The endpoint of one worker; without queues of other endpoints it begins a new network."""

    _name: str
    _queues: dict[str, deque[tuple[str, Message]]] = field(factory=lambda: defaultdict(deque))

    def endpoint(self, name: str) -> InprocEndpoint:
        """Make the endpoint of another worker of this network."""
        return InprocEndpoint(name, self._queues)

    def send(self, peer: str, message: Message) -> bool:
        """Append a message to the queue of a peer, without a copy; the sender must not write to its arrays."""
        queue = self._queues[peer]
        if len(queue) < _HIGH_WATER:
            queue.append((self._name, message))
            return True
        return False

    def receive(self, timeout_s: float) -> list[tuple[str, Message]]:  # noqa: ARG002 - see below
        """Return the queued messages; does not wait, since no other endpoint can send meanwhile."""
        queue = self._queues[self._name]
        return [queue.popleft() for _ in range(len(queue))]

    def close(self) -> None:
        """Leave the network; queued messages are dropped."""
        self._queues.pop(self._name, None)


class InProcessPool(InprocEndpoint):
    """A worker pool whose workers run in turn in this process. Equal seeds give equal runs, bit for bit.

    Args:
        workers: Workers in the order in which they run.
        make: Makes a worker from its name and link.
        check_limits: Called before every piece of work; raises if this process uses too much.
    """

    def __init__(
        self,
        workers: Sequence[WorkerSpec],
        make: Callable[[str, Link], Worker],
        check_limits: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(COORDINATOR)
        self._check_limits = check_limits
        self._workers: list[tuple[Worker, InprocEndpoint]] = []
        try:
            for spec in workers:
                link = self.endpoint(spec.name)
                self._workers.append((make(spec.name, link), link))
            for worker, _ in self._workers:
                worker.start()
        except BaseException:
            self.close()
            raise

    def check(self, *, last_seen_s: Mapping[str, float], errors: dict[str, str]) -> None:  # noqa: ARG002 - unused here
        """Let every worker handle its messages and do a piece of work.

        Raises:
            PluginError: Plugin code called exit.
            WorkerError: This process uses too much.
        """
        for worker, link in self._workers:
            self._check_limits()
            try:
                for peer, message in link.receive(0.0):
                    worker.handle(peer, message)
                worker.work()
            except SystemExit as error:
                raise PluginError(f"{worker.name}: plugin code called exit({error})") from error

    def cut_off(self, worker: str, reason: str) -> None:
        """Stop the run: a worker of this process breaks the protocol.

        Raises:
            WorkerError: Always.
        """
        raise WorkerError(f"{worker}: too many of its messages were refused; the last: {reason}")

    def quarantine(self, hosts: Mapping[str, str]) -> None:
        """Do nothing: all workers run on this host."""

    @property
    def alive(self) -> list[str]:
        """Return the names of all workers."""
        return [worker.name for worker, _ in self._workers]

    def finish(self, *, timeout_s: float, poll: Callable[[], None]) -> list[str]:
        """Run until all workers are done; see `ludus.launcher.WorkerPool.finish`."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            poll()
            self.check(last_seen_s={}, errors={})
            if all(worker.stopped and worker.drained for worker, _ in self._workers):
                break
        return []

    def close(self) -> None:
        """Close the workers."""
        for worker, _ in self._workers:
            worker.close()
