"""Peers are served in turn, and none of them fills the memory."""

from __future__ import annotations

import pytest
from ludus_hosts import fair_queue as _fair_queue
from ludus_hosts.fair_queue import MAX_MESSAGES, FairQueue


@pytest.fixture
def queue():
    """Return an empty queue."""
    return FairQueue()


def take(queue, count=10**9):
    """Return the first frame of so many messages, in the order in which they are sent."""
    sent = []

    def send(frames):
        if len(sent) == count:
            return False
        sent.append(bytes(frames[0]))
        return True

    queue.send_all(send)
    return sent


def test_peers_are_served_in_turn(queue):
    """The messages of each keep their order."""
    for number in range(4):
        queue.put("many", [b"many %d" % number])
    queue.put("few", [b"few 0"])
    queue.put("one", [b"one 0"])
    assert take(queue) == [b"many 0", b"few 0", b"one 0", b"many 1", b"many 2", b"many 3"]
    assert len(queue) == 0


def test_what_cannot_be_sent_stays(queue):
    """In its place; the turn goes on where it was."""
    for number in range(2):
        for peer in ("a", "b"):
            queue.put(peer, [b"%s%d" % (peer.encode(), number)])
    assert take(queue, 1) == [b"a0"]
    assert len(queue) == 3
    assert take(queue) == [b"b0", b"a1", b"b1"]


def test_a_peer_that_floods_the_queue_drops_its_own_messages(queue):
    """Those of other peers are accepted, and sent after one message of it."""
    assert [queue.put("flood", [b"x"]) for _ in range(MAX_MESSAGES + 9)].count(True) == MAX_MESSAGES
    assert queue.put("honest", [b"y"])
    assert take(queue, 2) == [b"x", b"y"]


def test_the_bytes_of_a_peer_are_bounded(queue, monkeypatch):
    """One message of any size is accepted, which the transport bounds."""
    monkeypatch.setattr(_fair_queue, "MAX_BYTES", 100)
    assert queue.put("a", [bytes(500)])
    assert not queue.put("a", [b"x"])
    assert queue.put("b", [bytes(60), bytes(30)])
    assert not queue.put("b", [bytes(11)])
    assert queue.put("b", [bytes(10)])
    take(queue)
    assert queue.put("a", [bytes(90)])
