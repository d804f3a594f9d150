"""An endpoint that receives from a list of frames instead of a socket; everything behind the socket is the real one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ludus.wire import Message
from ludus_local import codec
from ludus_local.transport import ZmqEndpoint

_KEPT = 64  # sent messages, for checks of the answers


class FrameEndpoint(ZmqEndpoint):
    """A worker's endpoint whose peers are the fuzzer.

    Attributes:
        sent: The last messages that the worker sent, as (peer, message).
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.sent: deque[tuple[str, Message]] = deque(maxlen=_KEPT)
        self._inbox: deque[list[bytes]] = deque()

    def put(self, sender: str, frames: Sequence[bytes]) -> None:
        """Queue a message as a ROUTER receives it: the identity of the connection comes first."""
        self._inbox.append([sender.encode("latin-1", "replace"), *frames])

    def receive(self, timeout_s: float) -> list[tuple[str, Message]]:  # noqa: ARG002 - nothing can arrive meanwhile
        """Return the queued messages, with refused ones in their place."""
        received: list[tuple[str, Message]] = []
        while self._inbox:
            self._accept(None, list(self._inbox.popleft()), received)
        return received

    def send(self, peer: str, message: Message) -> bool:
        """Encode a message, as a real endpoint does, and keep it."""
        codec.encode(message)
        self.sent.append((peer, message))
        return True
