"""Workers that die or fall silent are restarted, those that do so again and again end the run."""

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
from ludus._messaging.messages import CheckpointAck, Heartbeat, ResultsAck, Stop
from ludus.errors import WorkerError
from ludus.launcher import COORDINATOR, Session, WorkerSpec
from ludus_local.launcher import LocalCrew, LocalLauncher
from ludus_local.processes import WorkerCommand, launch
from ludus_local.supervisor import Supervisor
from ludus_local.transport import ZmqEndpoint, ipc_address

SLEEP = "import time; time.sleep(60)"
LEAVE = "import sys; sys.exit(3)"
KILL = "import os; os.kill(os.getpid(), 9)"
LAST = "import os, sys, time\nwhile not os.path.exists({path!r}): time.sleep(0.01)\nsys.exit({status})"
SPEC = WorkerSpec(name="sampler-0", threads=2)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Take the silence of an ended worker for its last word at once, and return how to wait for what comes late."""
    monkeypatch.setattr("ludus_local.supervisor._LAST_WORDS_S", 0.0)
    return lambda seconds: monkeypatch.setattr("ludus_local.supervisor._LAST_WORDS_S", seconds)


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    """Have more cores than any test has threads, and no say in how these wait; return how to have others."""
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"):
        monkeypatch.delenv(name, raising=False)

    def have(count):
        monkeypatch.setattr("ludus_local.supervisor.available_cores", lambda: count)

    have(64.0)
    return have


def make_crew(folder):
    """Return a crew without workers."""
    return LocalCrew(Session(run_dir=folder, number=1, stall_s=60.0, restarts=3, print_line=print))


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

    def make(script=SLEEP, *, stall_s=60.0, **more):
        said = []
        session = Session(run_dir=tmp_path, number=2, stall_s=stall_s, restarts=3, print_line=said.append)
        supervisor = Supervisor(session=session, sockets=tmp_path / "sockets", launch=Scripts(script), **more)
        supervisor.start([SPEC])
        made.append(supervisor)
        return supervisor, said

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
    """Everything it needs to know is on it."""
    supervisor, _ = supervise()
    (command,) = supervisor.launch.commands
    line = " ".join(command.argv)
    assert f"-m ludus_local.worker --run {tmp_path} --name sampler-0 --threads 2 --session 2" in line
    assert f"--parent {os.getpid()}" in line
    assert command.environment["OMP_NUM_THREADS"] == "2"
    assert command.log_path == str(tmp_path / "logs" / "sampler-0.log")


def test_threads_of_more_than_the_cores_sleep_while_they_wait(supervise, cores):
    """Where they spin, they keep each other from computing; it is said, and a restarted worker does likewise."""
    cores(1.0)
    supervisor, said = supervise(LEAVE)
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors={})
    assert [command.environment.get("OMP_WAIT_POLICY") for command in supervisor.launch.commands] == ["PASSIVE"] * 2
    assert said[0].startswith("oversubscribed: 2 computing threads on 1 cores")


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_how_threads_wait_is_left_to_whoever_decides_it(supervise, cores, monkeypatch, name):
    """By one of the variables of the libraries."""
    cores(1.0)
    monkeypatch.setenv(name, "1")
    supervisor, said = supervise()
    assert "OMP_WAIT_POLICY" not in supervisor.launch.commands[0].environment
    assert len(said) == 1


def test_threads_that_have_a_core_each_spin(supervise, cores):
    """An evaluator counts for nothing; single threads wait for nobody, however many there are."""
    cores(2.0)
    supervisor, said = supervise()
    supervisor.start([evolve(SPEC, name="sampler-1"), WorkerSpec(name="evaluator-0", threads=1)])
    supervisor.start([WorkerSpec(name=f"sampler-{number}", threads=1) for number in (2, 3, 4)])
    assert all("OMP_WAIT_POLICY" not in command.environment for command in supervisor.launch.commands)
    assert said == []


def test_workers_may_open_as_many_files_as_the_system_grants(supervise):
    """They get the limit of the process that starts them, which asks for more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    try:
        supervisor, _ = supervise()
        (pid,) = supervisor.pids.values()
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] == min(limits[1], 65_536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_more_workers_than_memory_can_hold_are_not_started(supervise, monkeypatch):
    """The machine would kill one process after the other, and not only theirs."""
    supervisor, _ = supervise()
    monkeypatch.setattr("ludus_local.supervisor.memory_bytes", lambda: 2**30)
    with pytest.raises(WorkerError, match=r"11 worker processes need more than 1 GiB .* has 1 GiB and [\d.]+ cores"):
        supervisor.start([evolve(SPEC, name=f"sampler-{number}") for number in range(11)])
    assert len(supervisor.launch.commands) == 1


def test_whoever_asks_first_is_told_of_too_many_workers(monkeypatch):
    """In the same words, with nothing started or written."""
    monkeypatch.setattr("ludus_local.supervisor.memory_bytes", lambda: 2**30)
    LocalLauncher().check(10)
    with pytest.raises(WorkerError, match="11 worker processes need more than 1 GiB"):
        LocalLauncher().check(11)


def test_a_worker_may_be_made_by_another_module(supervise):
    """Which is told more than others are; those that it does not name are made as ever."""
    supervisor, _ = supervise(modules={"sampler-0": ("some.module", "tcp://*:7077", "keys/run.key")})
    supervisor.start([WorkerSpec(name="sampler-1", threads=1)])
    named, other = (command.argv[2:] for command in supervisor.launch.commands)
    assert named[0] == "some.module"
    assert named[-4:] == ["--parent", str(os.getpid()), "tcp://*:7077", "keys/run.key"]
    assert other[0] == "ludus_local.worker"
    assert other[-2:] == ["--parent", str(os.getpid())]


def test_a_worker_of_another_module_is_restarted_by_it(supervise):
    """And told the same."""
    supervisor, _ = supervise(LEAVE, modules={"sampler-0": ("some.module", "more")})
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors={})
    assert [(command.argv[2], command.argv[-1]) for command in supervisor.launch.commands] == [
        ("some.module", "more")
    ] * 2


def test_a_healthy_worker_is_left_alone(supervise):
    """Nothing is said and nothing restarted."""
    supervisor, said = supervise()
    pids = supervisor.pids
    supervisor.check(last_seen_s={}, errors={})
    assert supervisor.pids == pids
    assert (said, supervisor.restarts) == ([], 0)


def test_a_killed_worker_is_restarted(supervise, patience):
    """At once, as it had no last words; with another session, so that its random numbers are others."""
    patience(60.0)
    supervisor, said = supervise()
    first = supervisor.pids["sampler-0"]
    os.kill(first, signal.SIGKILL)
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors={})
    assert supervisor.alive == ["sampler-0"]
    assert supervisor.pids["sampler-0"] != first
    assert "was killed by signal 9 — restarted" in said[0]
    sessions = [c.argv[c.argv.index("--session") + 1] for c in supervisor.launch.commands]
    assert sessions == ["2", "1002"]


def test_why_a_worker_ended_is_told(supervise):
    """What it said itself comes first."""
    supervisor, said = supervise(LEAVE)
    wait_dead(supervisor)
    errors = {"sampler-0": "the game crashed"}
    supervisor.check(last_seen_s={}, errors=errors)
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors=errors)
    assert said[0].startswith("sampler-0: the game crashed — restarted; see ")
    assert said[1].startswith("sampler-0: ended by itself with status 3 — restarted; see ")


def test_why_a_worker_ended_may_come_late(supervise, patience):
    """Its end is noticed before its last message is."""
    patience(60.0)
    supervisor, said = supervise(LEAVE)
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors={})
    assert (said, supervisor.alive) == ([], [])
    supervisor.check(last_seen_s={}, errors={"sampler-0": "the game crashed"})
    assert said[0].startswith("sampler-0: the game crashed — restarted; see ")
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors={})  # the next one is waited for anew
    assert len(said) == 1
    patience(0.1)
    time.sleep(0.1)
    supervisor.check(last_seen_s={}, errors={})
    assert said[1].startswith("sampler-0: ended by itself with status 3 — restarted; see ")


def test_a_silent_worker_is_killed_and_restarted(supervise):
    """One that is heard is not."""
    supervisor, said = supervise(stall_s=60.0)
    first = supervisor.pids["sampler-0"]
    supervisor._processes["sampler-0"].started_s -= 100
    supervisor.check(last_seen_s={"sampler-0": time.monotonic()}, errors={})
    assert supervisor.pids["sampler-0"] == first
    supervisor.check(last_seen_s={"sampler-0": time.monotonic() - 70.0}, errors={})
    assert supervisor.pids["sampler-0"] != first
    assert not is_alive(first)
    assert re.match("sampler-0: was silent for 7[0-9] s and was killed — restarted; see ", said[0])


def test_a_worker_that_starts_may_be_silent_for_longer(supervise, monkeypatch):
    """Importing takes a while where many start at once; but not for ever."""
    supervisor, _ = supervise(stall_s=0.1)
    first = supervisor.pids["sampler-0"]
    time.sleep(0.2)
    supervisor.check(last_seen_s={"sampler-0": time.monotonic() - 60}, errors={})  # its predecessor was heard
    assert supervisor.pids["sampler-0"] == first
    monkeypatch.setattr("ludus_local.supervisor._START_S", 0.2)
    supervisor.check(last_seen_s={}, errors={})
    assert supervisor.pids["sampler-0"] != first


def test_a_worker_that_dies_again_and_again_ends_the_run(supervise):
    """One death more than the restarts allowed within a minute."""
    supervisor, said = supervise(LEAVE)
    for _ in range(3):
        wait_dead(supervisor)
        supervisor.check(last_seen_s={}, errors={})
    wait_dead(supervisor)
    with pytest.raises(
        WorkerError, match=r"sampler-0: ended by itself with status 3 — 4 times within a minute; see .*log"
    ):
        supervisor.check(last_seen_s={}, errors={})
    assert len(said) == 3


def test_old_deaths_are_forgotten(supervise, monkeypatch):
    """A worker may die now and then in a run of days, if it is of use in between."""
    supervisor, said = supervise(LEAVE)
    monkeypatch.setattr("ludus_local.supervisor._WINDOW_S", 0.001)
    for _ in range(5):
        wait_dead(supervisor)
        time.sleep(0.002)
        supervisor.progressed("sampler-0")
        supervisor.check(last_seen_s={}, errors={})
    assert len(said) == 5


def test_who_had_nothing_to_do_has_not_died_in_vain(supervise, monkeypatch):
    """An evaluator with nothing to rate commits nothing; killed every few hours, it is restarted for ever."""
    supervisor, said = supervise(LEAVE)
    monkeypatch.setattr("ludus_local.supervisor._WINDOW_S", 0.001)
    for _ in range(6):
        wait_dead(supervisor)
        supervisor._processes["sampler-0"].started_s -= 601
        supervisor.check(last_seen_s={}, errors={})
    assert len(said) == 6


def test_deaths_in_vain_are_not_forgotten(supervise, monkeypatch):
    """A worker that always dies before anything of its work is committed is given up, however long it lives."""
    supervisor, said = supervise(LEAVE)
    monkeypatch.setattr("ludus_local.supervisor._WINDOW_S", 0.001)
    for death in range(5):
        wait_dead(supervisor)
        time.sleep(0.002)
        if death == 0:
            supervisor.check(last_seen_s={}, errors={})
            supervisor.progressed("sampler-0")
            supervisor.progressed("learner-of-another-run")
        elif death < 4:
            supervisor.check(last_seen_s={}, errors={})
    with pytest.raises(
        WorkerError, match=r"ended by itself with status 3 — 4 times with nothing committed in between; see .*log"
    ):
        supervisor.check(last_seen_s={}, errors={})
    assert len(said) == 4


def test_what_is_acknowledged_is_progress_and_who_is_stopped_may_end(tmp_path, monkeypatch):
    """The coordinator acknowledges only what is committed."""

    class Recorder(list):
        def __init__(self, **_):
            """Nobody is supervised."""

        def progressed(self, name):
            self.append(name)

        def dismiss(self, name):
            self.append(f"{name} stops")

    monkeypatch.setattr("ludus_local.launcher.Supervisor", Recorder)
    monkeypatch.setattr("ludus_local.launcher.private_ipc_dir", lambda: tmp_path)
    worker_pool = make_crew(tmp_path)
    try:
        worker_pool.send("learner-main", CheckpointAck(path="learners/main/00000001.safetensors"))
        worker_pool.send("sampler-0", ResultsAck(report=1))
        worker_pool.send("sampler-1", Stop())
    finally:
        worker_pool._endpoint.close()
    assert worker_pool._supervisor == ["learner-main", "sampler-0", "sampler-1 stops"]


def test_messages_are_gathered(tmp_path, monkeypatch):
    """What is said between two rounds comes together, in its order; the first round never waits."""
    monkeypatch.setattr("ludus_local.launcher.private_ipc_dir", lambda: tmp_path)
    monkeypatch.setattr("ludus_local.launcher._GATHER_S", 2.0)
    worker_pool = make_crew(tmp_path)
    worker_pool.start([])
    worker = ZmqEndpoint("sampler-0")
    worker.connect(COORDINATOR, ipc_address(tmp_path, COORDINATOR))

    def speak():
        for count in (1, 2):
            worker.send(COORDINATOR, Heartbeat(count=count))
            time.sleep(0.05)

    try:
        worker.send(COORDINATOR, Heartbeat(count=0))
        assert worker_pool.receive(10.0) == [("sampler-0", Heartbeat(count=0))]
        talk = threading.Thread(target=speak)
        talk.start()
        assert [message.count for _, message in worker_pool.receive(10.0)] == [1, 2]
        talk.join()
    finally:
        worker.close()
        worker_pool.close()


@pytest.fixture
def serve(tmp_path):
    """Return a maker of supervisors of a service and a sampler, each with a script of its own."""
    made = []

    def make(service, sampler=SLEEP, *, stall_s=60.0):
        said, scripts = [], {"service-x": Scripts(service), "sampler-0": Scripts(sampler)}
        supervisor = Supervisor(
            session=Session(run_dir=tmp_path, number=1, stall_s=stall_s, restarts=3, print_line=said.append),
            sockets=tmp_path,
            launch=lambda command: scripts[command.name](command),
        )
        supervisor.start([WorkerSpec(name=name, threads=1) for name in scripts])
        made.append(supervisor)
        return supervisor, said

    yield make
    for supervisor in made:
        supervisor.finish(timeout_s=0, poll=lambda: None)


def wait_ended(supervisor, name):
    """Wait until one worker has ended."""
    deadline = time.monotonic() + 10
    while name in supervisor.alive:
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("of_use", [True, False])
def test_a_service_is_of_use_while_it_serves(serve, monkeypatch, of_use):
    """It commits nothing; one that dies again and again before anybody was served is given up."""
    monkeypatch.setattr("ludus_local.supervisor._WINDOW_S", 0.001)
    supervisor, said = serve(LEAVE)
    for death in range(6):
        wait_ended(supervisor, "service-x")
        time.sleep(0.002)
        if of_use:
            supervisor.progressed("service-x")
        elif death == 3:
            with pytest.raises(
                WorkerError, match="service-x: ended by itself with status 3 — 4 times with nobody served in between"
            ):
                supervisor.check(last_seen_s={}, errors={})
            break
        supervisor.check(last_seen_s={}, errors={})
    assert len(said) == (6 if of_use else 3)


def test_who_waits_for_a_service_that_hangs_is_not_killed_with_it(serve, monkeypatch):
    """Both were silent for the same time, but only one of them because of itself."""
    monkeypatch.setattr("ludus_local.supervisor._QUIET_S", 0.1)
    supervisor, said = serve(SLEEP, stall_s=0.3)
    first, spoke = supervisor.pids, time.monotonic()
    while supervisor.pids["service-x"] == first["service-x"]:
        supervisor.check(last_seen_s={"sampler-0": spoke, "service-x": spoke}, errors={})
        time.sleep(0.02)
    assert supervisor.pids["sampler-0"] == first["sampler-0"]
    assert len(said) == 1


def test_what_a_service_or_a_helper_counts_is_progress(tmp_path, monkeypatch):
    """What others count is not, as it may be lost, and neither is a service that has done nothing yet."""
    monkeypatch.setattr("ludus_local.launcher.private_ipc_dir", lambda: tmp_path)
    worker_pool, heard = make_crew(tmp_path), []
    monkeypatch.setattr(Supervisor, "progressed", lambda self, name: heard.append(name))
    told = [("service-x", 0), ("service-x", 5), ("learner-main", 5), ("helper-1-main", 0), ("helper-1-main", 5)]
    messages = [(name, Heartbeat(count=count)) for name, count in told]
    monkeypatch.setattr(ZmqEndpoint, "receive", lambda self, timeout_s: messages)
    try:
        assert worker_pool.receive(0.0) == messages
    finally:
        worker_pool.close()
    assert heard == ["service-x", "helper-1-main"]


def test_who_waits_for_a_service_that_starts_is_not_silent(serve):
    """Its answer is all that a sampler waits for, and it says nothing meanwhile; once there is one, it has to speak."""
    supervisor, said = serve(SLEEP, stall_s=60.0)
    first = supervisor.pids["sampler-0"]
    supervisor._processes["sampler-0"].started_s -= 200
    spoke = time.monotonic() - 100.0
    supervisor.check(last_seen_s={"sampler-0": spoke}, errors={})
    assert (supervisor.pids["sampler-0"], said) == (first, [])
    supervisor.check(last_seen_s={"sampler-0": spoke, "service-x": time.monotonic()}, errors={})
    assert (supervisor.pids["sampler-0"], said) == (first, [])
    supervisor._served_s -= 70.0
    supervisor.check(last_seen_s={"sampler-0": spoke, "service-x": time.monotonic()}, errors={})
    assert supervisor.pids["sampler-0"] != first
    assert len(said) == 1


def spoke(supervisor):
    """Let all workers have been heard, so that they do not start any more."""
    supervisor._last_seen_s = dict.fromkeys(supervisor.pids, time.monotonic())


def test_finishing_waits_for_those_who_leave(supervise, tmp_path):
    """They are tended meanwhile, and nobody is killed."""
    supervisor, _ = supervise(LAST.format(path=str(tmp_path / "stop"), status=0))
    spoke(supervisor)
    assert supervisor.finish(timeout_s=60, poll=(tmp_path / "stop").touch) == []
    assert (tmp_path / "stop").exists()


def test_finishing_does_not_wait_for_those_who_start(supervise):
    """They have nothing to lose, and nobody has to hear of their end."""
    supervisor, said = supervise()
    supervisor.check(last_seen_s={"sampler-0": supervisor._processes["sampler-0"].started_s - 1.0}, errors={})  # before
    pid = supervisor.pids["sampler-0"]
    assert supervisor.finish(timeout_s=60, poll=pytest.fail) == []
    assert not is_alive(pid)
    assert said == []


def test_a_worker_that_is_killed_while_it_stops_is_told(supervise, tmp_path):
    """What it had not saved is lost, so that must not look like a good end."""
    supervisor, said = supervise()
    spoke(supervisor)
    supervisor.dismiss("sampler-0")

    def poll():
        os.kill(supervisor.pids["sampler-0"], signal.SIGKILL)
        time.sleep(0.05)

    assert supervisor.finish(timeout_s=10, poll=poll) == []
    log = tmp_path / "logs" / "sampler-0.log"
    assert said == [f"sampler-0: was killed by signal 9 while it stopped; see {log}"]


@pytest.mark.parametrize(
    ("script", "how"),
    [
        (KILL, "was killed by signal 9"),
        (LEAVE, "ended by itself with status 3"),
        ("", "ended by itself with status 0"),
    ],
)
def test_a_worker_that_ended_before_it_was_asked_to_is_told(supervise, tmp_path, script, how):
    """Once, though nobody checked in between, and the end comes twice."""
    supervisor, said = supervise(script)
    wait_dead(supervisor)
    supervisor.dismiss("sampler-0")  # too late
    for _ in range(2):
        assert supervisor.finish(timeout_s=60, poll=pytest.fail) == []
    assert said == [f"sampler-0: {how}; see {tmp_path / 'logs' / 'sampler-0.log'}"]


def test_a_worker_that_was_restarted_and_ends_again_is_told_again(supervise):
    """Its first end was another one."""
    supervisor, said = supervise(KILL)
    wait_dead(supervisor)
    supervisor.check(last_seen_s={}, errors={})
    wait_dead(supervisor)
    supervisor.finish(timeout_s=60, poll=pytest.fail)
    assert [line.partition(" see")[0] for line in said] == [
        "sampler-0: was killed by signal 9 — restarted;",
        "sampler-0: was killed by signal 9;",
    ]


@pytest.mark.parametrize(("status", "told"), [(3, " ended by itself with status 3 while it stopped;"), (0, "")])
def test_a_worker_that_was_asked_to_stop_may_end_well(supervise, tmp_path, status, told):
    """With any other status it has failed."""
    supervisor, said = supervise(LAST.format(path=str(tmp_path / "stop"), status=status))
    spoke(supervisor)
    supervisor.dismiss("sampler-0")
    assert supervisor.finish(timeout_s=60, poll=(tmp_path / "stop").touch) == []
    assert [line.removeprefix("sampler-0:").partition(" see")[0] for line in said] == [told] * bool(told)


def test_what_a_worker_said_of_its_end_is_not_told_again(supervise, patience):
    """Whoever hears its last words tells them."""
    patience(60.0)
    supervisor, said = supervise(LEAVE)
    errors = {}
    supervisor.check(last_seen_s={}, errors=errors)
    wait_dead(supervisor)
    assert supervisor.finish(timeout_s=60, poll=lambda: errors.update({"sampler-0": "the game crashed"})) == []
    assert said == []


def test_a_worker_that_was_given_up_is_not_told_again(supervise):
    """It is the error that ends the run."""
    supervisor, said = supervise(LEAVE)
    wait_dead(supervisor)
    supervisor.session = evolve(supervisor.session, restarts=0)
    with pytest.raises(WorkerError, match="ended by itself with status 3"):
        supervisor.check(last_seen_s={}, errors={})
    assert supervisor.finish(timeout_s=60, poll=pytest.fail) == said == []


@pytest.mark.parametrize("status", [3, 0], ids=["failed", "good"])
def test_what_a_worker_says_at_its_end_is_heard(supervise, patience, tmp_path, status):
    """One that failed while it stopped has said why; for one that did not, nobody waits."""
    patience(0.2)
    supervisor, _ = supervise(LAST.format(path=str(tmp_path / "stop"), status=status))
    spoke(supervisor)
    supervisor.dismiss("sampler-0")
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


def test_finishing_kills_stragglers(supervise):
    """Nothing is left when it returns."""
    supervisor, _ = supervise("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)")
    spoke(supervisor)
    pid = supervisor.pids["sampler-0"]
    assert supervisor.finish(timeout_s=0.1, poll=lambda: time.sleep(0.01)) == ["sampler-0"]
    assert not is_alive(pid)
    assert supervisor.alive == []


def test_nobody_waits_for_services_at_the_end(serve):
    """They are ended with those that had to be, and blamed for nothing."""
    supervisor, _ = serve(SLEEP, "")
    spoke(supervisor)
    start_s = time.monotonic()
    assert supervisor.finish(timeout_s=30, poll=lambda: time.sleep(0.01)) == []
    assert time.monotonic() - start_s < 20
    assert supervisor.alive == []


def test_who_waits_for_a_service_that_has_ended_is_not_waited_for_long(serve, monkeypatch):
    """Nobody starts it again at the end, so a sampler that asks it will not hear that it is to stop."""
    monkeypatch.setattr("ludus_local.supervisor._ORPHANED_S", 0.1)
    supervisor, _ = serve(LEAVE)
    spoke(supervisor)
    wait_ended(supervisor, "service-x")
    start_s = time.monotonic()
    assert supervisor.finish(timeout_s=30, poll=lambda: time.sleep(0.01)) == ["sampler-0"]
    assert time.monotonic() - start_s < 20
