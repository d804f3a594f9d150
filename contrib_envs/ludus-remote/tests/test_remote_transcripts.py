"""The transcripts are what the documentation promises to authors of client libraries."""

import json
import time
from pathlib import Path

import msgpack
import numpy as np
import pytest
from ludus.scenario import Scenario
from ludus_remote.schema import GameSchema
from ludus_remote.session import Timing

TRANSCRIPTS = sorted((Path(__file__).parents[1] / "transcripts").glob("*.json"))
SESSIONS = [path for path in TRANSCRIPTS if path.stem != "codec"]
names = pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)


def restore(value):
    """Return a value of a transcript with its bytes."""
    if isinstance(value, dict):
        return bytes.fromhex(value["bytes"]) if value.keys() == {"bytes"} else {k: restore(v) for k, v in value.items()}
    return [restore(item) for item in value] if isinstance(value, list) else value


def test_the_files_are_those_of_the_script(script, tmp_path):
    """A change of the script is written to the files."""
    script["main"](tmp_path)
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_text(encoding="utf-8") for path in TRANSCRIPTS}


@names
def test_the_bytes_are_canonical(path):
    """The bytes of every message decode to it, and it encodes to them."""
    lines = [line for line in json.loads(path.read_text(encoding="utf-8"))["messages"] if "from" in line]
    for line in lines:
        message, payload = restore(line["message"]), bytes.fromhex(line["hex"])
        assert msgpack.unpackb(payload) == message
        assert msgpack.packb(message) == payload
    assert lines[0]["message"]["type"] == "hello"


@names
def test_sequence_numbers_follow_each_other(path):
    """Each side counts its numbered messages; only those sent again after a lost connection have older numbers."""
    numbers, connection = {"game": 0, "gateway": 0}, 1
    for line in json.loads(path.read_text(encoding="utf-8"))["messages"]:
        if "connection" in line:
            connection = line["connection"]
            numbers = numbers if path.stem == "resume" else dict.fromkeys(numbers, 0)
            continue
        message, sender = line["message"], line["from"]
        number = message.get("seq", 0)
        is_repeated = connection == 2 and path.stem == "resume" and 0 < number <= numbers[sender]
        is_gap = path.stem == "refused" and number == 2 and sender == "game"
        if number and not is_repeated and not is_gap:
            numbers[sender] += 1
            assert number == numbers[sender], message


class Replay:
    """Replays a transcript: sends what the game sends, and makes the gateway do what the transcript shows."""

    def __init__(self, gateway, make_peer):
        self.gateway, self.make_peer, self.peer = gateway, make_peer, make_peer()

    def run(self, lines):
        """Replay all lines."""
        for line in lines:
            if "connection" in line:
                self.peer.close()
                self.peer = self.make_peer()
            elif line["from"] == "game":
                self.peer.send(bytes.fromhex(line["hex"]))
            elif line["message"]["type"] not in ("ping", "bye"):
                self.expect(restore(line["message"]))

    def expect(self, message):
        """Let the gateway send a message, unless it does so by itself, and compare it."""
        if message["type"] in ("match_start", "action", "match_void"):
            game = self.wait_for(message["ack"])
            with self.gateway.changed:
                if message["seq"] > game.session._sent:
                    payloads = self.produce(game.session, message)
                    self.gateway.send([(game, payload) for payload in payloads])
        found = self.peer.receive()
        if message["type"] == "error":
            found["text"] = message["text"] = ""
        assert found == message

    def wait_for(self, ack):
        """Wait until the gateway has processed a message of the game; return the game."""
        until = time.monotonic() + 5.0
        while time.monotonic() < until:
            with self.gateway.changed:
                games = [game for game in self.gateway.games.values() if game.session.received >= ack]
                if games:
                    return games[0]
            time.sleep(0.002)
        raise TimeoutError(ack)

    def produce(self, session, message):
        """Return the payloads for a message of the gateway."""
        if message["type"] == "match_start":
            parts = {name: message[name] for name in ("parameters", "builtin")}
            scenario = Scenario(name=message["scenario"], **parts | {"builtin": tuple(parts["builtin"])})
            return [session.start_match(0, message["seed"], scenario, policies=message["policies"])[1]]
        match = session.matches[message["match"]]
        if message["type"] == "match_void":
            return [session.void_match(match, message["reason"])]
        actions = {entry["seat"]: np.array(entry["action"]) for entry in message["actions"]}
        return [session.answer(match, message["tick"], actions)]


@pytest.mark.parametrize("transport", ["tcp", "websocket"])
@names
def test_the_gateway_replays_the_transcripts(path, transport, open_gateway, open_peer, script):
    """It sends the messages of the transcript, over both transports."""
    timing = (Timing(period=3, delay=2, max_age=4, missing="repeat"),) * 2 if path.stem == "real-time" else ()
    gateway = open_gateway(
        schema=GameSchema(script["SCHEMA"]), make_key=lambda: script["RESUME"], make_timing=lambda _: timing
    )
    replay = Replay(gateway, lambda: open_peer(gateway.port, transport))
    lines = json.loads(path.read_text(encoding="utf-8"))["messages"]
    replay.run(lines[1:] if "connection" in lines[0] else lines)
