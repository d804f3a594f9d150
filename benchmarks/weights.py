"""How long new weights take from a learner to all samplers of its host, and what the samplers notice of it.

A learner publishes a model of five million parameters on the board; eight sampler processes copy it into their own
memory as soon as they look, which they do between two ticks of about a millisecond. Told are the time of publishing,
the time from its start until the last sampler has the weights, and the longest pause between two ticks beside that of
the same samplers when nothing is published. Samplers beyond the number of cores wait for each other, so the same is
told of samplers that sleep through their ticks, as those that wait for a simulator or a server do.

Run ``python benchmarks/weights.py``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from counts import at_least_one
from ludus_local.board import BoardReader, WeightStore
from ludus_local.memory import SharedFolder, shared_path
from ludus_local.transport import private_ipc_dir

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from ludus_local.memory import ArraySpec

TICK_S = 1e-3


def model(parameters: int) -> dict[str, np.ndarray]:
    """Return the weights of three equal layers."""
    width = int((parameters / 3) ** 0.5)
    return {f"layers.{n}.{name}": np.zeros(s, np.float32) for n in range(3) for name, s in _layer(width).items()}


def _layer(width: int) -> dict[str, tuple[int, ...]]:
    return {"weight": (width, width), "bias": (width,)}


def sample(path: str, name: str, specs: Mapping[str, ArraySpec], busy: bool, pipe: Connection) -> None:
    """Tick until told to stop, and take new weights between two ticks.

    Says ``(version, when it had them, seconds of the copy, longest pause since the version before)``.
    """
    reader = BoardReader(SharedFolder(Path(path), "sampler"), "learner", name, specs)
    own = {key: np.zeros(spec.shape, spec.dtype) for key, spec in specs.items()}
    version, longest, last = -1, 0.0, time.perf_counter()

    def take(weights: Mapping[str, np.ndarray], newer: int) -> None:
        nonlocal version
        for key, array in own.items():
            np.copyto(array, weights[key])
        version = newer

    while True:
        tick(busy)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
        if reader.version != version:
            reader.load(take)
            pipe.send((version, time.perf_counter(), time.perf_counter() - now, longest))
            longest = 0.0
        elif pipe.poll():
            pipe.send((-1, now, 0.0, longest))
            longest = 0.0
            if pipe.recv() == "stop":
                return


def tick(busy: bool) -> None:
    """Take about a millisecond, of the processor or only of time."""
    if not busy:
        time.sleep(TICK_S)
        return
    end = time.thread_time() + TICK_S
    while time.thread_time() < end:
        pass


def measure(samplers: int, parameters: int, *, busy: bool, rounds: int) -> None:
    """Print the figures for samplers of one kind."""
    sockets = private_ipc_dir()
    folder = SharedFolder.beside(sockets, "learner")
    assert folder is not None
    weights = model(parameters)
    board = WeightStore.of(folder, weights)
    spawn = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(samplers):
        ours, theirs = spawn.Pipe()
        arguments = (str(folder.path), board.file.name, board.layout.specs, busy, theirs)
        processes.append(spawn.Process(target=sample, args=arguments, daemon=True))
        processes[-1].start()
        pipes.append(ours)
    try:
        run(board, weights, pipes, rounds=rounds, title="busy" if busy else "waiting")
    finally:
        for process in processes:
            process.kill()
            process.join()
        for path in (sockets, shared_path(sockets)):
            shutil.rmtree(path, ignore_errors=True)


def run(
    board: WeightStore, weights: dict[str, np.ndarray], pipes: list[Connection], *, rounds: int, title: str
) -> None:
    """Publish again and again and print what the samplers say."""
    published, arrived, copies, pauses, quiet = [], [], [], [], []
    for version in range(rounds + 2):
        for array in weights.values():
            np.add(array, 1, out=array)
        start = time.perf_counter()
        board.publish(weights, version)
        done = time.perf_counter()
        heard = [pipe.recv() for pipe in pipes]
        time.sleep(0.25)
        after = [ask(pipe) for pipe in pipes]  # the longest pause around the copy
        time.sleep(0.25)
        rest = [ask(pipe) for pipe in pipes]  # and without one
        if version < 2:  # pages are mapped, processes are up
            continue
        published.append(done - start)
        arrived.append(max(when for _, when, _, _ in heard) - start)
        copies += [copy for _, _, copy, _ in heard]
        pauses.append(max(after))
        quiet.append(max(rest))
    size = sum(array.nbytes for array in weights.values()) / 1e6
    figures = {
        "publish": published,
        "to the last sampler": arrived,
        "copy of one sampler": copies,
        "longest pause": pauses,
        "longest pause without": quiet,
    }
    text = "   ".join(f"{name} {1e3 * statistics.median(values):.1f} ms" for name, values in figures.items())
    print(f"{len(pipes)} {title} samplers, {size:.0f} MB, {os.cpu_count()} cores: {text}")


def ask(pipe: Connection) -> float:
    """Return the longest pause since the last question."""
    pipe.send("go on")
    return float(pipe.recv()[3])


def main() -> None:
    """Measure both kinds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samplers", type=at_least_one, default=8)
    parser.add_argument("--parameters", type=at_least_one, default=5_000_000)
    parser.add_argument("--rounds", type=at_least_one, default=15)
    options = parser.parse_args()
    for busy in (False, True):
        measure(options.samplers, options.parameters, busy=busy, rounds=options.rounds)


if __name__ == "__main__":
    main()
