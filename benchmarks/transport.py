"""What it costs to move data from process to process on one host.

First messages: the sender keeps `WINDOW` messages of one float32 array under way and the receiver acknowledges each,
beside the same loop on bare pyzmq (ROUTER/DEALER, the same frames, no copies).

Then whole blocks of segments, in shared memory and through sockets: the sender records into memory as it gets it, the
receiver copies every array into a batch. Of that only what recording into local memory and one copy of it would not
cost as well is transport; its share of the wall time is told for a small convolutional network that decides and learns
at one core each. Run ``python benchmarks/transport.py``.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import os
import shutil
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import zmq
from attrs import define, field
from gymnasium import spaces
from ludus._messaging import messages as _messages
from ludus._sampling.recorder import Recorder, SegmentLayout
from ludus.environment import Role
from ludus.segment import Field, SegmentBatch
from ludus.wire import Credit, Hello, Segments
from ludus_local import codec
from ludus_local.link import HostLink
from ludus_local.memory import SharedFolder, shared_path
from ludus_local.transport import ZmqEndpoint, ipc_address, private_ipc_dir

WINDOW = 8
ROUNDS = 7
SIZES = {"64 KB": (64 * 1024, 2000), "1 MB": (1024**2, 400), "8 MB": (8 * 1024**2, 60)}
ROUND_TRIPS = 3000
STREAMS, STEPS = 128, 16  # of a block


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
        message = _messages.Segments(player="main", block=self.block, arrays={"obs": array})
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


def coding() -> float:
    """Return the microseconds to encode and decode a message with ten arrays."""
    arrays = {f"array_{number}": np.zeros((33, 64), np.float32) for number in range(10)}
    message = _messages.Segments(player="main", block=1, arrays=arrays)
    start = time.perf_counter()
    for _ in range(ROUND_TRIPS):
        codec.decode(codec.encode(message))
    return 1e6 * (time.perf_counter() - start) / ROUND_TRIPS


def compare(ludus: Callable[[], float], bare: Callable[[], float]) -> tuple[float, float]:
    """Measure both in turn, so that what else the machine does hits both alike, and return their medians."""
    rounds = [(ludus(), bare()) for _ in range(ROUNDS)]
    return statistics.median(ours for ours, _ in rounds), statistics.median(theirs for _, theirs in rounds)


@define
class BlockSender:
    """Records blocks of one shape and sends them, `WINDOW` under way."""

    link: HostLink
    layout: SegmentLayout
    entry: dict[str, np.ndarray]
    _sent: int = field(init=False, default=0)

    @property
    def megabytes(self) -> float:
        """Return the size of one block."""
        entries = (self.layout.decisions + 1) * STREAMS
        return sum(entries * dtype.itemsize * math.prod(shape) for shape, dtype in self.layout.arrays.values()) / 1e6

    def run(self, blocks: int) -> tuple[float, float, float]:
        """Return seconds of wall time, of this process and of the receiver."""
        made = Recorder(self.layout, STREAMS, partial(self.link.allocate, "main"))
        seat_ids, sent, acked, theirs = made.open(STREAMS), 0, 0, [0.0]
        for number in range(-WINDOW, blocks):
            if number == 0:  # all slots exist by now
                start, own, theirs = time.perf_counter(), time.process_time(), theirs[-1:]
            while not made.full:
                record(made, seat_ids, self.entry)
            arrays, self._sent, sent = made.flush().arrays(), self._sent + 1, sent + 1
            block = Segments(player="main", block=self._sent, pid=os.getpid(), arrays=arrays)
            assert self.link.send("learner", block)
            while sent - acked >= WINDOW or (number == blocks - 1 and acked < sent):
                for _, message in self.link.receive(10.0):
                    if isinstance(message, _messages.ResultsAck):
                        theirs.append(message.report / 1e9)
                        acked += 1
        return time.perf_counter() - start, time.process_time() - own, theirs[-1] - theirs[0]


def record(made: Recorder, seat_ids: np.ndarray, entry: dict[str, np.ndarray]) -> None:
    """Record one decision of every stream."""
    made.settle(seat_ids, reward=np.ones(STREAMS, np.float32), elapsed_ticks=np.ones(STREAMS, np.int32))
    made.decide(seat_ids, entry, version=1)


def serve_blocks(address: str) -> None:
    """Copy every block that arrives into a batch, release it, and tell the processor time so far."""
    endpoint = ZmqEndpoint("learner")
    endpoint.bind(address)
    folder = shared_path(Path(address.removeprefix("ipc://")).parent)
    link = HostLink(endpoint, SharedFolder(folder, "learner"), address=address)
    batch: dict[str, np.ndarray] = {}
    while True:
        for peer, message in link.receive(10.0):
            taken = message.block if isinstance(message, Segments) else 0
            if isinstance(message, Segments):
                copy_into(batch, SegmentBatch.from_arrays(dict(message.arrays)))
                link.send(peer, _messages.ResultsAck(report=time.process_time_ns()))
            link.send(peer, Credit(player="main", acked=taken, released=taken, credits=1, version=0, pid=message.pid))


def copy_into(batch: dict[str, np.ndarray], block: SegmentBatch) -> None:
    """Copy a block into memory that is there already."""
    for name, array in block.arrays().items():
        if name not in batch or batch[name].shape != array.shape:
            batch[name] = np.empty_like(array)
        np.copyto(batch[name], array)


def local(layout: SegmentLayout, entry: dict[str, np.ndarray], blocks: int) -> float:
    """Return the processor seconds of the same blocks without a way between: recorded and copied."""
    made = Recorder(layout, STREAMS)
    batch: dict[str, np.ndarray] = {}
    seat_ids, start = made.open(STREAMS), 0.0
    spare = [{name: np.ones_like(array) for name, array in made._arrays.items()} for _ in range(2)]
    lent = itertools.cycle(spare)
    made.allocate = lambda _: next(lent)
    for number in range(-2, blocks):
        if number == 0:
            start = time.process_time()
        while not made.full:
            record(made, seat_ids, entry)
        copy_into(batch, made.flush())
    return time.process_time() - start


def images() -> tuple[SegmentLayout, dict[str, np.ndarray]]:
    """Return images of 72 by 48 points with eight bytes each."""
    return _block(spaces.Box(0, 255, (72, 48, 8), np.uint8))


def boards() -> tuple[SegmentLayout, dict[str, np.ndarray]]:
    """Return the two planes of Connect Four."""
    return _block(spaces.Box(0, 1, (2, 6, 7), np.float32))


def _block(space: spaces.Box) -> tuple[SegmentLayout, dict[str, np.ndarray]]:
    role = Role(name="player", observation_space=space, action_space=spaces.Discrete(7), teams=(0, 1))
    layout = SegmentLayout.of(role, fields=(Field("log_prob", (1,)), Field("value")), decisions=STEPS)
    rng = np.random.default_rng(0)
    entry = {
        name: (rng.random((STREAMS, *shape)) * 2).astype(dtype)
        for name, (shape, dtype) in layout.arrays.items()
        if "/" in name or name.startswith("action")
    }
    return layout, entry


def network_s() -> float:
    """Return the seconds in which a small convolutional network decides on and learns from one image decision."""
    torch.set_num_threads(1)
    conv = torch.nn.Sequential(
        torch.nn.Conv2d(8, 16, 8, stride=4), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 4, stride=2), torch.nn.ReLU()
    )
    network = torch.nn.Sequential(
        conv, torch.nn.Flatten(), torch.nn.LazyLinear(128), torch.nn.ReLU(), torch.nn.Linear(128, 8)
    )
    images = torch.randint(0, 255, (STREAMS, 8, 72, 48), dtype=torch.uint8)

    def once() -> float:
        start = time.process_time()
        with torch.no_grad():
            network(images.float() / 255)
        network(images.float() / 255).square().mean().backward()
        return time.process_time() - start

    return statistics.median(once() for _ in range(9)) / STREAMS


def meet(address: str, folder: SharedFolder | None) -> HostLink:
    """Return a sampler's link that has said hello."""
    endpoint = ZmqEndpoint("sampler-0")
    endpoint.connect("learner", address)
    link = HostLink(endpoint, folder)
    link.send("learner", Hello(pid=os.getpid()))
    link.receive(10.0)
    return link


def report_blocks(directory: Path, address: str) -> None:
    """Print what a block costs in shared memory, through sockets, and without a way at all."""
    decide_s = network_s()
    for name, (layout, entry), blocks in (("images", images(), 12), ("boards", boards(), 200)):
        floor = statistics.median(local(layout, entry, blocks) for _ in range(3)) / blocks
        shares = []
        for way, folder in (("shared", SharedFolder.beside(directory, "sampler-0")), ("sockets", None)):
            sender = BlockSender(meet(address, folder), layout, entry)
            rounds = [sender.run(blocks) for _ in range(ROUNDS)]
            wall, own, theirs = (statistics.median(column) / blocks for column in zip(*rounds, strict=True))
            transport = max(own + theirs - floor, 0.0)
            shares.append(transport)
            sender.link.close()
            size = sender.megabytes
            line = f"{name} {way:8} {size / wall:7.0f} MB/s   processors {1e6 * (own + theirs) / size:5.0f} µs/MB"
            line += f"   of that transport {1e6 * transport / size:5.0f} µs/MB"
            if name == "images":
                decisions = STREAMS * STEPS
                line += f"   {100 * transport / (transport + floor + decide_s * decisions):4.1f} % of all work"
            print(line)
        ratio = shares[1] / max(shares[0], 1e-9)
        print(f"{name} recording and one copy {1e6 * floor / size:.0f} µs/MB; sockets : shared {ratio:.1f}")


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
    print(f"codec        {coding():.1f} µs to encode and decode a message of ten arrays")


def main() -> None:
    """Start both servers and measure everything."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    directory = private_ipc_dir()
    spawn = multiprocessing.get_context("spawn")
    servers = []
    for serve in (serve_ludus, serve_bare, serve_blocks):
        servers.append(spawn.Process(target=serve, args=(ipc_address(directory, serve.__name__),), daemon=True))
        servers[-1].start()
    ludus = LudusSender(ipc_address(directory, "serve_ludus"))
    bare = BareSender(ipc_address(directory, "serve_bare"))
    try:
        report_blocks(directory, ipc_address(directory, "serve_blocks"))
        report(ludus, bare)
    finally:
        for server in servers:
            server.kill()
            server.join()
        shutil.rmtree(shared_path(directory), ignore_errors=True)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
