"""Blocks wait in order, and every sampler is owed exactly what was used of its own."""

from __future__ import annotations

import numpy as np
import pytest
from ludus._learning.segment_queue import BlockQueue
from ludus.segment import SegmentBatch


@pytest.fixture
def queue():
    """Return an empty queue."""
    return BlockQueue()


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
    """Let a block of a sampler arrive."""
    sender.received = number
    queue.add(sender, number, block(segments), decisions=8)


def test_it_counts_what_waits(queue):
    """In decisions and in parts."""
    sender = queue.introduce("sampler-0", 1)
    add(queue, sender, 1)
    add(queue, sender, 2, segments=4)
    assert (queue.decisions, len(queue)) == (20, 3)
    queue.take(5)
    assert (queue.decisions, len(queue)) == (8, 1)


def test_blocks_leave_in_the_order_they_came(queue):
    """Enough of them and no more."""
    first, second = queue.introduce("sampler-0", 1), queue.introduce("sampler-1", 2)
    for number in (1, 2):
        add(queue, first, number)
        add(queue, second, number)
    batches, owed = queue.take(9)
    assert (len(batches), owed) == (3, [first, second])
    assert (first.acked, second.acked) == (2, 1)


def test_a_block_is_taken_with_its_last_part(queue):
    """And released with it."""
    sender = queue.introduce("sampler-0", 1)
    add(queue, sender, 3, segments=4)
    queue.take(1)
    assert (sender.acked, queue.released(sender)) == (2, 2)
    queue.take(1)
    assert (sender.acked, queue.released(sender)) == (3, 3)


def test_what_is_acknowledged_is_not_released_while_it_waits(queue):
    """The sampler may play on, but elsewhere."""
    sender = queue.introduce("sampler-0", 1)
    for number in (1, 2):
        add(queue, sender, number)
    assert queue.acknowledge_all() == [sender]
    assert (sender.acked, queue.released(sender)) == (2, 0)


def test_unused_blocks_are_taken_with_what_came_before(queue):
    """At once where nothing waits."""
    sender = queue.introduce("sampler-0", 1)
    queue.pass_over(sender, 1)
    assert sender.acked == 1
    add(queue, sender, 2)
    queue.pass_over(sender, 3)
    assert sender.acked == 1
    queue.take(1)
    assert sender.acked == 3


def test_the_last_words_of_a_predecessor_belong_to_nobody(queue):
    """Neither do they raise what its successor is told."""
    new = queue.introduce("sampler-0", 2)
    ghost = queue.sender("sampler-0", 1)
    assert ghost is not new
    assert queue.sender("sampler-0", 2) is new
    add(queue, ghost, 57)
    _, owed = queue.take(1)
    assert owed == [ghost]
    assert (new.acked, queue.released(new)) == (0, 0)


def test_whoever_comes_unannounced_is_known_from_then_on(queue):
    """A restarted learner hears of its samplers by their blocks."""
    assert queue.sender("sampler-0", 1) is queue.senders["sampler-0"]
