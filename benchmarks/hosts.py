"""What another machine adds to a run, and what the way there costs: ``python benchmarks/hosts.py [RUN.TOML]``.

First the encrypted connection alone: how long a message of some size takes there, with the question for it.

Then runs. Every row is one on this machine with one sampler, to which nobody or a second machine joins with another
sampler. The second machine is this one too, behind a proxy that makes everything late and lets only so much through, in
each direction. Machines that play on cores of their own add more than this one can show; what it shows is what is lost
on the way. Prints decisions learned from per second, how many versions old they were, and what went over the network.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from attrs import define, field
from counts import at_least_one
from ludus._config.run_config import load_config
from ludus._plugins.manager import load_plugins
from ludus.errors import ConfigError
from ludus_hosts.keys import JoinKey, make_keys
from ludus_hosts.line import Line, Listener
from ludus_local.transport import Sockets

EXAMPLE = Path(__file__).parents[1] / "examples" / "connect4.toml"
WARMUP_S = 12.0
SIZES = (100, 100_000, 1_000_000, 20_000_000)
ROUNDS = 12
#: Milliseconds there and back, Mbit/s (0: no limit); None: nobody joins.
WAYS: tuple[tuple[float, float] | None, ...] = (None, (0, 0), (1, 1000), (20, 1000), (100, 1000), (20, 100))
_CHUNK = 64 * 1024


def answer(folder: str, port: int) -> None:
    """Answer every size with so many bytes, until there is none."""
    sockets = Sockets()
    listener = Listener(sockets, f"tcp://127.0.0.1:{port}", Path(folder) / "run.key")
    while size := int((asked := listener.socket.recv_multipart())[1]):
        listener.socket.send_multipart([asked[0], bytes(size)], copy=False)
    listener.close()
    sockets.close()


def connection() -> None:
    """Print how long messages take between two processes."""
    print("| bytes | there and back, ms | MB/s |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        make_keys(Path(folder), "join")
        port = free_port()
        other = multiprocessing.get_context("spawn").Process(target=answer, args=(folder, port))
        other.start()
        sockets = Sockets()
        line = Line(sockets, f"tcp://127.0.0.1:{port}", JoinKey.read(Path(folder) / "join.key"))
        for size in SIZES:
            took = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                while not line.send([str(size).encode()]):
                    time.sleep(0.01)
                line.socket.recv(copy=False)
                took.append(time.perf_counter() - began)
            median = statistics.median(took[2:])
            print(f"| {size:,} | {median * 1e3:.2f} | {size / median / 1e6:,.0f} |")
        line.send([b"0"])
        other.join()
        sockets.close()


def free_port() -> int:
    """Return a port at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@define
class Proxy:
    """A slow way to a port of this machine, in a thread.

    Args:
        target: The port.
        delay_s: In one direction.
        bytes_per_s: In one direction; 0: no limit.

    Attributes:
        port: Where it listens.
        there: Bytes from the run.
        back: Bytes to the run.
    """

    target: int
    delay_s: float
    bytes_per_s: float
    port: int = field(init=False, default=0)
    there: int = field(init=False, default=0)
    back: int = field(init=False, default=0)
    _free_s: dict[bool, float] = field(init=False, factory=lambda: {True: 0.0, False: 0.0})

    def start(self) -> None:
        """Listen."""
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True).start()
        ready.wait()

    async def _serve(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        ways = (self._carry(reader, upstream[1], back=True), self._carry(upstream[0], writer, back=False))
        await asyncio.gather(*ways, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: bool) -> None:
        """Pass on what comes, late, and not faster than all connections of a direction may together."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(1024)

        async def deliver() -> None:
            while True:
                due_s, data = await under_way.get()
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                writer.write(data)
                await writer.drain()
                if not data:
                    writer.close()
                    return

        delivering = asyncio.create_task(deliver())
        data = b"first"
        while data:
            data = await reader.read(_CHUNK)
            now = time.monotonic()
            if self.bytes_per_s:
                self._free_s[back] = max(self._free_s[back], now) + len(data) / self.bytes_per_s
                await asyncio.sleep(self._free_s[back] - now)
            if back:
                self.back += len(data)
            else:
                self.there += len(data)
            await under_way.put((time.monotonic() + self.delay_s, data))
        await delivering


def measure(source: Path, folder: Path, way: tuple[float, float] | None, seconds: float) -> dict[str, float]:
    """Return the figures of one run."""
    make_keys(folder / "keys", "join")
    port = free_port()
    ludus = [sys.executable, "-m", "ludus"]
    settings = {
        "run.minutes": (WARMUP_S + seconds) / 60,
        "run.workers": 1,
        "run.launcher": "hosts",
        "run.hosts.listen": f"tcp://127.0.0.1:{port}",
        "run.hosts.key": folder / "keys" / "run.key",
        "evaluation.enabled": "false",
        "evaluation.final_matches": 0,
    }
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    arguments = ["train", str(source), "--run", str(folder / "run"), "--json", *options]
    train = subprocess.Popen([*ludus, *arguments], stdout=subprocess.DEVNULL)
    delay_ms, megabits = way or (0.0, 0.0)
    proxy = Proxy(port, delay_ms / 2000, megabits * 1e6 / 8)
    proxy.start()
    address, key = f"tcp://127.0.0.1:{proxy.port}", folder / "keys" / "join.key"
    join = [*ludus, "join", address, "--key", str(key), "--samplers", "1"]
    joined = subprocess.Popen(join, stdout=subprocess.DEVNULL) if way else None
    time.sleep(WARMUP_S)
    before = proxy.there, proxy.back
    train.wait()
    if joined is not None:
        joined.wait()
    return figures(folder / "run" / "metrics.jsonl", (proxy.there - before[0], proxy.back - before[1]))


def figures(path: Path, carried: tuple[int, int]) -> dict[str, float]:
    """Return what a run's metrics say of the time after its warm-up."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    late = [line for line in lines if line["t"] > WARMUP_S]
    said = [value for line in late for name, value in line["m"].items() if name.endswith("/staleness_mean")]
    elapsed_s = late[-1]["t"] - late[0]["t"]
    decisions = late[-1]["d"] - late[0]["d"]
    return {
        "decisions_per_s": decisions / elapsed_s,
        "staleness": statistics.mean(said),
        "there_mb_per_s": carried[0] / elapsed_s / 1e6,
        "back_mb_per_s": carried[1] / elapsed_s / 1e6,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all ways in turn, several times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", nargs="?", type=Path, default=EXAMPLE)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--repeats", type=at_least_one, default=3)
    given = parser.parse_args(arguments)
    try:
        load_config(given.source, plugins=load_plugins())
    except ConfigError as error:
        parser.error(str(error))
    connection()
    print("| way | decisions/s | staleness | weights there, MB/s | blocks back, MB/s |\n|---|---|---|---|---|")
    runs: dict[int, list[dict[str, float]]] = {i: [] for i in range(len(WAYS))}
    for _ in range(given.repeats):
        for i, way in enumerate(WAYS):
            with tempfile.TemporaryDirectory() as folder:
                runs[i].append(measure(given.source, Path(folder), way, given.seconds))
    for i, way in enumerate(WAYS):
        name = "nobody joins" if way is None else f"{way[0]:g} ms, {f'{way[1]:g} Mbit/s' if way[1] else 'no limit'}"
        medians = {key: statistics.median(run[key] for run in runs[i]) for key in runs[i][0]}
        spread = sorted(run["decisions_per_s"] for run in runs[i])
        print(
            f"| {name} | {medians['decisions_per_s']:,.0f} ({spread[0]:,.0f} … {spread[-1]:,.0f}) "
            f"| {medians['staleness']:.1f} | {medians['there_mb_per_s']:.2f} | {medians['back_mb_per_s']:.2f} |"
        )


if __name__ == "__main__":
    main()
