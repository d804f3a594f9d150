"""What a run says about itself is complete, in metrics and summary."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from ludus._league.statistics import score
from ludus._messaging.messages import Credit, Fixtures
from ludus._run.status import StallWatchdog, collect_metrics, spread_evenly, summarize
from ludus.matchmaker import PlayerView, Rating

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


class Standings:
    """A league of one player with three models, a second one that has done nothing yet, and two anchors."""

    def __init__(self):
        models = ("main@1", "main@2", "main@3")
        common = {"role": "player", "team": None}
        main = {"models": models, "decisions": 123456, "generation_starts": (0, 2), "share": 0.5}
        self.anchors, self.elapsed_s = ("random", "strong"), 61.0
        self.players = {
            "main": PlayerView(name="main", live="main@3+", **main, **common),
            "idle": PlayerView(name="idle", live="idle@0+", models=(), decisions=0, share=1.5, **common),
        }
        self.ratings = {"main@1": Rating(1000.0, 50.0, 10), "main@3": Rating(1234.0, 20.0, 50)}
        self.counts = {"random": (30, 10, 10), "main@1": (40, 0, 10)}

    def rating(self, participant):
        return self.ratings.get(participant, Rating(1500.0, 350.0, 0))

    def payoff(self, participant, opponents):
        assert participant == "main@3"
        return np.array([self.counts.get(name, (0, 0, 0)) for name in opponents], float)


@pytest.fixture
def coordinator():
    """Return what is asked of the coordinator of that league."""
    return SimpleNamespace(
        league=Standings(),
        membership=SimpleNamespace(
            metrics={"learner-main": LEARNER, "sampler-0": SAMPLING, "service-x": {"calls": 3.0}}
        ),
        counts=SimpleNamespace(training=789, by_player={"main": 700}, ticks_by_player={"main": 5600}),
        decisions=123456,
    )


def test_metrics_of_a_league(coordinator):
    """They hold rates, learning curves, ratings and scores with their intervals, each with decisions and time."""
    metrics = collect_metrics(coordinator)
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
        "league/main/ticks": 5600.0,
        "league/main/decisions": 123456.0,
        "league/main/rating": 1234.0,
        "league/main/rating_deviation": 20.0,
        "league/main/score_v_random": 0.7,
        "league/main/score_v_random/low": result.low,
        "league/main/score_v_random/high": result.high,
    }
    expected |= {f"league/idle/{name}": 0.0 for name in ("models", "generation", "matches", "ticks", "decisions")}
    expected |= {"league/idle/share": 0.75, "service-x/calls": 3.0}
    assert values == expected
    assert {(metric.decisions, metric.elapsed_s) for metric in metrics} == {(123456, 61.0)}


def test_anchor_named_like_a_bound_of_another(coordinator):
    """Each anchor has its own score and bounds."""
    league = coordinator.league
    league.anchors, league.counts["random_low"] = ("random", "random_low"), (10, 0, 40)
    values = {metric.name: metric.value for metric in collect_metrics(coordinator)}
    for anchor in league.anchors:
        name = f"league/main/score_v_{anchor}"
        assert values[f"{name}/low"] < values[name] < values[f"{name}/high"]


@pytest.mark.parametrize(
    ("count", "most", "indices"), [(0, 4, []), (1, 4, [0]), (3, 4, [0, 1, 2]), (61, 4, [0, 20, 40, 60])]
)
def test_spread_evenly(count, most, indices):
    """The indices include the first and the last."""
    assert spread_evenly(count, most) == indices


def test_summary_is_json(coordinator):
    """An unknown score is null, and unrated models have no rating."""
    data = json.loads(json.dumps(summarize(coordinator)), parse_constant=pytest.fail)
    player = data["players"]["main"]
    assert (data["matches"], player["newest"], player["models"]) == (789, "main@3", 3)
    assert player["ratings"] == [1000.0, 1234.0]  # of main@1 and main@3
    assert player["anchors"]["random"]["score"] == 0.7
    assert player["anchors"]["strong"]["score"] is None
    assert (player["milestones"]["main@1"]["wins"], set(player["milestones"])) == (40, {"main@1", "main@2"})
    assert data["players"]["idle"] == {
        "newest": "",
        "models": 0,
        "decisions": 0,
        "ratings": [],
        "anchors": {},
        "milestones": {},
    }


def test_sampling_metrics_are_combined_over_samplers(league):
    """Rates are added up and other values averaged; evaluators do not count."""
    runner = league()
    runner.coordinator.membership.metrics |= {
        "sampler-0": {"decisions_per_s": 100.0, "match_ticks": 10.0},
        "sampler-1": {"decisions_per_s": 50.0, "match_ticks": 20.0, "return_mean": 1.0},
        "evaluator-0": {"decisions_per_s": 7.0},
        "learner-main": {"entropy": 0.5},
    }
    values = {metric.name: metric.value for metric in collect_metrics(runner.coordinator)}
    sampling = {name: value for name, value in values.items() if name.startswith("sampling/")}
    assert sampling == {
        "sampling/decisions_per_s": 150.0,
        "sampling/match_ticks": 15.0,
        "sampling/return_mean": 1.0,
    }
    assert values["learner/main/entropy"] == 0.5
    assert values["league/main/models"] == 0
    assert "league/main/rating" not in values


def test_summary_of_a_trained_league(league):
    """Models, ratings and scores against the anchors come from its log."""
    runner = league()
    runner.until(lambda: list(runner.store.matches.records(kind="eval")))
    player = summarize(runner.coordinator)["players"]["main"]
    league_so_far = runner.coordinator.league
    models = league_so_far.players["main"].models
    assert (player["newest"], player["models"]) == (models[-1], len(models))
    rated = [league_so_far.rating(model) for model in models if league_so_far.rating(model).matches]
    assert rated
    assert player["ratings"] == [rating.mean for rating in rated]
    assert set(player["anchors"]) == {"random"}


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        (Credit, "every sampler waits for a learner"),
        (Fixtures, "samplers have no matches, or make no progress in them"),
    ],
    ids=["credits", "fixtures"],
)
def test_stall_is_reported_once(league, lost, reason):
    """Without credits or fixtures nothing is played; a stall is reported again only after progress."""
    runner, warnings = league(run={"decisions": 0}), []
    watchdog = StallWatchdog(timeout_s=2.0)

    def run_rounds(rounds):
        for _ in range(rounds):
            runner.round()
            if warning := watchdog.check(runner.coordinator):
                warnings.append(warning)

    runner.train(64)
    run_rounds(300)
    assert not warnings
    for _ in range(2):
        runner.is_lost = lambda _, message: isinstance(message, lost)
        runner.until(lambda: run_rounds(10) or warnings)
        run_rounds(300)
        assert warnings == [f"nothing was played for 2 s: {reason}"]
        warnings.clear()
        runner.is_lost = lambda *_: False
        runner.train(runner.coordinator.decisions + 64)
        run_rounds(300)
        assert not warnings


def test_stall_of_samplers_that_omit_metrics(coordinator):
    """The metrics of another host may be incomplete; only those present count."""
    coordinator.membership.metrics = {"sampler-0": {"return_mean": 0.25}}
    coordinator.clock = lambda: 7.0
    watchdog = StallWatchdog(timeout_s=0.0)
    assert watchdog.check(coordinator).startswith("nothing was played for 0 s: samplers have no matches")
