"""What is read from the metric stream and the memory of a run."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

import psutil
import pytest
from ludus.errors import RunError
from ludus_bench.machine import ProcessUse
from ludus_bench.memory import series, slope_per_minute
from ludus_bench.running import Line, Moment, WatchedRun, cores_between, gauge, rates, start_run


def line(at_s, decisions=0, **values):
    """Return a line of a metric stream."""
    return Line(at_s=at_s, decisions=decisions, values={name.replace("__", "/"): v for name, v in values.items()})


def moment(at_s, *uses):
    """Return a moment with processes given as pid, megabytes and CPU seconds."""
    return Moment(
        at_s=at_s, processes=tuple(ProcessUse(pid=pid, name=f"p{pid}", rss_mb=mb, cpu_s=cpu) for pid, mb, cpu in uses)
    )


def test_rates_come_from_the_window_only():
    """What happened before it does not count, and counters are interpolated at its edges."""
    lines = [line(0.0, 0), line(10.0, 1000), line(12.0, 1400), line(14.0, 1600)]
    assert rates(lines, start_s=11.0, end_s=13.0, parts=1) == [150.0]
    assert rates(lines, start_s=10.0, end_s=14.0, parts=2) == [200.0, 100.0]


def test_gauges_are_averaged_over_the_window_by_name():
    """Lines outside of it and numbers that are not known are left out."""
    lines = [
        line(1.0, learner__a__x=100.0),
        line(2.0, learner__a__x=1.0, learner__b__x=5.0),
        line(3.0, learner__a__x=3.0, learner__b__x=float("nan"), learner__a__y=7.0),
        line(9.0, learner__a__x=100.0),
    ]
    assert gauge(lines, "learner/*/x", start_s=2.0, end_s=3.0) == {"a": 2.0, "b": 5.0}


def test_cores_are_cpu_seconds_per_second_of_those_who_lived():
    """A process that came or went in between is left out."""
    first, last = moment(0.0, (1, 10, 1.0), (2, 10, 5.0)), moment(2.0, (1, 10, 2.5), (3, 10, 9.0))
    assert cores_between([first, moment(1.0), last]) == 0.75


def test_memory_adds_up_over_processes():
    """At one moment."""
    assert moment(0.0, (1, 10, 0.0), (2, 2.5, 0.0)).rss_mb == 12.5


def test_series_are_those_of_processes_that_are_still_there():
    """By name and process id."""
    found = series([moment(0.0, (1, 10, 0.0), (2, 5, 0.0)), moment(1.0, (1, 12, 0.0))])
    assert found == {("p1", 1): ([0.0, 1.0], [10, 12])}


@pytest.mark.parametrize(
    ("times", "sizes", "slope"), [([0, 60, 120], [1, 2, 3], 1.0), ([0, 30], [5, 5], 0.0), ([7], [5], 0.0)]
)
def test_the_slope_is_in_megabytes_per_minute(times, sizes, slope):
    """Of the least-squares line."""
    assert slope_per_minute(times, sizes) == pytest.approx(slope)


def test_a_paused_run_does_nothing_until_it_goes_on(tmp_path):
    """And neither do the processes that it has started."""
    script = """
import pathlib, subprocess, sys, time
here = pathlib.Path(sys.argv[1])
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, __file__, str(here), "child"])
beats = here / f"beats-{len(sys.argv)}"
while True:
    with beats.open("a") as file:
        file.write("x")
    time.sleep(0.01)
"""
    (tmp_path / "beat.py").write_text(script, encoding="utf-8")

    def beats():
        return [path.stat().st_size if path.exists() else 0 for path in (tmp_path / "beats-2", tmp_path / "beats-3")]

    def wait_for_more(than):
        deadline = time.monotonic() + 60
        while not all(now > then for now, then in zip(beats(), than, strict=True)):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    process = subprocess.Popen([sys.executable, str(tmp_path / "beat.py"), str(tmp_path)])
    children = psutil.Process(process.pid).children
    run = WatchedRun(tmp_path, process, tmp_path / "output.txt")
    try:
        wait_for_more([0, 0])
        with run.paused():
            time.sleep(0.2)  # a signal is delivered soon, not at once
            before = beats()
            time.sleep(0.5)
            assert beats() == before
        wait_for_more(before)
    finally:
        for child in [*children(), psutil.Process(process.pid)]:
            child.kill()
        process.wait()


def test_a_run_that_cannot_start_says_why():
    """In its own words."""
    with start_run("[run]\nseed = 1\n") as run, pytest.raises(RunError, match="ended: error: "):
        run.learning()


def test_a_run_that_learns_nothing_is_given_up(tmp_path, monkeypatch):
    """After a while."""
    monkeypatch.setattr(sys, "executable", str(_sleeper(tmp_path)))
    with start_run("") as run, pytest.raises(RunError, match="learned too little in 0 s"):
        run.wait(lambda _: False, within_s=0.3)


def test_what_a_killed_measurement_has_left_goes_with_the_next(tmp_path, monkeypatch):
    """It may be a run of any size; that of one which goes on stays, and so does what a person has called like it."""
    monkeypatch.setattr(sys, "executable", str(_sleeper(tmp_path)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, other = tmp_path / "ludus-bench-left", tmp_path / "ludus-bench-results"
    for folder in (left, other):
        folder.mkdir()
    (left / ".temporary").touch()
    with start_run("") as first, start_run("") as second:
        assert not left.exists()
        assert first.output.exists()
        assert second.output.exists()
    assert list(tmp_path.glob("ludus-bench-*")) == [other]


def _sleeper(folder):
    path = folder / "sleeper"
    path.write_text("#!/bin/sh\nexec sleep 60\n")
    path.chmod(0o755)
    return path
