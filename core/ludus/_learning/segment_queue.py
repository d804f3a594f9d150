"""The queue of segments that wait for an update, and the block counters of every sampler."""

from __future__ import annotations

from collections import deque

from attrs import define, field

from ludus.segment import SegmentBatch


@define(eq=False)
class Sender:
    """Block counters of one sampler process.

    Attributes:
        worker: Worker name of the sampler.
        pid: Process id.
        received: Last block that was received or is known to be lost.
        acked: Last block that is acknowledged.
        version: Weights version of the last credit; -1 before the first.
        block_decisions: Decisions of the largest block; 0 before the first.
    """

    worker: str
    pid: int
    received: int = 0
    acked: int = 0
    version: int = -1
    block_decisions: int = 0


@define
class _Part:
    """A part of a block; using it acknowledges block `acks`: its own if it is the last part, else the previous."""

    sender: Sender
    block: int
    acks: int
    batch: SegmentBatch


@define
class SegmentQueue:
    """Parts of blocks in the order of arrival, and their senders.

    Attributes:
        decisions: Decisions in the queue.
        senders: Connected samplers by worker name.
    """

    decisions: int = field(init=False, default=0)
    senders: dict[str, Sender] = field(init=False, factory=dict)
    _parts: deque[_Part] = field(init=False, factory=deque)

    def __len__(self) -> int:
        """Return the number of parts in the queue."""
        return len(self._parts)

    def register(self, worker: str, pid: int) -> Sender:
        """Register a sampler process; its blocks are counted from the start."""
        self.senders[worker] = Sender(worker, pid)
        return self.senders[worker]

    def find_sender(self, worker: str, pid: int) -> Sender:
        """Return the sender of a block; registers an unknown worker.

        A late block of a process that was replaced gets an unregistered sender, to which no credit is sent.
        """
        sender = self.senders.get(worker)
        if sender is None:
            return self.register(worker, pid)
        return sender if sender.pid == pid else Sender(worker, pid)

    def add(self, sender: Sender, block: int, batch: SegmentBatch, *, part_decisions: int) -> None:
        """Append a block, split into parts of about `part_decisions` decisions."""
        parts = batch.split(part_decisions)
        self._parts += [_Part(sender, block, block if part is parts[-1] else block - 1, part) for part in parts]
        self.decisions += batch.num_decisions

    def queued_decisions(self, worker: str) -> int:
        """Return the decisions of a worker in the queue, including those of replaced processes."""
        return sum(part.batch.num_decisions for part in self._parts if part.sender.worker == worker)

    def skip(self, sender: Sender, block: int) -> None:
        """Acknowledge a dropped block together with the last queued part of its sender; at once if there is none."""
        queued = [part for part in self._parts if part.sender is sender]
        if queued:
            queued[-1].acks = block
        else:
            sender.acked = max(sender.acked, block)

    def take(self, decisions: float) -> tuple[list[SegmentBatch], list[Sender]]:
        """Remove parts with at least `decisions` decisions, oldest first, and acknowledge them.

        Returns:
            The parts, and the senders to send a credit to.
        """
        batches: list[SegmentBatch] = []
        senders: list[Sender] = []
        while decisions > 0:
            part = self._parts.popleft()
            batches.append(part.batch)
            decisions -= part.batch.num_decisions
            self.decisions -= part.batch.num_decisions
            part.sender.acked = max(part.sender.acked, part.acks)
            senders.append(part.sender)
        return batches, list(dict.fromkeys(senders))

    def discard(self, worker: str) -> int:
        """Drop the queued parts of a worker, and return how many there were."""
        dropped = [part for part in self._parts if part.sender.worker == worker]
        self._parts = deque(part for part in self._parts if part.sender.worker != worker)
        self.decisions -= sum(part.batch.num_decisions for part in dropped)
        return len(dropped)

    def acknowledge_all(self) -> list[Sender]:
        """Acknowledge every queued part; returns the senders to send a credit to."""
        for part in self._parts:
            part.sender.acked = max(part.sender.acked, part.acks)
        return list(dict.fromkeys(part.sender for part in self._parts))

    def clear(self) -> list[Sender]:
        """Acknowledge and drop every queued part; returns the senders to send a credit to."""
        senders = self.acknowledge_all()
        self._parts.clear()
        self.decisions = 0
        return senders

    def released(self, sender: Sender) -> int:
        """Return the last block of a sender of which no part is queued; its memory may be reused."""
        return next((part.block for part in self._parts if part.sender is sender), sender.received + 1) - 1
