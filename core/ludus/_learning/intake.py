"""The intake of a learner: receives blocks from samplers, drops stale segments, and grants credits.

Flow control: every sampler may have several blocks in flight, at least its part of an update and one more, so that it
plays on while an update is computed and the next update finds its data. With many samplers each has fewer, down to one,
while blocks are queued; otherwise all blocks in flight would be too stale when their turn comes.

A block is acknowledged when an update has used it, or at once while the learner lacks data for its next update. So the
credits bound the queue, and no sampler can starve the learner of a batch that is larger than all credits together.
Blocks of a sampler that ignores its credits are dropped once far more of them are queued than were granted. A block is
*released* when no part of it is queued any more, whenever it was acknowledged; its memory is not written to before.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable

import numpy as np
from attrs import define, evolve, field

from ludus._learning.segment_queue import SegmentQueue, Sender
from ludus._learning.state import LearnerState
from ludus._messaging.messages import Credit, Hello, Segments
from ludus._messaging.refusals import Refusals
from ludus._sampling.segment_layout import SegmentLayout
from ludus.algorithm import OffPolicyTrainer
from ludus.errors import ContractError
from ludus.launcher import Link, Shapes
from ludus.segment import SegmentBatch

_log = logging.getLogger(__name__)
_TARGET_SHARE = 0.75  # of the most updates in flight; the rest is a margin for blocks that take longer than others
_SPARSE = 8  # blocks with decisions in less than 1/8 of their entries are compacted
_SURPLUS_FACTOR = 4  # a restarted sampler, or one with outdated credits, may exceed its credits so far


@define
class SegmentIntake:
    """Receives blocks of one player.

    Args:
        layout: Layout of the segments.
        state: State of the learner.
        link: Sends credits.
        clock: Seconds.
        refusals: Counts blocks of another layout.

    Attributes:
        queue: Segments that wait for an update.
    """

    layout: SegmentLayout
    state: LearnerState
    link: Link
    clock: Callable[[], float]
    refusals: Refusals
    queue: SegmentQueue = field(init=False, factory=SegmentQueue)
    _warned: bool = field(init=False, default=False)

    # -- samplers ----------------------------------------------------------------------------------------------

    def greet(self, worker: str, hello: Hello) -> None:
        """Register a sampler, or one that was restarted, and grant it credits."""
        sender = self.queue.senders.get(worker)
        if sender is None or hello.block == 0 or hello.pid != sender.pid:
            sender = self.queue.register(worker, hello.pid)
        # blocks in flight to a learner that died are lost: count on from the last block that the sampler sent
        if hello.block > sender.received:
            sender.received = sender.acked = hello.block
        sender.version = -1
        self.grant(sender)

    def forget(self, worker: str, *, drop_blocks: bool) -> None:
        """Forget a sampler that has left, and drop its queued blocks if it was excluded."""
        self.queue.senders.pop(worker, None)  # its next block registers it again
        if drop_blocks:
            self.state.metrics.drops["dropped_excluded"] += self.queue.discard(worker)

    # -- blocks ------------------------------------------------------------------------------------------------

    def receive(self, worker: str, message: Segments) -> None:
        """Queue the usable segments of a block, and grant credits for it if it is acknowledged at once."""
        sender = self.queue.find_sender(worker, message.pid)
        sender.received = max(sender.received, message.block)
        batch = self._decode(worker, message)
        if batch is not None:
            batch = self._drop_stale(batch)
            if batch.num_decisions < batch.decided.size // _SPARSE:
                batch = batch.compact()  # otherwise few decisions could keep many large arrays in the queue
            sender.block_decisions = max(sender.block_decisions, batch.num_decisions)
        if batch is None or not batch.num_decisions or self._is_surplus(sender):
            self.queue.skip(sender, message.block)
        else:
            self.queue.add(sender, message.block, batch, part_decisions=self.state.trainer.batch_decisions)
        if not self.ready:  # dropped blocks too: queued parts are not used before further blocks arrive
            sender.acked = max(sender.acked, message.block)
        if sender.acked >= message.block:
            self.grant(sender)

    def _decode(self, worker: str, message: Segments) -> SegmentBatch | None:
        """Return the segments of a block, None if it is malformed.

        A block of another layout is refused. One with impossible values may be due to a game.
        """
        shapes = {name: (array.shape, array.dtype) for name, array in message.arrays.items()}
        try:
            if shapes:  # otherwise the link could not read it
                self._count_refusal(worker, shapes)
            self.layout.check_arrays(message.arrays)
            batch = SegmentBatch.from_arrays(dict(message.arrays))
            batch.check()
        except ContractError as error:
            self.state.metrics.drops["dropped_malformed"] += 1
            count = self.state.metrics.drops["dropped_malformed"]
            if count.bit_count() == 1:  # 1, 2, 4, 8 …
                _log.warning("dropped malformed block %d, from %s: %s", count, worker, error)
            return None
        return batch

    def check_shapes(self, shapes: Shapes) -> None:
        """Check the shapes and dtypes that a block declares, before its arrays are read.

        Raises:
            ContractError: They are not those of a block, or it has more segments than a sampler records.
        """
        self.layout.check_shapes(shapes)
        segments = math.prod(shapes["length"][0])
        if segments > self.state.options.max_segments:
            raise ContractError(f"segments: {segments} in a block, expected at most {self.state.options.max_segments}")

    def _count_refusal(self, worker: str, shapes: Shapes) -> None:
        """Check shapes, and count a refusal if they are wrong.

        Raises:
            ContractError: They are wrong.
        """
        try:
            self.check_shapes(shapes)
        except ContractError as error:
            self.refusals.add(worker, str(error))
            raise

    def _drop_stale(self, batch: SegmentBatch) -> SegmentBatch:
        """Return a batch with the length of unusable segments set to 0: too stale ones, and those before a reset."""
        # never negative: after a resume a sampler may have newer weights than the learner
        staleness = np.maximum(self.state.version - batch.version, 0)
        used = batch.length > 0
        self.state.metrics.record_block(batch.num_decisions, staleness[used])
        before_reset = used & (batch.version < self.state.generation_version)
        stale = used & ~before_reset & (staleness > self.max_staleness)
        if not (stale | before_reset).any():
            return batch
        self.state.metrics.drops["dropped_stale"] += int(stale.sum())
        self.state.metrics.drops["dropped_reset"] += int(before_reset.sum())
        if stale.any():
            self._warn_stale()
        return evolve(batch, length=np.where(stale | before_reset, 0, batch.length).astype(np.int32))

    def _warn_stale(self) -> None:
        """Log once if one block per sampler is more than can be learned from in time."""
        senders = self.queue.senders
        in_flight = sum(sender.block_decisions for sender in senders.values())
        batch_decisions = self.state.trainer.batch_decisions
        if self._warned or in_flight <= (self.max_staleness + 1) * batch_decisions:
            return
        self._warned = True
        _log.warning(
            "player %r: segments are dropped as stale: %d samplers have %d decisions in flight together, an update "
            "takes %d, and max_staleness is %d — use fewer samplers (run.workers) or fewer matches in each "
            "(sampling.matches), or raise sampling.max_staleness",
            *(self.state.player, len(senders), in_flight, batch_decisions, self.state.options.max_staleness),
        )

    def _is_surplus(self, sender: Sender) -> bool:
        """Return whether far more decisions of a sampler are queued than its credits allow; counts the drop."""
        allowed = max(self.state.trainer.batch_decisions, self._credits(sender) * sender.block_decisions)
        surplus = self.queue.queued_decisions(sender.worker) >= _SURPLUS_FACTOR * allowed
        if surplus:
            self.state.metrics.drops["dropped_surplus"] += 1
        return surplus

    @property
    def max_staleness(self) -> float:
        """Return the largest staleness of segments that are learned from; infinite for off-policy trainers."""
        trainer = self.state.trainer
        off_policy = isinstance(trainer, OffPolicyTrainer) and trainer.off_policy
        return math.inf if off_policy else self.state.options.max_staleness

    # -- batches -----------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Return whether there is enough data for an update."""
        return self.queue.decisions >= self._wanted_decisions

    @property
    def _wanted_decisions(self) -> float:
        """Return the decisions from which on one more part would exceed the batch by more than is missing."""
        mean_part_decisions = self.queue.decisions / max(len(self.queue), 1)
        return max(1.0, self.state.trainer.batch_decisions - mean_part_decisions / 2)

    def take_batch(self) -> tuple[SegmentBatch, list[Sender]]:
        """Remove the segments of one update from the queue.

        Returns:
            The batch, read-only, and the senders to send a credit to after the update.
        """
        parts, senders = self.queue.take(self._wanted_decisions)
        return SegmentBatch.concatenate(parts).read_only(), senders

    # -- credits -----------------------------------------------------------------------------------------------

    def grant_after_update(self, senders: Iterable[Sender]) -> None:
        """Grant credits to the senders of an update; while data is missing also to those of queued blocks."""
        if not self.ready:
            senders = dict.fromkeys([*senders, *self.queue.acknowledge_all()])
        for sender in senders:
            self.grant(sender)

    def grant_all(self) -> None:
        """Grant credits to all registered samplers."""
        for sender in self.queue.senders.values():
            self.grant(sender)

    def clear(self) -> None:
        """Drop all queued segments, and grant credits for them."""
        for sender in self.queue.clear():
            self.grant(sender)

    def grant(self, sender: Sender) -> None:
        """Send a sampler its acknowledgements and credits, and newer weights; skips replaced processes."""
        if not self.state.welcomed or self.queue.senders.get(sender.worker) is not sender:
            return
        version = self.state.version
        credit = Credit(
            player=self.state.player,
            acked=sender.acked,
            credits=self._credits(sender),
            version=version,
            pid=sender.pid,
            released=self.queue.released(sender),
            progress=self.state.progress(self.clock()),
            weights=self.state.weights if sender.version != version else {},
        )
        if self.link.send(sender.worker, credit):
            sender.version = version

    def _credits(self, sender: Sender) -> int:
        """Return how many blocks a sampler may have in flight."""
        if not sender.block_decisions:
            return self.state.options.credits
        blocks_per_update = self.state.trainer.batch_decisions / len(self.queue.senders) / sender.block_decisions
        wanted = max(self.state.options.credits, math.ceil(blocks_per_update) + 1)
        if not self.ready:  # no block is queued, so none becomes stale in the queue
            return wanted
        return max(1, math.floor(min(wanted, updates_in_flight(self.max_staleness) * blocks_per_update)))


def updates_in_flight(max_staleness: float) -> float:
    """Return how many updates' worth of blocks may be in flight without any of them becoming too stale.

    By Little's law, a segment that enters behind n - 1 others of an update each is n - 1 updates stale when it is
    learned from. So `max_staleness` + 1 updates fit, less a margin from two updates on.
    """
    most = max_staleness + 1
    return min(most, max(2.0, _TARGET_SHARE * most))
