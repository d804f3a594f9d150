"""Start, pause and stop a run, and read its metrics and resources."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest
from ludus.errors import RunError
from ludus_bench.watched_run import MetricLine, Moment, cores_between, mean_metrics, rates, start_run


def line(at_s, decisions=0, **values):
    """Return the metrics of one moment."""
    return MetricLine(at_s=at_s, decisions=decisions, values={name.replace("__", "/"): v for name, v in values.items()})


def test_rates_come_from_the_window_only():
    """Counters are interpolated at the edges of the window."""
    lines = [line(0.0, 0), line(10.0, 1000), line(12.0, 1400), line(14.0, 1600)]
    assert rates(lines, start_s=11.0, end_s=13.0, parts=1) == [150.0]
    assert rates(lines, start_s=10.0, end_s=14.0, parts=2) == [200.0, 100.0]


def test_metrics_are_averaged_over_the_window_by_name():
    """Lines outside of the window and NaN are left out."""
    lines = [
        line(1.0, learner__a__x=100.0),
        line(2.0, learner__a__x=1.0, learner__b__x=5.0),
        line(3.0, learner__a__x=3.0, learner__b__x=float("nan"), learner__a__y=7.0),
        line(9.0, learner__a__x=100.0),
    ]
    assert mean_metrics(lines, "learner/*/x", start_s=2.0, end_s=3.0) == {"a": 2.0, "b": 5.0}


def test_cores_count_processes_that_exist_at_both_ends():
    """Processes that start or end in between are left out."""
    first, middle, last = (
        Moment(at_s=at_s, rss_mb=0.0, cpu_s=cpu_s)
        for at_s, cpu_s in ((0.0, {1: 1.0, 2: 5.0}), (1.0, {}), (2.0, {1: 2.5, 3: 9.0}))
    )
    assert cores_between([first, middle, last]) == 0.75


def test_a_moment_includes_children():
    """With memory and CPU time; there is nothing to read of an ended process."""
    alone = Moment.read(os.getpid(), 1.0)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        moment = Moment.read(os.getpid(), 2.0)
        assert moment.cpu_s.keys() - alone.cpu_s.keys() == {child.pid}
        assert moment.cpu_s[os.getpid()] > 0
        assert moment.rss_mb > alone.rss_mb > 10
    finally:
        child.communicate(b"\n")
    assert Moment.read(child.pid, 3.0) == Moment(at_s=3.0, rss_mb=0.0, cpu_s={})


def test_a_run_that_cannot_start_reports_its_error():
    """The error quotes the last line of the output."""
    with start_run("[run]\nseed = 1\n") as run, pytest.raises(RunError, match="ended: error: "):
        run.wait_until_learning()


def test_a_run_that_learns_nothing_times_out(tmp_path, monkeypatch):
    """After the timeout of the wait."""
    monkeypatch.setattr(sys, "executable", str(_sleeper(tmp_path)))
    with start_run("") as run, pytest.raises(RunError, match="learned too little in 0 s"):
        run.wait(lambda _: False, within_s=0.3)


def test_folders_of_killed_measurements_are_removed(tmp_path, monkeypatch):
    """Folders of running measurements and folders without the marker file stay."""
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
