"""Workers that die or hang are restarted; those that fail repeatedly end the run."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest
from attrs import evolve
from ludus._messaging.messages import Activity, CheckpointAck, Heartbeat, ResultsAck, Stop
from ludus.activity import UPDATING
from ludus.errors import WorkerError
from ludus.launcher import COORDINATOR, Session, WorkerSpec
from ludus_local.launcher import LocalLauncher, LocalWorkerPool
from ludus_local.process import WorkerCommand, launch
from ludus_local.supervisor import Supervisor
from ludus_local.transport import ZmqEndpoint, ipc_address

SLEEP = "import time; time.sleep(60)"
LEAVE = "import sys; sys.exit(3)"
KILL = "import os; os.kill(os.getpid(), 9)"
LAST = "import os, sys, time\nwhile not os.path.exists({path!r}): time.sleep(0.01)\nsys.exit({status})"
SPEC = WorkerSpec(name="sampler-0", threads=2)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Do not wait for the last message of an ended worker; return a function that sets how long to wait."""
    monkeypatch.setattr("ludus_local.supervisor._LAST_MESSAGE_S", 0.0)
    return lambda seconds: monkeypatch.setattr("ludus_local.supervisor._LAST_MESSAGE_S", seconds)


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    """Have more cores than any test has threads; return a function that sets their number."""
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"):
        monkeypatch.delenv(name, raising=False)

    def have(count):
        monkeypatch.setattr("ludus_local.supervisor.available_cores", lambda: count)

    have(64.0)
    return have


def make_pool(folder):
    """Return a worker pool without workers."""
    return LocalWorkerPool(Session(run_dir=folder, number=1, stall_s=60.0, restarts=3, print_line=print))


class Scripts:
    """Starts a tiny script in the place of every worker."""

    def __init__(self, script):
        self.script, self.commands = script, []

    def __call__(self, command):
        self.commands.append(command)
        return launch(
            WorkerCommand(
                name=command.name,
                argv=[sys.executable, "-S", "-c", self.script],
                environment=command.environment,
                log_path=command.log_path,
            )
        )


@pytest.fixture
def supervise(tmp_path):
    """Return a maker of supervisors of one worker that runs a script."""
    made = []

    def make(script=SLEEP, *, stall_s=60.0, restarts=3, **more):
        lines = []
        session = Session(run_dir=tmp_path, number=2, stall_s=stall_s, restarts=restarts, print_line=lines.append)
        supervisor = Supervisor(session=session, sockets=tmp_path / "sockets", launch=Scripts(script), **more)
        supervisor.start([SPEC])
        made.append(supervisor)
        return supervisor, lines

    yield make
    for supervisor in made:
        supervisor.finish(timeout_s=0, poll=lambda: None)


def is_alive(pid):
    """Return whether a process exists and is no zombie."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(shown.strip()) and not shown.strip().startswith("Z")


def wait_dead(supervisor):
    """Wait until the worker has ended."""
    deadline = time.monotonic() + 10
    while supervisor.alive:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_worker_gets_its_command_line_and_threads(supervise, tmp_path):
    """The command line contains everything it needs."""
    supervisor, _ = supervise()
    (command,) = supervisor.launch.commands
    line = " ".join(command.argv)
    assert f"-m ludus_local.worker --run {tmp_path} --name sampler-0 --threads 2 --session 2" in line
    assert f"--parent {os.getpid()}" in line
    assert command.environment["OMP_NUM_THREADS"] == "2"
    assert command.log_path == str(tmp_path / "logs" / "sampler-0.log")


def test_threads_sleep_while_they_wait_if_there_are_more_than_cores(supervise, cores):
    """Spinning threads would keep others from computing; a line is printed, and restarted workers sleep too."""
    cores(1.0)
    supervisor, lines = supervise(LEAVE)
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors={})
    assert [command.environment.get("OMP_WAIT_POLICY") for command in supervisor.launch.commands] == ["PASSIVE"] * 2
    assert lines[0].startswith("oversubscribed: 2 computing threads on 1 cores")


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_a_wait_policy_of_the_user_is_kept(supervise, cores, monkeypatch, name):
    """Set by one of the variables of the libraries."""
    cores(1.0)
    monkeypatch.setenv(name, "1")
    supervisor, lines = supervise()
    assert "OMP_WAIT_POLICY" not in supervisor.launch.commands[0].environment
    assert len(lines) == 1


def test_threads_that_have_a_core_each_spin(supervise, cores):
    """Evaluators do not count; single threads do not wait for each other."""
    cores(2.0)
    supervisor, lines = supervise()
    supervisor.start([evolve(SPEC, name="sampler-1"), WorkerSpec(name="evaluator-0", threads=1)])
    supervisor.start([WorkerSpec(name=f"sampler-{number}", threads=1) for number in (2, 3, 4)])
    assert all("OMP_WAIT_POLICY" not in command.environment for command in supervisor.launch.commands)
    assert lines == []


def test_workers_may_open_as_many_files_as_the_system_grants(supervise):
    """They inherit the raised limit."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    try:
        supervisor, _ = supervise()
        (pid,) = supervisor.pids.values()
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] == min(limits[1], 65_536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_more_workers_than_memory_can_hold_are_not_started(supervise, monkeypatch):
    """The kernel would kill processes."""
    supervisor, _ = supervise()
    monkeypatch.setattr("ludus_local.supervisor.memory_bytes", lambda: 2**30)
    with pytest.raises(WorkerError, match=r"11 worker processes need more than 1 GiB .* has 1 GiB and [\d.]+ cores"):
        supervisor.start([evolve(SPEC, name=f"sampler-{number}") for number in range(11)])
    assert len(supervisor.launch.commands) == 1


def test_the_launcher_checks_the_memory_for_workers(monkeypatch):
    """With the same error, before anything is started or written."""
    monkeypatch.setattr("ludus_local.supervisor.memory_bytes", lambda: 2**30)
    LocalLauncher().check(10)
    with pytest.raises(WorkerError, match="11 worker processes need more than 1 GiB"):
        LocalLauncher().check(11)


def test_a_worker_may_be_made_by_another_module(supervise):
    """It gets extra arguments; other workers are made as usual."""
    supervisor, _ = supervise(modules={"sampler-0": ("some.module", "tcp://*:7077", "keys/run.key")})
    supervisor.start([WorkerSpec(name="sampler-1", threads=1)])
    named, other = (command.argv[3:] for command in supervisor.launch.commands)
    assert named[0] == "some.module"
    assert named[-4:] == ["--parent", str(os.getpid()), "tcp://*:7077", "keys/run.key"]
    assert other[0] == "ludus_local.worker"
    assert other[-2:] == ["--parent", str(os.getpid())]


def test_a_worker_of_another_module_is_restarted_by_it(supervise):
    """With the same arguments."""
    supervisor, _ = supervise(LEAVE, modules={"sampler-0": ("some.module", "more")})
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors={})
    assert [(command.argv[3], command.argv[-1]) for command in supervisor.launch.commands] == [
        ("some.module", "more")
    ] * 2


def test_a_healthy_worker_is_left_alone(supervise):
    """Nothing is printed or restarted."""
    supervisor, lines = supervise()
    pids = supervisor.pids
    supervisor.check(last_seen_s={}, errors={})
    assert supervisor.pids == pids
    assert (lines, supervisor.restarts) == ([], 0)


def test_a_killed_worker_is_restarted(supervise, patience):
    """At once, since it sends no last message; with another session number, so that its random numbers differ."""
    patience(60.0)
    supervisor, lines = supervise()
    first = supervisor.pids["sampler-0"]
    os.kill(first, signal.SIGKILL)
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors={})
    assert supervisor.alive == ["sampler-0"]
    assert supervisor.pids["sampler-0"] != first
    assert "was killed by signal 9 — restarted" in lines[0]
    sessions = [c.argv[c.argv.index("--session") + 1] for c in supervisor.launch.commands]
    assert sessions == ["2", "1002"]


def test_the_error_of_a_worker_is_printed(supervise):
    """As it has reported it."""
    supervisor, lines = supervise(LEAVE)
    wait_dead(supervisor)
    errors = {"sampler-0": "the game crashed"}
    supervisor.check(last_seen_s={}, errors=errors)
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors=errors)
    assert lines[0].startswith("sampler-0: the game crashed — restarted; see ")
    assert lines[1].startswith("sampler-0: ended by itself with status 3 — restarted; see ")


def test_the_error_of_a_worker_may_arrive_after_its_end(supervise, patience):
    """The supervisor waits for the last message."""
    patience(60.0)
    supervisor, lines = supervise(LEAVE)
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors={})
    assert (lines, supervisor.alive) == ([], [])
    supervisor.check(last_seen_s={}, errors={"sampler-0": "the game crashed"})
    assert lines[0].startswith("sampler-0: the game crashed — restarted; see ")
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors={})  # the wait for the next one starts from 0
    assert len(lines) == 1
    patience(0.1)
    time.sleep(0.1)
    supervisor.check(last_seen_s={}, errors={})
    assert lines[1].startswith("sampler-0: ended by itself with status 3 — restarted; see ")


def test_a_silent_worker_is_killed_and_restarted(supervise):
    """One that sends messages is not."""
    supervisor, lines = supervise(stall_s=60.0)
    first = supervisor.pids["sampler-0"]
    supervisor._workers["sampler-0"].started_s -= 100
    supervisor.check(last_seen_s={"sampler-0": time.monotonic()}, errors={})
    assert supervisor.pids["sampler-0"] == first
    supervisor.check(last_seen_s={"sampler-0": time.monotonic() - 70.0}, errors={})
    assert supervisor.pids["sampler-0"] != first
    assert not is_alive(first)
    assert lines[0].startswith("sampler-0: no message for 60 s; raise run.stall_s if ")
    assert re.match("sampler-0: was silent for 7[0-9] s and was killed — restarted; see ", lines[1])


def test_a_worker_that_starts_matches_may_be_silent_for_longer(supervise, monkeypatch):
    """One line states what takes long and which options change that, before the worker is killed."""
    monkeypatch.setattr("ludus_local.supervisor._START_TIMEOUT_S", 300.0)
    supervisor, lines = supervise(stall_s=60.0)
    first = supervisor.pids["sampler-0"]
    supervisor._workers["sampler-0"].started_s -= 1000
    seen = {"sampler-0": time.monotonic() - 500.0}

    def report(done, *, silent_s, busy_s):
        supervisor.record_activity("sampler-0", Activity(text="starting matches", done=done, total=4))
        supervisor._activities._reported["sampler-0"].last_s -= silent_s
        supervisor._activities._reported["sampler-0"].since_s = time.monotonic() - busy_s
        supervisor.check(last_seen_s=seen, errors={})

    report(0, silent_s=20.0, busy_s=20.0)
    assert lines == []
    report(1, silent_s=70.0, busy_s=90.0)  # longer than run.stall_s
    report(2, silent_s=290.0, busy_s=400.0)
    (line,) = lines
    assert re.match("sampler-0: starting matches takes long, 1 of 4 in 9[0-9] s — ", line)
    assert all(option in line for option in ("sampling.matches", "environment.*.workers", "run.stall_s"))
    assert supervisor.pids["sampler-0"] == first
    report(2, silent_s=310.0, busy_s=400.0)
    assert supervisor.pids["sampler-0"] != first
    assert re.match("sampler-0: was silent for 31[0-9] s and was killed — restarted; see ", lines[1])


def test_another_message_ends_an_activity(supervise):
    """Then the usual limit applies."""
    supervisor, _ = supervise(stall_s=60.0)
    first = supervisor.pids["sampler-0"]
    supervisor._workers["sampler-0"].started_s -= 1000
    supervisor.record_activity("sampler-0", Activity(text="starting matches", done=0, total=4))
    supervisor._activities._reported["sampler-0"].last_s -= 100
    supervisor.check(last_seen_s={"sampler-0": time.monotonic() - 70.0}, errors={})
    assert supervisor.pids["sampler-0"] != first


def test_reports_of_gradient_steps_keep_the_limit(supervise):
    """They are signs of life, but a worker that hangs in an update is killed after the usual time."""
    supervisor, _ = supervise(stall_s=60.0)
    first = supervisor.pids["sampler-0"]
    supervisor._workers["sampler-0"].started_s -= 1000
    spoke = time.monotonic() - 100.0
    supervisor.record_activity("sampler-0", Activity(text=UPDATING, done=1, total=4))
    supervisor.check(last_seen_s={"sampler-0": spoke}, errors={})
    assert supervisor.pids["sampler-0"] == first
    supervisor._activities._reported["sampler-0"].last_s -= 70.0
    supervisor.check(last_seen_s={"sampler-0": spoke}, errors={})
    assert supervisor.pids["sampler-0"] != first


def test_activities_of_strangers_are_ignored(supervise):
    """Any process of this user may claim a name of a worker that does not exist."""
    supervisor, lines = supervise()
    supervisor.record_activity("sampler-99", Activity(text="starting matches", done=0, total=4))
    supervisor.check(last_seen_s={}, errors={})
    assert lines == []


def test_a_worker_that_starts_may_be_silent_for_longer(supervise, monkeypatch):
    """Importing takes long if many start at once; the time is limited too."""
    supervisor, _ = supervise(stall_s=0.1)
    first = supervisor.pids["sampler-0"]
    time.sleep(0.2)
    supervisor.check(last_seen_s={"sampler-0": time.monotonic() - 60}, errors={})  # the process before it was connected
    assert supervisor.pids["sampler-0"] == first
    monkeypatch.setattr("ludus_local.supervisor._START_TIMEOUT_S", 0.2)
    supervisor.check(last_seen_s={}, errors={})
    assert supervisor.pids["sampler-0"] != first


def test_a_worker_that_fails_repeatedly_ends_the_run(supervise):
    """After one death more within a minute than the restarts allowed."""
    supervisor, lines = supervise(LEAVE)
    for _ in range(3):
        wait_dead(supervisor)
        supervisor.check(last_seen_s={}, errors={})
    wait_dead(supervisor)
    with pytest.raises(
        WorkerError, match=r"sampler-0: ended by itself with status 3 — 4 times within a minute; see .*log"
    ):
        supervisor.check(last_seen_s={}, errors={})
    assert len(lines) == 3


def test_deaths_of_a_useful_worker_are_forgotten(supervise, monkeypatch):
    """A worker may die now and then in a run of days."""
    supervisor, lines = supervise(LEAVE)
    monkeypatch.setattr("ludus.recovery._WINDOW_S", 0.001)
    for _ in range(5):
        wait_dead(supervisor)
        time.sleep(0.002)
        supervisor.record_progress("sampler-0")
        supervisor.check(last_seen_s={}, errors={})
    assert len(lines) == 5


def test_a_worker_without_work_is_restarted_without_limit(supervise, monkeypatch):
    """An evaluator with nothing to rate commits nothing."""
    supervisor, lines = supervise(LEAVE)
    monkeypatch.setattr("ludus.recovery._WINDOW_S", 0.001)
    for _ in range(6):
        wait_dead(supervisor)
        supervisor._workers["sampler-0"].started_s -= 601
        supervisor.check(last_seen_s={}, errors={})
    assert len(lines) == 6


def test_deaths_without_progress_are_limited(supervise, monkeypatch):
    """A worker that always dies before its work is committed is given up."""
    supervisor, lines = supervise(LEAVE)
    monkeypatch.setattr("ludus.recovery._WINDOW_S", 0.001)
    for death in range(5):
        wait_dead(supervisor)
        time.sleep(0.002)
        if death == 0:
            supervisor.check(last_seen_s={}, errors={})
            supervisor.record_progress("sampler-0")
            supervisor.record_progress("learner-of-another-run")
        elif death < 4:
            supervisor.check(last_seen_s={}, errors={})
    with pytest.raises(
        WorkerError, match=r"ended by itself with status 3 — 4 times with nothing committed in between; see .*log"
    ):
        supervisor.check(last_seen_s={}, errors={})
    assert len(lines) == 4


def test_acknowledgements_are_progress_and_stopped_workers_may_exit(tmp_path, monkeypatch):
    """The coordinator acknowledges only committed work."""

    class Recorder(list):
        def __init__(self, **_):
            """Supervise nothing."""

        def record_progress(self, name):
            self.append(name)

        def expect_exit(self, name):
            self.append(f"{name} stops")

    monkeypatch.setattr("ludus_local.launcher.Supervisor", Recorder)
    monkeypatch.setattr("ludus_local.launcher.private_ipc_dir", lambda: tmp_path)
    worker_pool = make_pool(tmp_path)
    try:
        worker_pool.send("learner-main", CheckpointAck(path="learners/main/00000001.safetensors"))
        worker_pool.send("sampler-0", ResultsAck(report=1))
        worker_pool.send("sampler-1", Stop())
    finally:
        worker_pool._endpoint.close()
    assert worker_pool._supervisor == ["learner-main", "sampler-0", "sampler-1 stops"]


def test_receive_is_called_at_intervals(tmp_path, monkeypatch):
    """Messages that arrive in between are received together and in order; the first call does not wait."""
    monkeypatch.setattr("ludus_local.launcher.private_ipc_dir", lambda: tmp_path)
    monkeypatch.setattr("ludus_local.launcher._RECEIVE_INTERVAL_S", 2.0)
    worker_pool = make_pool(tmp_path)
    worker_pool.start([])
    worker = ZmqEndpoint("sampler-0")
    worker.connect(COORDINATOR, ipc_address(tmp_path, COORDINATOR))

    def send():
        for count in (1, 2):
            worker.send(COORDINATOR, Heartbeat(count=count))
            time.sleep(0.05)

    try:
        worker.send(COORDINATOR, Heartbeat(count=0))
        assert worker_pool.receive(10.0) == [("sampler-0", Heartbeat(count=0))]
        talk = threading.Thread(target=send)
        talk.start()
        assert [message.count for _, message in worker_pool.receive(10.0)] == [1, 2]
        talk.join()
    finally:
        worker.close()
        worker_pool.close()


@pytest.fixture
def supervise_service(tmp_path):
    """Return a maker of supervisors of a service and a sampler, each with a script of its own."""
    made = []

    def make(service, sampler=SLEEP, *, stall_s=60.0):
        lines, scripts = [], {"service-x": Scripts(service), "sampler-0": Scripts(sampler)}
        supervisor = Supervisor(
            session=Session(run_dir=tmp_path, number=1, stall_s=stall_s, restarts=3, print_line=lines.append),
            sockets=tmp_path,
            launch=lambda command: scripts[command.name](command),
        )
        supervisor.start([WorkerSpec(name=name, threads=1) for name in scripts])
        made.append(supervisor)
        return supervisor, lines

    yield make
    for supervisor in made:
        supervisor.finish(timeout_s=0, poll=lambda: None)


def wait_ended(supervisor, name):
    """Wait until a worker has ended."""
    deadline = time.monotonic() + 10
    while name in supervisor.alive:
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("of_use", [True, False])
def test_answered_requests_are_progress_of_a_service(supervise_service, monkeypatch, of_use):
    """One that always dies before it has answered a request is given up."""
    monkeypatch.setattr("ludus.recovery._WINDOW_S", 0.001)
    supervisor, lines = supervise_service(LEAVE)
    for death in range(6):
        wait_ended(supervisor, "service-x")
        time.sleep(0.002)
        if of_use:
            supervisor.record_progress("service-x")
        elif death == 3:
            with pytest.raises(
                WorkerError,
                match=r"service-x: .* 3 — 4 times with no request answered in between",
            ):
                supervisor.check(last_seen_s={}, errors={})
            break
        supervisor.check(last_seen_s={}, errors={})
    assert len(lines) == (6 if of_use else 3)


def test_clients_of_a_hanging_service_are_not_killed(supervise_service, monkeypatch):
    """Both are silent, but only the service hangs."""
    monkeypatch.setattr("ludus_local.supervisor._SERVICE_STALL_S", 0.1)
    supervisor, lines = supervise_service(SLEEP, stall_s=0.3)
    first, spoke = supervisor.pids, time.monotonic()
    while supervisor.pids["service-x"] == first["service-x"]:
        supervisor.check(last_seen_s={"sampler-0": spoke, "service-x": spoke}, errors={})
        time.sleep(0.02)
    assert supervisor.pids["sampler-0"] == first["sampler-0"]
    assert len(lines) == 1


def test_heartbeats_of_services_and_helpers_are_progress(tmp_path, monkeypatch):
    """Those of others are not, since their work may be lost; nor is a count of 0."""
    monkeypatch.setattr("ludus_local.launcher.private_ipc_dir", lambda: tmp_path)
    worker_pool, received = make_pool(tmp_path), []
    monkeypatch.setattr(Supervisor, "record_progress", lambda self, name: received.append(name))
    counts = [("service-x", 0), ("service-x", 5), ("learner-main", 5), ("helper-1-main", 0), ("helper-1-main", 5)]
    messages = [(name, Heartbeat(count=count)) for name, count in counts]
    monkeypatch.setattr(ZmqEndpoint, "receive", lambda self, timeout_s: messages)
    try:
        assert worker_pool.receive(0.0) == messages
    finally:
        worker_pool.close()
    assert received == ["service-x", "helper-1-main"]


def test_clients_of_a_starting_service_are_not_killed(supervise_service):
    """A sampler that waits for an answer sends nothing; once the service runs it must."""
    supervisor, lines = supervise_service(SLEEP, stall_s=60.0)
    first = supervisor.pids["sampler-0"]
    supervisor._workers["sampler-0"].started_s -= 200
    spoke = time.monotonic() - 100.0
    supervisor.check(last_seen_s={"sampler-0": spoke}, errors={})
    assert (supervisor.pids["sampler-0"], lines) == (first, [])
    supervisor.check(last_seen_s={"sampler-0": spoke, "service-x": time.monotonic()}, errors={})
    assert (supervisor.pids["sampler-0"], lines) == (first, [])
    supervisor._service_stalled_s -= 70.0
    supervisor.check(last_seen_s={"sampler-0": spoke, "service-x": time.monotonic()}, errors={})
    assert supervisor.pids["sampler-0"] != first
    assert len(lines) == 2


def mark_connected(supervisor):
    """Mark all workers as connected, so that they do not count as starting."""
    supervisor._last_seen_s = dict.fromkeys(supervisor.pids, time.monotonic())


def test_finish_waits_for_workers_to_exit(supervise, tmp_path):
    """It polls meanwhile, and kills none."""
    supervisor, _ = supervise(LAST.format(path=str(tmp_path / "stop"), status=0))
    mark_connected(supervisor)
    assert supervisor.finish(timeout_s=60, poll=(tmp_path / "stop").touch) == []
    assert (tmp_path / "stop").exists()


def test_finish_kills_starting_workers(supervise):
    """They hold no unsaved state, and nothing is printed."""
    supervisor, lines = supervise()
    supervisor.check(last_seen_s={"sampler-0": supervisor._workers["sampler-0"].started_s - 1.0}, errors={})  # before
    pid = supervisor.pids["sampler-0"]
    assert supervisor.finish(timeout_s=60, poll=pytest.fail) == []
    assert not is_alive(pid)
    assert lines == []


def test_a_worker_that_is_killed_while_it_stops_is_reported(supervise, tmp_path):
    """Its unsaved work is lost."""
    supervisor, lines = supervise()
    mark_connected(supervisor)
    supervisor.expect_exit("sampler-0")

    def poll():
        os.kill(supervisor.pids["sampler-0"], signal.SIGKILL)
        time.sleep(0.05)

    assert supervisor.finish(timeout_s=10, poll=poll) == []
    log = tmp_path / "logs" / "sampler-0.log"
    assert lines == [f"sampler-0: was killed by signal 9 while it stopped; see {log}"]


@pytest.mark.parametrize(
    ("script", "how"),
    [
        (KILL, "was killed by signal 9"),
        (LEAVE, "ended by itself with status 3"),
        ("", "ended by itself with status 0"),
    ],
)
def test_a_worker_that_ended_before_it_was_stopped_is_reported(supervise, tmp_path, script, how):
    """Once, without a check in between, also if `finish` is called twice."""
    supervisor, lines = supervise(script)
    wait_dead(supervisor)
    supervisor.expect_exit("sampler-0")  # too late
    for _ in range(2):
        assert supervisor.finish(timeout_s=60, poll=pytest.fail) == []
    assert lines == [f"sampler-0: {how}; see {tmp_path / 'logs' / 'sampler-0.log'}"]


def test_a_restarted_worker_that_ends_again_is_reported_again(supervise):
    """Its first end was another one."""
    supervisor, lines = supervise(KILL)
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors={})
    wait_dead(supervisor)
    supervisor.finish(timeout_s=60, poll=pytest.fail)
    assert [line.partition(" see")[0] for line in lines] == [
        "sampler-0: was killed by signal 9 — restarted;",
        "sampler-0: was killed by signal 9;",
    ]


@pytest.mark.parametrize(("status", "failure"), [(3, " ended by itself with status 3 while it stopped;"), (0, "")])
def test_a_stopped_worker_may_exit_with_status_0(supervise, tmp_path, status, failure):
    """Any other status is a failure."""
    supervisor, lines = supervise(LAST.format(path=str(tmp_path / "stop"), status=status))
    mark_connected(supervisor)
    supervisor.expect_exit("sampler-0")
    assert supervisor.finish(timeout_s=60, poll=(tmp_path / "stop").touch) == []
    assert [line.removeprefix("sampler-0:").partition(" see")[0] for line in lines] == [failure] * bool(failure)


def test_reported_errors_are_not_printed_twice(supervise, patience):
    """The caller prints the worker's own error."""
    patience(60.0)
    supervisor, lines = supervise(LEAVE)
    errors = {}
    supervisor.check(last_seen_s={}, errors=errors)
    wait_dead(supervisor)
    assert supervisor.finish(timeout_s=60, poll=lambda: errors.update({"sampler-0": "the game crashed"})) == []
    assert lines == []


def test_a_worker_that_was_given_up_is_not_reported_again(supervise):
    """Its error ends the run."""
    supervisor, lines = supervise(LEAVE, restarts=0)
    wait_dead(supervisor)
    with pytest.raises(WorkerError, match="ended by itself with status 3"):
        supervisor.check(last_seen_s={}, errors={})
    assert supervisor.finish(timeout_s=60, poll=pytest.fail) == lines == []


@pytest.mark.parametrize("status", [3, 0], ids=["failed", "good"])
def test_the_last_message_of_a_failed_worker_is_received(supervise, patience, tmp_path, status):
    """A worker that exits with status 0 is not waited for."""
    patience(0.2)
    supervisor, _ = supervise(LAST.format(path=str(tmp_path / "stop"), status=status))
    mark_connected(supervisor)
    supervisor.expect_exit("sampler-0")
    last_seen_s = []

    def poll():
        (tmp_path / "stop").touch()
        if not supervisor.alive:
            last_seen_s.append(time.monotonic())
        time.sleep(0.01)

    assert supervisor.finish(timeout_s=60, poll=poll) == []
    if status:
        assert time.monotonic() - last_seen_s[0] > 0.1
    else:
        assert len(last_seen_s) <= 1


def test_finish_kills_the_rest(supervise):
    """All workers have ended when it returns."""
    supervisor, _ = supervise("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)")
    mark_connected(supervisor)
    pid = supervisor.pids["sampler-0"]
    assert supervisor.finish(timeout_s=0.1, poll=lambda: time.sleep(0.01)) == ["sampler-0"]
    assert not is_alive(pid)
    assert supervisor.alive == []


def test_finish_does_not_wait_for_services(supervise_service):
    """They are killed last and not reported."""
    supervisor, _ = supervise_service(SLEEP, "")
    mark_connected(supervisor)
    start_s = time.monotonic()
    assert supervisor.finish(timeout_s=30, poll=lambda: time.sleep(0.01)) == []
    assert time.monotonic() - start_s < 20
    assert supervisor.alive == []


def test_finish_does_not_wait_long_for_clients_of_an_ended_service(supervise_service, monkeypatch):
    """The service is not restarted, so a sampler that waits for it does not receive `Stop`."""
    monkeypatch.setattr("ludus_local.supervisor._ORPHAN_TIMEOUT_S", 0.1)
    supervisor, _ = supervise_service(LEAVE)
    mark_connected(supervisor)
    wait_ended(supervisor, "service-x")
    start_s = time.monotonic()
    assert supervisor.finish(timeout_s=30, poll=lambda: time.sleep(0.01)) == ["sampler-0"]
    assert time.monotonic() - start_s < 20
