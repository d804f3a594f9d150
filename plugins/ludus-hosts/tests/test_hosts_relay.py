"""The relay with a gateway that the test plays."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from ludus._messaging.messages import Hello, ResultsAck, Stop
from ludus.errors import ConfigError, LinkError
from ludus.launcher import COORDINATOR
from ludus_hosts import relay as _relay
from ludus_hosts.keys import JoinKey, make_keys
from ludus_hosts.relay import Relay
from ludus_hosts.wire import (
    HostLeft,
    JoinAccepted,
    JoinRejected,
    JoinRequest,
    ModelFile,
    ModelRequest,
    WeightsAck,
    WeightsUpdate,
    installed_versions,
)
from ludus_local import codec
from ludus_local.transport import ZmqEndpoint, ipc_address

LEARNER, FIRST = "learner-main", "sampler-box-0"
KNOWN = "ludus-run-1-a"


class RelayTest:
    """A relay, and the gateway's end of its connections."""

    def __init__(self, wire, options, eventually, **how):
        self.output, self.received = [], []  # by the relay to the person; by the run, as (to, worker, message)
        self.wire, self._eventually = wire, eventually
        self.listener, self.address = wire.listener()
        self.routes = {}  # of the connection for what is large, and of the other
        self.last_routes = {}  # by which messages of a kind came last
        self.relay = Relay(options(**{"address": self.address, **how}), self.output.append)

    def turn(self):
        """Run the relay once and receive its messages."""
        self.relay._run_once()
        self.hear()

    def hear(self, wait_ms=0):
        while self.listener.socket.poll(wait_ms):
            route, peer, worker, *frames = self.listener.socket.recv_multipart()
            message = codec.decode(frames)
            if isinstance(message, JoinRequest):
                self.routes[message.bulk] = route
            self.last_routes[type(message)] = route
            self.received.append((peer.decode(), worker.decode(), message))

    def until(self, condition):
        return self._eventually(condition, meanwhile=self.turn)

    def meet(self):
        """Return a maker of relays that send join requests at once."""
        self.until(lambda: self.routes.keys() == {False, True})
        return self

    def answer(self, message, *, peer="", worker="", bulk=False):
        self.answer_raw(codec.encode(message), peer=peer, worker=worker, bulk=bulk)

    def answer_raw(self, frames, *, peer="", worker="", bulk=False):
        self.listener.socket.send_multipart([self.routes[bulk], peer.encode(), worker.encode(), *frames])

    def of(self, kind):
        return [message for _, _, message in self.received if isinstance(message, kind)]

    def close(self):
        if not self.relay._own.context.closed:  # else it has left by itself
            self.relay.interrupted = True
            self.relay.run()


@pytest.fixture
def meet(wire, options, scripts, eventually, monkeypatch):
    """Return a factory of relays that send heartbeats at short intervals."""
    monkeypatch.setattr(_relay, "_JOIN_INTERVAL_S", 0.01)
    monkeypatch.setattr(_relay, "_LEAVE_TIMEOUT_S", 0.0)
    made = []

    def make(**how):
        made.append(RelayTest(wire, options, eventually, **how))
        return made[-1]

    yield make
    for meeting in made:
        meeting.close()


@pytest.fixture
def taking_part(meet, joined):
    """Return a relay whose host takes part with a sampler."""
    meeting = meet().meet()
    meeting.answer(joined(run=KNOWN))
    meeting.until(lambda: meeting.relay._agent)
    return meeting


def test_join_requests_are_sent_until_they_are_answered(meet, joined, options):
    """By two connections; then the host takes part and prints it."""
    meeting = meet(samplers=2).meet()
    asked = meeting.of(JoinRequest)
    assert {(one.host, one.samplers, one.run) for one in asked} == {("box", 0, "")}
    assert {one.bulk for one in asked} == {False, True}
    meeting.answer(joined(run=KNOWN, versions=installed_versions()))
    meeting.until(lambda: any(one.samplers == 2 and one.run == KNOWN for one in meeting.of(JoinRequest)))
    assert meeting.output == [f"box takes part with 2 samplers; logs in {options().folder / 'logs'}"]
    assert len({one.token for one in meeting.of(JoinRequest)}) == 1


def test_other_versions_cannot_join(meet, joined):
    """Different rules of a game must not be mixed in a league."""
    meeting = meet().meet()
    ours = installed_versions()["ludus"]
    meeting.answer(joined(versions=installed_versions() | {"ludus": "0.0.1", "ludus-elsewhere": "1"}))
    with pytest.raises(
        ConfigError, match=f"from those of the run: ludus {ours} here, 0.0.1 there; install the same, or"
    ):
        meeting.until(lambda: False)


def test_other_versions_join_with_an_option(meet, joined):
    """They may be compatible."""
    meeting = meet(any_versions=True).meet()
    meeting.answer(joined(versions=installed_versions() | {"ludus": "0.0.1"}))
    meeting.until(lambda: any("takes part" in output for output in meeting.output))


def test_a_run_that_cannot_be_joined_is_an_error(meet, joined):
    """A component is not installed."""
    meeting = meet().meet()
    meeting.answer(joined(algorithm="missing"))
    with pytest.raises(ConfigError, match="no installed plugin provides the algorithm 'missing'"):
        meeting.until(lambda: False)


def test_modules_that_this_host_does_not_trust_are_refused(meet, joined, tmp_path, monkeypatch):
    """Its own list counts, not that of the run; the run gets the reason, and nothing is imported."""
    (tmp_path / "join_canary.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("LUDUS_TRUST_PATH", "")
    meeting = meet().meet()
    meeting.answer(joined(environment={"name": "pettingzoo", "pettingzoo": {"id": "join_canary:Env"}}))
    with pytest.raises(ConfigError, match=r"'join_canary' is not trusted on this machine.* --trust-module join_canary"):
        meeting.relay.run()
    meeting._eventually(lambda: meeting.of(HostLeft), meanwhile=lambda: meeting.hear(10))
    (left,) = meeting.of(HostLeft)
    assert "'join_canary' is not trusted on this machine" in left.reason
    assert not (tmp_path / "executed").exists()


def test_a_repeated_answer_is_ignored(taking_part, joined):
    """The request was sent several times."""
    site = taking_part.relay._agent
    for message in (joined(run=KNOWN), JoinAccepted(run=KNOWN), JoinRejected(reason="that is a marker", final=False)):
        taking_part.answer(message)
    taking_part.until(lambda: "that is a marker" in taking_part.output)
    assert taking_part.relay._agent is site


def test_another_session_starts_another_agent(taking_part, joined, is_alive):
    """Samplers of the last one end."""
    before = taking_part.relay._agent
    pids = before._supervisor.pids.values()
    taking_part.answer(joined(run="ludus-run-1-b"))
    taking_part.until(lambda: taking_part.relay._agent is not before)
    assert not any(map(is_alive, pids))
    taking_part.until(lambda: any(one.run == "ludus-run-1-b" for one in taking_part.of(JoinRequest)))
    assert taking_part.output[1] == "the run was started again"


def test_a_final_rejection_is_an_error(meet):
    """With the reason."""
    meeting = meet().meet()
    meeting.answer(JoinRejected(reason="other ludus"))
    with pytest.raises(LinkError, match=r"^other ludus$"):
        meeting.until(lambda: False)


def test_a_temporary_rejection_is_printed_once(meet, joined):
    """Requests go on."""
    meeting = meet().meet()
    for why in ("the run is stopping", "the run is stopping", "another machine has this name"):
        meeting.answer(JoinRejected(reason=why, final=False))
    meeting.until(lambda: len(meeting.output) == 2)
    assert meeting.output == ["the run is stopping", "another machine has this name"]
    meeting.answer(joined())
    meeting.until(lambda: meeting.relay._agent)


def test_a_run_of_another_version_is_an_error(meet):
    """Its messages cannot be decoded."""
    meeting = meet().meet()
    meeting.answer_raw([b"LUDS\xff\xff\x90"])
    with pytest.raises(LinkError, match=r"^incompatible version of ludus: peer uses protocol 65535"):
        meeting.until(lambda: False)


def test_invalid_messages_to_workers_are_ignored(taking_part):
    """As by every endpoint."""
    taking_part.answer_raw([b"garbage"], peer=COORDINATOR, worker=FIRST)
    taking_part.answer(JoinRejected(reason="that is a marker", final=False))
    taking_part.until(lambda: "that is a marker" in taking_part.output)


def test_the_relay_waits_for_the_run(meet, wire, free_address, joined, monkeypatch):
    """It prints the reason once, and goes on when the run is there."""
    monkeypatch.setattr(_relay, "_ANSWER_TIMEOUT_S", 0.0)
    meeting = meet(address=free_address)
    meeting.until(lambda: any("no host answers" in line for line in meeting.output))
    monkeypatch.setattr(_relay, "_ANSWER_TIMEOUT_S", 60.0)
    meeting.listener, _ = wire.listener(free_address)
    meeting.meet().answer(joined())
    meeting.until(lambda: meeting.relay._agent)
    assert f"waiting for the run at {free_address}: no host answers" in meeting.output
    assert len(set(meeting.output)) == len(meeting.output)


def test_a_lost_run_that_is_back_is_printed(taking_part, monkeypatch):
    """Samplers play on meanwhile."""
    site = taking_part.relay._agent
    monkeypatch.setattr(_relay, "_ANSWER_TIMEOUT_S", 0.0)
    taking_part.until(lambda: f"waiting for the run at {taking_part.address}: no answer" in taking_part.output)
    monkeypatch.setattr(_relay, "_ANSWER_TIMEOUT_S", 60.0)
    taking_part.answer(JoinAccepted(run=KNOWN))
    taking_part.until(lambda: taking_part.output[-1] == "the run is back")
    assert taking_part.relay._agent is site


def test_every_message_counts_as_an_answer(taking_part):
    """On a slow network answers are queued behind others."""
    relay = taking_part.relay
    relay._answered_s = 0.0
    taking_part.answer(ResultsAck(report=1), peer=COORDINATOR, worker=FIRST)
    taking_part.until(lambda: relay._answered_s)


def test_monitor_events_of_both_connections_are_read(meet):
    """Thousands of unread events block all connections."""
    relay = meet().meet().relay
    relay._check_connection(0.0)
    assert not any(line._monitor.poll(0) for line in (relay._connection, relay._bulk))


def test_a_rejected_key_is_an_error(meet, tmp_path, key, monkeypatch):
    """Waiting would not help."""
    monkeypatch.setattr(_relay, "_ANSWER_TIMEOUT_S", 0.0)
    stranger = JoinKey.read(make_keys(tmp_path / "others", "join"))
    meeting = meet(key=_relay.evolve(stranger, run=key.run))
    with pytest.raises(LinkError, match="the run rejects this key"):
        meeting.until(lambda: False)


def test_weights_are_acknowledged(taking_part):
    """By the connection by which they arrived."""
    newest = WeightsUpdate(learner=LEARNER, weight_store="b", version=4, weights={"w": np.zeros(3, np.float32)})
    taking_part.answer(newest, bulk=True)
    taking_part.until(lambda: taking_part.of(WeightsAck))
    assert taking_part.of(WeightsAck) == [WeightsAck(learner=LEARNER, version=4)]
    assert taking_part.last_routes[WeightsAck] == taking_part.routes[True]
    assert taking_part.relay._agent._proxies[LEARNER].weights.version == 4


def test_messages_before_the_host_takes_part_are_ignored(meet, joined):
    """They belong to an earlier process of this host."""
    meeting = meet().meet()
    meeting.answer(WeightsUpdate(learner=LEARNER, weight_store="b", version=4, weights={}))
    meeting.answer(ModelFile(hash="a" * 64, parts={}))
    meeting.answer(Stop(), peer=COORDINATOR, worker=FIRST)
    meeting.answer(joined())
    meeting.until(lambda: meeting.relay._agent)
    assert meeting.of(WeightsAck) == []
    assert meeting.relay._agent.stop_reason == ""


def test_messages_of_samplers_are_forwarded(taking_part):
    """In both directions."""
    sockets = taking_part.relay._agent._sockets
    endpoint = ZmqEndpoint(FIRST, sockets=sockets)
    endpoint.connect(COORDINATOR, ipc_address(sockets, COORDINATOR))
    try:
        endpoint.send(COORDINATOR, Hello(pid=3))
        taking_part.until(lambda: (COORDINATOR, FIRST, Hello(pid=3)) in taking_part.received)
        taking_part.answer(Stop(reason="enough"), peer=COORDINATOR, worker=FIRST)
        assert taking_part.until(lambda: endpoint.receive(0.0)) == [(COORDINATOR, Stop(reason="enough"))]
    finally:
        endpoint.close()


def test_models_are_requested_and_stored(taking_part):
    """By the agent."""
    taking_part.relay._agent._models._send(ModelRequest(hash="a" * 64))
    taking_part.until(lambda: taking_part.of(ModelRequest))
    taking_part.relay._agent._models._requests["a" * 64] = (0.0, 0.0)
    taking_part.answer(ModelFile(hash="a" * 64, parts={}), bulk=True)
    taking_part.until(lambda: "a" * 64 in taking_part.relay._agent._models._sizes)


@pytest.mark.parametrize("reason", ["decisions = 2000", "interrupted"])
def test_the_relay_leaves_the_run(taking_part, is_alive, reason):
    """When the run stops or after a signal; no process is left, and the gateway is notified."""
    relay = taking_part.relay
    pids = relay._agent._supervisor.pids.values()
    if reason == "interrupted":
        relay.interrupted = True
    else:
        taking_part.answer(Stop(reason=reason), peer=COORDINATOR, worker=FIRST)
    assert relay.run() == reason
    assert not any(map(is_alive, pids))
    taking_part._eventually(lambda: taking_part.of(HostLeft), meanwhile=lambda: taking_part.hear(10))
    assert taking_part.of(HostLeft) == [HostLeft(host="box")]


def test_waiting_can_be_interrupted(meet, free_address):
    """Before there is a run."""
    meeting = meet(address=free_address)
    timer = threading.Timer(0.05, lambda: setattr(meeting.relay, "interrupted", True))
    timer.start()
    assert meeting.relay.run() == "interrupted"
    timer.join()


def test_an_unusable_address_is_an_error(meet):
    """With the text of libzmq; no socket is left open."""
    with pytest.raises(LinkError, match=r"^cannot connect to tcp://nowhere: "):
        meet(address="tcp://nowhere")
