"""``transport`` and ``weights``: what travels between the processes of one host."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing

import numpy as np

from ludus_bench._peers import Receiver, WeightsSender, packed_bytes
from ludus_bench._pieces import Setup, available_cores
from ludus_bench.machine import describe
from ludus_bench.report import Figure, Limit, Report
from ludus_bench.single import record, said_of
from ludus_bench.timing import Plan, measure, summarize

__all__ = ["bench_transport", "bench_weights", "copy_work"]


def copy_work(arrays: Mapping[str, np.ndarray]) -> Callable[[], float]:
    """Return a work that copies these arrays within one process and returns their bytes."""
    targets = {name: np.zeros_like(array) for name, array in arrays.items()}
    count = float(sum(array.nbytes for array in arrays.values()))

    def work() -> float:
        for name, array in arrays.items():
            np.copyto(targets[name], array)
        return count

    return work


def bench_transport(setup: Setup, *, plan: Plan) -> Report:
    """Measure how fast blocks of segments get from a sampler process into a learner's own memory.

    Args:
        setup: The configuration whose blocks are sent.
        plan: How long.

    Raises:
        LinkError: There is no shared memory, or a process does not start.
    """
    block = max(record(setup, setup.learned().trainer.batch_decisions), key=lambda batch: batch.num_decisions)
    arrays = {name: np.ascontiguousarray(array) for name, array in block.arrays().items()}
    with ExitStack() as stack:
        ways = {
            "shared memory": stack.enter_context(closing(Receiver(arrays, shared=True))),
            "zmq frames": stack.enter_context(closing(Receiver(arrays, shared=False))),
            "tcp": stack.enter_context(closing(Receiver(arrays, shared=False, tcp=True))),
        }
        works: dict[str, Callable[[], float]] = {name: way.work for name, way in ways.items()}
        rates = measure({**works, "copy": copy_work(arrays)}, plan)
    limit = Limit(value=rates["copy"].median / 1e6, of="one copy of the same arrays within a process")
    size = sum(array.nbytes for array in arrays.values())
    figures = [
        Figure(
            name="mb_per_s",
            summary=summarize([value / 1e6 for value in rates[name].per_s]),
            unit="MB/s",
            cores=rates[name].cores,
            limit=limit,
            at={"way": name, "decisions_per_s": rates[name].median / size * block.num_decisions},
        )
        for name in ways
    ]
    return Report(
        command="transport",
        figures=tuple(figures),
        machine=describe(),
        config={**said_of(setup), "block_mb": size / 1e6, "block_decisions": block.num_decisions},
        values={
            "bytes_per_decision": size / block.num_decisions,
            "shared_over_frames": rates["shared memory"].median / rates["zmq frames"].median,
            "tcp_bytes_per_decision": packed_bytes(arrays) / block.num_decisions,
        },
        notes=(
            "MB are those of the block, also over TCP, where lz4 packs it if it is installed",
            "cores are those of the receiving process",
        ),
    )


def bench_weights(*, parameters: int, samplers: int, plan: Plan) -> Report:
    """Measure the time from the publication of weights until the last sampler process has copied them.

    Args:
        parameters: Numbers in the model, of 4 bytes each.
        samplers: Processes.
        plan: How long.

    Raises:
        LinkError: There is no shared memory, or a process does not start.
    """
    weights = _weights(parameters)
    with ExitStack() as stack:
        ways = {
            "shared memory": WeightsSender(weights, samplers=samplers, shared=True),
            "zmq frames": WeightsSender(weights, samplers=samplers, shared=False),
        }
        for way in ways.values():
            stack.callback(way.close)
        works: dict[str, Callable[[], float]] = {name: way.work for name, way in ways.items()}
        rates = measure({**works, "copy": copy_work(weights)}, plan)
    size = 4.0 * parameters
    cores = min(available_cores(), samplers)
    least_s = (1 + samplers / cores) * size / rates["copy"].median
    limit = Limit(value=1e3 * least_s, of="one copy to publish, then one per sampler on all cores at once")
    figures = [
        Figure(
            name="time_ms",
            summary=summarize([1e3 / value for value in rates[name].per_s]),
            unit="ms",
            cores=rates[name].cores,
            limit=limit,
            at={"way": name},
        )
        for name in ways
    ]
    return Report(
        command="weights",
        figures=tuple(figures),
        machine=describe(),
        config={"parameters": parameters, "samplers": samplers, "mb": size / 1e6},
        values={"copy_mb_per_s": rates["copy"].median / 1e6},
        notes=("a time: its ratio says how many times the limit it is; cores are those of the publishing process",),
    )


def _weights(parameters: int) -> dict[str, np.ndarray]:
    """Return square layers with so many numbers in all."""
    rng = np.random.default_rng(0)
    bounds = np.linspace(0, parameters, min(8, parameters) + 1).astype(np.int64)
    return {
        f"layers.{i}.weight": rng.standard_normal(int(stop - start), dtype=np.float32)
        for i, (start, stop) in enumerate(itertools.pairwise(bounds))
    }
