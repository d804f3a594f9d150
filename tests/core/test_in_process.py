"""Endpoints of one process queue messages by the name of the receiver."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from ludus._messaging.in_process import _HIGH_WATER, InprocEndpoint, InProcessPool
from ludus._messaging.messages import Hello, ResultsAck, Segments, Stop
from ludus.errors import ConfigError, PluginError, WorkerError
from ludus.launcher import WorkerSpec


@pytest.fixture
def network():
    """Return the first endpoint of a network."""
    return InprocEndpoint("coordinator")


def test_messages_arrive_in_order_under_the_name_of_their_sender(network):
    """In both directions."""
    coordinator, sampler = network.endpoint("coordinator"), network.endpoint("sampler-0")
    for number in range(3):
        assert sampler.send("coordinator", ResultsAck(report=number))
    assert coordinator.receive(0.0) == [("sampler-0", ResultsAck(report=number)) for number in range(3)]
    assert coordinator.receive(0.0) == []
    assert coordinator.send("sampler-0", Stop(reason="enough"))
    assert sampler.receive(0.0) == [("coordinator", Stop(reason="enough"))]


def test_messages_are_queued_for_an_absent_peer(network):
    """Workers may start in any order."""
    sampler = network.endpoint("sampler-0")
    assert sampler.send("learner-main", Hello())
    sampler.close()
    assert network.endpoint("learner-main").receive(0.0) == [("sampler-0", Hello())]


def test_sending_to_a_full_queue_returns_false(network):
    """It does not block, and works again once the peer receives."""
    coordinator, sampler = network.endpoint("coordinator"), network.endpoint("sampler-0")
    assert [sampler.send("coordinator", Stop()) for _ in range(_HIGH_WATER + 1)] == [True] * _HIGH_WATER + [False]
    assert len(coordinator.receive(0.0)) == _HIGH_WATER
    assert sampler.send("coordinator", Stop())


def test_closing_drops_queued_messages(network):
    """A new endpoint of the same name starts empty; closing twice is allowed."""
    coordinator, old = network.endpoint("coordinator"), network.endpoint("sampler-0")
    coordinator.send("sampler-0", Stop(reason="lost"))
    old.close()
    old.close()
    new = network.endpoint("sampler-0")
    assert new.receive(0.0) == []
    coordinator.send("sampler-0", Stop(reason="for the new one"))
    assert new.receive(0.0) == [("coordinator", Stop(reason="for the new one"))]


def test_receiving_does_not_block(network):
    """No other endpoint could send meanwhile."""
    start = time.monotonic()
    assert network.endpoint("coordinator").receive(60.0) == []
    assert time.monotonic() - start < 1.0


def test_messages_are_handed_over_without_a_copy(network):
    """The receiver gets the sender's object."""
    message = Segments(player="p", block=0, arrays={"x": np.zeros(3)})
    network.endpoint("s").send("learner-p", message)
    assert network.endpoint("learner-p").receive(0.0)[0][1] is message


# -- a crew ----------------------------------------------------------------------------------------------------------


class Hand:
    """A worker that records its calls."""

    def __init__(self, name, events):
        self.name, self.events = name, events

    def start(self):
        self.events.append(("start", self.name))
        if self.name == "lazy":
            raise ConfigError("no room")

    def close(self):
        self.events.append(("close", self.name))


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("none", [("close", "first"), ("close", "second")]),
        (
            "lazy",
            [
                ("start", "first"),
                ("start", "second"),
                ("start", "lazy"),
                ("close", "first"),
                ("close", "second"),
                ("close", "lazy"),
            ],
        ),
    ],
)
def test_a_pool_is_closed_if_a_worker_cannot_be_made(last, expected):
    """Workers may hold processes, files and memory."""
    events = []

    def make(name, link):
        if name == "none":
            raise ConfigError("no room")
        return Hand(name, events)

    with pytest.raises(ConfigError, match="no room"):
        InProcessPool([WorkerSpec(name, 1) for name in ("first", "second", last)], make)
    assert events == expected


def test_an_exit_in_plugin_code_raises_an_error_with_the_worker_name():
    """It must not end the process of the run."""

    class Leaving(Hand):
        def work(self):
            sys.exit(0)

    crew = InProcessPool([WorkerSpec("learner-main", 1)], lambda name, _: Leaving(name, []))
    with pytest.raises(PluginError, match=r"^learner-main: plugin code called exit\(0\)$"):
        crew.check(last_seen_s={}, errors={})


def test_limits_are_checked_before_every_piece_of_work():
    """A game that allocates without bound takes no other process down."""
    worked = []

    class Working(Hand):
        def work(self):
            worked.append(self.name)

    def check_limits():
        if worked:
            raise WorkerError("used 7 MiB")

    workers = [WorkerSpec("first", 1), WorkerSpec("second", 1)]
    pool = InProcessPool(workers, lambda name, _: Working(name, []), check_limits)
    with pytest.raises(WorkerError, match="used 7 MiB"):
        pool.check(last_seen_s={}, errors={})
    assert worked == ["first"]
