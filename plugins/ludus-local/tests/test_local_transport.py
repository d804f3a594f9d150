"""ZeroMQ endpoints deliver messages over both kinds of sockets."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import zmq
from ludus._messaging.messages import Heartbeat, Hello, ResultsAck, Segments, Stop
from ludus._run.worker_plan import service_name
from ludus.errors import LinkError, WireError
from ludus.launcher import learner_name
from ludus.wire import RefusedMessage
from ludus_local import codec
from ludus_local.transport import FORWARDER, Sockets, ZmqEndpoint, ipc_address, private_ipc_dir, take_message

PATIENCE_S = 60.0


class Hub:
    """Makes endpoints of one transport and addresses for them, and closes what tests leave open."""

    def __init__(self, kind, directory):
        self.kind = kind
        self._directory = directory
        self._open = []

    def endpoint(self, name):
        endpoint = ZmqEndpoint(name, high_water=64, check=lambda *_, size: None)
        self._open.append(endpoint)
        return endpoint

    def bound(self, name):
        """Return an endpoint and the address at which it listens."""
        endpoint = self.endpoint(name)
        return endpoint, endpoint.bind(self.address(name))

    def address(self, name):
        return "tcp://127.0.0.1:0" if self.kind == "tcp" else ipc_address(self._directory, name)

    def send_garbage(self, address, name, frames):
        """Deliver raw frames to an address, as a broken or hostile peer would."""
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            if not name.startswith(b"\x00"):  # libzmq makes up such identities for those who give none
                socket.setsockopt(zmq.IDENTITY, name)
            socket.setsockopt(zmq.LINGER, 1000)
            socket.connect(address)
            socket.send_multipart(frames)

    def close(self):
        for endpoint in self._open:
            endpoint.close()


@pytest.fixture
def directory():
    """Return a private directory for sockets."""
    made = private_ipc_dir()
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=["ipc", "tcp"])
def hub(request, directory):
    """Return each transport in turn."""
    made = Hub(request.param, directory)
    yield made
    made.close()


def collect(endpoint, count):
    """Receive until `count` messages are there."""
    received = []
    deadline = time.monotonic() + PATIENCE_S
    while len(received) < count:
        assert time.monotonic() < deadline, f"only {len(received)} of {count} messages arrived"
        received += [one for one in endpoint.receive(0.05) if not isinstance(one[1], RefusedMessage)]
    return received


def send(endpoint, peer, message):
    """Send as soon as the peer is reachable."""
    deadline = time.monotonic() + PATIENCE_S
    while not endpoint.send(peer, message):
        assert time.monotonic() < deadline, f"{peer} stayed unreachable"
        time.sleep(0.005)


def eventually(condition):
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def linked(hub, *, host="coordinator", guest="sampler-0"):
    """Return a host and a guest that have exchanged messages."""
    server, address = hub.bound(host)
    client = hub.endpoint(guest)
    client.connect(host, address)
    send(client, host, Hello())
    assert collect(server, 1) == [(guest, Hello())]
    return server, client, address


def test_a_guest_reaches_its_host_and_the_host_answers_by_name(hub):
    """Both directions work over one connection, and peers are known by worker names."""
    server, client, _ = linked(hub)
    assert server.send("sampler-0", Stop(reason="enough"))
    assert collect(client, 1) == [("coordinator", Stop(reason="enough"))]


def test_the_name_given_to_connect_is_the_sender(hub):
    """The host's messages arrive under it."""
    server, address = hub.bound("coordinator")
    client = hub.endpoint("sampler-0")
    client.connect("chief", address)
    send(client, "chief", Hello())
    collect(server, 1)
    send(server, "sampler-0", Stop())
    assert collect(client, 1) == [("chief", Stop())]


def test_one_endpoint_binds_and_connects(hub):
    """Like a learner's, for samplers and the coordinator."""
    coordinator, at_coordinator = hub.bound("coordinator")
    learner, at_learner = hub.bound("learner")
    sampler = hub.endpoint("sampler-0")
    learner.connect("coordinator", at_coordinator)
    sampler.connect("learner", at_learner)
    send(sampler, "learner", Hello())
    send(learner, "coordinator", Hello())
    assert collect(learner, 1) == [("sampler-0", Hello())]
    assert collect(coordinator, 1) == [("learner", Hello())]


def test_messages_sent_before_the_peer_binds_arrive_in_order(directory, hub):
    """Workers may start in any order."""
    if hub.kind == "tcp":
        pytest.skip("the port is only known once it is bound")
    client = hub.endpoint("sampler-0")
    client.connect("coordinator", hub.address("coordinator"))
    for number in range(5):
        assert client.send("coordinator", ResultsAck(report=number))
    server, _ = hub.bound("coordinator")
    assert [message.report for _, message in collect(server, 5)] == list(range(5))


def test_the_queue_for_an_absent_peer_is_bounded(hub, directory):
    """It cannot fill the memory."""
    client = hub.endpoint("sampler-0")
    client.connect("coordinator", ipc_address(directory, "nobody"))
    answers = [client.send("coordinator", Stop()) for _ in range(1000)]
    assert answers[0]
    assert not answers[-1]
    assert sum(answers) == 64


def test_send_returns_false_if_the_queue_is_full(hub):
    """It does not block, and works again once the peer receives."""
    server, client, _ = linked(hub)
    payload = {"x": np.zeros(100_000, np.uint8)}
    sent = 0
    while client.send("coordinator", Segments(player="p", block=sent, arrays=payload)):
        sent += 1
        assert sent < 10_000
    received = collect(server, sent)
    assert [message.block for _, message in received] == list(range(sent))
    send(client, "coordinator", Stop())
    assert collect(server, 1) == [("sampler-0", Stop())]


def test_send_returns_false_for_unknown_peers(hub):
    """On endpoints that bind or connect."""
    server, client, _ = linked(hub)
    assert not server.send("sampler-9", Stop())
    assert not client.send("sampler-9", Stop())


def test_a_disconnected_peer_is_noticed(hub):
    """Soon after it has closed its endpoint, sending returns False."""
    server, client, _ = linked(hub)
    client.close()
    eventually(lambda: not server.send("sampler-0", Stop()))


def test_a_restarted_guest_takes_over_its_name(hub):
    """The host reaches the new process."""
    server, old, address = linked(hub)
    new = hub.endpoint("sampler-0")
    new.connect("coordinator", address)
    send(new, "coordinator", Heartbeat(count=2))
    assert collect(server, 1) == [("sampler-0", Heartbeat(count=2))]
    assert server.send("sampler-0", Stop(reason="for the new one"))
    assert collect(new, 1) == [("coordinator", Stop(reason="for the new one"))]
    assert old.receive(0.0) == []


def test_messages_of_a_replaced_guest_are_dropped(hub):
    """The newer process keeps the connection."""
    server, old, address = linked(hub)
    new = hub.endpoint("sampler-0")
    new.connect("coordinator", address)
    send(new, "coordinator", Heartbeat(count=1))
    collect(server, 1)
    old.send("coordinator", Stop(reason="from the old one"))
    assert server.receive(0.2) == []
    send(new, "coordinator", Heartbeat(count=2))
    assert collect(server, 1) == [("sampler-0", Heartbeat(count=2))]


def test_a_killed_process_is_noticed_and_can_be_replaced(directory):
    """Its successor can connect."""
    hub = Hub("ipc", directory)
    server, address = hub.bound("coordinator")
    code = (
        "import time; from ludus._messaging.messages import Hello; from ludus_local.transport import ZmqEndpoint\n"
        f"worker = ZmqEndpoint('sampler-0'); worker.connect('coordinator', {address!r})\n"
        "worker.send('coordinator', Hello()); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        collect(server, 1)
        assert server.send("sampler-0", Stop(reason="lost with the process"))
        process.kill()
    eventually(lambda: not server.send("sampler-0", Stop()))
    new = hub.endpoint("sampler-0")
    new.connect("coordinator", address)
    send(server, "sampler-0", Stop(reason="for the new one"))
    assert collect(new, 1) == [("coordinator", Stop(reason="for the new one"))]
    hub.close()


def test_a_restarted_host_is_found_again(hub):
    """Guests reconnect by themselves."""
    server, client, address = linked(hub)
    server.close()
    again = hub.endpoint("coordinator")
    again.bind(address)
    eventually(lambda: client.send("coordinator", Stop()) and again.receive(0.05))
    send(again, "sampler-0", Stop(reason="welcome back"))
    assert collect(client, 1) == [("coordinator", Stop(reason="welcome back"))]


class Forwarder:
    """Forwards messages of workers of other hosts."""

    def __init__(self, address):
        self._own = Sockets()
        self.socket = self._own.dealer(FORWARDER, address)

    def bring(self, worker, *frames):
        self.socket.send_multipart([worker.encode(), *frames])

    def receive(self):
        """Return the addressee and the message that arrived."""
        assert self.socket.poll(PATIENCE_S * 1000)
        worker, *frames = map(bytes, take_message(self.socket))
        return worker.decode(), codec.decode(frames)

    def close(self):
        self._own.close()


@pytest.fixture
def forwarded(hub):
    """Return a host and a forwarder that has forwarded a message of a worker."""
    server, address = hub.bound("coordinator")
    forwarder = Forwarder(address)
    forwarder.bring("sampler-far-0", *codec.encode(Hello()))
    assert collect(server, 1) == [("sampler-far-0", Hello())]
    yield server, forwarder, address
    forwarder.close()


def test_messages_are_exchanged_through_a_forwarder(hub, forwarded):
    """Remote workers are peers like others."""
    server, forwarder, address = forwarded
    near = hub.endpoint("sampler-0")
    near.connect("coordinator", address)
    forwarder.bring("sampler-far-1", *codec.encode(Hello()))
    send(near, "coordinator", Hello())
    assert {peer for peer, _ in collect(server, 2)} == {"sampler-far-1", "sampler-0"}
    for peer in ("sampler-far-1", "sampler-0", "sampler-far-0"):
        assert server.send(peer, Stop(reason=peer))
    assert [forwarder.receive() for _ in range(2)] == [
        (peer, Stop(reason=peer)) for peer in ("sampler-far-1", "sampler-far-0")
    ]
    assert collect(near, 1) == [("coordinator", Stop(reason="sampler-0"))]


def test_a_forwarded_worker_may_connect_directly_later(hub, forwarded):
    """And the other way round: the last route is used."""
    server, forwarder, address = forwarded
    direct = hub.endpoint("sampler-far-0")
    direct.connect("coordinator", address)
    send(direct, "coordinator", Heartbeat(count=1))
    collect(server, 1)
    assert server.send("sampler-far-0", Stop(reason="directly"))
    assert collect(direct, 1) == [("coordinator", Stop(reason="directly"))]
    forwarder.bring("sampler-far-0", *codec.encode(Heartbeat(count=2)))
    assert collect(server, 1) == [("sampler-far-0", Heartbeat(count=2))]
    assert server.send("sampler-far-0", Stop(reason="forwarded"))
    assert forwarder.receive() == ("sampler-far-0", Stop(reason="forwarded"))


@pytest.mark.parametrize("name", ["", "../up", "Loud", "a" * 81, "ä"])
def test_forwarded_messages_with_invalid_names_are_dropped(forwarded, name):
    """Nothing is sent to them."""
    server, forwarder, _ = forwarded
    forwarder.bring(name, *codec.encode(Stop()))
    forwarder.bring("sampler-far-0", *codec.encode(Stop()))
    assert collect(server, 1) == [("sampler-far-0", Stop())]
    assert server.drops == {"unnamed": 1}
    assert not server.send(name, Stop())


@pytest.mark.parametrize("frames", [[], [b"garbage"], [*codec.encode(Stop()), b""]], ids=len)
def test_invalid_forwarded_messages_are_dropped(forwarded, frames):
    """Like any other."""
    server, forwarder, _ = forwarded
    forwarder.bring("sampler-far-0", *frames)
    forwarder.bring("sampler-far-0", *codec.encode(Stop()))
    assert collect(server, 1) == [("sampler-far-0", Stop())]
    assert server.drops.total() == 1


def test_forwarded_workers_disconnect_with_the_forwarder(forwarded):
    """Until it is back."""
    server, forwarder, address = forwarded
    forwarder.close()
    eventually(lambda: not server.send("sampler-far-0", Stop()))
    again = Forwarder(address)
    try:
        again.bring("sampler-far-1", *codec.encode(Hello()))
        collect(server, 1)
        assert server.send("sampler-far-0", Stop())
        assert again.receive() == ("sampler-far-0", Stop())
    finally:
        again.close()


@pytest.mark.parametrize("arrays", [codec.MAX_ARRAYS, codec.MAX_ARRAYS + 1])
def test_forwarded_messages_may_have_all_frames(forwarded, arrays):
    """The name of the sender does not count."""
    server, forwarder, _ = forwarded
    block = Segments(player="p", block=1, arrays={"x": np.zeros(0)})
    forwarder.bring("sampler-far-0", *codec.encode(block), *[b""] * (arrays - 1))
    forwarder.bring("sampler-far-0", *codec.encode(Stop()))
    assert collect(server, 1) == [("sampler-far-0", Stop())]
    assert server.drops == {"undecodable" if arrays == codec.MAX_ARRAYS else "oversized": 1}


def test_several_endpoints_can_be_polled_at_once(hub):
    """By their sockets."""
    server, client, _ = linked(hub)
    both = zmq.Poller()
    for socket in (*server.sockets, *client.sockets):
        both.register(socket, zmq.POLLIN)
    assert both.poll(0) == []
    for sender, peer, receiver in ((client, "coordinator", server), (server, "sampler-0", client)):
        send(sender, peer, Stop())
        ((ready, _),) = both.poll(PATIENCE_S * 1000)
        assert [ready] == receiver.sockets
        assert len(collect(receiver, 1)) == 1


def test_big_arrays_arrive_unchanged(hub):
    """64 MB in one message."""
    server, client, _ = linked(hub)
    arrays = {"big": np.arange(16 * 1024**2, dtype=np.int32), "small": np.float32([[1.5, np.nan]])}
    assert client.send("coordinator", Segments(player="p", block=1, arrays=arrays))
    [(_, message)] = collect(server, 1)
    np.testing.assert_array_equal(message.arrays["big"], arrays["big"])
    np.testing.assert_array_equal(message.arrays["small"], arrays["small"])


def test_many_small_messages_keep_their_order(hub):
    """Thousands of messages, more than any queue holds, arrive in order and once."""
    server, client, _ = linked(hub)
    numbers = []
    for number in range(3000):
        while not client.send("coordinator", ResultsAck(report=number)):
            numbers += [message.report for _, message in server.receive(0.0)]
    numbers += [message.report for _, message in collect(server, 3000 - len(numbers))]
    assert numbers == list(range(3000))


def test_closing_is_quick_and_final_with_messages_pending(hub, directory):
    """Messages for an absent peer do not delay it, and closing twice is allowed."""
    client = hub.endpoint("sampler-0")
    client.connect("coordinator", ipc_address(directory, "nobody"))
    assert client.send("coordinator", Stop())
    start = time.monotonic()
    client.close()
    client.close()
    assert time.monotonic() - start < 2.0
    assert not client.send("coordinator", Stop())


def test_messages_sent_before_closing_arrive(hub, monkeypatch):
    """Even if they are many."""
    monkeypatch.setattr("ludus_local.transport.LINGER_MS", 20_000)  # for so many; each buffer is a turn of both sides
    server, client, _ = linked(hub)
    arrays = {"x": np.zeros(16 * 1024**2, np.uint8)}
    assert client.send("coordinator", Segments(player="p", block=1, arrays=arrays))
    assert client.send("coordinator", Stop(reason="bye"))
    client.close()
    assert [type(message) for _, message in collect(server, 2)] == [Segments, Stop]


def test_receive_returns_after_the_timeout(hub):
    """With an empty list."""
    server, _, _ = linked(hub)
    start = time.monotonic()
    assert server.receive(0.05) == []
    assert time.monotonic() - start < 1.0


def test_a_message_that_cannot_be_encoded_is_the_senders_error(hub):
    """The receiver gets nothing."""
    _, client, _ = linked(hub)
    with pytest.raises(WireError, match=r"ResultsAck cannot be sent"):
        client.send("coordinator", ResultsAck(report=2**64))


@pytest.mark.parametrize("frames", [[b""], [b"garbage"], [b"LUDS\x01\x00\xc1"], [os.urandom(200), b"x" * 100]])
def test_garbage_is_dropped_counted_and_logged(hub, frames, caplog):
    """Invalid messages are dropped, and their sender is logged."""
    server, address = hub.bound("coordinator")
    with caplog.at_level(logging.WARNING, logger="ludus"):
        hub.send_garbage(address, b"rogue", frames)
        eventually(lambda: server.receive(0.01) == [] and server.drops.get("undecodable") == 1)
    assert "rogue" in caplog.text


def test_messages_after_garbage_still_arrive(hub):
    """One faulty peer does not affect others."""
    server, _, address = linked(hub)
    hub.send_garbage(address, b"rogue", [b"garbage"])
    hub.send_garbage(address, b"sampler-1", codec.encode(Hello()))
    assert collect(server, 1) == [("sampler-1", Hello())]


def test_too_many_frames_count_as_oversized(hub):
    """Such messages are dropped with a reason of their own."""
    server, address = hub.bound("coordinator")
    hub.send_garbage(address, b"rogue", [*codec.encode(Stop()), *[b"x"] * 5000])
    eventually(lambda: server.receive(0.01) == [] and server.drops.get("oversized") == 1)


@pytest.mark.parametrize("kind", ["ipc", "tcp"])
def test_frames_above_the_limit_never_reach_this_process(kind, directory, monkeypatch):
    """Libzmq disconnects the peer before it reads them; others are not affected."""
    monkeypatch.setattr(codec, "MAX_FRAME_BYTES", 1000)
    hub = Hub(kind, directory)
    server, _, address = linked(hub)
    hub.send_garbage(address, b"rogue", [*codec.encode(Stop()), b"x" * 1001])
    hub.send_garbage(address, b"sampler-1", codec.encode(Stop()))
    assert collect(server, 1) == [("sampler-1", Stop())]
    assert server.drops == {}
    hub.close()


@pytest.mark.parametrize("name", [b"../up", b"Loud", b"\x00\x01\x02\x03\x04", b"a" * 81, "ä".encode()])
def test_peers_without_a_valid_name_are_dropped(hub, name):
    """Names become dictionary keys and log lines."""
    server, address = hub.bound("coordinator")
    hub.send_garbage(address, name, codec.encode(Stop()))
    eventually(lambda: server.receive(0.01) == [] and server.drops.get("unnamed") == 1)


def test_a_flood_of_garbage_does_not_flood_the_log(directory, caplog):
    """A thousand drops are logged about ten times."""
    hub = Hub("ipc", directory)
    server, _ = hub.bound("coordinator")
    for _ in range(1000):
        server._drop("undecodable", "rogue", "garbage")
    assert server.drops["undecodable"] == 1000
    assert len(caplog.records) == 10
    hub.close()


def test_a_taken_port_is_a_link_error(directory):
    """The error names the worker and the address."""
    hub = Hub("tcp", directory)
    _, address = hub.bound("coordinator")
    with pytest.raises(LinkError, match=r"other cannot listen at tcp://127\.0\.0\.1:\d+"):
        hub.endpoint("other").bind(address)
    hub.close()


@pytest.mark.parametrize(
    "address",
    [
        "tcp://0.0.0.0:5555",
        "tcp://*:5555",
        "tcp://localhost:5555",
        "tcp://127.0.0.1:5555;tcp://0.0.0.0:1",
        "tcp://10.0.0.1:5555",
        "ipc://relative",
        "ipc://@abstract",
        "inproc://x",
        "udp://127.0.0.1:5555",
        "",
    ],
)
@pytest.mark.parametrize("method", ["bind", "connect"])
def test_addresses_that_others_could_reach_are_rejected(address, method):
    """Without keys only loopback and private directories are allowed."""
    endpoint = ZmqEndpoint("sampler-0")
    with pytest.raises(LinkError, match="by `ludus join`, of ludus-hosts"):
        endpoint.bind(address) if method == "bind" else endpoint.connect("peer", address)
    endpoint.close()


def test_sockets_in_directories_open_to_others_are_rejected(tmp_path):
    """Every user that can enter the directory could connect."""
    tmp_path.chmod(0o755)
    endpoint = ZmqEndpoint("sampler-0")
    with pytest.raises(LinkError, match="mode 0700"):
        endpoint.bind(f"ipc://{tmp_path}/x")
    endpoint.close()


def test_sockets_in_linked_directories_are_rejected(directory):
    """A symbolic link could change after the check."""
    link = directory / "link"
    target = directory / "target"
    target.mkdir(mode=0o700)
    link.symlink_to(target)
    endpoint = ZmqEndpoint("sampler-0")
    with pytest.raises(LinkError, match="mode 0700"):
        endpoint.connect("peer", ipc_address(link, "x"))
    endpoint.close()


def test_a_missing_directory_is_a_link_error():
    """The error names the directory."""
    endpoint = ZmqEndpoint("sampler-0")
    with pytest.raises(LinkError, match="/nowhere: No such file"):
        endpoint.connect("peer", "ipc:///nowhere/x")
    endpoint.close()


def test_socket_paths_that_are_too_long_are_rejected(directory):
    """They have about a hundred bytes."""
    endpoint = ZmqEndpoint("sampler-0")
    with pytest.raises(LinkError, match="longer than 100 bytes"):
        endpoint.bind(f"ipc://{directory}/{'x' * 100}")
    endpoint.close()


def test_an_endpoint_needs_a_valid_name():
    """The name identifies it to peers."""
    with pytest.raises(LinkError, match="Sampler 0"):
        ZmqEndpoint("Sampler 0")


@pytest.mark.parametrize("name_of", [learner_name, service_name])
def test_the_longest_name_of_a_configuration_makes_a_worker(directory, name_of):
    """Players and components have up to 64 characters."""
    name = name_of("a" * 64)
    endpoint = ZmqEndpoint(name)
    endpoint.bind(ipc_address(directory, name))
    endpoint.close()


def test_the_private_directory_is_private(directory):
    """Only the owner can enter it, and it differs from call to call."""
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    other = private_ipc_dir()
    assert other != directory
    other.rmdir()


def test_a_directory_outlives_a_logout(monkeypatch, directory):
    """XDG_RUNTIME_DIR is removed at the logout, while a run may go on."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory))
    made = private_ipc_dir()
    assert made.parent == Path(tempfile.gettempdir())
    made.rmdir()


@pytest.mark.parametrize("place", ["/nowhere", "/tmp/" + "x" * 100])
def test_unusable_temporary_directories_are_skipped(monkeypatch, place):
    """A missing or too long TMPDIR does not stop a run."""
    monkeypatch.setattr(tempfile, "tempdir", place)
    made = private_ipc_dir()
    assert made.parent == Path("/tmp")
    made.rmdir()


@pytest.fixture
def only(monkeypatch):
    """Return a function that makes a directory the only place."""

    def choose(place):
        monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
        monkeypatch.setattr(os, "access", lambda path, mode: access(path, mode) and str(path).startswith(str(place)))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))

    access = os.access
    return choose


def test_the_runtime_directory_is_the_last_choice(only, directory):
    """If temporary files cannot be written."""
    only(directory)
    assert private_ipc_dir().parent == directory


def test_without_a_directory_the_error_names_the_remedy(only):
    """The user can set TMPDIR."""
    only("/nowhere")
    with pytest.raises(LinkError, match="set TMPDIR to a short writable path"):
        private_ipc_dir()


def test_addresses_of_the_longest_names_fit(directory):
    """Names that are too long for a socket path are replaced by a hash."""
    long = Path("/tmp") / ("x" * 45)
    first, second = ipc_address(long, "a" * 64), ipc_address(long, "a" * 63 + "b")
    assert max(len(first), len(second)) < 100 + len("ipc://")
    assert first != second
    assert ipc_address(directory, "sampler-0") == f"ipc://{directory}/sampler-0"


def test_sockets_of_killed_processes_are_removed(monkeypatch):
    """By the next run; those of running processes stay."""
    place = Path(tempfile.mkdtemp(prefix="t-"))  # pytest's own folders have names too long for sockets
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    dead = place / f"ludus-run-{os.getpid()}-abc"  # its process id has been given to another process since
    dead.mkdir(mode=0o700)
    alive = private_ipc_dir()
    assert private_ipc_dir().parent == alive.parent == place
    assert not dead.exists()
    assert alive.exists()
    shutil.rmtree(place)
