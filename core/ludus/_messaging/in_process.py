"""The in-process network: endpoints that hand each other messages, deterministically and without ever waiting.

It stands in for a launcher's wherever everything runs in one process (``--workers 0``, tests, debuggers). Workers are
reached by name; what is sent to one that is away waits for it, and a full box refuses.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence

from attrs import define, field

from ludus.errors import PluginError
from ludus.launcher import COORDINATOR, Link, Worker, WorkerSpec
from ludus.wire import Message

_HIGH_WATER = 256  # messages in a box


@define(slots=False)
class InprocEndpoint:
    """One worker's place in the network of a process, as other endpoints; one that gets no boxes begins a network."""

    _name: str
    _boxes: dict[str, deque[tuple[str, Message]]] = field(factory=lambda: defaultdict(deque))

    def endpoint(self, name: str) -> InprocEndpoint:
        """Make the endpoint of another worker of this network."""
        return InprocEndpoint(name, self._boxes)

    def send(self, peer: str, message: Message) -> bool:
        """Put a message into the box of a peer, who gets the very object: senders hand over their arrays."""
        box = self._boxes[peer]
        if len(box) < _HIGH_WATER:
            box.append((self._name, message))
            return True
        return False

    def receive(self, timeout_s: float) -> list[tuple[str, Message]]:  # noqa: ARG002 - nobody could send meanwhile
        """Return what has arrived; never waits, as nobody could send meanwhile."""
        box = self._boxes[self._name]
        return [box.popleft() for _ in range(len(box))]

    def close(self) -> None:
        """Leave the network; what others sent here is lost."""
        self._boxes.pop(self._name, None)


class InProcessPool(InprocEndpoint):
    """A crew whose workers work in turn in this process, in a fixed order: equal seeds give equal runs, bit for bit.

    Args:
        workers: In their order.
        make: Makes one.
    """

    def __init__(self, workers: Sequence[WorkerSpec], make: Callable[[str, Link], Worker]) -> None:
        super().__init__(COORDINATOR)
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

    def check(self, *, last_seen_s: Mapping[str, float], errors: dict[str, str]) -> None:  # noqa: ARG002 - nobody is watched
        """Let every worker take its messages and do a piece of work.

        Raises:
            PluginError: Plugin code called exit, which ends a worker's process elsewhere.
        """
        for worker, link in self._workers:
            try:
                for peer, message in link.receive(0.0):
                    worker.handle(peer, message)
                worker.work()
            except SystemExit as error:
                raise PluginError(f"{worker.name}: plugin code called exit({error})") from error

    @property
    def alive(self) -> list[str]:
        """Return the names of all workers."""
        return [worker.name for worker, _ in self._workers]

    def finish(self, *, timeout_s: float, poll: Callable[[], None]) -> list[str]:
        """Go on until all workers are done; see `ludus.launcher.WorkerPool.finish`."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            poll()
            self.check(last_seen_s={}, errors={})
            if all(worker.stopped and worker.drained for worker, _ in self._workers):
                break
        return []

    def close(self) -> None:
        """Free what the workers hold."""
        for worker, _ in self._workers:
            worker.close()
