"""Requests for models cost one reading each, however often they are repeated, and hosts are served in turn."""

from __future__ import annotations

import hashlib

import pytest
from ludus_hosts import model_requests as _model_requests
from ludus_hosts.model_requests import ModelRequests, read_model

HOSTS = ("box", "den")


class Clock:
    """A clock that stands still."""

    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def requests(tmp_path, monkeypatch):
    """Return requests, their clock, and the hashes of the files that were read."""
    clock, read = Clock(), []

    def read_and_log(run_dir, digest):
        read.append(digest)
        return read_model(run_dir, digest)

    monkeypatch.setattr(_model_requests, "read_model", read_and_log)
    (tmp_path / "models").mkdir()
    return ModelRequests(tmp_path, clock), clock, read


@pytest.fixture
def digests(tmp_path, requests):
    """Return the hashes of three model files."""
    found = []
    for content in (b"a", b"b", b"c"):
        found.append(hashlib.sha256(content).hexdigest())
        (tmp_path / "models" / f"{found[-1]}.safetensors").write_bytes(content)
    return found


def take_all(requests, hosts=HOSTS):
    """Return host and hash of all requests, as if all models were sent."""
    taken = []
    while (request := requests.take(hosts)) is not None:
        taken.append(request[:2])
        requests.record_sent(*request[:2])
    return taken


def test_repeated_requests_read_the_file_once(requests, digests):
    """While it waits, and for a while after it was sent."""
    waiting, clock, read = requests
    assert [waiting.add("box", digests[0]) for _ in range(1000)].count(True) == 1
    assert take_all(waiting) == [("box", digests[0])]
    assert not waiting.add("box", digests[0])
    assert not waiting
    assert read == [digests[0]]
    clock.now_s += 10.0  # a host that got nothing repeats its request
    assert waiting.add("box", digests[0])


def test_hosts_are_served_in_turn(requests, digests):
    """A host that requests many models delays no other by more than one."""
    waiting, _, _ = requests
    for digest in digests:
        waiting.add("box", digest)
    waiting.add("den", digests[2])
    assert [host for host, _ in take_all(waiting)] == ["box", "den", "box", "box"]


def test_a_model_that_all_hosts_request_is_read_once(requests, digests):
    """As after every new model."""
    waiting, _, read = requests
    for host in HOSTS:
        waiting.add(host, digests[0])
    assert take_all(waiting) == [(host, digests[0]) for host in HOSTS]
    assert read == [digests[0]]


def test_a_missing_model_can_be_requested_again_at_once(requests):
    """It may just have been written, and costs nothing."""
    waiting, _, read = requests
    for _ in range(2):
        assert waiting.add("box", "0" * 64)
        assert take_all(waiting) == [("box", "0" * 64)]
    assert len(read) == 2


def test_the_requests_of_a_host_are_bounded_and_forgotten_with_it(requests):
    """It requests again what it still needs."""
    waiting, _, _ = requests
    added = [waiting.add("box", f"{number:064x}") for number in range(5000)]
    assert added.count(True) == 1024
    assert waiting.take(("den",)) is None
    assert not waiting
