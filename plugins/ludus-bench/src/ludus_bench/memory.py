"""``memory``: the resident memory of every process of a run, over time."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from ludus_bench._pieces import Setup
from ludus_bench.machine import describe
from ludus_bench.report import Figure, Limit, Report
from ludus_bench.running import Moment, start_run
from ludus_bench.selfplay import Shape
from ludus_bench.timing import summarize

__all__ = ["bench_memory", "series", "slope_per_minute"]

_BARE = "import numpy, torch, psutil; print(psutil.Process().memory_info().rss)"


def bench_memory(setup: Setup, *, shape: Shape, minutes: float, warmup_s: float) -> Report:
    """Run a league and watch its processes.

    Args:
        setup: The configuration.
        shape: How the run is spread.
        minutes: How long it is watched.
        warmup_s: From the first trained decisions to the watching.

    Raises:
        RunError: The run ended early.
    """
    bare = Limit(value=_bare_mb(), of="a process that has only imported numpy and torch")
    with start_run(setup.dump(**shape.sections)) as run:
        start_s = run.learning(warmup_s=warmup_s)
        first = len(run.moments) - 1
        run.wait(lambda lines: lines[-1].at_s >= start_s + 60 * minutes, within_s=60 + 120 * minutes)
        moments, coordinator = run.moments[first:], run.process.pid
    figures, processes = [], {}
    for (name, pid), (times, sizes) in series(moments).items():
        label = "coordinator" if pid == coordinator else name
        tail = max(1, len(sizes) // 10)
        processes[label] = {
            "start_mb": float(np.median(sizes[:tail])),
            "end_mb": float(np.median(sizes[-tail:])),
            "peak_mb": max(sizes),
            "slope_mb_per_minute": slope_per_minute(times, sizes),
        }
        at = {"process": label, "end": processes[label]["end_mb"], "slope": processes[label]["slope_mb_per_minute"]}
        figures.append(Figure(name="rss_mb", summary=summarize(sizes), unit="MB", limit=bare, at=at))
    return Report(
        command="memory",
        figures=tuple(figures),
        machine=describe(),
        config={"env": setup.config.environment.name, "players": ", ".join(setup.players), "minutes": minutes},
        values={"peak_rss_mb": max(moment.rss_mb for moment in moments), "processes": processes},
        notes=("slope is in MB per minute; memory that processes share counts in each of them",),
    )


def _bare_mb() -> float:
    done = subprocess.run([sys.executable, "-c", _BARE], capture_output=True, text=True, check=True)  # noqa: S603
    return int(done.stdout) / 1e6


def series(moments: list[Moment]) -> dict[tuple[str, int], tuple[list[float], list[float]]]:
    """Return seconds and megabytes of every process that lived to the last moment, by name and process id."""
    found: dict[tuple[str, int], tuple[list[float], list[float]]] = {
        (use.name, use.pid): ([], []) for use in moments[-1].processes
    }
    for moment in moments:
        for use in moment.processes:
            if (use.name, use.pid) in found:
                times, sizes = found[use.name, use.pid]
                times.append(moment.at_s)
                sizes.append(use.rss_mb)
    return found


def slope_per_minute(times: list[float], sizes: list[float]) -> float:
    """Return the slope of the least-squares line through memory over time, in megabytes per minute."""
    if len(times) < 2:
        return 0.0
    at = np.array(times) / 60
    at -= at.mean()
    return float((at * (np.array(sizes) - np.mean(sizes))).sum() / max(float((at**2).sum()), 1e-12))
