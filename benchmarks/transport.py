"""Messages and bytes per second between two processes over ipc, and round trips, beside the same loop on bare pyzmq.

The sender keeps `WINDOW` messages of one float32 array under way; the receiver acknowledges each. Both sides of the
comparison use ROUTER/DEALER, the same frames and no copies. Run ``python benchmarks/transport.py``.
"""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
import zmq
from ludus import _messages, _wire
from ludus._transport import ZmqEndpoint, ipc_address, private_ipc_dir

WINDOW = 8
ROUNDS = 7
SIZES = {"64 KB": (64 * 1024, 2000), "1 MB": (1024**2, 400), "8 MB": (8 * 1024**2, 60)}
ROUND_TRIPS = 3000


class Sender(Protocol):
    """One side of the comparison: send an array, wait for acknowledgements."""

    def send(self, array: np.ndarray) -> None:
        """Send one message."""

    def wait(self) -> int:
        """Wait for at least one acknowledgement and return how many came."""


class LudusSender:
    """An endpoint with whole messages."""

    def __init__(self, address: str) -> None:
        self.endpoint = ZmqEndpoint("sampler-0")
        self.endpoint.connect("learner", address)
        self.block = 0

    def send(self, array: np.ndarray) -> None:
        """Send one message."""
        self.block += 1
        message = _messages.Segments(worker="sampler-0", player="main", block=self.block, arrays={"obs": array})
        assert self.endpoint.send("learner", message)

    def wait(self) -> int:
        """Wait for at least one acknowledgement and return how many came."""
        while not (acks := self.endpoint.receive(10.0)):
            pass
        return len(acks)


class BareSender:
    """A DEALER that sends a constant header and the array's memory."""

    def __init__(self, address: str) -> None:
        self.socket = zmq.Context().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.IDENTITY, b"sampler-0")
        self.socket.connect(address)

    def send(self, array: np.ndarray) -> None:
        """Send one message."""
        self.socket.send_multipart([b"x" * 80, array.data], copy=False)

    def wait(self) -> int:
        """Wait for one acknowledgement."""
        self.socket.recv_multipart()
        return 1


def serve_ludus(address: str) -> None:
    """Acknowledge every message that arrives at an endpoint."""
    endpoint = ZmqEndpoint("learner")
    endpoint.bind(address)
    while True:
        for peer, message in endpoint.receive(10.0):
            assert isinstance(message, _messages.Segments)
            endpoint.send(peer, _messages.ResultsAck(report=message.block))


def serve_bare(address: str) -> None:
    """Acknowledge every message that arrives at a ROUTER."""
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.bind(address)
    while True:
        peer, _, _ = socket.recv_multipart(copy=False)
        socket.send_multipart([peer.bytes, b"x" * 30])


def stream(sender: Sender, array: np.ndarray, count: int) -> float:
    """Return messages per second with a window of messages under way."""
    start = time.perf_counter()
    sent = acked = 0
    while acked < count:
        while sent < count and sent - acked < WINDOW:
            sender.send(array)
            sent += 1
        acked += sender.wait()
    return count / (time.perf_counter() - start)


def round_trip(sender: Sender) -> float:
    """Return the median microseconds from a small message to its acknowledgement."""
    array, times = np.zeros(8, np.float32), []
    for _ in range(ROUND_TRIPS):
        start = time.perf_counter()
        sender.send(array)
        sender.wait()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def codec() -> float:
    """Return the microseconds to encode and decode a message with ten arrays."""
    arrays = {f"array_{number}": np.zeros((33, 64), np.float32) for number in range(10)}
    message = _messages.Segments(worker="sampler-0", player="main", block=1, arrays=arrays)
    start = time.perf_counter()
    for _ in range(ROUND_TRIPS):
        _wire.decode(_wire.encode(message))
    return 1e6 * (time.perf_counter() - start) / ROUND_TRIPS


def compare(ludus: Callable[[], float], bare: Callable[[], float]) -> tuple[float, float]:
    """Measure both in turn, so that what else the machine does hits both alike, and return their medians."""
    rounds = [(ludus(), bare()) for _ in range(ROUNDS)]
    return statistics.median(ours for ours, _ in rounds), statistics.median(theirs for _, theirs in rounds)


def report(ludus: Sender, bare: Sender) -> None:
    """Print every figure of both, and their ratio."""
    ours, theirs = compare(lambda: round_trip(ludus), lambda: round_trip(bare))
    print(f"round trip   ludus {ours:6.0f}   bare pyzmq {theirs:6.0f} µs           ratio {ours / theirs:.2f}")
    for name, (size, count) in SIZES.items():
        array = np.random.default_rng(0).random(size // 4, np.float32)
        ours, theirs = compare(partial(stream, ludus, array, count), partial(stream, bare, array, count))
        print(
            f"{name:12} ludus {ours:6.0f}   bare pyzmq {theirs:6.0f} messages/s   ratio {ours / theirs:.2f}"
            f"   ({ours * size / 1e9:.2f} and {theirs * size / 1e9:.2f} GB/s)"
        )
    print(f"codec        {codec():.1f} µs to encode and decode a message of ten arrays")


def main() -> None:
    """Start both servers and measure everything."""
    directory = private_ipc_dir()
    spawn = multiprocessing.get_context("spawn")
    servers = []
    for serve in (serve_ludus, serve_bare):
        servers.append(spawn.Process(target=serve, args=(ipc_address(directory, serve.__name__),), daemon=True))
        servers[-1].start()
    ludus = LudusSender(ipc_address(directory, "serve_ludus"))
    bare = BareSender(ipc_address(directory, "serve_bare"))
    try:
        report(ludus, bare)
    finally:
        for server in servers:
            server.kill()
            server.join()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
