"""Whatever a peer sends costs that peer its connection, is one line in the log, and disturbs no other game."""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import subprocess
import time
from contextlib import closing

import attrs
import msgpack
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from ludus.errors import ConfigError
from ludus.scenario import Scenario
from ludus_remote.config import RemoteConfig
from ludus_remote.matches import RemoteMatch
from ludus_remote.payload import ProtocolError, decode
from ludus_remote.schema import GameSchema
from ludus_remote.session import GameSession, Limits
from ludus_remote.setup import open_gateway as open_configured

OTHER = "transcript-token-0002"


@pytest.fixture
def gateway(open_gateway, script):
    """Return a gateway for two games."""
    limits = Limits(messages_per_s=200, message_s=0.5, resume_s=0.3)
    tokens = (script["TOKEN"], OTHER)
    return open_gateway(schema=GameSchema(script["SCHEMA"]), tokens=tokens, num_matches=2, limits=limits)


@pytest.fixture
def join(gateway, open_peer, script):
    """Return a function that connects a game with a token, and returns it after its welcome."""

    def make(token=script["TOKEN"], **changes):
        peer = open_peer(gateway.port)
        peer.send(msgpack.packb(script["hello"](token=token, **changes)))
        assert peer.receive()["type"] == "welcome"
        return peer

    return make


def start_match(gateway, token):
    """Start a match with the game of a token."""
    with gateway.changed:
        game = gateway.games[token]
        match, payload = game.session.start_match(0, 1, Scenario())
        gateway.send([(game, payload)])
    return match


def expect_error(peer, code):
    """Check that the peer gets an error and is disconnected."""
    while (message := peer.receive())["type"] != "error":
        pass
    assert message["code"] == code, message
    with pytest.raises(OSError):  # noqa: PT011 - also ConnectionError
        peer.receive()


def wait_until(condition, seconds=5.0):
    """Wait until a condition holds."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def play_on(gateway, peer, script):
    """Check that a game still plays."""
    match = start_match(gateway, OTHER)
    assert peer.receive()["type"] == "match_start"
    message = script["observation"](1, 1, match.number, 0, script["entry"](0, 0.0))
    peer.send(msgpack.packb(message))
    wait_until(lambda: not match.is_answered)


FRAMES = {
    "giant": struct.pack(">I", (1 << 30) - 1),
    "not msgpack": struct.pack(">I", 2) + b"\xc1\xc1",
    "no map": struct.pack(">I", 1) + b"\x01",
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "zeros": bytes(64),
}


@pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES)
def test_wrong_frames_are_refused(data, gateway, join, open_peer, script, caplog):
    """The connection ends with one line; another game plays on."""
    peer, stranger = join(OTHER), open_peer(gateway.port)
    stranger.socket.sendall(data)
    received = b""
    while part := stranger.socket.recv(4096):
        received += part
    assert b"frame" in received or received.startswith(b"HTTP/1.1")
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
    play_on(gateway, peer, script)


def test_a_stranger_that_sends_byte_by_byte_is_dropped(gateway, open_peer, monkeypatch, join, script):
    """A message must be complete in time, and so must the hello."""
    peer, slow = join(OTHER), open_peer(gateway.port)
    monkeypatch.setattr("ludus_remote.connection.HELLO_S", 0.5)
    payload = msgpack.packb(script["hello"]())
    slow.socket.sendall(struct.pack(">I", len(payload)))
    with pytest.raises(OSError):  # noqa: PT011, PT012 - reset or broken pipe
        for byte in payload * 100:
            slow.socket.sendall(bytes([byte]))
            time.sleep(0.02)
    play_on(gateway, peer, script)


def test_a_game_that_sends_byte_by_byte_is_dropped(gateway, join, script):
    """Also after its hello, and its match is void."""
    peer = join()
    match = start_match(gateway, script["TOKEN"])
    assert peer.receive()["type"] == "match_start"
    peer.socket.sendall(b"\0\0")
    expect_error(peer, "slow")
    assert [(found, update.kind) for found, update in gateway.updates] == [(match, "void")]


def test_a_flood_ends_the_connection(gateway, join, script):
    """The limit holds for messages that are harmless by themselves."""
    peer, flooding = join(OTHER), join()
    ping = msgpack.packb({"type": "ping", "time": 0.0})
    flooding.socket.sendall((struct.pack(">I", len(ping)) + ping) * 400)
    expect_error(flooding, "flood")
    play_on(gateway, peer, script)


def test_a_token_admits_one_game(gateway, join, open_peer, script):
    """A second one is refused, and the first plays on."""
    peer, second = join(OTHER), open_peer(gateway.port)
    second.send(msgpack.packb(script["hello"](token=OTHER)))
    expect_error(second, "token_in_use")
    play_on(gateway, peer, script)


def test_games_that_are_not_needed_are_refused(gateway, join, open_peer, script):
    """They try the next port."""
    join(OTHER, matches=2)
    second = open_peer(gateway.port)
    second.send(msgpack.packb(script["hello"]()))
    expect_error(second, "full")


def test_strangers_do_not_keep_games_out(gateway, join, script):
    """Connections without a hello are few and short-lived, and a connected game does not notice them."""
    peer = join(OTHER)
    strangers = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(40)]
    time.sleep(0.1)
    assert len(gateway._connections) <= 17
    play_on(gateway, peer, script)
    for stranger in strangers:
        stranger.close()


def test_a_game_that_does_not_come_back_leaves_void_matches(gateway, join, script):
    """They are no loss of any seat."""
    peer = join()
    match = start_match(gateway, script["TOKEN"])
    peer.receive()
    peer.close()
    assert not gateway.updates
    wait_until(lambda: gateway.updates)
    assert [(found, update.kind) for found, update in gateway.updates] == [(match, "void")]
    assert script["TOKEN"] not in gateway.games


def test_a_peer_that_does_not_read_is_dropped(open_gateway, open_peer, script):
    """What waits for it is bounded."""
    limits = Limits(unacknowledged=8)
    gateway = open_gateway(schema=GameSchema(script["SCHEMA"]), limits=limits)
    peer = open_peer(gateway.port)
    peer.send(msgpack.packb(script["hello"]()))
    peer.receive()
    with gateway.changed:
        game = gateway.games[script["TOKEN"]]
        for _ in range(10):
            match, _ = game.session.start_match(0, 1, Scenario())
            game.session.void_match(match, "")
    expect_error(peer, "slow")


# -- messages ----------------------------------------------------------------------------------------------------------

NUMBERS = st.integers(-(2**60), 2**60) | st.floats()
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=8) | st.binary(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FAST = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def make_session(script, reports):
    """Return a session with a running match that waits for its second observation."""
    schema = GameSchema(script["SCHEMA"])
    session = GameSession(
        key="k", schema=schema, capacity=1, limits=Limits(), report=lambda *report: reports.append(report)
    )
    match, _ = session.start_match(0, 1, Scenario(), frames=True)
    first = script["observation"](1, 1, 1, 0, script["entry"](0, 0.0))
    session.receive(decode(msgpack.packb(first)))
    session.answer(match, 0, {})
    return session


def refusal(call):
    """Return the error that a call raises, which is one line; None if it raises none."""
    try:
        call()
    except ProtocolError as error:
        return error if "\n" not in error.text else pytest.fail(error.text)
    return None


def paths(value, path=()):
    """Yield the paths of all values in nested maps and lists."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


def replaced(value, path, new):
    """Return a value with the part at a path replaced."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@pytest.fixture(scope="session")
def messages(script):
    """Return a valid next message of every kind by its name."""
    end = {"type": "seat_end", "match": 1, "seq": 2, "ack": 1, "tick": 3, "ending": "truncated"}
    label = {"kind": "label", "x": 1.0, "y": 1.0, "text": "x", "size": 1.0}
    frame = {"width": 2.0, "height": 2.0, "shapes": [label], "caption": "x"}
    entry = script["entry"](0, 0.5, reward=0.5, parts={"hit": 0.5})
    return {
        "observation": script["observation"](2, 1, 1, 3, entry) | {"frame": frame},
        "seat_end": end | {"seat": script["entry"](1, 0.0, acts=False)},
        "match_end": script["end"](2, 1, 1, 3, script["entry"](0, 0.0, acts=False)),
        "match_void": {"type": "match_void", "match": 1, "seq": 2, "ack": 1, "reason": "x"},
        "ping": {"type": "ping", "time": 1.0},
        "pong": {"type": "pong", "time": 1.0, "clock": 1.0},
    }


@FAST
@given(data=st.data())
def test_a_changed_message_is_accepted_or_refused_in_one_line(script, messages, data):
    """A part of a valid message of any kind becomes any value."""
    message = messages[data.draw(st.sampled_from(sorted(messages)))]
    path = data.draw(st.sampled_from(list(paths(message))))
    new = replaced(message, path, data.draw(VALUES))
    reports = []
    session = make_session(script, reports)
    refused = refusal(lambda: session.receive(decode(msgpack.packb(new))))
    assert refused is None or refused.code in ("frame", "message", "order", "sequence", "value")
    assert len(reports) <= 2


@pytest.mark.parametrize("kind", ["observation", "seat_end", "match_end", "match_void", "ping", "pong"])
def test_the_valid_messages_are_accepted(kind, script, messages):
    """Otherwise the test above would test nothing."""
    make_session(script, []).receive(decode(msgpack.packb(messages[kind])))


@FAST
@given(data=st.data())
def test_a_changed_schema_is_accepted_or_refused_in_one_line(script, data):
    """It never becomes another error."""
    path = data.draw(st.sampled_from(list(paths(script["SCHEMA"]))))
    new = replaced(script["SCHEMA"], path, data.draw(VALUES))
    if not isinstance(new, dict):
        return
    refused = refusal(lambda: GameSchema(new).spec())
    assert refused is None or refused.code in ("schema", "message", "value")


@FAST
@given(payload=st.binary(max_size=64))
def test_any_payload_is_decoded_or_refused(payload):
    """Decoding raises one kind of error."""
    refused = refusal(lambda: decode(payload))
    assert refused is None or refused.code in ("frame", "value")


@pytest.mark.parametrize("where", ["reward", "parts", "position", "distance", "statistics"])
def test_numbers_that_are_not_finite_are_refused(where, script, messages):
    """In every place where a game may send a float."""
    nan = float("nan")
    entry = script["entry"](0, 0.5)
    changed = {
        "reward": entry | {"reward": nan},
        "parts": entry | {"parts": {"hit": nan}},
        "position": entry | {"leaves": entry["leaves"] | {"position": struct.pack("<2f", nan, 0)}},
        "distance": entry | {"privileged": {"distance": struct.pack("<f", nan)}},
    }
    message = messages["match_end"] | {"statistics": [{"hits": nan}, {}]}
    if where in changed:
        message = script["observation"](2, 1, 1, 3, changed[where])
    with pytest.raises(ProtocolError) as caught:
        make_session(script, []).receive(decode(msgpack.packb(message)))
    assert caught.value.code == "value"


def test_duplicates_are_harmless(script, messages):
    """A message that comes twice is processed once."""
    reports = []
    session = make_session(script, reports)
    for _ in range(3):
        session.receive(messages["match_end"])
    assert [update.kind for _, update in reports] == ["observation", "end"]


def test_a_session_resumes_with_what_was_not_acknowledged(script):
    """Older messages are not sent again."""
    session = make_session(script, [])
    assert [msgpack.unpackb(payload)["seq"] for payload in session.resume(1)] == [2]
    assert session.resume(2) == []


def test_matches_are_records_of_this_session(script):
    """The number of a match is new within a session."""
    session = make_session(script, [])
    match, _ = session.start_match(1, 2, Scenario())
    assert (match.number, attrs.has(RemoteMatch)) == (2, True)


# -- TLS and addresses -------------------------------------------------------------------------------------------------


def test_other_addresses_need_a_certificate(monkeypatch):
    """Before a port is opened."""
    monkeypatch.setenv("LUDUS_REMOTE_TOKENS", "a-token-of-a-game-1")
    with pytest.raises(ConfigError, match="certificate"):
        open_configured(RemoteConfig(host="0.0.0.0", port=7700), 1)


def test_a_gateway_with_a_certificate_speaks_tls(tmp_path, monkeypatch, script):
    """A client that checks the certificate gets its welcome; one without a handshake does not delay the end."""
    certificate = tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(tmp_path / "key.pem"), "-out", str(certificate)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    monkeypatch.setenv("LUDUS_REMOTE_TOKENS", script["TOKEN"])
    config = RemoteConfig(host="127.0.0.1", port=47_310, certificate=str(certificate), key=str(tmp_path / "key.pem"))
    gateway, _ = open_configured(config, 1)
    context = ssl.create_default_context(cafile=str(certificate))
    try:
        plain = socket.create_connection(("127.0.0.1", gateway.port))
        with context.wrap_socket(plain, server_hostname="localhost") as peer:
            payload = msgpack.packb(script["hello"]())
            peer.sendall(struct.pack(">I", len(payload)) + payload)
            assert b"welcome" in peer.recv(4096)
        silent = socket.create_connection(("127.0.0.1", gateway.port), timeout=5.0)  # its handshake goes on
    finally:
        gateway.close()
    with closing(silent):
        assert silent.recv(1) == b""
    assert not gateway._loop.is_running()
