"""The launcher of one machine with a gateway, which reports the hosts that take part."""

from __future__ import annotations

import time

import pytest
from ludus._messaging.messages import Heartbeat, MetricsReport, Stop
from ludus.errors import ConfigError
from ludus.launcher import COORDINATOR, Launcher, Session
from ludus_hosts import launcher as _launcher
from ludus_hosts.config import HostsConfig
from ludus_hosts.keys import RUN_KEY
from ludus_hosts.launcher import HostsLauncher, HostsWorkerPool
from ludus_hosts.plugin import ludus_register_commands, ludus_register_launchers
from ludus_hosts.wire import GATEWAY, HostLeft, HostList, JoinAccepted, JoinRequest, sampler_names
from ludus_local import codec
from ludus_local.transport import ZmqEndpoint, ipc_address, take_message


@pytest.fixture
def output():
    """Return the lines that are printed."""
    return []


@pytest.fixture
def session(tmp_path, output):
    """Return a start of a run."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_text("# of the run\n", encoding="utf-8")
    return Session(run_dir=tmp_path / "run", number=1, stall_s=60.0, restarts=3, print_line=output.append)


@pytest.fixture
def worker_pool(session):
    """Return a crew without processes."""
    made = HostsWorkerPool(session, {})
    made.start([])
    yield made
    made.close()


@pytest.fixture
def gateway(worker_pool):
    """Return the endpoint by which a gateway sends to that worker pool."""
    endpoint = ZmqEndpoint(GATEWAY)
    endpoint.connect(COORDINATOR, ipc_address(worker_pool._sockets, COORDINATOR))
    yield endpoint
    endpoint.close()


def gone(*names):
    """Return the messages that a run receives for samplers that have left."""
    return [(name, MetricsReport(values={})) for name in names]


def test_hosts_that_join_and_leave_are_printed(worker_pool, output):
    """Once, though they are reported repeatedly; metrics of samplers that have left are removed."""
    assert worker_pool._update_hosts(HostList(hosts={})) == []
    for _ in range(2):
        assert worker_pool._update_hosts(HostList(hosts={"box": 2, "lab": 1})) == []
    assert sorted(output) == ["box takes part with 2 samplers", "lab takes part with 1 sampler"]
    assert worker_pool._update_hosts(HostList(hosts={"box": 2})) == gone("sampler-lab-0")
    assert output[2:] == ["lab does not take part any more"]
    assert worker_pool._update_hosts(HostList(hosts={})) == gone("sampler-box-0", "sampler-box-1")
    assert output[3:] == ["box does not take part any more"]


def test_hosts_that_cannot_take_part_are_printed(worker_pool, output):
    """With the reason that each reported, once; control characters are escaped."""
    for _ in range(2):
        worker_pool._update_hosts(HostList(hosts={}, refusals={"box": "the module 'env' is not trusted"}))
    worker_pool._update_hosts(HostList(hosts={}, refusals={"box": "\x1b[2J"}))
    assert output == [
        "box cannot take part: the module 'env' is not trusted",
        r"box cannot take part: \x1b[2J",
    ]


@pytest.mark.parametrize(("before", "after", "left"), [(1, 3, []), (3, 1, ["sampler-box-1", "sampler-box-2"])])
def test_a_host_may_change_the_number_of_its_samplers(worker_pool, output, before, after, left):
    """Only missing samplers have left."""
    worker_pool._update_hosts(HostList(hosts={"box": before}))
    assert worker_pool._update_hosts(HostList(hosts={"box": after})) == gone(*left)
    assert output == [f"box takes part with {count} sampler{'s' * (count > 1)}" for count in (before, after)]


def test_messages_of_the_gateway_are_not_passed_on(worker_pool, gateway, eventually):
    """Except as empty metrics of samplers that have left."""
    received = []

    def receive():
        received.extend(worker_pool.receive(0.05))

    gateway.send(COORDINATOR, HostList(hosts={"box": 2}))
    gateway.send(COORDINATOR, Heartbeat(count=3))
    gateway.send(COORDINATOR, HostList(hosts={"box": 1}))
    eventually(lambda: len(received) == 2, meanwhile=receive)
    assert received == [(GATEWAY, Heartbeat(count=3)), *gone("sampler-box-1")]
    assert worker_pool.alive == ["sampler-box-0"]


def test_late_metrics_of_a_sampler_that_left_are_dropped(worker_pool, gateway, eventually):
    """They may arrive after the list of hosts."""
    sampler = ZmqEndpoint("sampler-box-0")
    sampler.connect(COORDINATOR, ipc_address(worker_pool._sockets, COORDINATOR))
    report, received = MetricsReport(values={"decisions_per_s": 13_668.0}), []

    def receive():
        received.extend(worker_pool.receive(0.05))

    def print_line(*messages):
        for message in messages:
            sampler.send(COORDINATOR, message)

    try:
        for hosts, expected in (({"box": 1}, [report]), ({}, []), ({"box": 1}, [report])):
            gateway.send(COORDINATOR, HostList(hosts=hosts))
            eventually(lambda hosts=hosts: worker_pool._hosts == hosts, meanwhile=receive)
            received.clear()
            print_line(report, Heartbeat(count=1))
            eventually(lambda: ("sampler-box-0", Heartbeat(count=1)) in received, meanwhile=receive)
            assert [message for _, message in received[:-1]] == expected
    finally:
        sampler.close()


def test_only_the_gateway_may_send_the_list_of_hosts(worker_pool, eventually, output):
    """Another worker may belong to another machine."""
    endpoint = ZmqEndpoint("sampler-0")
    endpoint.connect(COORDINATOR, ipc_address(worker_pool._sockets, COORDINATOR))
    try:
        endpoint.send(COORDINATOR, HostList(hosts={"box": 3}))
        ((peer, refused),) = eventually(lambda: worker_pool.receive(0.05))
        assert (peer, refused.problem) == ("sampler-0", "sampler-0 must not send 'HostList' to coordinator")
    finally:
        endpoint.close()
    assert worker_pool.alive == output == []


def test_remote_samplers_are_alive_while_their_host_takes_part(worker_pool):
    """So the run sends them `Stop` too."""
    worker_pool._update_hosts(HostList(hosts={"box": 2, "lab": 1}))
    assert worker_pool.alive == [*sampler_names("box", 2), *sampler_names("lab", 1)]


def test_finish_waits_for_hosts(worker_pool, output):
    """Their messages are received meanwhile."""
    worker_pool._update_hosts(HostList(hosts={"box": 1}))
    tended = []

    def poll():
        tended.append(1)
        if len(tended) == 3:
            worker_pool._update_hosts(HostList(hosts={}))

    assert worker_pool.finish(timeout_s=60.0, poll=poll) == []
    assert len(tended) == 3
    assert output[-1] == "box does not take part any more"


@pytest.mark.parametrize(("leave_s", "timeout_s"), [(0.05, 60.0), (60.0, 0.05)])
def test_finish_has_a_timeout_for_hosts(worker_pool, output, monkeypatch, leave_s, timeout_s):
    """Less than for local workers, since their connection may be lost."""
    monkeypatch.setattr(_launcher, "_LEAVE_TIMEOUT_S", leave_s)
    worker_pool._update_hosts(HostList(hosts={"box": 1}))
    assert worker_pool.finish(timeout_s=timeout_s, poll=lambda: time.sleep(0.01)) == []
    assert output[-1] == "box: did not finish in time; matches that it had not reported are lost"


@pytest.mark.parametrize("damage", ["missing", "others", "open"])
def test_without_a_key_nothing_starts(session, keys, output, monkeypatch, damage):
    """The error is raised before any process or folder."""
    path = keys / {"missing": "missing.key", "others": "join.key", "open": RUN_KEY}[damage]
    if damage == "open":
        path.chmod(0o644)
    monkeypatch.setattr(_launcher, "HostsWorkerPool", lambda *_: pytest.fail("it started"))
    with pytest.raises(ConfigError, match=f"^key file {path}: "):
        HostsLauncher(HostsConfig(key=str(path))).launch(session, [])
    assert output == []
    assert [file.name for file in session.run_dir.iterdir()] == ["run.toml"]


def test_cores_are_those_of_this_machine(keys):
    """Other hosts are not counted."""
    launcher: Launcher = HostsLauncher(HostsConfig(key=str(keys / RUN_KEY)))
    assert launcher.cores > 0


def test_a_launched_run_can_be_joined(session, keys, wire, key, output, free_address, eventually, is_alive):
    """Through a process beside the workers, which ends with the pool."""
    config = HostsConfig(listen=free_address, key=str(keys / RUN_KEY))
    worker_pool = HostsLauncher(config).launch(session, [])
    try:
        (pid,) = worker_pool._supervisor.pids.values()
        what = f"other machines with the key of {keys / RUN_KEY}"
        assert output == [f"{what} can join at {free_address} (`ludus join`)"]
        line = wire.line(free_address, key)
        received = []

        def print_line(message):
            eventually(lambda: line.send([b"", b"", *codec.encode(message)]))

        def turn():
            worker_pool.receive(0.05)
            worker_pool.check(last_seen_s={}, errors={})
            while line.socket.poll(0):
                received.append(codec.decode(take_message(line.socket)[2:]))

        print_line(JoinRequest(host="box", token="1"))
        eventually(lambda: received, meanwhile=turn)
        assert received[0].config == "# of the run\n"
        print_line(JoinRequest(host="box", token="1", samplers=2, run=received[0].run))
        eventually(lambda: worker_pool._hosts == {"box": 2} and len(received) > 1, meanwhile=turn)
        assert received[-1] == JoinAccepted(run=worker_pool._sockets.name)
        assert output[-1] == "box takes part with 2 samplers"
        assert worker_pool.send(GATEWAY, Stop())
        print_line(HostLeft(host="box"))
        assert worker_pool.finish(timeout_s=20.0, poll=turn) == []
        assert output[-1] == "box does not take part any more"
    finally:
        worker_pool.close()
    assert not is_alive(pid)


def test_registered_components_exist():
    """Under the names of the documentation."""
    launchers, commands = ludus_register_launchers(), ludus_register_commands()
    assert [component.name for component in launchers] == ["hosts"]
    assert [component.name for component in commands] == ["keys", "join", "release"]


@pytest.mark.parametrize(
    "hosts", [{"box": 10**9}, {"box": -1}, {f"host-{i}": 4096 for i in range(5)}], ids=["one", "negative", "sum"]
)
def test_an_impossible_number_of_samplers_is_refused(worker_pool, output, hosts):
    """Before their names are listed, which would take all memory."""
    ((peer, refused),) = worker_pool._update_hosts(HostList(hosts=hosts))
    assert peer == GATEWAY
    assert "an impossible number of samplers" in refused.problem
    assert worker_pool.alive == []
    assert output == []
