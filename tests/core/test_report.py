"""What a run says about itself is complete, in metrics, table, line and summary."""

from __future__ import annotations

import io
import json

import pytest
from attrs import evolve
from ludus._report import (
    ConsoleReporter,
    PlayerReport,
    QuietReporter,
    Snapshot,
    evenly,
    measure,
    summary,
    summary_json,
)
from ludus._statistics import score
from ludus.matchmaker import Rating
from rich.console import Console

LEARNER = {
    "samples_per_s": 5000.0,
    "updates_per_s": 2.5,
    "sample_reuse": 3.0,
    "queue_blocks": 4.0,
    "staleness_mean": 1.5,
    "staleness_max": 6.0,
    "policy_loss": -0.0123,
    "value_loss": 0.4567,
    "entropy": 1.234,
    "approx_kl": 0.0089,
    "clip_fraction": 0.321,
    "explained_variance": 0.77,
    "dropped_stale": 12.0,
    "dropped_refused": 1.0,
}
SAMPLING = {"ticks_per_s": 7000.0, "decisions_per_s": 6500.0, "return_mean": 0.25}


@pytest.fixture
def snapshot():
    """Return the numbers of a run with one player and two anchors, one of them not met."""
    player = PlayerReport(
        name="main",
        newest="main@3",
        models=3,
        decisions=123456,
        rating=Rating(1234.0, 20.0, 50),
        rating_history=(Rating(1000.0, 50.0, 10), Rating(1500.0, 350.0, 0), Rating(1234.0, 20.0, 50)),
        anchors={"random": score(30, 10, 10), "strong": score(0, 0, 0)},
        milestones={"main@1": score(40, 0, 10)},
        learner=LEARNER,
    )
    return Snapshot(elapsed_s=61.0, decisions=123456, matches=789, players=(player,), sampling=SAMPLING)


def shown(*, terminal, width=200):
    """Return a console reporter and what it writes to."""
    out = io.StringIO()
    return ConsoleReporter(Console(file=out, width=width, force_terminal=terminal, color_system=None)), out


def test_metrics_hold_everything(snapshot):
    """Rates, learning curves, ratings and scores with their intervals; each with decisions and time."""
    metrics = snapshot.metrics()
    values = {metric.name: metric.value for metric in metrics}
    expected = {f"learner/main/{name}": value for name, value in LEARNER.items()}
    expected |= {f"sampling/{name}": value for name, value in SAMPLING.items()}
    result = score(30, 10, 10)
    expected |= {
        "league/matches": 789.0,
        "league/main/models": 3.0,
        "league/main/rating": 1234.0,
        "league/main/rating_deviation": 20.0,
        "league/main/score_v_random": 0.7,
        "league/main/score_v_random_low": result.low,
        "league/main/score_v_random_high": result.high,
    }
    assert values == expected
    assert {(metric.decisions, metric.elapsed_s) for metric in metrics} == {(123456, 61.0)}


def test_the_table_shows_everything(snapshot):
    """Every number that tells whether a run is healthy has its row."""
    reporter, out = shown(terminal=True)
    reporter.start()
    reporter.show(snapshot)
    reporter._live.refresh()
    text = out.getvalue()
    reporter.stop()
    rows = {
        "decisions learned from": "123,456",
        "ticks/s played": "7,000",
        "decisions/s played": "6,500",
        "samples/s learned": "5,000",
        "updates/s": "2.5",
        "staleness mean, max": "1.5, 6",
        "sample reuse": "3.00",
        "queued blocks": "4",
        "policy loss": "-0.0123",
        "value loss": "0.4567",
        "entropy": "1.234",
        "approximate KL": "0.0089",
        "clip fraction": "0.321",
        "explained variance": "0.77",
        "return per match": "0.25",
        "frozen models": "3",
        "dropped": "stale 12, refused 1",
        "rating of newest": "1234 ± 40",
        "score v random": "70% [",
        "score v strong": "-",
    }
    lines = text.splitlines()
    for label, value in rows.items():
        assert any(label in line and value in line for line in lines), label
    assert "61 s · 789 matches" in text


def test_the_table_of_a_run_that_has_just_started_is_empty(snapshot):
    """Nothing is invented where nothing is known, and columns of players stay in line."""
    new = PlayerReport(
        name="new",
        newest="",
        models=0,
        decisions=0,
        rating=None,
        rating_history=(),
        milestones={},
        anchors={},
        learner={},
    )
    known = evolve(snapshot.players[0], anchors={})
    reporter, out = shown(terminal=True)
    reporter.start()
    reporter.show(evolve(snapshot, players=(new, known)))
    reporter._live.refresh()
    reporter.stop()
    (row,) = {" ".join(line.split()) for line in out.getvalue().splitlines() if "entropy" in line}
    assert row == "│ entropy │ - │ 1.234 │"


def test_without_a_terminal_it_prints_lines(snapshot):
    """One per player and interval; they can be found in a log."""
    reporter, out = shown(terminal=False)
    reporter.start()
    reporter.show(snapshot)
    reporter.show(snapshot)
    reporter.say("evaluator-0: [restarted]")
    reporter.stop()
    first, second = out.getvalue().splitlines()
    for part in (
        "61 s",
        "main",
        "123,456 decisions",
        "6,500/s played",
        "5,000/s learned",
        "staleness 1.5",
        "entropy 1.23",
        "main@3 rated 1234 ± 40",
        "v random 70% [",
    ):
        assert part in first
    assert "strong" not in first
    assert second == "evaluator-0: [restarted]"


def test_the_summary_shows_records_and_the_rise(snapshot):
    """Wins, draws, losses, score and interval against each anchor met; ratings from first to last."""
    out = io.StringIO()
    Console(file=out, width=200).print(summary(snapshot))
    text = out.getvalue()
    assert "61 s, 123,456 decisions, 789 training matches" in text
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines()]
    assert ["random", "50", "30", "10", "10", "70.0%"] in [row[:6] for row in rows]
    assert ["main@1", "50", "40", "0", "10", "80.0%"] in [row[:6] for row in rows]
    assert "strong" not in text
    assert "rating 1000 → 1234 (± 40)" in text


@pytest.mark.parametrize(
    ("count", "most", "chosen"), [(0, 4, []), (1, 4, [0]), (3, 4, [0, 1, 2]), (61, 4, [0, 20, 40, 60])]
)
def test_milestones_are_spread_evenly(count, most, chosen):
    """First and last are among them."""
    assert evenly(count, most) == chosen


def test_the_summary_is_json(snapshot):
    """For programs; what is unknown is null."""
    data = json.loads(json.dumps(summary_json(snapshot)), parse_constant=pytest.fail)
    player = data["players"]["main"]
    assert (data["matches"], player["newest"], player["models"]) == (789, "main@3", 3)
    assert player["ratings"] == [1000.0, 1500.0, 1234.0]
    assert player["anchors"]["random"]["score"] == 0.7
    assert player["anchors"]["strong"]["score"] is None


def test_rates_add_up_over_samplers_and_the_rest_is_averaged(league):
    """Evaluators do not count."""
    runner = league()
    runner.coordinator.values |= {
        "sampler-0": {"decisions_per_s": 100.0, "match_ticks": 10.0},
        "sampler-1": {"decisions_per_s": 50.0, "match_ticks": 20.0, "return_mean": 1.0},
        "evaluator-0": {"decisions_per_s": 7.0},
        "learner-main": {"entropy": 0.5},
    }
    measured = measure(runner.coordinator)
    assert measured.sampling == {"decisions_per_s": 150.0, "match_ticks": 15.0, "return_mean": 1.0}
    assert measured.players[0].learner == {"entropy": 0.5}
    assert (measured.players[0].newest, measured.players[0].rating) == ("", None)


def test_a_league_is_measured(league):
    """Models, ratings and records against the anchors come from its log."""
    runner = league()
    runner.until(lambda: list(runner.store.matches(kind="eval")))
    (player,) = measure(runner.coordinator).players
    models = runner.coordinator.league.players["main"].models
    assert (player.newest, player.models, len(player.rating_history)) == (models[-1], len(models), len(models))
    assert set(player.anchors) == {"random"}


def test_a_quiet_reporter_keeps_what_it_is_told(snapshot):
    """For programs and tests."""
    reporter = QuietReporter()
    reporter.start()
    reporter.say("a")
    reporter.show(snapshot)
    reporter.stop()
    assert reporter.lines == ["a"]
