"""Repeats, medians, quartiles and clocks."""

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


def test_every_work_is_warmed_up_and_then_measured_in_turns():
    """First each work once to warm up, then all of them once per repeat."""
    seen = []

    def work(name):
        def run():
            seen.append(name)
            time.sleep(0.012)
            return 1.0

        return run

    measure({"a": work("a"), "b": work("b")}, Plan(repeats=2, seconds=0.01, warmup_s=0.001))
    assert seen == ["a", "b", "a", "b", "a", "b"]


def test_a_rate_is_units_per_second_of_the_clock():
    """Sleeping costs wall-clock time and hardly any CPU time."""

    def work():
        time.sleep(0.02)
        return 10.0

    wall = measure({"work": work}, SHORT)["work"]
    cpu = measure({"work": work}, Plan(repeats=2, seconds=0.01, warmup_s=0.0, clock="cpu"))["work"]
    assert len(wall.per_s) == 3
    assert wall.median <= 10 / 0.02
    assert cpu.median > wall.median
    assert wall.cores < 0.9


def test_a_part_of_a_work_has_its_own_time_in_every_repeat():
    """Without what it took before the first of them; the whole work keeps its own."""
    stopwatch = Stopwatch("wall")
    calls = []

    def work():
        calls.append(1)
        stopwatch.start()
        time.sleep(0.2 if len(calls) == 1 else 0.002)  # the first time, which warms up
        stopwatch.stop()
        time.sleep(0.02)
        return 1.0

    rates = measure({"work": work}, SHORT, inside={"work": stopwatch})
    assert rates["work"].median <= 1 / 0.022
    assert rates["work"].median < rates["work inside"].median <= 1 / 0.002
    assert len(rates["work inside"].per_s) == len(rates["work"].per_s) == 3
    assert sum(1 / rate for rate in rates["work inside"].per_s) < stopwatch.total_s - 0.19


def test_a_measurement_repeats_the_work_until_its_time_is_over():
    """Work that is shorter than a measurement is done several times."""
    calls = []
    measure({"work": lambda: calls.append(1) or 1.0}, Plan(repeats=1, seconds=0.1, warmup_s=0.0))
    assert len(calls) > 2


def test_a_rate_knows_its_median():
    """And not the mean."""
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
