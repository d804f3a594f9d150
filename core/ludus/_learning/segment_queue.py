"""What waits to be learned from, and what each sampler is owed for it."""

from __future__ import annotations

from collections import deque

from attrs import define, field

from ludus.segment import SegmentBatch


@define(eq=False)
class Sender:
    """A sampler as its learner knows it.

    Attributes:
        worker: Its name.
        pid: Its process.
        received: The last block that came or is known to be lost.
        acked: The last block that it was told is taken.
        version: Of the weights it was told of last.
        block_decisions: Of its largest block; 0 before the first.
    """

    worker: str
    pid: int
    received: int = 0
    acked: int = 0
    version: int = -1
    block_decisions: int = 0


@define
class _Part:
    """A part of a block; using it acknowledges `acks`: the block if it is the last part, else the one before."""

    sender: Sender
    block: int
    acks: int
    batch: SegmentBatch


@define
class BlockQueue:
    """Blocks in the order in which they came, and their senders.

    Attributes:
        decisions: How many decisions wait.
    """

    decisions: int = field(init=False, default=0)
    senders: dict[str, Sender] = field(init=False, factory=dict)
    _parts: deque[_Part] = field(init=False, factory=deque)

    def __len__(self) -> int:
        """Return how many parts of blocks wait."""
        return len(self._parts)

    @property
    def part_decisions(self) -> float:
        """Return the mean size of the parts that wait; 0 where none does."""
        return self.decisions / len(self._parts) if self._parts else 0.0

    def introduce(self, worker: str, pid: int) -> Sender:
        """Count the blocks of a sampler from the start."""
        self.senders[worker] = Sender(worker, pid)
        return self.senders[worker]

    def sender(self, worker: str, pid: int) -> Sender:
        """Return who sent a block.

        For the last words of the predecessor of a process that has already said hello, that is somebody to whom nobody
        answers.
        """
        known = self.senders.get(worker)
        if known is None:
            return self.introduce(worker, pid)
        return known if known.pid == pid else Sender(worker, pid)

    def add(self, sender: Sender, block: int, batch: SegmentBatch, *, decisions: int) -> None:
        """Append a block, in parts of about so many decisions."""
        parts = batch.split(decisions)
        self._parts += [_Part(sender, block, block if part is parts[-1] else block - 1, part) for part in parts]
        self.decisions += batch.num_decisions

    def waiting(self, worker: str) -> int:
        """Return how many decisions of a sampler wait, those of its predecessors included."""
        return sum(part.batch.num_decisions for part in self._parts if part.sender.worker == worker)

    def pass_over(self, sender: Sender, block: int) -> None:
        """Count a block that is not used as taken as soon as nothing of its sender waits that came before it."""
        waiting = [part for part in self._parts if part.sender is sender]
        if waiting:
            waiting[-1].acks = block
        else:
            sender.acked = max(sender.acked, block)

    def take(self, decisions: float) -> tuple[list[SegmentBatch], list[Sender]]:
        """Take at least so many decisions out, as they came, and count them as taken.

        Returns:
            The parts of blocks, and whose they are, each once.
        """
        batches: list[SegmentBatch] = []
        owed: list[Sender] = []
        while decisions > 0:
            part = self._parts.popleft()
            batches.append(part.batch)
            decisions -= part.batch.num_decisions
            self.decisions -= part.batch.num_decisions
            part.sender.acked = max(part.sender.acked, part.acks)
            owed.append(part.sender)
        return batches, list(dict.fromkeys(owed))

    def acknowledge_all(self) -> list[Sender]:
        """Count everything that waits as taken; returns whose it is, each once."""
        for part in self._parts:
            part.sender.acked = max(part.sender.acked, part.acks)
        return list(dict.fromkeys(part.sender for part in self._parts))

    def clear(self) -> list[Sender]:
        """Drop everything that waits, taken as it is; returns whose it is, each once."""
        owed = self.acknowledge_all()
        self._parts.clear()
        self.decisions = 0
        return owed

    def released(self, sender: Sender) -> int:
        """Return the block up to which nothing of a sender is read any more."""
        return next((part.block for part in self._parts if part.sender is sender), sender.received + 1) - 1
