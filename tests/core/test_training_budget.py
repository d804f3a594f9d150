"""The training budget defines the progress of a run."""

from __future__ import annotations

import pytest
from ludus._training_budget import TrainingBudget
from ludus.testing import FakeLeague, fake_player


@pytest.mark.parametrize(
    ("budget", "progress"),
    [
        (TrainingBudget(), 0.0),
        (TrainingBudget(decisions=400), 0.25),
        (TrainingBudget(seconds=20.0), 0.5),
        (TrainingBudget(decisions=400, seconds=20.0), 0.5),
        (TrainingBudget(decisions=100, seconds=40.0), 1.0),
        (TrainingBudget(decisions=50), 1.0),
    ],
)
def test_progress_is_the_larger_share(budget, progress):
    """Of both limits, at most 1; 0 without limits."""
    assert budget.progress(decisions=100, elapsed_s=10.0) == progress


def test_matchmakers_read_the_progress_of_the_run(league):
    """It is the share of ``run.decisions`` that all players have learned from."""
    runner = league(players={"main": {}, "other": {}}, run={"decisions": 2000})
    view = runner.coordinator.league
    assert view.progress == 0.0
    runner.train(1000)
    assert view.progress == runner.coordinator.league.decisions / 2000 >= 0.5


def test_fake_leagues_have_a_progress():
    """Tests of matchmakers choose it; the default is 0."""
    players = [fake_player("main", 0)]
    assert FakeLeague(players=players).progress == 0.0
    assert FakeLeague(players=players, progress=0.75).progress == 0.75


@pytest.mark.parametrize(
    ("decisions", "elapsed_s", "reached"),
    [(1999, 89.9, ""), (2000, 0.0, "2,000 decisions are learned"), (0, 90.0, "1.5 minutes are over")],
)
def test_a_budget_names_the_limit_that_is_reached(decisions, elapsed_s, reached):
    """Nothing is named before a limit is reached."""
    budget = TrainingBudget(decisions=2000, seconds=90.0)
    assert budget.exhausted(decisions=decisions, elapsed_s=elapsed_s) == reached


def test_a_budget_without_limits_is_never_exhausted():
    """A limit of 0 is no limit."""
    assert not TrainingBudget().exhausted(decisions=10**9, elapsed_s=1e9)
