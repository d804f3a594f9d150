"""The registry decides which hosts may join, and which weights they get."""

from __future__ import annotations

import pytest
from ludus_hosts.host_registry import HostRegistry
from ludus_hosts.wire import JoinRequest


def request(host="box", *, token="1", samplers=2):
    """Return the join request of a host."""
    return JoinRequest(host=host, token=token, samplers=samplers)


@pytest.fixture
def registry():
    """Return a registry with one host."""
    made = HostRegistry()
    assert made.register(request(), "key", b"route", 0.0) == []
    return made


def test_a_smaller_number_of_samplers_removes_all_and_registers_the_rest(registry):
    """Learners are notified of all workers; those that remain register with their next block."""
    assert registry.register(request(samplers=1), "key", b"route", 1.0) == ["sampler-box-0", "sampler-box-1"]
    assert list(registry.workers) == ["sampler-box-0"]


def test_a_lost_connection_removes_its_host(registry):
    """A lost bulk connection does not; unknown connections are ignored."""
    registry.hosts["box"].set_bulk_route(b"bulk")
    assert registry.disconnect(b"other") == []
    assert registry.disconnect(b"bulk") == []
    assert registry.hosts["box"].bulk_route == b""
    assert registry.disconnect(b"route") == ["sampler-box-0", "sampler-box-1"]
    assert registry.hosts == {}
    assert registry.workers == {}


def test_weights_are_needed_until_they_are_acknowledged(registry):
    """Not while others of the same weight store are in flight, and only with a bulk connection."""
    host = registry.hosts["box"]
    assert not host.needs_weights("learner-main", ("store", 1))
    host.set_bulk_route(b"bulk")
    assert host.needs_weights("learner-main", ("store", 1))
    host.in_flight["learner-main"] = ("store", 1)
    assert not host.needs_weights("learner-main", ("store", 2))
    assert host.needs_weights("learner-main", ("another store", 1))
    host.acknowledge_weights("learner-main", 2)
    assert not host.needs_weights("learner-main", ("store", 2))
    host.acknowledge_weights("learner-main", 1)
    assert not host.needs_weights("learner-main", ("store", 1))
    assert host.needs_weights("learner-main", ("store", 2))


def test_a_host_of_another_key_cannot_take_a_name(registry):
    """Not even with the same token."""
    assert registry.rejection(request(), "other key", stopping=False).reason.startswith("another machine has joined")


@pytest.mark.parametrize(
    ("joining", "stopping", "reason", "final"),
    [
        (request("Box"), False, "a host needs a name", True),
        (request(token="2"), False, "another machine has joined as 'box'", False),
        (request("other"), True, "the run is stopping", False),
    ],
)
def test_rejections(registry, joining, stopping, reason, final):
    """Temporary ones may be repeated."""
    rejected = registry.rejection(joining, "key", stopping=stopping)
    assert rejected.reason.startswith(reason)
    assert rejected.final is final


def test_hosts_that_take_part_may_stay_while_the_run_stops(registry):
    """They send their last results."""
    assert registry.rejection(request(), "key", stopping=True) is None
