"""The gateway with real endpoints of a coordinator and a learner, and real connections of hosts."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import zmq
from attrs import evolve
from ludus._messaging.messages import Checkpoint, Failure, FixtureRequest, Fixtures, ModelFrozen, Stop
from ludus._messaging.refusals import MAX_REFUSALS
from ludus.errors import ConfigError, LinkError
from ludus.launcher import COORDINATOR
from ludus.wire import PROTOCOL, Credit, Heartbeat, Hello, SamplerLeft, Segments
from ludus_hosts import (
    admission as _admission,
    host_registry as _registry,
    model_requests as _model_requests,
)
from ludus_hosts.connection import Connection
from ludus_hosts.gateway import Gateway
from ludus_hosts.keys import RUN_KEY, JoinKey, RunKey, _write, make_keys
from ludus_hosts.wire import (
    GATEWAY,
    HostLeft,
    HostList,
    JoinAccepted,
    JoinRejected,
    JoinRequest,
    ModelFile,
    ModelRequest,
    Quarantine,
    WeightsAck,
    WeightsUpdate,
    installed_versions,
)
from ludus_local import codec
from ludus_local.block_transfer import transfer_methods
from ludus_local.link import HostLink, LinkCapabilities
from ludus_local.memory import SharedFolder
from ludus_local.transport import FORWARDER, HIGH_WATER, MAX_BATCH, Sockets, ZmqEndpoint, ipc_address, take_message

LEARNER = "learner-main"
CONFIG = "# of the run\n"


def weights(number):
    """Return weights whose values contain the number."""
    return {"w": np.full(3, number, np.float32)}


def credit(**what):
    """Return a weight credit of a learner."""
    return Credit(**{"player": "main", "acked": 0, "credits": 2, "version": 0} | what)


class Host:
    """Another host: two connections and the messages received by them."""

    def __init__(self, run, name, token, key):
        self.run, self.name, self.token = run, name, token
        self._own = Sockets()
        self.line, self.bulk = (Connection(self._own, run.address, key) for _ in range(2))
        self.received = []  # by the first line, as (peer, worker, message)
        self.fetched = []  # by the second

    def send(self, message, *, bulk=False):
        """Send a message of the relay."""
        line = self.bulk if bulk else self.line
        self.run.until(lambda: line.send([b"", b"", *codec.encode(message)]))

    def send_as(self, worker, peer, message):
        """Send a message of a worker."""
        self.run.until(lambda: self.line.send([peer.encode(), worker.encode(), *codec.encode(message)]))

    def joining(self, **what):
        return JoinRequest(host=self.name, token=self.token, **what)

    def join(self, samplers=2):
        """Join, and wait until that is answered."""
        count = len(self.of(JoinAccepted))
        known = {"samplers": samplers, "run": self.run.sockets.name}
        self.send(self.joining(**known))
        self.run.until(lambda: len(self.of(JoinAccepted)) > count)
        self.send(self.joining(**known, bulk=True), bulk=True)
        self.run.until(lambda: self.run.gateway._registry.hosts[self.name].bulk_route)
        return self

    def receive(self):
        """Receive all messages."""
        for line, messages in ((self.line, self.received), (self.bulk, self.fetched)):
            while line.socket.poll(0):
                peer, worker, *frames = map(bytes, take_message(line.socket))
                messages.append((peer.decode(), worker.decode(), codec.decode(frames)))

    def of(self, kind):
        return [message for _, _, message in [*self.received, *self.fetched] if isinstance(message, kind)]

    @property
    def versions(self):
        return [newest.version for newest in self.of(WeightsUpdate)]

    def settle(self):
        """Wait until the gateway has done everything that it can do at the moment."""
        for _ in range(2):  # an answer comes before the weights of the same round, and after those of the last one
            count = len(self.of(ModelFile))
            self.send(ModelRequest(hash="0" * 64))
            self.run.until(lambda count=count: len(self.of(ModelFile)) > count)

    def close(self):
        self._own.close()


class Run:
    """A coordinator, a learner and the gateway, with a clock that stands still; they work in turn."""

    def __init__(self, folder, sockets, keys, key, eventually):
        self.folder, self.sockets, self.key, self.now = folder, sockets, key, 0.0
        self._eventually = eventually
        (folder / "run.toml").write_text(CONFIG, encoding="utf-8")
        (folder / "models").mkdir()
        self.coordinator = ZmqEndpoint(COORDINATOR)
        self.coordinator.bind(ipc_address(sockets, COORDINATOR))
        self.at_coordinator, self.at_learner = [], []
        self.learner = None
        self.start_learner()
        endpoint = ZmqEndpoint(GATEWAY, sockets=sockets)
        endpoint.connect(COORDINATOR, ipc_address(sockets, COORDINATOR))
        self.link = HostLink(endpoint, None)
        self.gateway = Gateway(
            run_dir=folder,
            sockets=sockets,
            listen="tcp://127.0.0.1:*",
            key=keys / RUN_KEY,
            link=self.link,
            clock=lambda: self.now,
        )
        self.gateway.start()
        self.address = self.gateway._listener.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.hosts = []

    def start_learner(self, *, shared=True):
        """Start the learner, instead of the one before."""
        if self.learner is not None:
            self.learner.close()
        endpoint = ZmqEndpoint(LEARNER)
        address = endpoint.bind(ipc_address(self.sockets, LEARNER))
        self.learner = HostLink(
            endpoint, SharedFolder.beside(self.sockets, LEARNER) if shared else None, address=address
        )

    def host(self, name="box", *, token="1", key=None):
        self.hosts.append(Host(self, name, token, key or self.key))
        return self.hosts[-1]

    def turn(self):
        """Let all of them work once."""
        self.gateway.work()
        for peer, message in self.link.receive(0.0):
            self.gateway.handle(peer, message)
        self.at_coordinator += self.coordinator.receive(0.0)
        self.at_learner += self.learner.receive(0.0)
        for host in self.hosts:
            host.receive()

    def until(self, condition):
        """Let all of them work until a condition holds."""
        return self._eventually(condition, meanwhile=self.turn)

    def sent_by(self, worker):
        """Return the messages of a worker to the coordinator and the learner."""
        return [message for who, message in [*self.at_coordinator, *self.at_learner] if who == worker]

    @property
    def reported(self):
        """Return the hosts of the last list that the coordinator received."""
        reports = [message.hosts for message in self.sent_by(GATEWAY) if isinstance(message, HostList)]
        return reports[-1] if reports else None

    @property
    def drops(self):
        return self.gateway._drops

    def close(self):
        for one in [*self.hosts, self.gateway, self.link, self.learner, self.coordinator]:
            one.close()


@pytest.fixture
def run(tmp_path, sockets, keys, key, eventually):
    """Return a run that no host has joined."""
    folder = tmp_path / "run"
    folder.mkdir()
    made = Run(folder, sockets, keys, key, eventually)
    yield made
    made.close()


@pytest.fixture
def box(run):
    """Return a host that takes part with two samplers."""
    return run.host().join()


@pytest.fixture
def showing(run, box):
    """Return a run with a learner whose first weights the host has got."""
    run.learner.publish(weights(0), 0)
    box.send_as("sampler-box-0", LEARNER, Hello(pid=5))
    run.until(lambda: box.versions == [0])
    return run


# -- taking part -----------------------------------------------------------------------------------------------------


def test_a_new_host_gets_the_configuration(run):
    """With plugin versions and transfer methods."""
    host = run.host()
    host.send(host.joining())
    (joined,) = run.until(lambda: host.of(JoinAccepted))
    assert joined == JoinAccepted(
        run=run.sockets.name,
        config=CONFIG,
        methods=transfer_methods("tcp:", shared=False),
        versions=installed_versions(),
    )
    assert {"ludus", "ludus-dummy"} <= joined.versions.keys()
    run.until(lambda: run.reported is not None)
    assert run.reported == {}


def test_a_host_that_knows_the_session_takes_part(run, box):
    """Its requests are answered by short messages."""
    box.join()
    assert box.of(JoinAccepted) == [JoinAccepted(run=run.sockets.name)] * 2
    run.until(lambda: run.reported == {"box": 2})


def test_a_host_of_an_earlier_session_gets_the_configuration(run):
    """It must not go on with the old one."""
    host = run.host()
    host.send(host.joining(run="ludus-run-1-old", samplers=2))
    (joined,) = run.until(lambda: host.of(JoinAccepted))
    assert joined.config == CONFIG
    assert run.gateway._registry.hosts == {}


@pytest.mark.parametrize("name", ["", "../up", "Loud", "a b", "b\nox", "x" * 65])
def test_invalid_names_are_rejected(run, name):
    """Finally; they become parts of worker names."""
    host = run.host(name)
    host.send(host.joining(samplers=1, run=run.sockets.name))
    (refused,) = run.until(lambda: host.of(JoinRejected))
    assert refused.final
    assert refused.reason.startswith("a host needs a name of a-z")


@pytest.mark.parametrize("samplers", [-1, 4097, 2**62])
def test_invalid_numbers_of_samplers_are_rejected(run, samplers):
    """Each takes some memory."""
    host = run.host()
    host.send(host.joining(samplers=samplers, run=run.sockets.name))
    (refused,) = run.until(lambda: host.of(JoinRejected))
    assert refused.reason.endswith("and at most 4096 samplers")
    assert run.gateway._registry.hosts == {}


def test_the_longest_host_name_gives_valid_worker_names(run):
    """With the largest number of samplers."""
    host = run.host("x" * 64).join(4096)
    last = f"sampler-{host.name}-4095"
    host.send_as(last, COORDINATOR, Hello())
    run.until(lambda: run.sent_by(last))


def test_the_number_of_hosts_is_limited(run, box, monkeypatch):
    """The rejection is temporary; hosts that take part go on."""
    monkeypatch.setattr(_registry, "MAX_HOSTS", 2)
    run.host("second").join()
    third = run.host("third")
    third.send(third.joining())  # before it starts samplers
    (refused,) = run.until(lambda: third.of(JoinRejected))
    assert not refused.final
    assert refused.reason == "the run is full: at most 2 hosts with 16,384 samplers may join, and 2 with 4 have joined"
    assert run.gateway._registry.hosts.keys() == {"box", "second"}
    box.join()
    box.send(HostLeft(host="box"))
    run.until(lambda: "box" not in run.gateway._registry.hosts)
    third.join()


def test_the_number_of_samplers_is_limited(run, box, monkeypatch):
    """A host that takes part may change its number within the limit."""
    monkeypatch.setattr(_registry, "MAX_WORKERS", 5)
    box.join(5)
    other = run.host("other")
    other.send(other.joining(samplers=1, run=run.sockets.name))
    (refused,) = run.until(lambda: other.of(JoinRejected))
    assert not refused.final
    assert refused.reason == "the run is full: at most 1,024 hosts with 5 samplers may join, and 1 with 5 have joined"
    box.join(4)
    other.join(1)


def test_a_host_name_is_unique(run, box):
    """The rejection is temporary, as the other host may leave."""
    twin = run.host(token="2")
    twin.send(twin.joining(samplers=1, run=run.sockets.name))
    twin.send(twin.joining(bulk=True), bulk=True)
    (refused,) = run.until(lambda: twin.of(JoinRejected))
    assert not refused.final
    assert refused.reason == "another machine has joined as 'box'; choose another name with --name"
    box.send_as("sampler-box-1", COORDINATOR, Hello())
    run.until(lambda: run.sent_by("sampler-box-1"))
    box.settle()
    assert twin.of(ModelFile) == []
    box.send(HostLeft(host="box"))
    run.until(lambda: run.reported == {})
    twin.join(1)
    run.until(lambda: run.reported == {"box": 1})


def test_hosts_report_what_they_lack(run, monkeypatch):
    """Before they take part and afterwards; for a limited number of hosts."""
    monkeypatch.setattr(_admission, "_MAX_REFUSALS", 2)
    expected = {"lab": "no module", "box": "x" * 400}
    for name, reason in (("a b", "bad"), ("lab", "no module"), ("lab", ""), ("box", "x" * 9999), ("third", "late")):
        run.host(name).send(HostLeft(host=name, reason=reason))
        run.until(lambda name=name: name not in expected or name in run.gateway._admission.refusals)
    fourth = run.host("fourth")
    fourth.join()
    fourth.settle()
    assert run.gateway._admission.refusals == expected


def test_weights_that_cannot_be_sent_do_not_end_the_run(showing, box, monkeypatch):
    """The host is rejected."""
    run = showing
    (newest,) = run.until(lambda: box.of(WeightsUpdate))
    monkeypatch.setattr(codec, "MAX_ARRAYS", 0)
    run.learner.publish(weights(7), 7)
    box.send(WeightsAck(learner=LEARNER, version=newest.version))
    (refused,) = run.until(lambda: box.of(JoinRejected))
    assert refused.final
    assert refused.reason.startswith(f"the weights of {LEARNER} cannot be sent to other hosts: ")
    run.until(lambda: run.reported == {})


def test_a_silent_host_is_removed(showing, box):
    """Learners are notified; it may join again."""
    run = showing
    run.now = 14.9
    box.settle()
    assert "box" in run.gateway._registry.hosts
    run.now = 15.1
    run.until(lambda: run.reported == {})
    run.until(lambda: len([1 for _, message in run.at_learner if isinstance(message, SamplerLeft)]) == 2)
    for worker in ("sampler-box-0", "sampler-box-1"):
        assert SamplerLeft() in run.sent_by(worker)
    box.send_as("sampler-box-0", COORDINATOR, Hello())
    run.until(lambda: run.drops["foreign"] == 1)
    box.join()
    run.until(lambda: run.reported == {"box": 2})


def test_a_host_that_sends_join_requests_stays(run, box):
    """The timeout starts again with each."""
    for run.now in (10.0, 20.0, 30.0):
        box.join()
    assert "box" in run.gateway._registry.hosts


def test_a_host_whose_workers_send_messages_stays(run, box):
    """On a slow network its join requests are queued behind blocks."""
    for number, run.now in enumerate((10.0, 20.0, 30.0), start=1):
        box.send_as("sampler-box-0", COORDINATOR, Hello())
        run.until(lambda number=number: len(run.sent_by("sampler-box-0")) == number)
    assert "box" in run.gateway._registry.hosts


def test_a_host_leaves(showing, box):
    """At once; other hosts cannot send the message for it."""
    run = showing
    other = run.host("other", token="2").join(1)
    other.send(HostLeft(host="box"))
    other.settle()
    assert set(run.gateway._registry.hosts) == {"box", "other"}
    box.send(HostLeft(host="box"))
    run.until(lambda: run.reported == {"other": 1})
    run.until(lambda: SamplerLeft() in run.sent_by("sampler-box-0"))


def test_a_host_with_a_lost_connection_is_removed(showing, box):
    """With the next message to it."""
    run = showing
    run.hosts.remove(box)
    box.close()
    run.until(lambda: not (run.learner.send("sampler-box-0", credit()) and run.gateway._registry.hosts))
    assert run.gateway._registry.hosts == {}
    run.until(lambda: run.reported == {})
    run.until(lambda: SamplerLeft() in run.sent_by("sampler-box-0"))


def test_a_host_may_reconnect(run, box):
    """By the token it is the same process."""
    run.hosts.remove(box)
    box.close()
    again = run.host().join()
    again.send_as("sampler-box-0", COORDINATOR, Hello())
    run.until(lambda: run.sent_by("sampler-box-0"))
    assert run.coordinator.send("sampler-box-0", Stop(reason="enough"))
    run.until(lambda: (COORDINATOR, "sampler-box-0", Stop(reason="enough")) in again.received)


def test_a_host_may_change_its_samplers(run, box):
    """After it was started with another number."""
    box.join(1)
    run.until(lambda: run.reported == {"box": 1})
    for number in (1, 0):
        box.send_as(f"sampler-box-{number}", COORDINATOR, Hello())
    run.until(lambda: run.sent_by("sampler-box-0"))
    assert run.sent_by("sampler-box-1") == []
    assert run.drops["foreign"] == 1


def test_a_stopping_run_accepts_no_hosts(run, box):
    """Hosts that take part finish with it."""
    run.gateway.handle(COORDINATOR, Stop())
    box.join()
    host = run.host("late", token="2")
    host.send(host.joining())
    assert run.until(lambda: host.of(JoinRejected)) == [JoinRejected(reason="the run is stopping", final=False)]


def test_another_version_is_rejected(run, box):
    """Its messages cannot be decoded."""
    magic, rest = b"LUDS", codec.encode(box.joining())[0][6:]
    box.line.send([b"", b"", magic + (PROTOCOL + 1).to_bytes(2, "little") + rest])
    (refused,) = run.until(lambda: box.of(JoinRejected))
    assert refused.final
    assert refused.reason == (
        f"incompatible version of ludus: peer uses protocol {PROTOCOL + 1}, this process {PROTOCOL}: "
        f"install the same version of ludus"
    )


# -- messages of workers ----------------------------------------------------------------------------------------------


def test_messages_between_samplers_and_coordinator_are_forwarded(run, box):
    """Under their names, in order and unchanged."""
    for worker in ("sampler-box-0", "sampler-box-1"):
        box.send_as(worker, COORDINATOR, Hello(pid=3))
        box.send_as(worker, COORDINATOR, FixtureRequest(kind="train", count=2))
        run.until(lambda worker=worker: len(run.sent_by(worker)) == 2)
        assert run.sent_by(worker) == [
            Hello(pid=3),
            FixtureRequest(kind="train", count=2),
        ]
        assert run.coordinator.send(worker, Fixtures(fixtures=()))
        run.until(lambda worker=worker: (COORDINATOR, worker, Fixtures(fixtures=())) in box.received)
    assert run.gateway.count == 6
    assert run.drops == {}


def test_messages_between_samplers_and_learners_are_forwarded(run, box):
    """Blocks with their arrays; capabilities of shared memory are not."""
    run.learner.publish(weights(0), 0)
    box.send_as("sampler-box-0", LEARNER, Hello(pid=3))
    block = Segments(player="main", block=1, pid=3, arrays={"reward": np.arange(5.0)})
    box.send_as("sampler-box-0", LEARNER, block)
    run.until(lambda: len(run.at_learner) == 2)
    (_, hello), (worker, came) = run.at_learner
    assert (worker, hello.pid, came.block) == ("sampler-box-0", 3, 1)
    np.testing.assert_array_equal(came.arrays["reward"], block.arrays["reward"])
    assert run.learner.send("sampler-box-0", credit(acked=1, weights=weights(0)))
    run.until(lambda: box.of(Credit))
    assert (LEARNER, "sampler-box-0", credit(acked=1)) in box.received  # weights go another way
    assert box.of(LinkCapabilities) == []


def test_a_learner_without_shared_memory_sends_weights_itself(run, box):
    """In its credits."""
    run.start_learner(shared=False)
    box.send_as("sampler-box-0", LEARNER, Hello(pid=3))
    run.until(lambda: run.at_learner)
    run.learner.send("sampler-box-0", credit(weights=weights(4)))
    (granted,) = run.until(lambda: box.of(Credit))
    assert granted.weights["w"].tolist() == [4.0] * 3
    box.settle()
    assert box.versions == []


@pytest.mark.parametrize(
    "worker", ["", "coordinator", "evaluator-0", "sampler-0", "sampler-box-2", "sampler-other-0", GATEWAY, "ä"]
)
def test_hosts_cannot_send_for_other_workers(run, box, worker):
    """Neither of the run nor of another host."""
    run.host("other", token="2").join()
    box.line.send([COORDINATOR.encode(), worker.encode("latin-1"), *codec.encode(Stop())])
    run.until(lambda: run.drops["foreign"] == 1)
    box.settle()
    assert not any(isinstance(message, Stop) for _, message in run.at_coordinator)


def test_messages_of_hosts_that_did_not_join_are_dropped(run):
    """A host joins before its workers send messages."""
    host = run.host()
    host.send_as("sampler-box-0", COORDINATOR, Hello())
    host.send(ModelRequest(hash="0" * 64))
    host.send(WeightsAck(learner=LEARNER, version=0))
    host.send(HostLeft(host="box"))
    host.join()
    assert run.drops == {"foreign": 1}
    assert run.at_learner == []
    assert host.of(ModelFile) == []


@pytest.mark.parametrize(
    ("peer", "reason"),
    [
        *((learner, "misdirected") for learner in ("learner-", "learner-../up", "learner-Main", "learner-other")),
        *((other, "refused") for other in ("evaluator-0", "sampler-0", GATEWAY, "x")),
    ],
)
def test_other_receivers_are_rejected(run, box, peer, reason):
    """Also learners that do not exist."""
    box.send_as("sampler-box-0", peer, Hello())
    run.until(lambda: run.drops[reason] == 1)
    assert run.gateway._sources == {}


@pytest.mark.parametrize(
    ("peer", "message"),
    [
        (COORDINATOR, Failure(error="no", fatal=True)),
        (COORDINATOR, ModelFrozen(player="main", number=9, hash="0" * 64, decisions=1, version=1)),
        (COORDINATOR, Checkpoint(player="main", path="learners/main/9.safetensors", hash="", version=1, decisions=1)),
        (COORDINATOR, Segments(player="main", block=1)),
        (COORDINATOR, SamplerLeft()),
        (LEARNER, SamplerLeft()),
        (LEARNER, Heartbeat(count=10**9)),  # the coordinator's word for what other players have learned
        (LEARNER, FixtureRequest(kind="train")),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_only_messages_of_samplers_are_forwarded(run, box, peer, message, caplog):
    """None that ends the run or changes its state."""
    box.send_as("sampler-box-0", peer, message)
    run.until(lambda: run.drops["refused"] == 1)
    assert run.sent_by("sampler-box-0") == run.at_learner == []
    assert f"dropped refused message 1: sampler-box-0 must not send {type(message).__name__!r} to {peer}" in caplog.text


@pytest.mark.parametrize("frames", [[b""], [b"", b""], [b"coordinator", b"sampler-box-0"]], ids=len)
def test_short_messages_are_dropped(run, box, frames):
    """They are counted, and later ones arrive."""
    box.line.send(frames)
    box.settle()
    assert run.drops == {"refused": 1}


@pytest.mark.parametrize(
    "message",
    [Stop(), HostList(hosts={"x": 3}), WeightsUpdate(learner=LEARNER, weight_store="b", version=3, weights={})],
)
def test_unexpected_messages_of_relays_are_ignored(run, box, message):
    """A gateway handles few kinds."""
    box.send(message)
    box.settle()
    assert set(run.gateway._registry.hosts) == {"box"}
    assert not run.gateway._admission.stopping


def test_invalid_messages_of_remote_workers_are_dropped(run, box):
    """They are not forwarded."""
    box.line.send([COORDINATOR.encode(), b"sampler-box-0", b"garbage"])
    box.line.send([COORDINATOR.encode(), b"sampler-box-0", *codec.encode(Stop()), *[b"x"] * 5000])
    box.send_as("sampler-box-0", COORDINATOR, Hello())
    run.until(lambda: run.sent_by("sampler-box-0"))
    assert run.drops == {"refused": 2}


def test_invalid_messages_of_local_workers_are_dropped(run, box, caplog):
    """And those to samplers that have left."""
    box.send_as("sampler-box-0", COORDINATOR, Hello())
    run.until(lambda: run.sent_by("sampler-box-0"))
    router = run.coordinator._router
    router.send_multipart([FORWARDER.encode(), b"sampler-box-0", b"garbage"])
    router.send_multipart([FORWARDER.encode(), b"sampler-box-0"])
    router.send_multipart([FORWARDER.encode(), b"sampler-gone-0", *codec.encode(Stop())])
    assert run.coordinator.send("sampler-box-0", Stop())
    run.until(lambda: box.of(Stop))
    assert run.drops == {"undecodable": 2, "unknown": 1}
    assert "dropped undecodable message 2: message: no frames" in caplog.text


# -- exclusion -------------------------------------------------------------------------------------------------------


def is_cut(line):
    """Return whether the other side has ended a connection and rejects its key."""
    try:
        return bool(line.problem) and False
    except LinkError as error:
        return "rejects this key" in str(error)


def pass_seconds(run, seconds=1.0):
    """Let time pass for the gateway."""
    run.now += seconds
    run.turn()


def test_a_key_with_too_many_refused_messages_is_cut_off(run, box):
    """Its hosts get the reason and are removed; learners drop their blocks."""
    box.send_as("sampler-box-0", LEARNER, Hello())
    run.until(lambda: run.at_learner)
    for _ in range(MAX_REFUSALS):
        box.send_as("sampler-box-0", COORDINATOR, Failure(error="no", fatal=True))
    run.until(lambda: run.drops["refused"] == MAX_REFUSALS)
    run.until(lambda: box.of(JoinRejected))
    assert run.gateway._registry.hosts == {}
    assert ("sampler-box-0", SamplerLeft(excluded=True)) in run.at_learner
    assert box.of(JoinRejected)[0].final
    run.until(lambda: pass_seconds(run) or is_cut(box.line))
    assert [peer for peer, _ in run.at_coordinator if peer != GATEWAY] == []


def test_fewer_refused_messages_do_no_harm(run, box):
    """Each is counted, and the host goes on."""
    for _ in range(MAX_REFUSALS - 1):
        box.send_as("sampler-box-0", COORDINATOR, Failure(error="no", fatal=True))
    box.send_as("sampler-box-0", COORDINATOR, Hello())
    run.until(lambda: run.sent_by("sampler-box-0"))
    assert run.drops == {"refused": MAX_REFUSALS - 1}
    pass_seconds(run, 10.0)
    assert "box" in run.gateway._registry.hosts


def test_a_deleted_key_disconnects_its_hosts(run, keys, eventually):
    """Within 5 seconds of real time, also a connection that only listens; other keys stay."""
    make_keys(keys, "second")
    box, other = run.host("box").join(), run.host("other", key=JoinKey.read(keys / "second.key")).join()
    run_key = RunKey.read(keys / RUN_KEY)
    _write(keys / RUN_KEY, evolve(run_key, allowed={"second": run_key.allowed["second"]}))
    started_s = time.monotonic()
    run.gateway._clock = time.monotonic
    run.gateway._registry.hosts["box"].last_seen_s = run.gateway._registry.hosts["other"].last_seen_s = started_s
    run.until(lambda: is_cut(box.line) and is_cut(box.bulk))
    assert time.monotonic() - started_s < 5.0
    assert set(run.gateway._registry.hosts) == {"other"}
    other.send_as("sampler-other-0", COORDINATOR, Hello())
    run.until(lambda: run.sent_by("sampler-other-0"))


def test_a_missing_key_file_disconnects_all_hosts(run, box, keys):
    """But not at the first look, since the file may be about to be replaced."""
    (keys / RUN_KEY).rename(keys / "elsewhere")
    pass_seconds(run)
    assert "box" in run.gateway._registry.hosts
    pass_seconds(run)
    assert run.gateway._registry.hosts == {}


def test_a_quarantined_host_may_join_again_when_it_is_released(run, box):
    """It waits meanwhile."""
    run.coordinator.send(GATEWAY, Quarantine(hosts={"box": "results differ"}))
    run.until(lambda: not run.gateway._registry.hosts)
    run.until(lambda: box.of(JoinRejected) == [JoinRejected(reason="results differ", final=False)])
    box.send(box.joining(samplers=2, run=run.sockets.name))
    run.until(lambda: len(box.of(JoinRejected)) == 2)
    run.coordinator.send(GATEWAY, Quarantine(hosts={}))
    run.until(lambda: not run.gateway._registry.quarantined)
    box.join()


# -- weights ---------------------------------------------------------------------------------------------------------


def test_weights_are_sent_once_per_host(run, box):
    """By the bulk connection, however many samplers it has."""
    other = run.host("other", token="2").join(1)
    run.learner.publish(weights(7), 7)
    for worker in ("sampler-box-0", "sampler-box-1"):
        box.send_as(worker, LEARNER, Hello(pid=3))
    run.until(lambda: box.versions and other.versions)
    for host in (box, other):
        host.settle()
        assert host.versions == [7]
        (newest,) = [message for _, _, message in host.fetched if isinstance(message, WeightsUpdate)]
        assert (newest.learner, newest.weights["w"].tolist()) == (LEARNER, [7.0] * 3)


def test_the_next_weights_are_sent_after_the_acknowledgement(showing, box):
    """A slow network gets fewer versions, not older ones."""
    for version in (1, 2, 3):
        showing.learner.publish(weights(version), version)
        box.settle()
    assert box.versions == [0]
    box.send(WeightsAck(learner=LEARNER, version=0), bulk=True)
    showing.until(lambda: box.versions == [0, 3])
    assert box.of(WeightsUpdate)[-1].weights["w"].tolist() == [3.0] * 3
    box.send(WeightsAck(learner=LEARNER, version=3))
    box.settle()
    assert box.versions == [0, 3]


@pytest.mark.parametrize(
    "taken", [WeightsAck(learner=LEARNER, version=9), WeightsAck(learner="learner-other", version=0)], ids=repr
)
def test_unexpected_acknowledgements_are_ignored(showing, box, taken):
    """A late one refers to other weights."""
    showing.learner.publish(weights(1), 1)
    box.send(taken)
    box.settle()
    assert box.versions == [0]


def test_there_is_one_version_in_flight(showing, box):
    """Others would fill the memory and be outdated when they arrive."""
    showing.learner.publish(weights(1), 1)
    for showing.now in (10.0, 20.0, 30.0):
        box.join()
        box.settle()
    assert box.versions == [0]


def test_weights_are_sent_again_by_a_new_connection(showing, box):
    """Those in flight, and their acknowledgements, are lost with the old one."""
    showing.learner.publish(weights(1), 1)
    box.bulk.socket.close(linger=0)
    box.bulk = Connection(box._own, showing.address, showing.key)
    box.join()
    showing.until(lambda: box.versions == [0, 1])
    box.join()
    box.settle()
    assert box.versions == [0, 1]


def test_weights_in_flight_do_not_change(showing):
    """The learner overwrites its weight store meanwhile."""
    for version in (1, 2):
        showing.learner.publish(weights(version), version)
    under_way = codec.decode(showing.gateway._sources[LEARNER]._frames)
    assert (under_way.version, under_way.weights["w"].tolist()) == (0, [0.0] * 3)


def test_a_new_host_gets_the_newest_weights(showing, box):
    """Without a message of its samplers."""
    showing.learner.publish(weights(5), 5)
    other = showing.host("other", token="2").join(1)
    showing.until(lambda: other.versions == [5])
    assert box.versions == [0]


def test_the_weight_store_of_a_restarted_learner_is_found(showing, box):
    """Its name is requested every second; an earlier version counts as newer."""
    for version in (1, 2):
        showing.learner.publish(weights(version), version)
        box.send(WeightsAck(learner=LEARNER, version=box.versions[-1]))
        showing.until(lambda version=version: box.versions[-1] == version)
    showing.start_learner()
    showing.learner.publish(weights(11), 1)
    showing.now += 1.0
    showing.until(lambda: box.versions == [0, 1, 2, 1])
    assert box.of(WeightsUpdate)[-1].weights["w"].tolist() == [11.0] * 3


def test_a_new_weight_store_of_a_learner_is_found(showing, box):
    """Also without a restart."""
    showing.learner.publish(weights(5), 5)
    showing.learner.publish(weights(12), 2)
    box.send(WeightsAck(learner=LEARNER, version=0))
    showing.now += 1.0
    showing.until(lambda: box.versions[-1] == 2)
    assert box.of(WeightsUpdate)[-1].weights["w"].tolist() == [12.0] * 3


def test_a_learner_may_lose_its_weight_store(showing, box):
    """Its successor has no shared memory."""
    showing.start_learner(shared=False)
    for _ in range(3):
        showing.now += 1.0
        box.settle()
    showing.until(lambda: showing.gateway._sources[LEARNER]._store is None)
    box.send(WeightsAck(learner=LEARNER, version=0))
    box.settle()
    assert box.versions == [0]


def test_a_missing_weight_store_is_logged(run, box, caplog):
    """The name may be outdated; it is requested again."""
    box.send_as("sampler-box-0", LEARNER, Hello(pid=3))
    run.until(lambda: run.sent_by("sampler-box-0"))
    offer = LinkCapabilities(methods=(), weight_store="learner-main.1.9", layout={})
    run.until(lambda: run.learner.endpoint.send(GATEWAY, offer))
    run.until(lambda: "learner-main.1.9" in caplog.text)
    run.learner.publish(weights(3), 3)
    run.now += 1.0
    run.until(lambda: box.versions == [3])


def test_a_host_that_floods_the_run_delays_no_other(run, keys):
    """The coordinator does not answer meanwhile; then it gets the message of the other host among the first ones."""
    make_keys(keys, "second")
    box = run.host("box").join()
    den = run.host("den", token="2", key=JoinKey.read(keys / "second.key")).join()
    run.at_coordinator.clear()
    receive, run.coordinator.receive = run.coordinator.receive, lambda timeout_s: []
    flood = [COORDINATOR.encode(), b"sampler-box-0", *codec.encode(Heartbeat(count=1))]
    for _ in range(40):
        for _ in range(400):
            box.line.send(flood)
        run.gateway.work()
    run.until(lambda: run.drops["surplus"])
    den.send_as("sampler-den-0", COORDINATOR, Heartbeat(count=7))
    count = run.gateway.count
    run.until(lambda: run.gateway.count > count)
    run.coordinator.receive = receive
    run.until(lambda: run.sent_by("sampler-den-0"))
    assert run.sent_by("sampler-den-0") == [Heartbeat(count=7)]
    before = run.at_coordinator.index(("sampler-den-0", Heartbeat(count=7)))
    assert before < 2 * HIGH_WATER + MAX_BATCH


# -- models ----------------------------------------------------------------------------------------------------------


def test_a_model_is_sent_by_its_hash(run, box, monkeypatch):
    """In parts that make up the file."""
    monkeypatch.setattr(_model_requests, "_PART_BYTES", 32)
    content = os.urandom(100)
    digest = hashlib.sha256(content).hexdigest()
    (run.folder / "models" / f"{digest}.safetensors").write_bytes(content)
    box.send(ModelRequest(hash=digest))
    (came,) = run.until(lambda: box.of(ModelFile))
    assert came.hash == digest
    assert [part.size for part in came.parts.values()] == [32, 32, 32, 4]
    assert b"".join(part.tobytes() for _, part in sorted(came.parts.items())) == content
    assert box.fetched[-1][2] is came


def test_a_missing_model_has_no_parts(run, box, caplog):
    """Otherwise the host would wait for ever."""
    box.send(ModelRequest(hash="a" * 64))
    assert run.until(lambda: box.of(ModelFile)) == [ModelFile(hash="a" * 64, parts={})]
    assert f"model {'a' * 64} cannot be sent" in caplog.text


def test_a_damaged_model_has_no_parts(run, box, caplog):
    """The sampler reports it, and the coordinator quarantines it."""
    (run.folder / "models" / f"{'a' * 64}.safetensors").write_bytes(bytes(100))
    box.send(ModelRequest(hash="a" * 64))
    assert run.until(lambda: box.of(ModelFile)) == [ModelFile(hash="a" * 64, parts={})]
    assert "cannot be sent: its file is damaged" in caplog.text


def test_a_model_that_is_too_large_has_no_parts(run, box, monkeypatch, caplog):
    """The run goes on."""
    monkeypatch.setattr(codec, "MAX_TOTAL_BYTES", codec.MAX_HEADER_BYTES + 99)
    (run.folder / "models" / f"{'a' * 64}.safetensors").write_bytes(bytes(100))
    box.send(ModelRequest(hash="a" * 64))
    assert run.until(lambda: box.of(ModelFile)) == [ModelFile(hash="a" * 64, parts={})]
    assert "of 100 bytes cannot be sent: it is too large for a message" in caplog.text


@pytest.mark.parametrize(
    "hash", ["", "../run.toml", "../../keys/run.key", "A" * 64, "a" * 63, f"{'a' * 64}\n", "\u0660" * 64]
)
def test_only_models_can_be_fetched(run, box, hash):
    """Anything but a hash is ignored."""
    (run.folder / "models" / ".safetensors").write_bytes(b"secret")
    box.send(ModelRequest(hash=hash))
    box.settle()
    assert [file.hash for file in box.of(ModelFile)] == ["0" * 64] * 2


def test_without_a_bulk_connection_models_are_dropped(run):
    """They are requested again."""
    host = run.host()
    host.send(host.joining(samplers=1, run=run.sockets.name))
    host.send(ModelRequest(hash="a" * 64))
    run.until(lambda: run.drops["full or gone"] == 1)
    host.join(1)
    host.settle()
    assert set(run.gateway._registry.hosts) == {"box"}


# -- the process -----------------------------------------------------------------------------------------------------


def test_without_a_key_there_is_no_gateway(run, tmp_path):
    """It does not bind the address."""
    with pytest.raises(ConfigError, match="key file"):
        Gateway(
            run_dir=run.folder,
            sockets=run.sockets,
            listen="tcp://127.0.0.1:*",
            key=tmp_path / "missing.key",
            link=run.link,
            clock=lambda: 0.0,
        )


def test_an_address_that_is_taken_ends_the_run(tmp_path, sockets, keys, eventually):
    """The error names the option and is fatal."""
    coordinator = ZmqEndpoint(COORDINATOR)
    coordinator.bind(ipc_address(sockets, COORDINATOR))
    command = [sys.executable, "-m", "ludus_hosts.gateway", "--run", str(tmp_path), "--name", GATEWAY, "--threads", "1"]
    command += ["--session", "1", "--sockets", str(sockets), "--parent", str(os.getpid())]
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
            ended = subprocess.run(
                [*command, address, str(keys / RUN_KEY)], check=False, capture_output=True, timeout=60
            )
        ((worker, failure),) = eventually(lambda: coordinator.receive(0.1))
    finally:
        coordinator.close()
    assert ended.returncode == 1
    assert (worker, type(failure), failure.fatal) == (GATEWAY, Failure, True)
    assert failure.error.startswith(f"run.hosts.listen: cannot listen at {address}: Address already in use")
