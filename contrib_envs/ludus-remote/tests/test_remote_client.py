"""The Python client: its codec, and the clock of seats in real-time mode."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, settings, strategies as st

FOLDER = Path(__file__).parents[1]
CODEC = json.loads((FOLDER / "transcripts" / "codec.json").read_text(encoding="utf-8"))["values"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=4), inner, max_size=20),
    max_leaves=20,
)


@pytest.fixture(scope="session")
def client():
    """Return the module of the client."""
    spec = importlib.util.spec_from_file_location("ludus_client", FOLDER / "clients" / "python" / "ludus_client.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def restore(value):
    """Return a value of a transcript with its bytes."""
    if isinstance(value, dict):
        return bytes.fromhex(value["bytes"]) if value.keys() == {"bytes"} else {k: restore(v) for k, v in value.items()}
    return [restore(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("line", CODEC, ids=lambda line: line["hex"][:16])
def test_the_codec_follows_the_transcript(line, client):
    """Canonical bytes in both directions, others when they are read, and wrong ones not at all."""
    data = bytes.fromhex(line["hex"])
    if line.get("error"):
        with pytest.raises(ValueError):  # noqa: PT011 - any
            client.unpack(data)
        return
    assert client.unpack(data) == restore(line["value"])
    if line.get("canonical", True):
        assert client.pack(restore(line["value"])) == data


@settings(max_examples=100, deadline=None)
@given(value=VALUES)
def test_the_codec_agrees_with_msgpack(value, client):
    """Byte for byte."""
    assert client.pack(value) == msgpack.packb(value)
    assert client.unpack(msgpack.packb(value)) == value


@pytest.mark.parametrize("path", sorted((FOLDER / "transcripts").glob("*.json")), ids=lambda path: path.stem)
def test_the_codec_reads_all_transcripts(path, client):
    """Messages of both sides."""
    for line in json.loads(path.read_text(encoding="utf-8")).get("messages", ()):
        if "from" in line:
            assert client.unpack(bytes.fromhex(line["hex"])) == restore(line["message"])
            assert client.pack(restore(line["message"])).hex() == line["hex"]


def make_clock(client, *, delay=2, max_age=4, missing="repeat"):
    """Return the clock of a seat."""
    return client.SeatClock({"period": 3, "delay": delay, "max_age": max_age, "missing": missing}, [0])


def test_an_action_takes_effect_after_the_delay(client):
    """It may arrive before."""
    clock = make_clock(client)
    assert [tick for tick in range(8) if clock.is_due(tick)] == [0, 3, 6]
    clock.ask(0)
    clock.receive(0, {"action": [1]})
    assert [clock.action(tick) for tick in range(4)] == [[0], [0], [1], [1]]


@pytest.mark.parametrize(("missing", "expected"), [("repeat", [1, 1, 1, 2]), ("no-op", [1, 0, 0, 2])])
def test_an_action_that_arrives_before_its_deadline_takes_effect_at_once(missing, expected, client):
    """Until then the last one is repeated, or nothing is done."""
    clock = make_clock(client, missing=missing)
    clock.ask(0)
    clock.receive(0, {"action": [1]})
    [clock.action(tick) for tick in range(3)]
    clock.ask(3)
    found = [clock.action(tick)[0] for tick in (4, 5, 6)]
    clock.receive(3, {"action": [2]})
    assert [*found, clock.action(7)[0]] == expected
    assert clock.ask(8) == []


def test_an_action_after_its_deadline_is_dropped(client):
    """The next observation reports it."""
    clock = make_clock(client)
    clock.ask(0)
    assert [clock.action(tick) for tick in range(6)] == [[0]] * 6
    clock.receive(0, {"action": [1]})
    assert clock.action(6) == [0]
    assert clock.ask(6) == [0]
    assert clock.ask(9) == []


def test_a_newer_action_replaces_an_older_one(client):
    """An older one that arrives afterwards is dropped, though it is not too old."""
    clock = make_clock(client, delay=0, max_age=9)
    clock.ask(0)
    clock.ask(3)
    clock.receive(3, {"action": [2]})
    assert clock.action(4) == [2]
    clock.receive(0, {"action": [1]})
    assert clock.action(5) == [2]
    assert clock.ask(6) == [0]
