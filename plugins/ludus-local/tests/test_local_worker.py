"""A worker serves until it is told to stop and everything it said is acknowledged."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from ludus._messaging.messages import Failure, Heartbeat, Stop
from ludus.errors import ConfigError, ContractError, LinkError, RunError
from ludus.launcher import COORDINATOR
from ludus_local import worker as _worker
from ludus_local.transport import private_ipc_dir
from ludus_local.worker import Command


class Endless:
    """A worker that is settled some calls after it was stopped."""

    name, count, stopped = "sampler-0", 7, False

    def __init__(self, *, settles=3):
        self.left, self.heard, self.started = settles, [], False

    def start(self):
        self.started = True

    def handle(self, peer, message):
        self.heard.append((peer, message))
        self.stopped |= isinstance(message, Stop)

    @property
    def drained(self):
        return self.left <= 0

    def work(self):
        self.left -= self.stopped
        return not self.stopped

    def close(self):
        """Nothing to free."""


class Line:
    """An endpoint with prepared messages."""

    def __init__(self, *inbox):
        self.inbox, self.sent, self.waits = list(inbox), [], []

    def receive(self, timeout_s):
        self.waits.append(timeout_s)
        return [(COORDINATOR, self.inbox.pop(0))] if self.inbox else []

    def send(self, peer, message):
        self.sent.append((peer, message))
        return True


def test_it_serves_until_it_has_settled():
    """It introduces itself, shows a sign of life, and does not leave before its last words are heard."""
    worker, line = Endless(), Line(Stop())
    _worker.serve(worker, line)
    assert worker.started
    assert worker.left == 0
    assert line.sent == [(COORDINATOR, Heartbeat(count=7))]


def test_it_waits_only_when_there_is_nothing_to_do():
    """A busy worker looks for messages now and then, and goes on."""
    line, works = Line(), []
    worker = Endless(settles=1)
    worker.work = lambda: works.append(1) or len(line.waits) < 4 or line.inbox.append(Stop()) or False
    worker.handle = lambda peer, message: setattr(worker, "stopped", True) or setattr(worker, "left", 0)
    _worker.serve(worker, line)
    assert line.waits == [_worker._IDLE_S, 0.0, 0.0, 0.0, _worker._IDLE_S]
    assert len(works) > 10 * len(line.waits)


def test_it_leaves_in_the_end_even_if_nobody_answers(monkeypatch):
    """A coordinator that is gone acknowledges nothing."""
    monkeypatch.setattr(_worker, "_LEAVE_S", 0.0)
    worker = Endless(settles=10**9)
    _worker.serve(worker, Line(Stop()))
    assert worker.left > 0


@pytest.fixture
def alone(monkeypatch):
    """Leave the process of the tests as it is."""
    monkeypatch.setattr(_worker.signal, "signal", lambda *_: None)
    monkeypatch.setattr(_worker, "die_with_parent", lambda pid: None)
    monkeypatch.setattr(_worker, "set_process_title", lambda title: None)


@pytest.fixture
def end(monkeypatch, tmp_path, alone):
    """Return a function that lets a worker end with an error, and returns its endpoint."""

    class Endpoint(Line):
        def __init__(self, name, *, sockets):
            super().__init__()
            made.append(self)

        def connect(self, peer, address):
            """Nobody is there."""

        def close(self):
            self.closed = True

    made = []
    monkeypatch.setattr(_worker, "ZmqEndpoint", Endpoint)

    def run(error):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(_worker, "make_worker", fail)
        arguments = ["--run", str(tmp_path), "--name", "evaluator-0", "--threads", "1", "--session", "1"]
        assert _worker.main([*arguments, "--sockets", str(tmp_path), "--parent", "1"]) == 1
        assert made[0].closed
        return made[0]

    return run


@pytest.mark.parametrize(
    ("error", "fatal"),
    [
        (ConfigError("bad file"), True),
        (ContractError("bad game"), False),
        (RunError("full disk"), True),
        (LinkError("no peer"), False),
    ],
)
def test_why_a_worker_ends_is_said(end, capsys, error, fatal):
    """The coordinator hears the line; what no restart cures is marked."""
    assert end(error).sent == [(COORDINATOR, Failure(error=str(error), fatal=fatal))]
    assert str(error) in capsys.readouterr().err


def test_a_worker_does_not_leave_in_silence(end, capsys):
    """A game or an algorithm that exits has failed, whatever the status, and the log shows where."""
    assert end(SystemExit(0)).sent == [(COORDINATOR, Failure(error="SystemExit: 0", fatal=False))]
    assert "Traceback" in capsys.readouterr().err


def test_why_a_worker_ends_is_said_when_its_log_is_on_a_full_disk(end, monkeypatch):
    """The traceback is lost, the line is not."""

    class Full(StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stderr", Full())
    assert end(RunError("full disk")).sent[0][1].error == "full disk"


@pytest.mark.parametrize("more", [[], ["tcp://*:7077", "a key"]])
def test_a_worker_of_another_kind_is_told_more(alone, more):
    """What follows the arguments of all, in its order; it is served and closed like any other."""
    told, sockets = [], private_ipc_dir()
    worker = Endless(settles=0)
    worker.closed = False
    worker.close = lambda: setattr(worker, "closed", True)

    def make(command, endpoint):
        told.append((command, endpoint.name))
        worker.handle(COORDINATOR, Stop())
        return worker, Line()

    arguments = ["--run", "runs/x", "--name", "service-y", "--threads", "2", "--session", "3"]
    assert _worker.run(make, [*arguments, "--sockets", str(sockets), "--parent", "4", *more]) == 0
    command = Command(run=Path("runs/x"), name="service-y", threads=2, session=3, sockets=sockets, parent=4, more=more)
    assert told == [(command, "service-y")]
    assert worker.closed
    sockets.rmdir()
