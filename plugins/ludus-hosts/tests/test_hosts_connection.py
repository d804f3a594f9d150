"""Only holders of an allowed key can connect; others neither deliver messages nor disturb connections."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from contextlib import suppress

import attrs
import pytest
import zmq
from ludus.errors import ConfigError, LinkError
from ludus_hosts.keys import RUN_KEY, JoinKey, make_keys

HANG_UP = [b"", b"\n", b"GET / HTTP/1.1\r\n\r\n", b"\xff" + bytes(8) + b"\x7f\x03\x00NULL", b"x" * 100_000]


def pair():
    """Return a public key and its secret."""
    return tuple(half.decode() for half in zmq.curve_keypair())


def received(listener, wait_ms=10):
    """Return the received messages as (route, frames)."""
    received = []
    while listener.socket.poll(wait_ms):
        route, *frames = listener.socket.recv_multipart()
        received.append((route, frames))
    return received


def pass_through(eventually, listener, line, content=b"hello"):
    """Send a message and return its route; no other message has arrived."""
    eventually(lambda: line.send([content]))
    ((route, frames),) = eventually(lambda: received(listener))
    assert frames == [content]
    return route


def wait_for_rejection(eventually, line):
    """Wait until a connection reports that its key is rejected."""
    with pytest.raises(LinkError, match="the run rejects this key; make one with `ludus keys` on the host of the run"):
        eventually(lambda: line.problem and False)


def port_of(address):
    """Return the port of an address."""
    return int(address.rpartition(":")[2])


def forbid(keys, name):
    """Remove a name from the key file of the run."""
    path = keys / RUN_KEY
    fields = json.loads(path.read_text(encoding="utf-8"))
    del fields["allowed"][name]
    path.write_text(json.dumps(fields), encoding="utf-8")


def test_an_allowed_key_connects(wire, key, eventually):
    """Messages arrive in both directions, and there is no problem."""
    listener, address = wire.listener()
    line = wire.line(address, key)
    route = pass_through(eventually, listener, line)
    listener.socket.send_multipart([route, b"and", b"back"])
    eventually(lambda: line.socket.poll(10))
    assert line.socket.recv_multipart() == [b"and", b"back"]
    assert line.problem == ""


def test_several_machines_may_use_one_key(wire, key, eventually):
    """Each has a route of its own."""
    listener, address = wire.listener()
    lines = [wire.line(address, key) for _ in range(2)]
    assert len({pass_through(eventually, listener, line) for line in lines}) == 2


def test_an_unknown_key_is_rejected(wire, key, eventually):
    """The error is final."""
    listener, address = wire.listener()
    public, secret = pair()
    line = wire.line(address, attrs.evolve(key, public=public, secret=secret))
    line.send([b"let me in"])
    wait_for_rejection(eventually, line)
    assert received(listener) == []


def test_a_deleted_name_cannot_connect_again(wire, keys, key, eventually):
    """Other names and open connections are not affected."""
    make_keys(keys, "other")
    listener, address = wire.listener()
    first = wire.line(address, key)
    pass_through(eventually, listener, first)
    forbid(keys, "join")
    wait_for_rejection(eventually, wire.line(address, key))
    pass_through(eventually, listener, wire.line(address, JoinKey.read(keys / "other.key")))
    pass_through(eventually, listener, first)


def test_a_key_may_be_added_during_the_run(wire, keys, eventually):
    """The file is read for every connection."""
    listener, address = wire.listener()
    make_keys(keys, "late")
    pass_through(eventually, listener, wire.line(address, JoinKey.read(keys / "late.key")))


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_with_an_unusable_key_file_no_key_is_allowed(wire, keys, key, eventually, caplog, mode):
    """A damaged file, or one that other users can read; it is logged, and a repaired file is used again."""
    listener, address = wire.listener()
    right = (keys / RUN_KEY).read_text(encoding="utf-8")
    (keys / RUN_KEY).chmod(mode)
    if mode == 0o600:
        (keys / RUN_KEY).write_text("{", encoding="utf-8")
    wait_for_rejection(eventually, wire.line(address, key))
    assert "connection rejected: key file " in caplog.text
    (keys / RUN_KEY).chmod(0o600)
    (keys / RUN_KEY).write_text(right, encoding="utf-8")
    pass_through(eventually, listener, wire.line(address, key))


def test_the_key_of_another_run_is_reported(wire, tmp_path, eventually):
    """It is no error: the address may be wrong for the moment."""
    _, address = wire.listener()
    stranger = JoinKey.read(make_keys(tmp_path / "others", "join"))
    line = wire.line(address, stranger)
    eventually(lambda: line.problem == "the host that answers has no run with the key that this one belongs to")


def test_a_missing_listener_is_reported(wire, key, free_address, eventually):
    """Until there is one."""
    address = free_address
    line = wire.line(address, key)
    eventually(lambda: line.problem == "no host answers")
    listener, _ = wire.listener(address)
    pass_through(eventually, listener, line)
    eventually(lambda: line.problem == "")


def test_a_lost_connection_is_restored(wire, key, eventually):
    """By the same socket."""
    listener, address = wire.listener()
    line = wire.line(address, key)
    pass_through(eventually, listener, line)
    wire.close_listener(listener)
    eventually(lambda: line.problem == "the connection was lost")
    again, _ = wire.listener(address)
    pass_through(eventually, again, line)
    assert line.problem == ""


def test_without_curve_nothing_arrives(wire, key, eventually):
    """The address alone is not enough."""
    listener, address = wire.listener()
    with zmq.Context() as context, context.socket(zmq.DEALER) as rogue:
        rogue.setsockopt(zmq.LINGER, 0)
        rogue.connect(address)
        rogue.send_multipart([b"", b"", b"garbage"])
        assert received(listener, 200) == []
        pass_through(eventually, listener, wire.line(address, key))
        assert received(listener) == []


def test_a_key_that_is_not_allowed_delivers_nothing(wire, key, eventually):
    """Even with the public key of the run."""
    listener, address = wire.listener()
    public, secret = pair()
    with zmq.Context() as context, context.socket(zmq.DEALER) as rogue:
        rogue.setsockopt(zmq.LINGER, 0)
        rogue.curve_publickey, rogue.curve_secretkey = public.encode(), secret.encode()
        rogue.curve_serverkey = key.run.encode()
        rogue.connect(address)
        rogue.send_multipart([b"", b"", b"garbage"])
        assert received(listener, 200) == []
        pass_through(eventually, listener, wire.line(address, key))
        assert received(listener) == []


def test_garbage_on_the_port_is_ignored(wire, key, eventually):
    """As from port scanners."""
    listener, address = wire.listener()
    line = wire.line(address, key)
    pass_through(eventually, listener, line)
    for garbage in [*HANG_UP, os.urandom(10_000)]:
        with socket.create_connection(("127.0.0.1", port_of(address)), timeout=10) as rogue:
            with suppress(ConnectionError):  # it has hung up already
                rogue.sendall(garbage)
            pass_through(eventually, listener, line)
    pass_through(eventually, listener, wire.line(address, key))


def test_messages_are_encrypted(wire, key, eventually):
    """Names and contents."""
    listener, address = wire.listener()
    with socket.create_server(("127.0.0.1", 0)) as way:
        observed = []

        def forward(source, target):
            while data := source.recv(65536):
                observed.append(data)
                target.sendall(data)

        def stand_between():
            near, _ = way.accept()
            with near, socket.create_connection(("127.0.0.1", port_of(address))) as far:
                back = threading.Thread(target=forward, args=(far, near))
                back.start()
                forward(near, far)
                far.shutdown(socket.SHUT_RDWR)
                back.join()

        between = threading.Thread(target=stand_between)
        between.start()
        line = wire.line(f"tcp://127.0.0.1:{way.getsockname()[1]}", key)
        pass_through(eventually, listener, line, b"coordinator" * 10)
        line.socket.close(linger=0)
        between.join()
    assert len(b"".join(observed)) > 100
    assert b"coordinator" not in b"".join(observed)


def test_an_address_that_is_taken_is_a_link_error(wire):
    """The error names the remedy."""
    _, address = wire.listener()
    with pytest.raises(LinkError, match=rf"^cannot listen at {re.escape(address)}: .*; choose another address$"):
        wire.listener(address)


def test_an_address_of_another_machine_is_a_link_error(wire):
    """One of the addresses reserved for documentation."""
    with pytest.raises(LinkError, match=r"^cannot listen at tcp://192\.0\.2\.1:7077: "):
        wire.listener("tcp://192.0.2.1:7077")


def test_without_a_key_file_there_is_no_listener(wire, keys):
    """CURVE without one would accept all keys."""
    (keys / RUN_KEY).unlink()
    with pytest.raises(ConfigError, match="No such file"):
        wire.listener()


def test_without_an_authenticator_no_key_is_allowed(wire, key, eventually):
    """Libzmq would accept all keys; the authenticator's thread may end before the socket."""
    listener, address = wire.listener()
    listener.close()
    line = wire.line(address, key)
    eventually(lambda: line.problem.startswith("the host that answers has no run with the key"))
    assert not line.send([b"let me in"])


def test_an_invalid_address_is_a_link_error(wire, key):
    """With the text of libzmq."""
    with pytest.raises(LinkError, match=r"^cannot connect to nonsense: "):
        wire.line("nonsense", key)


def test_sending_never_waits(wire, key):
    """Nothing is kept for a connection that there is not."""
    assert not wire.line("tcp://127.0.0.1:1", key).send([b"x"])
