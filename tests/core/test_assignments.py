"""Workers report results of their own fixtures only, and hold a bounded number of them."""

from __future__ import annotations

import time

import numpy as np
import pytest
from ludus._league.assignments import Assignments
from ludus._messaging.messages import FixtureRequest, Hello, MetricsReport, Results, ResultsAck
from ludus._messaging.refusals import MAX_REFUSALS
from ludus.errors import WireError


def report(ids, number=1):
    """Return a well-formed report of one match of every fixture."""
    ids = np.array(ids, np.int64)
    return Results(
        report=number,
        arrays={
            "fixture": ids,
            "number": np.zeros(ids.size, np.int64),
            "ticks": np.ones(ids.size, np.int32),
            "outcome": np.full((ids.size, 2), 0.5, np.float32),
        },
    )


def send(runner, message, peer="sampler-box-0"):
    """Send a message and return the answers."""
    before = len(runner.sent)
    runner.coordinator.handle(peer, message)
    runner.coordinator.flush()
    return [message for _, to, message in runner.sent[before:] if to == peer]


def request(runner, peer="sampler-box-0", count=1):
    """Request fixtures."""
    return [one for answer in send(runner, FixtureRequest(kind="train", count=count), peer) for one in answer.fixtures]


@pytest.fixture
def assigned():
    """Return assignments with a clock, and open fixtures 1 to 3 of a worker."""
    made = Assignments(num_matches=4, clock=lambda: made_s[0])
    made_s = [0.0]
    for number in (1, 2, 3):
        made.add("sampler-0", number)
    return made, made_s


def test_a_worker_reports_its_own_fixtures_only(assigned):
    """Neither those of others nor unknown ones."""
    assignments, _ = assigned
    assert assignments.unfinished_rows("sampler-0", report([3, 1, 1]).arrays).tolist() == [True] * 3
    for ids in ([4], [1, 4], [-1]):
        with pytest.raises(WireError, match="not assigned to sampler-0"):
            assignments.unfinished_rows("sampler-0", report(ids).arrays)
    with pytest.raises(WireError, match="not assigned to sampler-1"):
        assignments.unfinished_rows("sampler-1", report([1]).arrays)


def test_repeated_and_late_results_are_no_mistake(assigned):
    """Rows of finished fixtures are dropped, those of lost ones accepted."""
    assignments, _ = assigned
    assignments.finish("sampler-0", 2)
    assert assignments.unfinished_rows("sampler-0", report([1, 2, 3, 2]).arrays).tolist() == [True, False, True, False]
    assignments.release("sampler-0")
    assert assignments.unfinished_rows("sampler-0", report([1, 2]).arrays).tolist() == [True, False]
    assert assignments.room("sampler-0") == assignments.max_open


def test_open_fixtures_are_bounded_and_expire(assigned):
    """A worker that loses answers gets new fixtures in the end."""
    assignments, now_s = assigned
    for number in range(4, assignments.max_open + 1):
        assignments.add("sampler-0", number)
    assert assignments.room("sampler-0") == 0
    now_s[0] = 601.0
    assert assignments.room("sampler-0") == assignments.max_open
    assert assignments.unfinished_rows("sampler-0", report([1]).arrays).all()


@pytest.mark.parametrize("wrong", ["rows", "shape", "dtype", "missing", "lengths"])
def test_malformed_reports_are_refused(assigned, wrong):
    """Before they are read."""
    arrays = dict(report([1]).arrays)
    changes = {
        "rows": {"fixture": np.ones(10_000, np.int64)},
        "shape": {"fixture": np.ones((1, 1), np.int64)},
        "dtype": {"fixture": np.ones(1, np.int32)},
        "lengths": {"number": np.zeros(2, np.int64)},
    }
    arrays |= changes.get(wrong, {})
    if wrong == "missing":
        del arrays["fixture"]
    with pytest.raises(WireError):
        assigned[0].unfinished_rows("sampler-0", arrays)


@pytest.mark.parametrize("count", [200_000, 4000])
def test_unknown_ids_take_milliseconds(league, count):
    """Nothing is looked up in the database."""
    runner = league()
    message = report(np.arange(10, 10 + count))
    started_s = time.process_time()
    runner.coordinator.handle("sampler-box-0", message)
    assert time.process_time() - started_s < 0.1
    runner.coordinator.flush()
    assert runner.store.counters()["reports_refused"] == runner.coordinator.refusals.total == 1
    assert runner.coordinator.counts.training == 0


def test_a_peer_cannot_fill_the_league_with_fixtures(league):
    """It gets no more than it can play."""
    runner = league()
    got = sum(len(request(runner, count=2**40)) for _ in range(20))
    assert got == runner.coordinator.assignments.max_open
    assert request(runner) == []
    assert request(runner, "sampler-1") != []


def test_a_restarted_sampler_starts_with_no_open_fixtures(league):
    """Late results of its predecessor count."""
    runner = league()
    while fixtures := request(runner, count=64):
        (fixture, *_) = fixtures
    send(runner, Hello(pid=2))
    assert len(request(runner, count=64)) == 64
    assert send(runner, report([fixture.id])) == [ResultsAck(report=1)]
    assert runner.coordinator.counts.training == 1
    assert runner.coordinator.refusals.total == 0


def test_a_peer_that_forges_results_is_cut_off(league):
    """After a number of refused reports; nothing of them is counted."""
    runner = league()
    (fixture,) = request(runner, "sampler-0")
    for number in range(MAX_REFUSALS):
        send(runner, report([fixture.id], number))
    assert list(runner.coordinator.refusals.take_cut_off()) == ["sampler-box-0"]
    assert runner.store.matches.count() == 0


def test_names_of_metrics_are_bounded(league):
    """Over all reports of a worker, so that the metric file stays readable."""
    runner = league()
    for first in range(0, 1024, 256):
        send(runner, MetricsReport(values={f"m{number}": 1.0 for number in range(first, first + 256)}))
    assert runner.coordinator.refusals.total == 0
    for wrong in ("one more", "x" * 201, "line\nbreak"):
        send(runner, MetricsReport(values={wrong: 1.0}))
    assert runner.coordinator.refusals.total == 3
    assert len(runner.coordinator.membership.metrics["sampler-box-0"]) == 256
