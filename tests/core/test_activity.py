"""Processes report what they are busy with."""

from __future__ import annotations

import time

import numpy as np
import pytest
from ludus._run.activity_log import ActivityLog
from ludus._sampling.match_engine import MatchEngine
from ludus.activity import STARTING_MATCHES, listen, report_activity, track
from ludus.signals import StopRequested


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that a test sets."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_track_reports_once_a_second(clock):
    """Between two items; fast ones report nothing."""
    reports = []
    with listen(lambda *report: reports.append(report)):
        for seconds in track("starting matches", [0.4, 0.4, 0.4, 3.0, 0.1]):
            clock[0] += seconds
    assert reports == [("starting matches", 3, 5), ("starting matches", 4, 5)]


def test_reports_without_a_listener_are_dropped():
    """Also after a listener has left."""
    reports = []
    with listen(lambda *report: reports.append(report)):
        report_activity("making games", 0, 2)
    report_activity("making games", 1, 2)
    assert reports == [("making games", 0, 2)]


def test_the_engine_reports_slow_starts(scripted, fixture_of, logging_actor, clock):
    """The first start, and every one after a start that took more than a second."""
    game, reports = scripted({"player": (0, 1)}, 2, length=lambda row: 1), []
    durations, reset = iter([0.0, 5.0, 0.0, 0.0]), game.reset

    def slow_reset(*arguments, **options):
        clock[0] += next(durations)
        return reset(*arguments, **options)

    game.reset = slow_reset
    actor = logging_actor()
    engine = MatchEngine(game, lambda fixture, seat: (actor, 0), lambda results: None)
    engine.add_fixture(fixture_of("ab", matches=8))
    with listen(lambda *report: reports.append((*report, engine.ticks))):
        for _ in range(4):
            engine.step()
    assert reports == [(STARTING_MATCHES, 0, 2, 0), (STARTING_MATCHES, 0, 2, 4)]


def test_a_slow_activity_of_this_process_is_printed(clock):
    """Every 15 seconds, with the options that change it."""
    lines = []
    log = ActivityLog("sim", lines.append, lambda: "")
    for done in range(1, 40):
        clock[0] += 1.0
        log.show("starting matches", done, 64)
    assert [line.partition(" — ")[0] for line in lines] == ["starting matches: 16 of 64", "starting matches: 31 of 64"]
    assert "sampling.matches" in lines[0]
    assert "environment.sim.workers" in lines[0]
    log.show("starting matches", 0, 64)  # the next ones
    clock[0] += 10.0
    log.show("starting matches", 1, 64)
    assert len(lines) == 2


def test_a_signal_interrupts_an_activity():
    """Between two of its parts."""
    with pytest.raises(StopRequested):
        ActivityLog("sim", print, lambda: "SIGTERM").show("making games", 1, 2)


def test_seeds_are_tracked_in_order():
    """The items are those of the sequence."""
    assert list(track("starting matches", np.arange(3).tolist())) == [0, 1, 2]
