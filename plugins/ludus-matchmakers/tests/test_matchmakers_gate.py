"""The gate: models enter a pool once a sequential test has found them stronger than the last one there."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from ludus.errors import ConfigError
from ludus.rule import PoolChange
from ludus.testing import (
    EloWorld,
    FakeLeague,
    SyntheticLeague,
    SyntheticPlayer,
    check_matchmaker,
    check_rule,
    fake_leagues,
    fake_player,
)
from ludus_matchmakers.gate import Gate, GateMatches, Trials
from ludus_matchmakers.rule_config import GateConfig
from ludus_matchmakers.self_play import LatestSelfPlay
from ludus_ratings import SequentialTest

TRIALS = Trials(max_matches=300)


def league(models=4, *, results=None, passed=("main@1",), refused=()):
    """Return a league of one player whose first model has passed."""
    pools = {"main/gated": passed, "main/refused": refused}
    return FakeLeague(players=[fake_player("main", models)], evaluations=results or {}, pools=pools)


def decide(made, trials=TRIALS):
    """Return the changes of pools."""
    return Gate(trials=trials).decide(made, np.random.default_rng(0))


def asked(made, trials=TRIALS):
    """Return the rating match that is asked for, as a set."""
    pair = GateMatches(trials=trials).next_evaluation(made, np.random.default_rng(0))
    return pair and set(pair)


def enters(pool, model):
    """Return the only change."""
    return [PoolChange(pool=f"main/{pool}", model=model, enters=True)]


def test_both_pass_the_kit():
    """Pure, and every change can be made, on every kind of league."""
    check_rule(Gate(trials=TRIALS))
    check_matchmaker(GateMatches(trials=TRIALS))


def test_the_first_model_enters_without_a_test():
    """There is nothing to compare it with; no rating match is asked for."""
    made = league(2, passed=())
    assert decide(made) == enters("gated", "main@1")
    assert asked(made) is None
    assert decide(league(0, passed=())) == []


def test_the_newest_model_is_tested_first():
    """It meets the newest model that has passed."""
    assert asked(league()) == {"main@4", "main@1"}
    assert asked(league(passed=("main@1", "main@3"))) == {"main@4", "main@3"}
    assert asked(league(passed=("main@1", "main@4"))) is None


def test_a_test_goes_on_while_newer_models_wait():
    """The candidate is the one with the most matches against the reference."""
    made = league(results={("main@2", "main@1"): (6, 0, 4), ("main@3", "main@1"): (0, 1, 0)})
    assert asked(made) == {"main@2", "main@1"}
    assert decide(made) == []


@pytest.mark.parametrize(("won", "pool"), [(60, "gated"), (20, "refused")])
def test_a_decided_candidate_enters_a_pool(won, pool):
    """The one of those that pass, or the one of those that are refused; it needs no more matches."""
    made = league(results={("main@3", "main@1"): (won, 0, 80 - won)})
    assert decide(made) == enters(pool, "main@3")
    assert asked(made) is None


def test_refused_models_are_not_tested_again():
    """The newest other one is the next, also if it is older."""
    results = {("main@4", "main@1"): (20, 0, 60)}
    assert asked(league(results=results, refused=("main@4",))) == {"main@3", "main@1"}
    assert asked(league(refused=("main@2", "main@3", "main@4"))) is None


def test_too_many_matches_refuse():
    """A candidate as strong as its reference is not tested for ever."""
    made = league(results={("main@4", "main@1"): (80, 0, 70)})
    assert decide(made) == []
    assert decide(made, attrs.evolve(TRIALS, max_matches=150)) == enters("refused", "main@4")


def test_models_that_never_meet_have_no_gate():
    """By default such players are left out; named, they are an error."""
    sides = fake_leagues()["two sides"]
    assert decide(sides) == []
    assert asked(sides) is None
    with pytest.raises(ConfigError, match="gate: models of cat play one team only and never meet"):
        decide(sides, Trials(players=("cat",)))


def test_hypotheses_must_differ():
    """The message names both options."""
    with pytest.raises(ValueError, match="elo0: expected less than elo1 = 20, got 30"):
        GateConfig(elo0=30.0, elo1=20.0)


def test_the_models_of_a_league_that_learns_pass():
    """In a simulated league each model that passes is stronger than the one before it."""
    trials = Trials(test=SequentialTest(elo1=100.0))
    made = SyntheticLeague(
        world=EloWorld(),
        players={"main": SyntheticPlayer(matchmaker=LatestSelfPlay())},
        rules=[Gate(trials=trials)],
        evaluation=GateMatches(trials=trials),
    )
    made.run(150)
    strengths = [float(made.strategies[model].sum()) for model in made.pool("main/gated")]
    assert len(strengths) >= 3
    assert strengths == sorted(strengths)
