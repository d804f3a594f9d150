"""A coordinator under as many samplers as AET had: ``python benchmarks/league_samplers.py [--samplers 12500] [--zmq]``.

The coordinator, its store and its matchmaker (80 % latest, 20 % PFSP over a pool of 500) are real; the samplers are
not: each asks for a fixture, reports all of its matches at once and asks again, without ever thinking. Some answers are
lost and some messages come twice, as on a bad network. At the end every sampler repeats its report until it is
acknowledged; then the log must hold every match exactly once. With ``--zmq`` every sampler has a socket of its own, in
a few processes, and plays for `--think` seconds before it reports.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import zmq
from attrs import define, field
from counts import at_least_one
from ludus._config.run_config import parse_config
from ludus._league.coordinator import Coordinator
from ludus._messaging.messages import FixtureRequest, Fixtures, Results, ResultsAck
from ludus._plugins.manager import load_plugins
from ludus._run import coordinator_factory
from ludus._run.context import RunContext
from ludus._store.store import Store
from ludus_local.codec import decode, encode
from ludus_local.transport import MAX_BATCH, ZmqEndpoint

MATCHES = 8
LOST = 0.01  # of the answers
TWICE = 0.01  # of the messages
CLIENTS = 4  # processes that hold the sockets


def config(seed: int) -> dict[str, Any]:
    """Return the tables of the run."""
    player = {"algorithm": "ppo", "network": "mlp", "matchmaker": "mixture"}
    return {
        "run": {"seed": seed},
        "environment": {"name": "tictactoe"},
        "sampling": {"fixture_matches": MATCHES},
        "players": {"main": player},
        "evaluation": {"enabled": False},
    }


@define
class Sampler:
    """What a sampler says, one message after the other.

    Attributes:
        fixture: Id of the fixture that it plays; 0: none.
        report: Number of its last report.
        reported: Matches that the coordinator has acknowledged.
        sent_s: When its question was sent first.
    """

    name: str
    fixture: int = 0
    report: int = 0
    reported: int = 0
    sent_s: float = 0.0

    def question(self) -> FixtureRequest | Results:
        """Return what it says now; the same again until it is answered."""
        if not self.fixture:
            return FixtureRequest(kind="train")
        won = np.random.default_rng(self.fixture).integers(0, 3, MATCHES).astype(np.float32) / 2
        arrays = {
            "fixture": np.full(MATCHES, self.fixture),
            "number": np.arange(MATCHES),
            "ticks": np.full(MATCHES, 9, np.int32),
            "outcome": np.stack([won, 1 - won], axis=1),
        }
        return Results(report=self.report, arrays=arrays)

    def hear(self, answer: Any) -> bool:
        """Take an answer; return whether it is one to the question."""
        if isinstance(answer, Fixtures) and not self.fixture and answer.fixtures:
            self.fixture, self.report = answer.fixtures[0].id, self.report + 1
            return True
        if isinstance(answer, ResultsAck) and self.fixture and answer.report == self.report:
            self.fixture, self.reported = 0, self.reported + MATCHES
            return True
        return False


@define
class Wire:
    """A link that only keeps what is sent, as bytes."""

    sent: list[tuple[str, list[Any]]] = field(factory=list)

    def send(self, peer: str, message: Any) -> bool:
        """Keep a message."""
        self.sent.append((peer, encode(message)))
        return True


def make_coordinator(store: Store, folder: Path, link: Any) -> Coordinator:
    """Return a coordinator with a pool of 500 models."""
    plugins = load_plugins()
    context = RunContext(
        config=parse_config(config(0), source="bench", plugins=plugins), plugins=plugins, run_dir=folder, session=0
    )
    coordinator = coordinator_factory.make_coordinator(context, store, link=link, clock=time.monotonic)
    league = coordinator.league
    for i in range(1, 501):
        model = league.freeze("main", hash=f"{i:064x}", decisions=i, version=i, manifest={})
        league.apply(coordinator.matchmakers["main"].on_model_frozen(league, "main", model))
    store.commit()
    return coordinator


def in_process(count: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Hand messages over as bytes, in batches as large as the coordinator takes from its socket."""
    chance, link = random.Random(0), Wire()
    with Store.create(folder / "run", {"seed": 0}) as store:
        coordinator = make_coordinator(store, folder / "run", link)
        before = _memory_mb()
        samplers = {name: Sampler(name) for name in (f"sampler-{i}" for i in range(count))}
        waiting = deque((name, encode(one.question())) for name, one in samplers.items())
        service: list[float] = []
        asked, busy, start, wall = 0, 0.0, time.perf_counter(), 0.0
        while waiting:
            batch = [waiting.popleft() for _ in range(min(len(waiting), MAX_BATCH))]
            began = time.perf_counter()
            for name, frames in batch:
                coordinator.handle(name, decode(_received(frames)))
            coordinator.pump()
            took = time.perf_counter() - began
            if not wall:
                asked, busy = asked + len(batch), busy + took
                service += [took] * len(batch)
                elapsed = time.perf_counter() - start
                wall = elapsed if elapsed >= seconds else 0.0
            answers, link.sent = link.sent, []
            for name, frames in answers:
                sampler = samplers[name]
                if chance.random() >= LOST and not sampler.hear(decode(_received(frames))):
                    continue
                if wall and not sampler.fixture:
                    continue  # it is over, and everything is acknowledged
                for _ in range(1 + (chance.random() < TWICE)):
                    waiting.append((name, encode(sampler.question())))
        found = _figures(coordinator, sum(one.reported for one in samplers.values()))
    return found | {
        "samplers": count,
        "requests": asked,
        "requests_per_s": asked / wall,
        "requests_per_busy_s": asked / busy,
        "p50_ms": 1e3 * float(np.percentile(service, 50)),
        "p99_ms": 1e3 * float(np.percentile(service, 99)),
        "memory_mb": _memory_mb(),
        "memory_before_mb": before,
    }


def _received(frames: list[Any]) -> list[Any]:
    return [memoryview(frame).cast("B") for frame in frames]


def _figures(coordinator: Coordinator, acknowledged: int) -> dict[str, Any]:
    """Compare what samplers were told with the log, and the sums with the log."""
    store = coordinator.league.store
    stored, counted = store.payoffs(), store.recompute_payoffs()
    same = stored.keys() == counted.keys() and all((stored[key] == counted[key]).all() for key in stored)
    counters = store.counters()
    return {
        "matches_acknowledged": acknowledged,
        "matches_in_log": store.num_matches(),
        "duplicate_rows_dropped": int(counters.get("results_duplicate", 0)),
        "refused_rows": int(counters.get("results_refused", 0)),
        "payoffs_equal_the_log": same,
        "failure": coordinator.failure,
    }


def over_sockets(count: int, seconds: float, folder: Path, *, think: float) -> dict[str, Any]:
    """Serve real sockets: one per sampler, held by a few processes."""
    with Store.create(folder / "run", {"seed": 0}) as store, tempfile.TemporaryDirectory() as sockets:
        endpoint, address = ZmqEndpoint("coordinator"), f"ipc://{sockets}/coordinator"
        endpoint.bind(address)
        coordinator = make_coordinator(store, folder / "run", endpoint)
        before = _memory_mb()
        shares = [range(i, count, CLIENTS) for i in range(CLIENTS)]
        argv = [sys.executable, __file__, "--client", address, "--seconds", str(seconds), "--think", str(think)]
        files = [folder / f"client-{share.start}.json" for share in shares]
        children = [
            subprocess.Popen([*argv, "--range", str(share.start), str(count), "--json", str(file)])
            for share, file in zip(shares, files, strict=True)
        ]
        handled, cpu = 0, time.process_time()
        while any(child.poll() is None for child in children):
            batch = endpoint.receive(0.05)
            for peer, message in batch:
                coordinator.handle(peer, message)
            coordinator.pump()
            handled += len(batch)
        cpu = time.process_time() - cpu
        found = [json.loads(file.read_text()) for file in files]
        drops = dict(endpoint.drops)
        endpoint.close()
        figures = _figures(coordinator, sum(one["reported"] for one in found))
    latencies = np.concatenate([one["latencies_s"] for one in found])
    return figures | {
        "samplers": count,
        "connected": sum(one["answered"] for one in found),
        "requests": handled,
        "requests_per_s": 2 * len(latencies) / seconds,
        "requests_per_coordinator_cpu_s": handled / cpu,
        "p50_ms": 1e3 * float(np.percentile(latencies, 50)),
        "p99_ms": 1e3 * float(np.percentile(latencies, 99)),
        "drops": drops,
        "memory_mb": _memory_mb(),
        "memory_before_mb": before,
    }


@define
class Client:
    """A process of many samplers: they ask, play, and report; what is not answered within 5 s is said again.

    Attributes:
        think: Seconds between a fixture and its report, on average.
        due: When which socket's sampler has played its fixture.
        samplers: By socket.
        latencies_s: From a question to its answer, in the middle of the run.
    """

    seconds: float
    think: float
    chance: random.Random
    due: list[tuple[float, int, Any]] = field(factory=list)
    start: float = field(factory=time.monotonic)
    poller: zmq.Poller = field(factory=zmq.Poller)
    samplers: dict[Any, Sampler] = field(factory=dict)
    latencies_s: list[float] = field(factory=list)

    def connect(self, address: str, names: list[str]) -> None:
        """Give every sampler a socket and let it ask."""
        context = zmq.Context()
        context.set(zmq.MAX_SOCKETS, 20_000)
        for name in names:
            socket = context.socket(zmq.DEALER)
            socket.setsockopt(zmq.IDENTITY, name.encode())
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(address)
            self.poller.register(socket, zmq.POLLIN)
            self.samplers[socket] = Sampler(name)
            self.later(socket)

    @property
    def elapsed_s(self) -> float:
        """Return how long it has run."""
        return time.monotonic() - self.start

    def later(self, socket: Any) -> None:
        """Let the sampler ask when it has played."""
        played_s = time.monotonic() + self.think * self.chance.uniform(0.5, 1.5)
        heapq.heappush(self.due, (played_s, id(socket), socket))
        self.samplers[socket].sent_s = np.inf

    def ask(self, socket: Any, *, again: bool = False) -> None:
        """Say what the sampler has to say; a report is repeated even after the end."""
        sampler = self.samplers[socket]
        if self.elapsed_s > self.seconds and not sampler.fixture:
            return
        if not again:
            sampler.sent_s = time.monotonic()
        for _ in range(1 + (self.chance.random() < TWICE)):
            socket.send_multipart(encode(sampler.question()), zmq.NOBLOCK)

    def listen(self) -> None:
        """Take what has arrived."""
        for socket, _ in self.poller.poll(20):
            sampler, answer = self.samplers[socket], decode(_received(socket.recv_multipart()))
            if self.chance.random() >= LOST and sampler.hear(answer):
                if self.seconds / 2 < self.elapsed_s < self.seconds:  # all are connected, and the first rush is over
                    self.latencies_s.append(time.monotonic() - sampler.sent_s)
                if sampler.fixture:
                    self.later(socket)
                else:
                    self.ask(socket)

    def run(self) -> None:
        """Ask until the time is over, then repeat reports until all are acknowledged."""
        repeat = 5.0
        while self.elapsed_s < self.seconds or any(one.fixture for one in self.samplers.values()):
            while self.due and self.due[0][0] <= time.monotonic():
                self.ask(heapq.heappop(self.due)[2])
            self.listen()
            if self.elapsed_s > repeat:
                repeat = self.elapsed_s + 5
                for socket, sampler in self.samplers.items():
                    if time.monotonic() - sampler.sent_s > 5:
                        self.ask(socket, again=True)


def be_client(options: argparse.Namespace) -> None:
    """Run a client and write down what it has seen."""
    first, count = options.range
    client = Client(options.seconds, options.think, random.Random(first))
    client.connect(options.client, [f"sampler-{i}" for i in range(first, count, CLIENTS)])
    client.run()
    samplers = client.samplers.values()
    reported, answered = sum(one.reported for one in samplers), sum(one.report > 0 for one in samplers)
    figures = {"reported": reported, "answered": answered, "latencies_s": client.latencies_s}
    options.json.write_text(json.dumps(figures))
    os._exit(0)  # thousands of sockets take long to close


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run one of the two and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samplers", type=at_least_one, default=12_500)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--zmq", action="store_true", help="over sockets, one per sampler")
    parser.add_argument("--think", type=float, default=20.0, help="seconds of a fixture, with --zmq")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--range", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        be_client(options)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        size = options.samplers, options.seconds, Path(folder)
        found = over_sockets(*size, think=options.think) if options.zmq else in_process(*size)
    for name, value in found.items():
        print(f"{name:32} {value:,.2f}" if isinstance(value, float) else f"{name:32} {value}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
