"""A queue that serves peers in turn, so that one that floods it delays no other."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence

from attrs import define, field
from ludus_local.codec import Frame, message_bytes

#: Messages of one peer that wait, and their bytes; further ones are dropped. Workers send again what matters.
MAX_MESSAGES = 1024
MAX_BYTES = 256 * 2**20


@define
class _Waiting:
    """The messages of one peer, oldest first, and their bytes."""

    messages: deque[Sequence[Frame]] = field(factory=deque)
    num_bytes: int = 0


@define
class FairQueue:
    """Messages of several peers to one receiver, each peer in turn.

    Messages of one peer keep their order. The work per message does not depend on how many wait.
    """

    _peers: OrderedDict[Hashable, _Waiting] = field(init=False, factory=OrderedDict)  # the first is the next in turn

    def __len__(self) -> int:
        """Return the number of messages that wait."""
        return sum(len(waiting.messages) for waiting in self._peers.values())

    def put(self, peer: Hashable, frames: Sequence[Frame]) -> bool:
        """Append a message of a peer; returns False if too much of this peer waits already.

        A message that is larger than `MAX_BYTES` is accepted if nothing else of its peer waits.
        """
        waiting = self._peers.setdefault(peer, _Waiting())
        size = message_bytes(frames)
        if len(waiting.messages) >= MAX_MESSAGES or (waiting.messages and waiting.num_bytes + size > MAX_BYTES):
            return False
        waiting.messages.append(frames)
        waiting.num_bytes += size
        return True

    def send_all(self, send: Callable[[Sequence[Frame]], bool]) -> None:
        """Send messages, one of each peer in turn, until `send` returns False; that message stays."""
        while self._peers:
            peer, waiting = next(iter(self._peers.items()))
            if not send(waiting.messages[0]):
                return
            waiting.num_bytes -= message_bytes(waiting.messages.popleft())
            if waiting.messages:
                self._peers.move_to_end(peer)
            else:
                del self._peers[peer]
