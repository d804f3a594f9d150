"""Measure the action latency of ``ludus serve`` with seats in real time, on this machine by loopback.

Run ``python benchmarks/action_server.py [--seats 200] [--hz 10] [--minutes 10] [-- OPTIONS]``; the last are options of
``ludus serve``. It trains a network of two layers with 256 units for a moment, serves it from a process of its own, and
lets this process play games of two seats, each over a connection of its own. The latency is the time from the
observation to the action as a game measures it, so it includes the delays of this process. Every match that a game has
ended must be in the server's file of results, once and with the same outcome.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ludus
import msgpack
import numpy as np
from attrs import define, field

WIDTH, LABELS = 64, (9, 2)
SCHEMA: dict[str, Any] = {
    "roles": [
        {
            "name": "player",
            "teams": [0, 1],
            "leaves": {"features": {"dtype": "float32", "shape": [WIDTH], "low": -4.0, "high": 4.0}},
            "labels": list(LABELS),
        }
    ],
    "turn": "simultaneous",
    "tick_s": 0.1,
}
MATCH_TICKS = 300
TRAINING_TICKS = 16


@define
class Game:
    """A game of two seats on one connection, which plays matches of random observations.

    Args:
        port: Port of the gateway.
        token: Token.
        hz: Ticks per second in real time.
        rng: Source of observations, outcomes and of the moment of the first tick.

    Attributes:
        latencies: Seconds from every observation to its actions.
        outcomes: Outcome of the matches that have ended, by seed.
        missed: Observations without an action.
        void: Void matches.
    """

    port: int
    token: str
    hz: float
    rng: np.random.Generator
    latencies: list[float] = field(init=False, factory=list)
    outcomes: dict[int, list[float]] = field(init=False, factory=dict)
    missed: int = field(init=False, default=0)
    void: int = field(init=False, default=0)
    _reader: asyncio.StreamReader = field(init=False)
    _writer: asyncio.StreamWriter = field(init=False)
    _is_real_time: bool = field(init=False)
    _seq: int = field(init=False, default=0)
    _ack: int = field(init=False, default=0)
    _asked: dict[tuple[int, int], float] = field(init=False, factory=dict)

    async def join(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._write({"type": "hello", "protocol": [1, 1], "game": "bench", "token": self.token, "schema": SCHEMA})
        self._is_real_time = bool((await self._read())["timing"])

    async def play(self, until_s: float) -> None:
        """Play matches one after the other; that which runs at `until_s`, by the monotonic clock, is played to its end.

        Args:
            until_s: When no further match starts; 0: play until the gateway closes the connection.
        """
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while not until_s or time.monotonic() < until_s:
                start = await self._read()
                if start["type"] == "match_start":
                    await (self._play_real_time if self._is_real_time else self._play_lock_step)(start)
        self._write({"type": "bye", "reason": "the time is over"})
        self._writer.close()

    async def _play_lock_step(self, start: dict[str, Any]) -> None:
        for tick in range(TRAINING_TICKS):
            self._observe(start, tick)
            await self._read()
        self._end(start, TRAINING_TICKS)

    async def _play_real_time(self, start: dict[str, Any]) -> None:
        receiver = asyncio.create_task(self._receive())
        began_s = time.monotonic() + self.rng.random() / self.hz
        for tick in range(MATCH_TICKS):
            await asyncio.sleep(max(0.0, began_s + tick / self.hz - time.monotonic()))
            self._observe(start, tick)
        await asyncio.sleep(2 / self.hz)
        receiver.cancel()
        with suppress(asyncio.CancelledError):
            await receiver
        self.missed += len(self._asked)
        self._asked.clear()
        self._end(start, MATCH_TICKS)

    async def _receive(self) -> None:
        while True:
            message = await self._read()
            asked_s = self._asked.pop((message.get("match", 0), message.get("tick", -1)), None)
            if asked_s is not None:
                self.latencies.append(time.monotonic() - asked_s)
            self.void += message["type"] == "match_void"

    def _observe(self, start: dict[str, Any], tick: int) -> None:
        features = self.rng.normal(size=(2, WIDTH)).astype("<f4")
        seats = [{"seat": seat, "acts": True, "leaves": {"features": features[seat].tobytes()}} for seat in range(2)]
        self._asked[start["match"], tick] = time.monotonic()
        self._send("observation", start, {"tick": tick, "seats": seats})

    def _end(self, start: dict[str, Any], tick: int) -> None:
        points = float(self.rng.integers(3)) / 2
        self.outcomes[start["seed"]] = [points, 1 - points]
        self._send("match_end", start, {"tick": tick, "ending": "terminated", "outcome": [points, 1 - points]})

    def _send(self, kind: str, start: dict[str, Any], message: dict[str, Any]) -> None:
        self._seq += 1
        self._write({"type": kind, "match": start["match"], "seq": self._seq, "ack": self._ack} | message)

    def _write(self, message: dict[str, Any]) -> None:
        payload = msgpack.packb(message)
        self._writer.write(struct.pack(">I", len(payload)) + payload)

    async def _read(self) -> dict[str, Any]:
        """Return the next message that belongs to a match; answer pings."""
        while True:
            (size,) = struct.unpack(">I", await self._reader.readexactly(4))
            message: dict[str, Any] = msgpack.unpackb(await self._reader.readexactly(size))
            if message["type"] in ("error", "bye"):
                raise ConnectionError(message)
            if message["type"] == "ping":
                self._write({"type": "pong", "ack": self._ack, "time": message["time"], "clock": time.monotonic()})
                continue
            self._ack = max(self._ack, message.get("seq", 0))
            return message


def train(folder: Path) -> None:
    """Train a league on the game for one update."""
    command = (sys.executable, __file__, "--game", "{port}", "{token}")
    os.environ["LUDUS_REMOTE_COMMANDS"] = shlex.join(command)
    learner = {"batch_decisions": 64, "num_minibatches": 1, "epochs": 1, "segment_decisions": 16}
    player = {"algorithm": "ppo", "network": "mlp", "matchmaker": "latest-self-play", "ppo": learner}
    config = {
        "run": {"decisions": 64, "workers": 0},
        "environment": {"name": "remote", "remote": {"command": list(command)}},
        "sampling": {"matches": 1},
        "evaluation": {"final_matches": 0, "matches": 1},
        "players": {"main_agent": player | {"mlp": {"hidden": [256, 256]}}},
    }
    with ludus.train(config, run_dir=folder) as run:
        assert run.models


@contextmanager
def serve(folder: Path, tokens: Sequence[str], hz: float, options: Sequence[str]) -> Iterator[int]:
    """Serve the newest model in a process while the block runs; the value is the port."""
    (folder / "tokens.txt").write_text("\n".join(tokens))
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    times = ["--mode", "real-time", "--period", "1", "--max-age", str(max(1, round(hz)))]
    files = ["--tokens", str(folder / "tokens.txt"), "--schema", str(folder / "schema.json")]
    command = [sys.executable, "-m", "ludus", "serve", str(folder), "--results", str(folder / "results.jsonl")]
    command += [*times, *files, "--port", "0", "--status", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            print(line.strip(), file=sys.stderr)
            yield int(line.partition("127.0.0.1:")[2].partition(",")[0])
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            print(f"CPU time of the server: {cpu_s():.0f} s")
        finally:
            process.kill()


def cpu_s() -> float:
    """Return the CPU seconds of the children that have ended."""
    times = os.times()
    return times.children_user + times.children_system


async def play(games: Sequence[Game], seconds: float) -> None:
    """Play all games at the same time."""
    for game in games:  # one after the other: a gateway accepts few connections before their hello
        await game.join()
    until_s = time.monotonic() + seconds
    await asyncio.gather(*(game.play(until_s) for game in games))
    await asyncio.sleep(0.5)  # the last ends are on their way


async def play_forever(game: Game) -> None:
    """Play a game until its gateway closes."""
    await game.join()
    await game.play(0.0)


def report(games: Sequence[Game], results: Path) -> None:
    """Print the latencies, and how many results are missing or wrong."""
    latencies = 1000 * np.concatenate([game.latencies for game in games])
    quantiles = np.quantile(latencies, [0.5, 0.9, 0.99, 0.999, 1.0])
    names = ("median", "90 %", "99 %", "99.9 %", "largest")
    ended = {seed: outcome for game in games for seed, outcome in game.outcomes.items()}
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    counted = {line["seed"]: line["outcome"] for line in lines}
    print(f"{2 * len(latencies):,} actions; latency in ms: ", end="")
    print(", ".join(f"{name} {value:.1f}" for name, value in zip(names, quantiles, strict=True)))
    print(f"observations without an action: {sum(game.missed for game in games)}")
    print(
        f"{len(ended)} matches ended, {sum(game.void for game in games)} void; lost results "
        f"{len(ended.keys() - counted.keys())}, wrong {sum(counted[seed] != ended.get(seed) for seed in counted)}, "
        f"counted twice {len(lines) - len(counted)}"
    )


def main() -> None:
    """Measure, or play a game for the training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seats", type=int, default=200, help="seats that play at the same time")
    parser.add_argument("--hz", type=float, default=10.0, help="decisions of a seat per second")
    parser.add_argument("--minutes", type=float, default=10.0, help="time after which no match starts")
    parser.add_argument("--game", nargs=2, metavar=("PORT", "TOKEN"), help="play for a run, in lock-step")
    parser.add_argument("options", nargs="*", help="behind --: options of ludus serve")
    arguments = parser.parse_args()
    if arguments.game:
        game = Game(int(arguments.game[0]), arguments.game[1], 0.0, np.random.default_rng(0))
        asyncio.run(play_forever(game))
        return
    tokens = [f"token-of-the-game-{number:04}" for number in range(arguments.seats // 2)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        train(folder)
        with serve(folder, tokens, arguments.hz, arguments.options) as port:
            games = [Game(port, token, arguments.hz, np.random.default_rng(i)) for i, token in enumerate(tokens)]
            asyncio.run(play(games, 60 * arguments.minutes))
        report(games, folder / "results.jsonl")


if __name__ == "__main__":
    main()
