"""Repeated measurements, medians, quartiles and clocks."""

from __future__ import annotations

import time

import pytest
from ludus_bench.timing import Plan, Rate, Stopwatch, measure, summarize

SHORT = Plan(repeats=3, seconds=0.01, warmup_s=0.0)


@pytest.mark.parametrize(
    ("values", "low", "median", "high"),
    [
        ([4.0], 4.0, 4.0, 4.0),
        ([1.0, 2.0], 1.25, 1.5, 1.75),
        ([5.0, 1.0, 3.0], 2.0, 3.0, 4.0),
        ([1.0, 2.0, 3.0, 4.0, 100.0], 2.0, 3.0, 4.0),
    ],
)
def test_median_and_quartiles_are_those_computed_by_hand(values, low, median, high):
    """Quartiles interpolate between the values; an outlier moves none of the three."""
    found = summarize(values)
    assert (found.low, found.median, found.high) == (low, median, high)
    assert found.repeats == len(values)


def test_tasks_are_warmed_up_and_then_measured_in_turns():
    """Each task runs once to warm up, then all run once per repeat."""
    order = []

    def task(name):
        def run():
            order.append(name)
            time.sleep(0.012)
            return 1.0

        return run

    measure({"a": task("a"), "b": task("b")}, Plan(repeats=2, seconds=0.01, warmup_s=0.001))
    assert order == ["a", "b", "a", "b", "a", "b"]


def test_a_rate_is_units_per_second_of_the_clock():
    """Sleeping costs wall-clock time and hardly any CPU time."""

    def task():
        time.sleep(0.02)
        return 10.0

    wall = measure({"task": task}, SHORT)["task"]
    cpu = measure({"task": task}, Plan(repeats=2, seconds=0.01, warmup_s=0.0, clock="cpu"))["task"]
    assert len(wall.per_s) == 3
    assert wall.median <= 10 / 0.02
    assert cpu.median > wall.median
    assert wall.cores < 0.9


def test_a_stopwatch_measures_a_part_of_a_task():
    """Its time during the warm-up does not count; the rate of the whole task is reported as well."""
    stopwatch = Stopwatch("wall")
    calls = []

    def task():
        calls.append(1)
        stopwatch.start()
        time.sleep(0.2 if len(calls) == 1 else 0.002)  # the first time, which warms up
        stopwatch.stop()
        time.sleep(0.02)
        return 1.0

    rates = measure({"task": task}, SHORT, stopwatches={"task": stopwatch})
    assert rates["task"].median <= 1 / 0.022
    assert rates["task"].median < rates["task inside"].median <= 1 / 0.002
    assert len(rates["task inside"].per_s) == len(rates["task"].per_s) == 3
    assert sum(1 / rate for rate in rates["task inside"].per_s) < stopwatch.total_s - 0.19


def test_a_measurement_repeats_short_tasks():
    """A task runs until the duration of the measurement is over."""
    calls = []
    measure({"task": lambda: calls.append(1) or 1.0}, Plan(repeats=1, seconds=0.1, warmup_s=0.0))
    assert len(calls) > 2


def test_a_rate_has_a_median():
    """It is not the mean."""
    assert Rate(per_s=(1.0, 2.0, 9.0), cores=1.0).median == 2.0


def test_a_stopwatch_counts_only_between_start_and_stop():
    """Pauses do not count."""
    watch = Stopwatch("wall")
    watch.start()
    watch.stop()
    time.sleep(0.2)
    watch.start()
    watch.stop()
    assert 0 < watch.total_s < 0.2
