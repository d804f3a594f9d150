"""The segment queue keeps the order of blocks and acknowledges what is used of every sender."""

from __future__ import annotations

import numpy as np
import pytest
from ludus._learning.segment_queue import SegmentQueue
from ludus.segment import SegmentBatch


@pytest.fixture
def queue():
    """Return an empty queue."""
    return SegmentQueue()


def block(segments=1):
    """Return a block of segments of four decisions each."""
    shape = (5, segments)
    return SegmentBatch(
        observation={"obs": np.zeros((*shape, 1), np.float32)},
        action=np.zeros((*shape, 1), np.int64),
        reward=np.zeros(shape, np.float32),
        terminated=np.zeros(shape, bool),
        truncated=np.zeros(shape, bool),
        decided=np.ones(shape, bool),
        elapsed_ticks=np.ones(shape, np.int32),
        length=np.full(segments, 4, np.int32),
        version=np.zeros(segments, np.int64),
    )


def add(queue, sender, number, segments=1):
    """Add a block of a sampler."""
    sender.received = number
    queue.add(sender, number, block(segments), part_decisions=8)


def test_decisions_and_parts_are_counted(queue):
    """The counts follow additions and removals."""
    sender = queue.register("sampler-0", 1)
    add(queue, sender, 1)
    add(queue, sender, 2, segments=4)
    assert (queue.decisions, len(queue)) == (20, 3)
    queue.take(5)
    assert (queue.decisions, len(queue)) == (8, 1)


def test_parts_are_taken_in_order_of_arrival(queue):
    """Just as many parts are taken as are needed."""
    first, second = queue.register("sampler-0", 1), queue.register("sampler-1", 2)
    for number in (1, 2):
        add(queue, first, number)
        add(queue, second, number)
    batches, senders = queue.take(9)
    assert (len(batches), senders) == (3, [first, second])
    assert (first.acked, second.acked) == (2, 1)


def test_a_block_is_acknowledged_and_released_with_its_last_part(queue):
    """Earlier parts acknowledge the block before."""
    sender = queue.register("sampler-0", 1)
    add(queue, sender, 3, segments=4)
    queue.take(1)
    assert (sender.acked, queue.released(sender)) == (2, 2)
    queue.take(1)
    assert (sender.acked, queue.released(sender)) == (3, 3)


def test_acknowledged_blocks_are_not_released_while_queued(queue):
    """The sampler must not write to their memory."""
    sender = queue.register("sampler-0", 1)
    for number in (1, 2):
        add(queue, sender, number)
    assert queue.acknowledge_all() == [sender]
    assert (sender.acked, queue.released(sender)) == (2, 0)


def test_skipped_blocks_are_acknowledged_in_order(queue):
    """At once if nothing of the sender is queued."""
    sender = queue.register("sampler-0", 1)
    queue.skip(sender, 1)
    assert sender.acked == 1
    add(queue, sender, 2)
    queue.skip(sender, 3)
    assert sender.acked == 1
    queue.take(1)
    assert sender.acked == 3


def test_late_blocks_of_a_replaced_process_get_a_sender_of_their_own(queue):
    """They do not change the counters of the new process."""
    new = queue.register("sampler-0", 2)
    late = queue.find_sender("sampler-0", 1)
    assert late is not new
    assert queue.find_sender("sampler-0", 2) is new
    add(queue, late, 57)
    _, senders = queue.take(1)
    assert senders == [late]
    assert (new.acked, queue.released(new)) == (0, 0)


def test_unknown_workers_are_registered(queue):
    """A restarted learner receives blocks before a `Hello`."""
    assert queue.find_sender("sampler-0", 1) is queue.senders["sampler-0"]
