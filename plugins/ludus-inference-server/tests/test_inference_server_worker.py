"""The server worker: it starts like other workers, but ignores a request to stop."""

from __future__ import annotations

import pytest
from ludus.errors import RunError
from ludus.launcher import COORDINATOR
from ludus.wire import Hello, MetricsReport
from ludus_inference_server import worker as worker_module
from ludus_inference_server.config import ServerConfig
from ludus_inference_server.worker import InferenceService, ServiceWorker


class Counting:
    """A server that counts its calls."""

    def __init__(self):
        self.count, self.closed = 0, False

    def work(self):
        self.count += 1

    def metrics(self):
        return {"calls": float(self.count)}

    def close(self):
        self.closed = True


class Line:
    """A link that remembers."""

    def __init__(self):
        self.sent = []

    def send(self, peer, message):
        self.sent.append((peer, message))
        return True


@pytest.fixture
def now():
    """Return the time, to be changed."""
    return {"now_s": 0.0}


@pytest.fixture
def made(now):
    """Return the worker of a counting server under a clock."""
    return ServiceWorker(name="service-server", service=Counting(), link=Line(), clock=lambda: now["now_s"])


def test_the_worker_registers_and_reports_once_a_second(made, now):
    """Metrics of the server are sent to the coordinator."""
    made.start()
    for now["now_s"] in (0.0, 0.5, 0.9, 1.1):
        assert made.work()
    assert isinstance(made.link.sent[0][1], Hello)
    reports = [(peer, message) for peer, message in made.link.sent if isinstance(message, MetricsReport)]
    assert [message.values for _, message in reports] == [{"calls": 1.0}, {"calls": 4.0}]
    assert {peer for peer, _ in reports} == {COORDINATOR}
    assert made.count == 4


def test_stop_is_ignored(made):
    """Samplers may still wait for answers; the launcher kills the service after them."""
    made.handle(COORDINATOR, object())
    assert (made.stopped, made.drained) == (False, True)
    made.close()
    assert made.service.closed


def test_without_shared_memory_the_run_ends(tmp_path, monkeypatch):
    """A restart would not help."""
    monkeypatch.setattr(worker_module.SharedFolder, "beside", lambda *_: None)
    with pytest.raises(RunError, match=r"needs shared memory; choose another sampling\.inference"):
        InferenceService(ServerConfig(), name="service-server", sockets=tmp_path, networks={})
