"""What a run says about itself is complete, in metrics, table, line and summary."""

from __future__ import annotations

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
        generation=1,
        share=0.25,
        matches=700,
        decisions=123456,
        rating=Rating(1234.0, 20.0, 50),
        rating_history=(Rating(1000.0, 50.0, 10), Rating(1500.0, 350.0, 0), Rating(1234.0, 20.0, 50)),
        anchors={"random": score(30, 10, 10), "strong": score(0, 0, 0)},
        milestones={"main@1": score(40, 0, 10)},
        learner=LEARNER,
    )
    return Snapshot(elapsed_s=61.0, decisions=123456, matches=789, players=(player,), sampling=SAMPLING)


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
        "league/main/generation": 1.0,
        "league/main/share": 0.25,
        "league/main/matches": 700.0,
        "league/main/decisions": 123456.0,
        "league/main/rating": 1234.0,
        "league/main/rating_deviation": 20.0,
        "league/main/score_v_random": 0.7,
        "league/main/score_v_random_low": result.low,
        "league/main/score_v_random_high": result.high,
    }
    assert values == expected
    assert {(metric.decisions, metric.elapsed_s) for metric in metrics} == {(123456, 61.0)}


def test_beside_a_display_only_lines_are_printed(snapshot, capsys):
    """The numbers are on the display already."""
    reporter = ConsoleReporter(numbers=False)
    reporter.show(snapshot)
    reporter.say("evaluator-0: [restarted]")
    assert capsys.readouterr().out == "evaluator-0: [restarted]\n"


def test_without_a_display_it_prints_lines(snapshot, capsys):
    """One per player and interval; they can be found in a log."""
    reporter = ConsoleReporter()
    reporter.show(snapshot)
    reporter.show(snapshot)
    reporter.say("evaluator-0: [restarted]")
    first, second = capsys.readouterr().out.splitlines()
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
    assert summary(snapshot).splitlines() == [
        "61 s, 123,456 decisions, 789 training matches",
        "main@3          matches  wins  draws  losses  score   95 % interval",
        "against random       50    30     10      10  70.0%  57.1% to 80.1%",
        "against main@1       50    40      0      10  80.0%  67.0% to 88.8%",
        "rating 1000 → 1234 (± 40)",
    ]


def test_the_summary_of_a_young_run_says_so(snapshot):
    """There is nothing to count before the first model."""
    young = evolve(snapshot, players=(evolve(snapshot.players[0], newest="", models=0),))
    assert summary(young).splitlines()[1:] == ["main: no model frozen yet"]


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
    assert (measured.players[0].newest, measured.players[0].rating.matches) == ("", 0)


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
    reporter.say("a")
    reporter.show(snapshot)
    assert reporter.lines == ["a"]
