"""Repeated measurements: warm-up, repeats, median and quartiles, busy cores.

Tasks that are compared are measured in turns, so that other load on the machine affects all of them alike.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from attrs import define, field, frozen

Clock = Literal["wall", "cpu"]
Task = Callable[[], float]  # does one piece of work and returns its number of units

_log = logging.getLogger(__name__)
_MIN_TIME_S = 1e-9  # a task may be shorter than the resolution of the clock
_CLOCKS: dict[Clock, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


@frozen(kw_only=True)
class Summary:
    """Median and quartiles of repeated measurements.

    Args:
        median: Median.
        low: First quartile.
        high: Third quartile.
        repeats: Number of measurements.
    """

    median: float
    low: float
    high: float
    repeats: int


def summarize(values: Sequence[float]) -> Summary:
    """Return median and quartiles; quartiles interpolate between the values, ends included.

    Args:
        values: Measurements; at least one.
    """
    padded = [*values] * (3 if len(values) == 1 else 1)
    low, median, high = statistics.quantiles(padded, n=4, method="inclusive")
    return Summary(median=median, low=low, high=high, repeats=len(values))


def harmonic(*rates: float) -> float:
    """Return the rate of several tasks that run one after another for every unit: ``1 / (1/a + 1/b + …)``."""
    return 1.0 / sum(1.0 / rate for rate in rates)


@frozen(kw_only=True)
class Plan:
    """Duration of a measurement.

    Args:
        repeats: Measurements of each task; ≥ 1.
        seconds: Minimum duration of one measurement.
        warmup_s: Duration of the uncounted work before the first measurement.
        clock: ``"wall"``, or ``"cpu"``: CPU time of this process, for machines under other load.
    """

    repeats: int = 5
    seconds: float = 0.5
    warmup_s: float = 0.5
    clock: Clock = "wall"


@frozen(kw_only=True)
class Rate:
    """Units per second of one task.

    Args:
        per_s: Rate of every repeat, by the clock of the plan.
        cores: CPU seconds per wall-clock second over all repeats.
    """

    per_s: tuple[float, ...]
    cores: float

    def scaled(self, factor: float) -> Rate:
        """Return the rate in another unit."""
        return Rate(per_s=tuple(value * factor for value in self.per_s), cores=self.cores)

    @property
    def summary(self) -> Summary:
        """Return median and quartiles."""
        return summarize(self.per_s)

    @property
    def median(self) -> float:
        """Return the median rate."""
        return self.summary.median


@define
class Stopwatch:
    """Sum of the times between `start` and `stop`, for one part of a task.

    Args:
        clock: As in `Plan`.
    """

    clock: Clock
    total_s: float = field(init=False, default=0.0)
    _started_at: float = field(init=False, default=0.0)

    def start(self) -> None:
        """Start the clock."""
        self._started_at = _CLOCKS[self.clock]()

    def stop(self) -> None:
        """Stop the clock and add the elapsed time to the sum."""
        self.total_s += _CLOCKS[self.clock]() - self._started_at


def measure(
    tasks: Mapping[str, Task], plan: Plan, *, stopwatches: Mapping[str, Stopwatch] | None = None
) -> dict[str, Rate]:
    """Run tasks in turns and return their rates.

    Args:
        tasks: Task by name.
        plan: Duration.
        stopwatches: Stopwatch that runs during a part of a task, by the name of the task. The rate of that part is
            returned as ``"NAME inside"``.
    """
    stopwatches = stopwatches or {}
    _log.info("measuring %s: %.3g s", ", ".join(tasks), len(tasks) * (plan.warmup_s + plan.repeats * plan.seconds))
    for task in tasks.values():
        _run(task, plan.warmup_s, plan.clock)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in tasks}
    for _ in range(plan.repeats):
        for name, task in tasks.items():
            runs[name].append(_run(task, plan.seconds, plan.clock, stopwatches.get(name)))
    rates = {name: _rate(task_runs, plan.clock) for name, task_runs in runs.items()}
    return rates | {f"{name} inside": _rate(runs[name], "inside") for name in stopwatches}


def _rate(runs: Sequence[Mapping[str, float]], time_name: str) -> Rate:
    return Rate(
        per_s=tuple(run["units"] / max(run[time_name], _MIN_TIME_S) for run in runs),
        cores=sum(run["cpu"] for run in runs) / max(sum(run["wall"] for run in runs), _MIN_TIME_S),
    )


def _run(task: Task, seconds: float, clock: Clock, stopwatch: Stopwatch | None = None) -> dict[str, float]:
    """Return the units of a task, and the seconds by each clock and inside of the stopwatch."""
    stopwatch = stopwatch or Stopwatch(clock)

    def times() -> dict[str, float]:
        return {name: read() for name, read in _CLOCKS.items()} | {"inside": stopwatch.total_s}

    units, start = 0.0, times()
    while True:
        units += task()
        if time.perf_counter() - start["wall"] >= seconds:
            break
    return {name: end_s - start[name] for name, end_s in times().items()} | {"units": units}
