"""Repeating work under a clock: warm-up, repeats, median and spread, cores used.

Works that are compared are measured in turns, so that what else the machine does meets all of them alike.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from attrs import define, field, frozen

__all__ = ["Clock", "Plan", "Rate", "Stopwatch", "Summary", "measure", "summarize"]

Clock = Literal["wall", "cpu"]

_log = logging.getLogger(__name__)
_LEAST_S = 1e-9  # a piece of work may be shorter than a clock can see


@frozen(kw_only=True)
class Summary:
    """Several measurements of one thing.

    Args:
        median: Their median.
        low: First quartile.
        high: Third quartile.
        repeats: How many there were.
    """

    median: float
    low: float
    high: float
    repeats: int


def summarize(values: Sequence[float]) -> Summary:
    """Return median and quartiles; quartiles interpolate between the values, ends included.

    Args:
        values: At least one.
    """
    several = [*values] * (3 if len(values) == 1 else 1)
    low, median, high = statistics.quantiles(several, n=4, method="inclusive")
    return Summary(median=median, low=low, high=high, repeats=len(values))


@frozen(kw_only=True)
class Plan:
    """How long to measure.

    Args:
        repeats: Measurements of each work; ≥ 1.
        seconds: Least duration of one measurement.
        warmup_s: Duration of the work before the first measurement, which is not counted.
        clock: ``"wall"``, or ``"cpu"``: the CPU time of this process, for machines that do other things meanwhile.
    """

    repeats: int = 5
    seconds: float = 0.5
    warmup_s: float = 0.5
    clock: Clock = "wall"


@frozen(kw_only=True)
class Rate:
    """Units per second of one work.

    Args:
        per_s: Of every repeat, by the plan's clock.
        cores: CPU seconds per wall-clock second over all repeats.
    """

    per_s: tuple[float, ...]
    cores: float

    @classmethod
    def joined(cls, several: Sequence[Rate]) -> Rate:
        """Return several measurements of the same, one after another, as one."""
        per_s = tuple(rate for one in several for rate in one.per_s)
        return cls(per_s=per_s, cores=statistics.mean(one.cores for one in several))

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
    """Adds up the time between `start` and `stop`, for a part of a work that is measured by itself.

    Args:
        clock: As in `Plan`.
    """

    clock: Clock
    total_s: float = field(init=False, default=0.0)
    _since: float = field(init=False, default=0.0)

    def start(self) -> None:
        """Start."""
        self._since = _CLOCKS[self.clock]()

    def stop(self) -> None:
        """Stop and add."""
        self.total_s += _CLOCKS[self.clock]() - self._since


_CLOCKS: dict[Clock, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


def measure(
    works: Mapping[str, Callable[[], float]], plan: Plan, *, inside: Mapping[str, Stopwatch] | None = None
) -> dict[str, Rate]:
    """Run every work for a while, in turns.

    Args:
        works: Name to a function that does a piece of the work and returns how many units that was.
        plan: How long.
        inside: What runs during a part of a work, by its name; the rate of that part is that of ``"NAME inside"``.
    """
    parts = inside or {}
    _log.info("measuring %s: %.3g s", ", ".join(works), len(works) * (plan.warmup_s + plan.repeats * plan.seconds))
    for work in works.values():
        _run(work, plan.warmup_s, plan.clock)
    runs: dict[str, list[_Run]] = {name: [] for name in works}
    for _ in range(plan.repeats):
        for name, work in works.items():
            runs[name].append(_run(work, plan.seconds, plan.clock, parts.get(name)))
    whole = {name: _rate(found, [run.clock_s for run in found]) for name, found in runs.items()}
    return whole | {f"{name} inside": _rate(runs[name], [run.inside_s for run in runs[name]]) for name in parts}


@frozen(kw_only=True)
class _Run:
    units: float
    clock_s: float
    cpu_s: float
    wall_s: float
    inside_s: float


def _rate(runs: Sequence[_Run], times_s: Sequence[float]) -> Rate:
    return Rate(
        per_s=tuple(run.units / max(time_s, _LEAST_S) for run, time_s in zip(runs, times_s, strict=True)),
        cores=sum(run.cpu_s for run in runs) / max(sum(run.wall_s for run in runs), _LEAST_S),
    )


def _run(work: Callable[[], float], seconds: float, clock: Clock, inside: Stopwatch | None = None) -> _Run:
    read, inside = _CLOCKS[clock], inside or Stopwatch(clock)
    before_s = inside.total_s
    units, wall, cpu, since = 0.0, time.perf_counter(), time.process_time(), read()
    while True:
        units += work()
        if time.perf_counter() - wall >= seconds:
            break
    return _Run(
        units=units,
        clock_s=read() - since,
        cpu_s=time.process_time() - cpu,
        wall_s=time.perf_counter() - wall,
        inside_s=inside.total_s - before_s,
    )
