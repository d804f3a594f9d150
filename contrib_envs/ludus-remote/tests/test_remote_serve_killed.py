"""A server process that is killed or terminated in the middle of matches loses no result and counts none twice."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

GAME = runpy.run_path(str(Path(__file__).with_name("rounds_game.py")))
Rounds = GAME["Rounds"]
TOKEN = "token-of-the-first-game"


class Player:
    """A game of four matches at once that keeps what it has ended, by the seeds of its matches."""

    def __init__(self, port):
        options = {"token": TOKEN, "game": "rounds", "schema": GAME["SCHEMA"], "matches": 4, "ports": 1}
        self.client = GAME["Client"]("127.0.0.1", port, **options)
        self.seeds, self.games, self.ended, self.void = {}, {}, {}, set()

    def play(self, matches):
        """Play until so many more matches have ended."""
        wanted = len(self.ended) + matches
        while len(self.ended) < wanted:
            for message in self.client.poll(30.0):
                self.answer(message)

    def answer(self, message):
        """Send the next observation of a match, or its end."""
        number = message["match"]
        if message["type"] == "match_void":
            self.void.add(self.seeds[number])
            return
        if message["type"] == "match_start":
            self.games[number], self.seeds[number] = Rounds(message), message["seed"]
        else:
            chosen = {entry["seat"]: entry["action"][0] for entry in message["actions"]}
            self.games[number].play(chosen[0], chosen[1])
        game = self.games[number]
        if game.round == GAME["ROUNDS"]:
            self.ended[self.seeds[number]] = game.outcome
            game.end(self.client, 10)
        else:
            self.client.send("observation", number, tick=2 * game.round, seats=[game.entry(seat) for seat in range(2)])

    def acknowledged(self):
        """Return the seeds of the matches whose end the server has acknowledged."""
        waiting = {GAME["CLIENT"]["unpack"](payload)["match"] for _, payload in self.client._outbox}
        return set(self.ended) - {self.seeds[number] for number in waiting}


@contextmanager
def serve(run_dir, port, results):
    """Run a server process in the block."""
    schema = run_dir.with_name("schema.json")
    schema.write_text(json.dumps(GAME["SCHEMA"]))
    options = ["--port", str(port), "--status", "127.0.0.1:0", "--results", str(results), "--schema", str(schema)]
    command = [sys.executable, "-m", "ludus", "serve", str(run_dir), "random", *options]
    environment = os.environ | {"LUDUS_REMOTE_TOKENS": TOKEN}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout.readline().startswith(f"serving random at 127.0.0.1:{port}, lock-step")
            yield process
        finally:
            process.kill()


@pytest.fixture
def port():
    """Return a port that this worker of the tests has for itself."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return 48_700 + 40 * worker


def test_killed_and_terminated(run_dir, port, tmp_path):
    """After SIGKILL the running matches are void; after SIGTERM they end."""
    results = tmp_path / "results.jsonl"
    with serve(run_dir, port, results) as process:
        player = Player(port)
        player.play(6)
        acknowledged, running = player.acknowledged(), set(player.seeds.values()) - set(player.ended)
        process.kill()
    with serve(run_dir, port, results) as process, closing(player.client):
        player.play(6)
        process.send_signal(signal.SIGTERM)
        with pytest.raises(GAME["CLIENT"]["ClientError"], match="drains"):
            player.play(100)
        assert process.wait(30) == 0
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    counted = {line["seed"]: line["outcome"] for line in lines}
    assert len(counted) == len(lines)
    assert counted.items() <= player.ended.items()
    assert acknowledged <= counted.keys()
    assert player.void >= running
    assert not player.void & counted.keys()
    assert len(player.ended.keys() - counted.keys()) <= 4
