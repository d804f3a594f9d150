"""Counts by pair of participants, in total and recently."""

from __future__ import annotations

import numpy as np
import pytest
from ludus._league.league import League
from ludus._league.payoffs import HALF_LIFE, Payoffs
from ludus._store.store import Store
from ludus.environment import Seat
from ludus.records import Fixture

SEATS = (Seat("player", 0, 0), Seat("player", 1, 1))


def only_itself(name):
    """Return the participant alone: it inherits no results."""
    return [(name, 1.0)]


def counts(*numbers):
    """Return wins, draws, losses."""
    return np.array(numbers, np.int64)


@pytest.fixture
def league(tmp_path):
    """Return a new league of two players and an anchor."""
    with Store.create(tmp_path / "run", {"seed": 1}) as store:
        players = {"main": ("player", None), "other": ("player", None)}
        yield League(store, players=players, anchors=("random",), seats=SEATS)


def play(league, a, b, points, *, kind="train"):
    """Play a fixture of a against b; `points` are those of a, one number per match."""
    player = "main" if kind == "train" else ""
    planned = Fixture(id=0, kind=kind, player=player, participants=(a, b), seed=1, matches=len(points), reason="test")
    points = np.asarray(points, np.float32)
    arrays = {"number": np.arange(len(points)), "ticks": np.ones(len(points), np.int32)}
    outcome = np.stack([points, 1 - points], axis=1)
    league.record({"fixture": np.full(len(points), league.create_fixture(planned).id), "outcome": outcome, **arrays})


def freeze(league, player="main", **manifest):
    """Freeze the next model of a player."""
    number = 1 + len(league.players[player].models)
    digest = f"{len(league.models) + 1:064x}"
    return league.freeze(player, hash=digest, decisions=100 * number, version=number, manifest=manifest)


# -- evaluation matches ------------------------------------------------------------------------------------------------


def test_evaluation_matches_are_counted_apart(league):
    """Those of frozen models, which live weights inherit with a weight that halves with every model."""
    freeze(league)
    play(league, "main@1", "random", [1, 1, 0, 0.5], kind="eval")
    play(league, "main@1+", "random", [1, 1, 1])
    assert league.payoff("main@1", ["random"], evaluated=True).tolist() == [[2, 1, 1]]
    assert league.payoff("main@1+", ["random"], evaluated=True).tolist() == [[2, 1, 1]]
    assert league.payoff("main@1+", ["random"]).tolist() == [[5, 1, 1]]
    freeze(league)
    play(league, "main@2", "random", [0, 0], kind="eval")
    assert league.payoff("main@2+", ["random"], evaluated=True).tolist() == [[1, 0.5, 2.5]]
    league.store.commit()
    again = League.of(league.store)
    assert again.payoff("main@2+", ["random"], evaluated=True).tolist() == [[1, 0.5, 2.5]]


# -- total counts -----------------------------------------------------------------------------------------------------


def test_counts_of_a_pair_add_up():
    """Counts of several calls are summed."""
    payoffs = Payoffs(only_itself)
    for _ in range(2):
        payoffs.add("a", "b", counts(1, 2, 3))
        payoffs.add("b", "a", counts(3, 2, 1))
    assert payoffs.payoff("a", ["b"]).tolist() == [[2, 4, 6]]
    assert payoffs.payoff("b", ["a"]).tolist() == [[6, 4, 2]]


def test_a_new_participant_has_counts_after_its_first_match():
    """Also in a list of opponents that was read before."""
    payoffs, asked = Payoffs(only_itself), ("b", "c")
    payoffs.add("a", "b", counts(1, 0, 0))
    assert payoffs.payoff("a", asked).tolist() == [[1, 0, 0], [0, 0, 0]]
    payoffs.add("a", "c", counts(0, 1, 0))
    assert payoffs.payoff("a", asked).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_the_cache_of_opponents_is_bounded():
    """Every list is answered."""
    payoffs = Payoffs(only_itself)
    for i in range(200):
        payoffs.add("a", f"b{i}", counts(i, 0, 0))
    for i in range(200):
        assert payoffs.payoff("a", [f"b{i}"])[0, 0] == i


def test_memory_grows_with_the_pairs_that_met():
    """The row of a participant with two opponents is small."""
    payoffs = Payoffs(only_itself)
    for i in range(1000):
        payoffs.add("a", f"b{i}", counts(1, 0, 0))
        payoffs.add(f"b{i}", "a", counts(0, 0, 1))
    assert sum(row.counts.size for row in payoffs._rows.values()) < 20_000


# -- recent counts ---------------------------------------------------------------------------------------------------


def test_a_match_weighs_half_after_the_half_life():
    """One win, then as many losses as the half-life."""
    payoffs = Payoffs(only_itself)
    payoffs.add_recent("main", "x", counts(1, 0, 0))
    for _ in range(HALF_LIFE):
        payoffs.add_recent("main", "x", counts(0, 0, 1))
    wins, _, losses = payoffs.recent("main", ["x"])[0]
    assert wins == pytest.approx(0.5)
    assert losses == pytest.approx(sum(0.5 ** (i / HALF_LIFE) for i in range(HALF_LIFE)))


def test_reports_of_many_matches_weigh_as_much_as_single_ones():
    """The matches of a report are weighted as if evenly mixed."""
    one, many = Payoffs(only_itself), Payoffs(only_itself)
    for _ in range(1000):
        one.add_recent("main", "x", counts(0, 1, 0))
    for _ in range(10):
        many.add_recent("main", "x", counts(0, 100, 0))
    np.testing.assert_allclose(one.recent("main", ["x"]), many.recent("main", ["x"]))


def test_unknown_participants_have_no_recent_counts():
    """Neither player nor opponent need be known."""
    assert Payoffs(only_itself).recent("main", ["x", "y"]).tolist() == [[0, 0, 0]] * 2
    assert Payoffs(only_itself).recent("main", []).shape == (0, 3)


def test_a_freeze_keeps_recent_counts(league):
    """On both sides."""
    play(league, "main@0+", "other@0+", [1])
    freeze(league)
    play(league, "main@1+", "other@0+", [1])
    (mine,), (theirs,) = league.recent("main", ["other@0+"]), league.recent("other", ["main@1+"])
    assert mine[0] == pytest.approx(2, abs=0.01)
    np.testing.assert_allclose(mine, theirs[::-1])


def test_recent_counts_of_frozen_models_and_anchors(league):
    """Each under its own name."""
    model = freeze(league)
    play(league, "main@1+", model, [1, 0])
    play(league, "main@1+", "random", [0.5])
    np.testing.assert_allclose(league.recent("main", [model, "random"]), [[1, 0, 1], [0, 1, 0]], atol=0.01)


def test_a_reset_clears_recent_counts(league):
    """On both sides; late results of the old weights do not count."""
    play(league, "main@0+", "other@0+", [1])
    play(league, "other@0+", "random", [1])
    planned = Fixture(
        id=0, kind="train", player="main", participants=("main@0+", "other@0+"), seed=1, matches=1, reason="late"
    )
    late = league.create_fixture(planned)
    freeze(league, generation=1)
    outcome = np.array([[1, 0]], np.float32)
    arrays = {"number": np.zeros(1, np.int64), "ticks": np.ones(1, np.int32), "outcome": outcome}
    league.record({"fixture": np.array([late.id]), **arrays})
    assert not league.recent("main", ["other@0+"]).any()
    assert not league.recent("other", ["main@1+"]).any()
    assert league.recent("other", ["random"]).any()


def test_frozen_decisions_of_a_player(league):
    """Also after a restart."""
    freeze(league)
    league.set_decisions("main", 150)
    assert (league.players["main"].frozen_decisions, league.players["main"].decisions) == (100, 150)
    assert League.of(league.store).players["main"].frozen_decisions == 100
