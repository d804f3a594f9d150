"""What a second process of a learner is worth: ``python benchmarks/processes.py [RUN.toml]``.

A learner of one process, one with two threads, and one of two processes, in turns, with networks of two layers of
several widths. First updates alone, on cores that nobody else uses; then whole runs with one sampler. A line is the
decisions per second, the medians over the rounds, and what they are relative to one process with one thread.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import tomli_w
from counts import at_least_one
from ludus._config.run_config import RunConfig, load_config
from ludus._plugins.manager import load_plugins
from ludus.algorithm import GroupTrainer
from ludus.errors import ConfigError
from ludus.group import Alone, Group
from ludus_bench._pieces import Setup
from ludus_bench.machine import limit_threads
from ludus_bench.parts import Updating
from ludus_bench.selfplay import played
from ludus_bench.single import record
from ludus_local.group import LocalRendezvous
from ludus_local.memory import SharedFolder

EXAMPLE = Path(__file__).parents[1] / "examples" / "connect4.toml"
SHAPES = {"1 process": (1, 1), "2 threads": (1, 2), "2 processes": (2, 1)}
WARMUP_S = 5.0
TIMEOUT_S = 60.0
SPAWN = multiprocessing.get_context("spawn")


def configure(path: Path, *, width: int, processes: int, threads: int) -> RunConfig:
    """Return a run with one sampler and without evaluation."""
    player = "players.main_agent"
    overrides = (
        "run.workers=1",
        "run.minutes=0",
        f"run.learner_threads={threads}",
        f"{player}.learner_processes={processes}",
        f"{player}.mlp.hidden=[{width}, {width}]",
        "evaluation.enabled=false",
        "metrics.sinks=[]",
    )
    return load_config(path, overrides=overrides, plugins=load_plugins())


def run(path: Path, *, width: int, processes: int, threads: int, seconds: float) -> float:
    """Return the decisions that a run learns per second."""
    config = configure(path, width=width, processes=processes, threads=threads)
    return statistics.median(played(tomli_w.dumps(config.data), seconds=seconds, warmup_s=WARMUP_S).per_s)


def update(path: Path, *, width: int, processes: int, threads: int, seconds: float) -> float:
    """Return the decisions that updates alone learn from per second."""
    said: SimpleQueue[float] = SPAWN.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        given = (path, width, processes, threads, seconds, Path(folder), said)
        team = [SPAWN.Process(target=_update, args=(rank, *given)) for rank in range(processes)]
        for process in team:
            process.start()
        for process in team:
            process.join()
        return said.get()


def _update(
    rank: int,
    path: Path,
    width: int,
    processes: int,
    threads: int,
    seconds: float,
    folder: Path,
    said: SimpleQueue[float],
) -> None:
    config = configure(path, width=width, processes=processes, threads=threads)
    setup = Setup(config=config, plugins=load_plugins())
    with limit_threads(threads):
        trainer, group = setup.learned().trainer, _meet(rank, processes, folder)
        whole = Updating.of(setup.learned(), record(setup, trainer.batch_decisions)).batch
        assert isinstance(trainer, GroupTrainer)
        trainer.join(group)
        part, updates, began_s = whole.divide(processes)[rank], -1, 0.0  # the first one does not count
        while group.least(float(updates < 1 or time.monotonic() - began_s < seconds)):
            trainer.update(part, progress=0.0)
            updates += 1
            began_s = began_s or time.monotonic()
        if rank == 0:
            said.put(updates * whole.num_decisions / (time.monotonic() - began_s))


def _meet(rank: int, size: int, folder: Path) -> Group:
    rendezvous = LocalRendezvous(folder, SharedFolder(folder, f"learner-{rank}"))
    if size == 1:
        return Alone()
    if rank == 0:
        call = rendezvous.call("meeting", size=size, timeout_s=TIMEOUT_S)
        while (group := call.poll()) is None:
            time.sleep(0.01)
        return group
    while not (folder / "meeting").exists():
        time.sleep(0.01)
    return rendezvous.join("meeting", rank=rank, size=size, timeout_s=TIMEOUT_S)


def compare(what: str, measure: Callable[..., float], *, widths: list[int], rounds: int) -> None:
    """Measure in turns, and print a line for each width."""
    found: dict[int, dict[str, list[float]]] = {width: {name: [] for name in SHAPES} for width in widths}
    for _ in range(rounds):
        for width in widths:
            for name, (processes, threads) in SHAPES.items():
                found[width][name].append(measure(width=width, processes=processes, threads=threads))
    for width, rates in found.items():
        middle = {name: statistics.median(values) for name, values in rates.items()}
        cells = (f"{name} {rate:,.0f}/s ({rate / middle['1 process']:.2f})" for name, rate in middle.items())
        print(f"{what}, 2 layers of {width}:", ", ".join(cells), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, default=EXAMPLE)
    parser.add_argument("--widths", type=at_least_one, nargs="+", default=[256, 512, 1024])
    parser.add_argument("--rounds", type=at_least_one, default=3)
    parser.add_argument("--seconds", type=float, default=15.0)
    given = parser.parse_args(arguments)
    try:
        configure(given.run, width=given.widths[0], processes=1, threads=1)
    except ConfigError as error:
        parser.error(str(error))
    for what, measure in (("updates", update), ("runs", run)):
        bound = partial(measure, given.run, seconds=given.seconds)
        compare(what, bound, widths=given.widths, rounds=given.rounds)


if __name__ == "__main__":
    main()
