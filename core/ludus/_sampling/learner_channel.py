"""The channel from a live actor to the learner of its player."""

from __future__ import annotations

import os
from collections import deque

from attrs import define, field

from ludus._messaging.messages import Credit, Hello, Segments
from ludus._sampling.actors import LiveActor
from ludus.launcher import Link, SharedMemory, learner_name

_HELLO_INTERVAL_S = 2.0


@define
class LearnerChannel:
    """Sends the blocks of a live actor, one credit per block, and loads the weights that the learner sends.

    Args:
        actor: The live actor.
        link: Link to the learner.
        memory: Memory shared with the learner; None if weights and blocks travel in messages.

    Attributes:
        ready: Whether weights are loaded and a credit for the block that is being recorded is left.
        sent: Number of the last block sent.
        acked: Number of the last block that the learner received.
        outbox: Blocks that wait for a credit.
    """

    actor: LiveActor
    link: Link
    memory: SharedMemory | None
    ready: bool = field(init=False, default=False)
    sent: int = field(init=False, default=0)
    acked: int = field(init=False, default=0)
    outbox: deque[Segments] = field(init=False, factory=deque)
    _credits: int = field(init=False, default=0)
    _pending_weights: Credit | None = field(init=False, default=None)
    _hello_s: float = field(init=False, default=-1e9)

    @property
    def learner(self) -> str:
        """Return the worker name of the learner."""
        return learner_name(self.actor.player)

    def send_hello(self) -> None:
        """Send the learner the number of the last block."""
        self.link.send(self.learner, Hello(pid=os.getpid(), block=self.sent))

    def repeat_hello(self, now: float) -> None:
        """Send another hello from time to time while there are no weights or credits: the learner may be a new one."""
        if not self.ready and now - self._hello_s > _HELLO_INTERVAL_S:
            self._hello_s = now
            self.send_hello()

    def receive_credit(self, credit: Credit) -> None:
        """Update the credits. Weights are loaded later if a block is being recorded with the present ones."""
        if credit.pid == os.getpid():  # an earlier process of this name counted other blocks
            self.acked = max(min(credit.acked, self.sent), self.acked)
        self._credits = credit.credits
        self.actor.set_progress(credit.progress)
        if credit.weights:
            self._pending_weights = credit
        self._send_outbox()
        if not self.ready:
            self._prepare_block()

    def send_blocks(self) -> None:
        """Send the blocks that the actor has recorded, as far as there are credits; then prepare the next block."""
        while self.actor.blocks:
            number, arrays = self.sent + len(self.outbox) + 1, self.actor.blocks.popleft().arrays()
            self.outbox.append(Segments(player=self.actor.player, block=number, pid=os.getpid(), arrays=arrays))
        self._send_outbox()
        self._prepare_block()

    def _prepare_block(self) -> None:
        """Load the newest weights for the next block if there is a credit for it."""
        self.ready = not self.outbox and self.sent - self.acked < self._credits
        if not self.ready:
            return
        if self._pending_weights is not None:
            self.actor.load(self._pending_weights.weights, self._pending_weights.version)
            self._pending_weights = None
        if self.memory is not None:
            self.memory.refresh(self.learner, self.actor.version, self.actor.load)
        self.ready = self.actor.version >= 0

    def _send_outbox(self) -> None:
        while self.outbox and self.sent - self.acked < self._credits:
            if not self.link.send(self.learner, self.outbox[0]):
                return
            self.outbox.popleft()
            self.sent += 1
