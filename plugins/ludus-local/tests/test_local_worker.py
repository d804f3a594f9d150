"""A worker process runs until it is stopped and everything it sent is acknowledged."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from ludus._messaging.messages import Failure, Heartbeat, Stop
from ludus.errors import ConfigError, ContractError, LinkError, RunError
from ludus.launcher import COORDINATOR
from ludus_local import worker as worker_module
from ludus_local.transport import private_ipc_dir
from ludus_local.worker import WorkerArguments


class Endless:
    """A worker that is drained some calls after it was stopped."""

    name, count, stopped = "sampler-0", 7, False

    def __init__(self, *, calls_to_drain=3):
        self.calls_left, self.received, self.started = calls_to_drain, [], False

    def start(self):
        self.started = True

    def handle(self, peer, message):
        self.received.append((peer, message))
        self.stopped |= isinstance(message, Stop)

    @property
    def drained(self):
        return self.calls_left <= 0

    def work(self):
        self.calls_left -= self.stopped
        return not self.stopped

    def close(self):
        """Do nothing."""


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


def test_it_runs_until_it_is_drained():
    """It registers and sends heartbeats."""
    worker, line = Endless(), Line(Stop())
    worker_module.run_loop(worker, line)
    assert worker.started
    assert worker.calls_left == 0
    assert line.sent == [(COORDINATOR, Heartbeat(count=7))]


def test_it_blocks_only_while_idle():
    """A busy worker polls its sockets at intervals."""
    line, works = Line(), []
    worker = Endless(calls_to_drain=1)
    worker.work = lambda: works.append(1) or len(line.waits) < 4 or line.inbox.append(Stop()) or False
    worker.handle = lambda peer, message: setattr(worker, "stopped", True) or setattr(worker, "calls_left", 0)
    worker_module.run_loop(worker, line)
    assert line.waits == [worker_module._IDLE_TIMEOUT_S, 0.0, 0.0, 0.0, worker_module._IDLE_TIMEOUT_S]
    assert len(works) > 10 * len(line.waits)


def test_a_stopped_worker_exits_without_acknowledgements(monkeypatch):
    """After a timeout: the coordinator may be gone."""
    monkeypatch.setattr(worker_module, "_DRAIN_TIMEOUT_S", 0.0)
    worker = Endless(calls_to_drain=10**9)
    worker_module.run_loop(worker, Line(Stop()))
    assert worker.calls_left > 0


@pytest.fixture
def alone(monkeypatch):
    """Keep the settings of the test process."""
    monkeypatch.setattr(worker_module, "protect_worker", lambda: None)
    monkeypatch.setattr(worker_module, "die_with_parent", lambda pid: None)
    monkeypatch.setattr(worker_module, "set_process_title", lambda title: None)


@pytest.fixture
def fail_worker(monkeypatch, tmp_path, alone):
    """Return a function that lets a worker fail with an error, and returns its endpoint."""

    class Endpoint(Line):
        def __init__(self, name, *, sockets):
            super().__init__()
            made.append(self)

        def connect(self, peer, address):
            """Do nothing."""

        def close(self):
            self.closed = True

    made = []
    monkeypatch.setattr(worker_module, "ZmqEndpoint", Endpoint)

    def run_process(error):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(worker_module, "make_worker", fail)
        arguments = ["--run", str(tmp_path), "--name", "evaluator-0", "--threads", "1", "--session", "1"]
        assert worker_module.main([*arguments, "--sockets", str(tmp_path), "--parent", "1"]) == 1
        assert made[0].closed
        return made[0]

    return run_process


@pytest.mark.parametrize(
    ("error", "fatal"),
    [
        (ConfigError("bad file"), True),
        (ContractError("bad game"), False),
        (RunError("full disk"), True),
        (LinkError("no peer"), False),
    ],
)
def test_errors_are_sent_to_the_coordinator(fail_worker, capsys, error, fatal):
    """Those that no restart cures are marked as fatal."""
    assert fail_worker(error).sent == [(COORDINATOR, Failure(error=str(error), fatal=fatal))]
    assert str(error) in capsys.readouterr().err


def test_an_exit_in_plugin_code_is_an_error(fail_worker, capsys):
    """Whatever its status; the log has the traceback."""
    assert fail_worker(SystemExit(0)).sent == [(COORDINATOR, Failure(error="SystemExit: 0", fatal=False))]
    assert "Traceback" in capsys.readouterr().err


def test_errors_are_sent_if_the_log_cannot_be_written(fail_worker, monkeypatch):
    """Only the traceback is lost."""

    class Full(StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stderr", Full())
    assert fail_worker(RunError("full disk")).sent[0][1].error == "full disk"


@pytest.mark.parametrize("extra", [[], ["tcp://*:7077", "a key"]])
def test_other_modules_get_extra_arguments(alone, extra):
    """After those of all workers; their worker runs like any other."""
    calls, sockets = [], private_ipc_dir()
    worker = Endless(calls_to_drain=0)
    worker.closed = False
    worker.close = lambda: setattr(worker, "closed", True)

    def make(command, endpoint):
        calls.append((command, endpoint.name))
        worker.handle(COORDINATOR, Stop())
        return worker, Line()

    arguments = ["--run", "runs/x", "--name", "service-y", "--threads", "2", "--session", "3"]
    assert worker_module.run_process(make, [*arguments, "--sockets", str(sockets), "--parent", "4", *extra]) == 0
    command = WorkerArguments(
        run=Path("runs/x"), name="service-y", threads=2, session=3, sockets=sockets, parent=4, extra=extra
    )
    assert calls == [(command, "service-y")]
    assert worker.closed
    sockets.rmdir()
