"""The in-process network: endpoints that hand each other messages, deterministically and without ever waiting.

It stands in for zmq wherever everything runs in one process (``--workers 0``, tests, debuggers). Workers are reached by
name; what is sent to one that is away waits for it, and a full box refuses.
"""

from __future__ import annotations

from collections import defaultdict, deque

from attrs import define, field

from ludus._transport import HIGH_WATER
from ludus._wire import Message


@define
class InprocNetwork:
    """The boxes of the workers of one process."""

    _boxes: dict[str, deque[tuple[str, Message]]] = field(factory=lambda: defaultdict(deque), init=False)

    def endpoint(self, name: str) -> InprocEndpoint:
        """Make the endpoint of a worker."""
        return InprocEndpoint(name, self._boxes)


@define(slots=False)
class InprocEndpoint:
    """One worker's place in an `InprocNetwork`, used like `ludus._transport.ZmqEndpoint`."""

    _name: str
    _boxes: dict[str, deque[tuple[str, Message]]]

    def send(self, peer: str, message: Message) -> bool:
        """Put a message into the box of a peer, who gets the very object: senders hand over their arrays."""
        box = self._boxes[peer]
        if len(box) < HIGH_WATER:
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
