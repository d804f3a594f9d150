"""The host agent without a run and without samplers: the test plays both."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from ludus._messaging.messages import Failure, Fixtures, Heartbeat, Hello, ResultsAck, Segments, Stop, Welcome
from ludus.errors import ConfigError, LinkError, WorkerError
from ludus.launcher import COORDINATOR, RemoteSamplerSpec
from ludus.records import Fixture
from ludus.wire import Credit, RefusedMessage
from ludus_hosts import host_agent as _site
from ludus_hosts.host_agent import HostAgent, _limits
from ludus_hosts.wire import ModelFile, ModelRequest, WeightsUpdate
from ludus_local.block_transfer import LZ4, BlockReference, decode_block, transfer_methods
from ludus_local.link import HostLink
from ludus_local.memory import SharedFolder, shared_path
from ludus_local.supervisor import Supervisor
from ludus_local.transport import ZmqEndpoint, ipc_address

LEARNER, FIRST, SECOND = "learner-main", "sampler-box-0", "sampler-box-1"
MODEL = b"a frozen model"
DIGEST = hashlib.sha256(MODEL).hexdigest()
FILE = ModelFile(hash=DIGEST, parts={"0": np.frombuffer(MODEL, np.uint8)})


def credit(**what):
    """Return a credit of a learner of the run."""
    return Credit(**{"player": "main", "acked": 0, "credits": 2, "version": 9} | what)


def newest(version, *, value=None, learner=LEARNER, weight_store="b"):
    """Return weights as they arrive from the run."""
    filled = np.full(3, version if value is None else value, np.float32)
    return WeightsUpdate(learner=learner, weight_store=weight_store, version=version, weights={"w": filled})


def fixtures(*, model):
    """Return fixtures for a sampler."""
    fixture = Fixture(
        id=1,
        kind="train",
        player="main",
        participants=("main", "main:1"),
        seed=7,
        matches=4,
        reason="test",
        models={"main:1": DIGEST} if model else {},
    )
    return Fixtures(fixtures=(fixture,))


class Sampler:
    """The endpoint of a sampler."""

    def __init__(self, site, name, *, shared):
        self.name, self.received = name, []
        endpoint = ZmqEndpoint(name, sockets=site._sockets)
        endpoint.connect(COORDINATOR, ipc_address(site._sockets, COORDINATOR))
        self.link = HostLink(endpoint, SharedFolder.beside(site._sockets, name) if shared else None)

    def hear(self):
        self.received += self.link.receive(0.0)

    def of(self, kind):
        return [message for _, message in self.received if isinstance(message, kind)]

    def shown(self):
        """Return the weights that the board shows, as (value, version)."""
        taken = []
        self.link.refresh(LEARNER, -1, lambda weights, version: taken.append((float(weights["w"][0]), version)))
        return taken[-1] if taken else None


class AgentTest:
    """A host agent, the messages it sends to the run, and its samplers."""

    def __init__(self, options, joined, eventually):
        self.folder = options.folder
        self.lines, self.requests, self.forwarded = [], [], []  # printed, sent for models, sent to the run
        self.site = HostAgent(options, joined, print_line=self.lines.append, send=self.requests.append)
        self.samplers = []
        self._eventually = eventually

    def sampler(self, name=FIRST, *, shared=True):
        """Return a sampler whose hello has reached the coordinator and the learner."""
        made = Sampler(self.site, name, shared=shared)
        self.samplers.append(made)
        hello = Hello(pid=os.getpid())
        for peer in (COORDINATOR, LEARNER):
            made.link.send(peer, hello)
            self.until(lambda peer=peer: (peer, name, hello) in self.forwarded)
        return made

    def until(self, condition):
        """Run the host agent and all samplers until a condition holds."""

        def turn():
            self.forwarded += self.site.receive()
            for sampler in self.samplers:
                sampler.hear()

        return self._eventually(condition, meanwhile=turn)

    def settle(self, sampler):
        """Wait until a sampler has received all messages of the coordinator and of the learner."""
        for lane in self.site._proxies.values():
            lane.endpoint.send(sampler.name, Welcome())
        self.site._endpoint.send(sampler.name, Welcome())
        count = len(sampler.of((Welcome, RefusedMessage)))  # that of the learner is refused
        self.until(lambda: len(sampler.of((Welcome, RefusedMessage))) == count + 2)

    def close(self):
        for sampler in self.samplers:
            sampler.link.close()
        self.site.close()


@pytest.fixture
def settle_in(options, joined, scripts, eventually):
    """Return a maker of sites."""
    made = []

    def make(*, how=(), what=()):
        made.append(AgentTest(options(**dict(how)), joined(**dict(what)), eventually))
        return made[-1]

    yield make
    for place in made:
        place.close()


@pytest.fixture
def place(settle_in):
    """Return a site of one sampler."""
    return settle_in()


# -- weights ---------------------------------------------------------------------------------------------------------


def test_credits_wait_for_the_first_weights(place):
    """The latest is sent then, with the version of this host."""
    sampler = place.sampler()
    for acked in (1, 2):
        message = credit(acked=acked, credits=5, pid=7, released=acked, progress=0.25)
        place.site.deliver(LEARNER, FIRST, message)
    place.settle(sampler)
    assert sampler.of(Credit) == []
    place.site.publish(newest(3))
    place.until(lambda: sampler.of(Credit))
    assert sampler.of(Credit) == [credit(acked=2, credits=5, pid=7, released=2, progress=0.25, version=3)]
    assert sampler.shown() == (3.0, 3)


def test_newer_weights_are_published_to_all_samplers(settle_in):
    """Without a message; the next credit has their version."""
    place = settle_in(how={"samplers": 2})
    samplers = [place.sampler(name) for name in (FIRST, SECOND)]
    place.site.publish(newest(3))
    for sampler in samplers:
        place.site.deliver(LEARNER, sampler.name, credit())
    place.until(lambda: all(sampler.of(Credit) for sampler in samplers))
    place.site.publish(newest(5))
    for sampler in samplers:
        assert sampler.shown() == (5.0, 5)
        place.site.deliver(LEARNER, sampler.name, credit(version=6))
        place.until(lambda sampler=sampler: len(sampler.of(Credit)) == 2)
        assert [granted.version for granted in sampler.of(Credit)] == [3, 5]
        assert not any(granted.weights for granted in sampler.of(Credit))


def test_samplers_without_the_weight_store_get_weights_in_credits(place):
    """Each version once, and again after a `Hello`."""
    sampler = place.sampler(shared=False)
    place.site.publish(newest(3))
    place.site.deliver(LEARNER, FIRST, credit())
    hello = (LEARNER, FIRST, Hello(pid=os.getpid()))
    place.until(lambda: place.forwarded.count(hello) == 2)  # it cannot see the board, and asks for messages
    for version in (3, 4):
        place.site.publish(newest(version))
        for _ in range(2):
            place.site.deliver(LEARNER, FIRST, credit())
    place.until(lambda: len(sampler.of(Credit)) == 5)
    carried = [(granted.version, [w.tolist() for w in granted.weights.values()]) for granted in sampler.of(Credit)]
    assert carried == [(3, []), (3, [[3.0] * 3]), (3, []), (4, [[4.0] * 3]), (4, [])]


def test_weights_in_a_credit_are_published(place):
    """A learner without shared memory sends them so."""
    sampler = place.sampler()
    place.site.deliver(LEARNER, FIRST, credit(version=2, weights=newest(2).weights))
    place.until(lambda: sampler.of(Credit))
    assert sampler.of(Credit) == [credit(version=2)]
    assert sampler.shown() == (2.0, 2)


def test_weights_of_an_earlier_version_are_published(place):
    """After a resume they are the newer ones."""
    sampler = place.sampler()
    for version in (8, 5):
        place.site.publish(newest(version))
        place.site.deliver(LEARNER, FIRST, credit())
    place.until(lambda: len(sampler.of(Credit)) == 2)
    assert sampler.shown() == (5.0, 5)
    assert sampler.of(Credit)[-1].version == 5


def test_repeated_weights_and_those_of_unknown_learners_are_ignored(place):
    """A lost acknowledgement repeats them."""
    sampler = place.sampler()
    place.site.publish(newest(3))
    place.site.publish(newest(3, value=7))
    place.site.publish(newest(4, learner="learner-other"))
    place.site.deliver(LEARNER, FIRST, credit())
    place.until(lambda: sampler.of(Credit))
    assert sampler.shown() == (3.0, 3)


# -- models and order ------------------------------------------------------------------------------------------------


def test_fixtures_wait_for_their_models(place):
    """So do later messages: the order is kept."""
    sampler = place.sampler()
    place.site.deliver(COORDINATOR, FIRST, ResultsAck(report=1))
    place.site.deliver(COORDINATOR, FIRST, fixtures(model=True))
    place.site.deliver(COORDINATOR, FIRST, ResultsAck(report=2))
    place.settle(sampler)
    assert sampler.of(ResultsAck) == [ResultsAck(report=1)]
    assert sampler.of(Fixtures) == []
    assert place.requests == [ModelRequest(hash=DIGEST)]
    place.site.add_model(FILE)
    place.until(lambda: len(sampler.of(ResultsAck)) == 2)
    assert [type(message) for _, message in sampler.received if not isinstance(message, Welcome | RefusedMessage)] == [
        ResultsAck,
        Fixtures,
        ResultsAck,
    ]
    assert (place.folder / "models" / f"{DIGEST}.safetensors").read_bytes() == MODEL


def test_other_samplers_do_not_wait(settle_in):
    """Each has an inbox of its own."""
    place = settle_in(how={"samplers": 2})
    first, second = place.sampler(FIRST), place.sampler(SECOND)
    place.site.deliver(COORDINATOR, FIRST, fixtures(model=True))
    place.site.deliver(COORDINATOR, SECOND, fixtures(model=False))
    place.until(lambda: second.of(Fixtures))
    assert first.of(Fixtures) == []


def test_a_missing_model_is_requested_again(place, monkeypatch):
    """Without a new fixture."""
    monkeypatch.setattr("ludus_hosts.model_cache._FIRST_RETRY_S", 0.0)
    place.site.deliver(COORDINATOR, FIRST, fixtures(model=True))
    count = len(place.requests)
    place.site.check()
    assert place.requests == [ModelRequest(hash=DIGEST)] * (count + 1)


def test_a_stopped_sampler_does_not_wait_for_models(place):
    """Its fixtures are dropped; acknowledgements are delivered."""
    sampler = place.sampler()
    for message in (fixtures(model=True), ResultsAck(report=1), Stop(reason="enough")):
        place.site.deliver(COORDINATOR, FIRST, message)
    place.until(lambda: sampler.of(Stop))
    assert [message for _, message in sampler.received] == [ResultsAck(report=1), Stop(reason="enough")]


# -- messages of samplers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [True, False])
def test_blocks_are_encoded_for_the_network(settle_in, packed):
    """By a method that the run accepts, without references to shared memory."""
    if packed and LZ4 not in transfer_methods("tcp:", shared=False):
        pytest.skip("needs lz4")
    place = settle_in(what={"methods": (LZ4,) if packed else ()})
    sampler = place.sampler()
    place.site.publish(newest(3))
    place.site.deliver(LEARNER, FIRST, credit())
    place.until(lambda: sampler.of(Credit))
    steps, segments = 5, 2
    shapes = {
        "action": ((steps, segments, 1), np.dtype(np.int64)),
        "decided": ((steps, segments), np.dtype(bool)),
        "elapsed_ticks": ((steps, segments), np.dtype(np.int32)),
        "length": ((segments,), np.dtype(np.int32)),
        "observation/obs": ((steps, segments, 1), np.dtype(np.float32)),
        "reward": ((steps, segments), np.dtype(np.float32)),
        "terminated": ((steps, segments), np.dtype(bool)),
        "truncated": ((steps, segments), np.dtype(bool)),
        "version": ((segments,), np.dtype(np.int64)),
    }
    arrays = sampler.link.allocate("main", shapes)
    for array in arrays.values():
        array[...] = 0
    arrays["length"][...] = 4
    arrays["reward"][...] = np.arange(10.0).reshape(5, 2)
    sampler.link.send(LEARNER, Segments(player="main", block=1, pid=os.getpid(), arrays=arrays))
    place.until(lambda: any(isinstance(message, BlockReference | Segments) for _, _, message in place.forwarded))
    peer, worker, block = place.forwarded[-1]
    assert (peer, worker, type(block)) == (LEARNER, FIRST, BlockReference if packed else Segments)
    came = decode_block(block, None) if packed else block
    assert came.block == 1
    np.testing.assert_array_equal(came.arrays["reward"], np.arange(10.0).reshape(5, 2))


def test_heartbeats_are_forwarded(place):
    """They count on this host too."""
    sampler = place.sampler()
    sampler.link.send(COORDINATOR, Heartbeat(count=3))
    place.until(lambda: (COORDINATOR, FIRST, Heartbeat(count=3)) in place.forwarded)
    assert FIRST in place.site._last_seen_s


@pytest.mark.parametrize("name", ["evaluator-0", "sampler-box-1", "sampler-other-0", "service-server"])
def test_only_messages_of_samplers_are_forwarded(place, name):
    """Not those of a service."""
    sampler, other = place.sampler(), Sampler(place.site, name, shared=False)
    place.samplers.append(other)
    other.link.send(COORDINATOR, Heartbeat(count=3))
    place.until(lambda: name in place.site._last_seen_s)
    place.settle(sampler)
    assert {worker for _, worker, _ in place.forwarded} == {FIRST}


def test_failures_are_handled_on_this_host(place):
    """The error is printed at the restart."""
    sampler = place.sampler()
    sampler.link.send(COORDINATOR, Failure(error="the game crashed"))
    place.until(lambda: place.site._errors)
    assert not any(isinstance(message, Failure) for _, _, message in place.forwarded)
    process = place.site._supervisor._workers[FIRST].process
    process.kill()
    place.until(lambda: process.poll() is not None)
    place.site.check()
    assert place.lines == [f"{FIRST}: the game crashed — restarted; see {place.folder / 'logs' / FIRST}.log"]
    assert place.site.alive


def test_a_fatal_failure_ends_the_agent(place):
    """With the worker and its error."""
    sampler = place.sampler()
    sampler.link.send(COORDINATOR, Failure(error="no such game", fatal=True))
    with pytest.raises(WorkerError, match=f"^{FIRST}: no such game$"):
        place.until(lambda: False)


def test_a_useful_worker_is_restarted_after_a_fatal_failure(place):
    """A deleted model, for example, is fetched again."""
    sampler = place.sampler()
    place.site.deliver(COORDINATOR, FIRST, ResultsAck(report=1))
    sampler.link.send(COORDINATOR, Failure(error="a model is missing", fatal=True))
    place.until(lambda: place.site._errors)
    assert place.site._errors == {FIRST: "a model is missing"}


def test_equal_versions_of_a_restarted_learner_are_published(place):
    """They differ in the name of the weight store."""
    place.site.publish(newest(3, value=1))
    place.site.publish(newest(3, value=2))
    lane = place.site._proxies[LEARNER]
    assert lane.weights.weights["w"][0] == 1
    place.site.publish(newest(3, value=2, weight_store="c"))
    assert lane.weights.weights["w"][0] == 2


# -- start and end ---------------------------------------------------------------------------------------------------


def test_samplers_are_started_with_the_run_configuration(settle_in, scripts, joined):
    """In a folder of their own, with another session number than the run's."""
    place = settle_in(how={"samplers": 2})
    assert place.site.workers == [FIRST, SECOND] == [command.name for command in scripts]
    assert (place.folder / "run.toml").read_text(encoding="utf-8") == joined().config
    line = " ".join(scripts[0].argv)
    assert f"-m ludus_local.worker --run {place.folder} --name {FIRST} --threads 1 " in line
    again = settle_in()
    assert again.site._supervisor.session.number != place.site._supervisor.session.number
    assert (again.site._supervisor.session.stall_s, again.site._supervisor.session.restarts) == (60.0, 2)
    assert again.site._supervisor.session.sampler_processes == 1024


@pytest.mark.parametrize(("cores", "threads", "count"), [(0.5, 1, 1), (3.7, 1, 3), (5.0, 2, 2)])
def test_there_are_as_many_samplers_as_there_are_cores_for(
    options, joined, scripts, eventually, monkeypatch, cores, threads, count
):
    """The default number of samplers, at least 1."""
    monkeypatch.setattr(_site, "available_cores", lambda: cores)
    what = joined()
    config = what.config.replace("sampler_threads = 1", f"sampler_threads = {threads}")
    place = AgentTest(options(samplers=0), _site.evolve(what, config=config), eventually)
    place.close()
    assert len(place.site.workers) == count


def test_a_service_runs_beside_the_samplers(settle_in, scripts, monkeypatch):
    """It is started first, and takes the cores of one of them."""
    monkeypatch.setattr(_site, "available_cores", lambda: 3.0)
    place = settle_in(how={"samplers": 0}, what={"sampling": {"inference": "server"}})
    assert [command.name for command in scripts] == ["service-server", FIRST, SECOND]
    assert place.site.workers == [FIRST, SECOND]


def test_the_end_of_the_run_stops_the_samplers(place):
    """They are not restarted any more."""
    sampler = place.sampler()
    assert place.site.stop_reason == ""
    place.site.deliver(COORDINATOR, FIRST, Stop(reason="decisions = 2000"))
    place.until(lambda: sampler.of(Stop))
    assert place.site.stop_reason == "decisions = 2000"
    place.site.stop()
    place.settle(sampler)
    assert len(sampler.of(Stop)) == 1
    process = place.site._supervisor._workers[FIRST].process
    process.kill()
    place.until(lambda: not place.site.alive)
    place.site.check()
    assert (place.lines, place.site.alive) == ([], False)


def test_a_stop_without_a_reason_has_a_default_text(place):
    """It is printed."""
    place.site.deliver(COORDINATOR, FIRST, Stop())
    assert place.site.stop_reason == "the run was stopped"


def test_an_interrupt_stops_the_samplers(place):
    """They send their last results."""
    sampler = place.sampler()
    place.site.stop()
    place.until(lambda: sampler.of(Stop))
    assert sampler.of(Stop) == [Stop(reason="interrupted")]


@pytest.mark.parametrize("interrupted", [True, False])
def test_stopped_samplers_may_exit(place, monkeypatch, interrupted):
    """By a signal or by the run."""
    dismissed = []
    monkeypatch.setattr(Supervisor, "expect_exit", lambda self, name: dismissed.append(name))
    if interrupted:
        place.site.stop()
    else:
        for name in place.site.workers:
            place.site.deliver(COORDINATOR, name, Stop(reason="over"))
    assert dismissed == [FIRST]


def test_a_failure_while_stopping_is_printed(place):
    """Once; its last matches are lost."""
    sampler = place.sampler()
    place.site.check()
    place.site.stop()
    sampler.link.send(COORDINATOR, Failure(error="the game crashed"))
    place.until(lambda: place.site._errors)
    place.site._supervisor._workers[FIRST].process.kill()
    place.until(lambda: not place.site.alive)
    place.site.close()
    assert place.lines == [f"{FIRST}: the game crashed, while it stopped; what it had not reported is lost"]


def test_close_leaves_nothing(settle_in, is_alive):
    """No processes, sockets or shared memory; closing twice is allowed."""
    place = settle_in()
    pids = place.site._supervisor.pids.values()
    place.close()
    assert not any(map(is_alive, pids))
    assert not place.site._sockets.exists()
    assert not shared_path(place.site._sockets).exists()
    place.site.close()


@pytest.mark.parametrize("problem", ["nonsense", "plugin", "sockets"])
def test_a_run_that_cannot_be_joined_leaves_nothing(options, joined, scripts, monkeypatch, problem):
    """No processes or sockets."""
    what = joined(algorithm="missing") if problem == "plugin" else joined()
    if problem == "nonsense":
        what = _site.evolve(what, config="= nonsense")
    place = Path(tempfile.mkdtemp(prefix="t-"))  # pytest's own folders have names too long for sockets
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    if problem == "sockets":
        monkeypatch.setattr(_site, "ipc_address", lambda *_: "ipc:///nowhere/x")
    with pytest.raises(LinkError if problem == "sockets" else ConfigError):
        HostAgent(options(), what, print_line=print, send=print)
    assert scripts == []
    place.rmdir()  # it is empty


@pytest.mark.parametrize(
    ("of_run", "expected"),
    [
        ({}, (16.0, 0, 1024)),
        ({"log_mb": 2.0, "sampler_memory_mb": 500, "sampler_processes": 7}, (2.0, 500, 7)),
        ({"log_mb": 1e9, "sampler_memory_mb": 10**9, "sampler_processes": 10**6}, (16.0, 0, 1024)),
    ],
)
def test_samplers_have_the_limits_of_the_run(of_run, expected):
    """But no run may raise those of this machine: 0 is the part of a sampler of its memory."""
    spec = RemoteSamplerSpec(threads=1, service="", learners=(), stall_s=60.0, restarts=2, **of_run)
    assert tuple(_limits(spec, 2).values()) == expected
