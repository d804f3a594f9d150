"""What it costs to let one process decide for all samplers: decisions per second, and how long each request takes.

Clients in processes of their own ask for a number of rows, wait for the answer, and ask again, as samplers do when the
game costs nothing. Beside it the same clients run the same network themselves. The network is the MLP of the Connect
Four example. Run ``python benchmarks/inference_server.py``; ``--device cuda`` needs a GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
import torch
from attrs import evolve, frozen
from counts import at_least_one
from gymnasium import spaces
from ludus.network import NetworkRequest
from ludus.service import Network, ServiceEndpoint
from ludus_inference_server.client import make_client
from ludus_inference_server.config import ServerConfig
from ludus_inference_server.service import InferenceService
from ludus_local.memory import shared_path
from ludus_local.transport import private_ipc_dir
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp

_SERVICE = "service-server"
ROWS = (1, 4, 16, 64, 256, 1024, 4096)
CLIENTS = (1, 2, 4)
REQUEST = NetworkRequest(
    observation={"board": spaces.Box(-1, 1, (84,), np.float32)}, heads={"policy": 7}, critic_heads={"value": 1}
)


@frozen
class Result:
    """What clients saw: decisions per second of all together, seconds per request."""

    decisions_per_s: float
    median_s: float
    p99_s: float


def network() -> Network:
    """Return the network, always with the same weights."""
    torch.manual_seed(0)
    return Network(make_mlp(MLPConfig(hidden=(256, 256)), request=REQUEST), REQUEST)


def serve(config: ServerConfig, sockets: Path) -> None:
    """Serve for ever."""
    service = InferenceService(config, name=_SERVICE, sockets=sockets, networks={"main": lambda: [network()]})
    while True:
        service.work()


def ask(config: ServerConfig, sockets: Path | None, name: str, barrier: Barrier, results: Connection) -> None:
    """Ask for rows in every size, and tell how long each request took; without a server compute them here."""
    torch.set_num_threads(1)
    site = None
    if sockets is not None:
        site = ServiceEndpoint(worker=name, player="main", sockets=sockets, service=_SERVICE)
    module, request = network()
    runtime = make_client(config, module=module, request=request, site=site)
    while True:
        rows, seconds = results.recv()
        if not rows:
            return
        observation = {"board": np.random.default_rng(0).normal(size=(rows, 84)).astype(np.float32)}
        for _ in range(20):
            runtime.run(observation, privileged={}, state={})
        barrier.wait()
        times: list[float] = []
        start = now = time.perf_counter()
        while now - start < seconds:
            runtime.run(observation, privileged={}, state={})
            before, now = now, time.perf_counter()
            times.append(now - before)
        barrier.wait()
        results.send((len(times) * rows / (now - start), times))


def measure(
    config: ServerConfig, sockets: Path | None, *, clients: int, sizes: Sequence[int], seconds: float
) -> list[Result]:
    """Return what so many clients see for each number of rows."""
    context = multiprocessing.get_context("spawn")
    barrier, pipes, processes = context.Barrier(clients), [], []
    for i in range(clients):
        ours, theirs = context.Pipe()
        pipes.append(ours)
        name = f"client-{clients}-{i}"
        processes.append(context.Process(target=ask, args=(config, sockets, name, barrier, theirs), daemon=True))
        processes[-1].start()
    found = []
    for rows in sizes:
        for pipe in pipes:
            pipe.send((rows, seconds))
        answers = [pipe.recv() for pipe in pipes]
        times = [seconds for _, times in answers for seconds in times]
        found.append(
            Result(sum(rate for rate, _ in answers), statistics.median(times), float(np.percentile(times, 99)))
        )
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send((0, 0.0))
        process.join()
    return found


def compare(config: ServerConfig, *, clients: Sequence[int], sizes: Sequence[int], seconds: float) -> None:
    """Print a table."""
    print("| clients | rows | server: decisions/s | median | p99 | own runtime: decisions/s | median | p99 | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    own = ServerConfig(runtime="eager" if config.runtime == "compile" else config.runtime)
    for count in clients:
        sockets = private_ipc_dir()
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(config, sockets), daemon=True)
        server.start()
        try:
            there = measure(config, sockets, clients=count, sizes=sizes, seconds=seconds)
        finally:
            server.kill()
            server.join()
            for folder in (sockets, shared_path(sockets)):
                shutil.rmtree(folder, ignore_errors=True)
        here = measure(evolve(own, device="cpu"), None, clients=count, sizes=sizes, seconds=seconds)
        for rows, remote, local in zip(sizes, there, here, strict=True):
            print(
                f"| {count} | {rows:,} | {_cells(remote)} | {_cells(local)} "
                f"| {remote.decisions_per_s / local.decisions_per_s:.2f} |",
                flush=True,
            )


def _cells(result: Result) -> str:
    return f"{result.decisions_per_s:,.0f} | {result.median_s * 1e6:,.0f} µs | {result.p99_s * 1e6:,.0f} µs"


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--runtime", choices=["auto", "lean", "eager", "compile"], default="auto")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--deadline-ms", type=int, default=1)
    parser.add_argument("--max-rows", type=at_least_one, default=1024)
    parser.add_argument("--clients", type=at_least_one, nargs="+", default=CLIENTS)
    parser.add_argument("--rows", type=at_least_one, nargs="+", default=ROWS)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("--device cuda needs a GPU; torch finds none here")
        return 1
    config = ServerConfig(
        device=options.device,
        runtime=options.runtime,
        precision=options.precision,
        deadline_ms=options.deadline_ms,
        max_rows=options.max_rows,
    )
    compare(config, clients=options.clients, sizes=options.rows, seconds=options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
