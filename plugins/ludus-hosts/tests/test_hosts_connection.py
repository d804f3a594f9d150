"""Over TCP comes who has the secret of an allowed key; others get nothing through and break nothing."""

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


def heard(listener, wait_ms=10):
    """Return what has come as (route, frames)."""
    received = []
    while listener.socket.poll(wait_ms):
        route, *frames = listener.socket.recv_multipart()
        received.append((route, frames))
    return received


def pass_through(eventually, listener, line, content=b"hello"):
    """Send from a line and return its route; nothing else has come."""
    eventually(lambda: line.send([content]))
    ((route, frames),) = eventually(lambda: heard(listener))
    assert frames == [content]
    return route


def refused(eventually, line):
    """Wait until a line says that its key is not let in."""
    with pytest.raises(LinkError, match="the run rejects this key; make one with `ludus keys` on the host of the run"):
        eventually(lambda: line.problem and False)


def port_of(address):
    """Return the port of an address."""
    return int(address.rpartition(":")[2])


def forbid(keys, name):
    """Take a name out of the key file of the run."""
    path = keys / RUN_KEY
    fields = json.loads(path.read_text(encoding="utf-8"))
    del fields["allowed"][name]
    path.write_text(json.dumps(fields), encoding="utf-8")


def test_an_allowed_key_gets_through_both_ways(wire, key, eventually):
    """There is nothing to complain about then."""
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


def test_an_unknown_key_is_told_so(wire, key, eventually):
    """Trying again is in vain."""
    listener, address = wire.listener()
    public, secret = pair()
    line = wire.line(address, attrs.evolve(key, public=public, secret=secret))
    line.send([b"let me in"])
    refused(eventually, line)
    assert heard(listener) == []


def test_a_deleted_name_is_not_let_in_any_more(wire, keys, key, eventually):
    """That goes for new connections, and not for other names."""
    make_keys(keys, "other")
    listener, address = wire.listener()
    first = wire.line(address, key)
    pass_through(eventually, listener, first)
    forbid(keys, "join")
    refused(eventually, wire.line(address, key))
    pass_through(eventually, listener, wire.line(address, JoinKey.read(keys / "other.key")))
    pass_through(eventually, listener, first)


def test_a_name_is_added_while_the_run_goes_on(wire, keys, eventually):
    """The file is read for every connection."""
    listener, address = wire.listener()
    make_keys(keys, "late")
    pass_through(eventually, listener, wire.line(address, JoinKey.read(keys / "late.key")))


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_with_a_damaged_file_nobody_is_let_in(wire, keys, key, eventually, caplog, mode):
    """Nor with one that others can read; the log says so, and it is as before when that is mended."""
    listener, address = wire.listener()
    right = (keys / RUN_KEY).read_text(encoding="utf-8")
    (keys / RUN_KEY).chmod(mode)
    if mode == 0o600:
        (keys / RUN_KEY).write_text("{", encoding="utf-8")
    refused(eventually, wire.line(address, key))
    assert "connection rejected: key file " in caplog.text
    (keys / RUN_KEY).chmod(0o600)
    (keys / RUN_KEY).write_text(right, encoding="utf-8")
    pass_through(eventually, listener, wire.line(address, key))


def test_the_key_of_another_run_is_told_so(wire, tmp_path, eventually):
    """It may be the wrong address; so that is no reason to give up."""
    _, address = wire.listener()
    stranger = JoinKey.read(make_keys(tmp_path / "others", "join"))
    line = wire.line(address, stranger)
    eventually(lambda: line.problem == "the host that answers has no run with the key that this one belongs to")


def test_where_nobody_listens_nobody_answers(wire, key, free_address, eventually):
    """Until somebody does."""
    address = free_address
    line = wire.line(address, key)
    eventually(lambda: line.problem == "no host answers")
    listener, _ = wire.listener(address)
    pass_through(eventually, listener, line)
    eventually(lambda: line.problem == "")


def test_a_lost_connection_is_made_again(wire, key, eventually):
    """By the same socket, when the run is back."""
    listener, address = wire.listener()
    line = wire.line(address, key)
    pass_through(eventually, listener, line)
    wire.hang_up(listener)
    eventually(lambda: line.problem == "the connection was lost")
    again, _ = wire.listener(address)
    pass_through(eventually, again, line)
    assert line.problem == ""


def test_without_curve_nothing_arrives(wire, key, eventually):
    """Somebody who knows the address only."""
    listener, address = wire.listener()
    with zmq.Context() as context, context.socket(zmq.DEALER) as rogue:
        rogue.setsockopt(zmq.LINGER, 0)
        rogue.connect(address)
        rogue.send_multipart([b"", b"", b"garbage"])
        assert heard(listener, 200) == []
        pass_through(eventually, listener, wire.line(address, key))
        assert heard(listener) == []


def test_a_key_that_is_not_allowed_delivers_nothing(wire, key, eventually):
    """Though it knows that of the run, which is no secret."""
    listener, address = wire.listener()
    public, secret = pair()
    with zmq.Context() as context, context.socket(zmq.DEALER) as rogue:
        rogue.setsockopt(zmq.LINGER, 0)
        rogue.curve_publickey, rogue.curve_secretkey = public.encode(), secret.encode()
        rogue.curve_serverkey = key.run.encode()
        rogue.connect(address)
        rogue.send_multipart([b"", b"", b"garbage"])
        assert heard(listener, 200) == []
        pass_through(eventually, listener, wire.line(address, key))
        assert heard(listener) == []


def test_garbage_on_the_port_breaks_nothing(wire, key, eventually):
    """Whoever scans ports finds it."""
    listener, address = wire.listener()
    line = wire.line(address, key)
    pass_through(eventually, listener, line)
    for garbage in [*HANG_UP, os.urandom(10_000)]:
        with socket.create_connection(("127.0.0.1", port_of(address)), timeout=10) as rogue:
            with suppress(ConnectionError):  # it has hung up already
                rogue.sendall(garbage)
            pass_through(eventually, listener, line)
    pass_through(eventually, listener, wire.line(address, key))


def test_nobody_on_the_way_can_read_it(wire, key, eventually):
    """Neither names nor contents."""
    listener, address = wire.listener()
    with socket.create_server(("127.0.0.1", 0)) as way:
        seen = []

        def forward(source, target):
            while data := source.recv(65536):
                seen.append(data)
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
    assert len(b"".join(seen)) > 100
    assert b"coordinator" not in b"".join(seen)


def test_an_address_that_is_taken_is_a_link_error(wire):
    """The next action is named."""
    _, address = wire.listener()
    with pytest.raises(LinkError, match=rf"^cannot listen at {re.escape(address)}: .*; choose another address$"):
        wire.listener(address)


def test_an_address_of_another_machine_is_a_link_error(wire):
    """One of those that are reserved for books."""
    with pytest.raises(LinkError, match=r"^cannot listen at tcp://192\.0\.2\.1:7077: "):
        wire.listener("tcp://192.0.2.1:7077")


def test_without_a_key_nobody_is_awaited(wire, keys):
    """CURVE without one lets everybody in."""
    (keys / RUN_KEY).unlink()
    with pytest.raises(ConfigError, match="No such file"):
        wire.listener()


def test_without_somebody_who_asks_for_keys_nobody_is_let_in(wire, key, eventually):
    """As libzmq would; the thread that asks may have ended before the socket."""
    listener, address = wire.listener()
    listener.close()
    line = wire.line(address, key)
    eventually(lambda: line.problem.startswith("the host that answers has no run with the key"))
    assert not line.send([b"let me in"])


def test_an_address_that_is_none_is_a_link_error(wire, key):
    """Where it comes from is checked before; this is what libzmq says."""
    with pytest.raises(LinkError, match=r"^cannot connect to nonsense: "):
        wire.line("nonsense", key)


def test_sending_never_waits(wire, key):
    """Nothing is kept for a connection that there is not."""
    assert not wire.line("tcp://127.0.0.1:1", key).send([b"x"])
