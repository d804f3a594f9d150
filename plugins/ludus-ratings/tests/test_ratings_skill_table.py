"""The live rating ``openskill``: that of the whole log, in whatever order results arrive."""

from __future__ import annotations

import builtins
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus._league.league import League
from ludus._store.store import Store
from ludus.environment import Seat
from ludus.errors import ConfigError
from ludus.matchmaker import Rating
from ludus.records import Fixture
from ludus.runs import MatchRecord
from ludus.testing import check_rating
from ludus_ratings import TeamMatch, expected_score, openskill_ratings
from ludus_ratings.skill_table import SkillTable

DUEL = (Seat("player", 0, 0), Seat("player", 1, 1))
CHASE = (Seat("cat", 0, 0), *(Seat("mouse", i, 1) for i in range(4)))
POINTS = 400 / np.log(10) / (np.sqrt(2) * 25 / 6)  # in one unit of openskill


def match(fixture, seats, *outcome, number=0):
    """Return a match of the log."""
    planned = Fixture(id=fixture, kind="eval", player="", participants=tuple(seats), seed=1, matches=9, reason="test")
    return MatchRecord(fixture=planned, number=number, seed=1, outcome=outcome, ticks=1)


def test_the_table_passes_the_testing_kit():
    """The kit of rating tables."""
    check_rating(SkillTable)


def test_ratings_are_skills_in_points():
    """25 is 0, and deviations have the same scale; a participant without matches has the prior."""
    table = SkillTable(seats=DUEL)
    table.replay(0, [match(1, "ab", 1.0, 0.0), match(1, "ab", 0.5, 0.5, number=1), match(2, "cb", 1.0, 0.0)])
    outcomes = ((1.0, 0.0), (0.5, 0.5))
    log = [*(TeamMatch([["a"], ["b"]], outcome) for outcome in outcomes), TeamMatch([["c"], ["b"]], (1.0, 0.0))]
    for name, skill in openskill_ratings(log).items():
        rating = table.rating(name)
        assert (rating.mean, rating.deviation) == pytest.approx((POINTS * (skill.mu - 25), POINTS * skill.sigma))
        assert rating.matches == skill.matches
    assert table.rating("new") == Rating(0.0, pytest.approx(POINTS * 25 / 3), 0)


def test_points_are_those_of_elo():
    """After thousands of matches, 100 points are a share of 64 %."""
    rng, table = np.random.default_rng(0), SkillTable(seats=DUEL)
    won = (rng.random(4000) < expected_score(100, 0)).astype(float)
    table.replay(0, [match(1, "ab", one, 1 - one, number=i) for i, one in enumerate(won.tolist())])
    assert table.rating("a").mean - table.rating("b").mean == pytest.approx(100, abs=25)


def test_seats_of_a_team_stay_together():
    """One cat against four mice, of which two are the same."""
    table = SkillTable(seats=CHASE)
    table.replay(0, [match(1, ("cat", "m1", "m1", "m2", "m3"), 0.0, 1.0)])
    assert [table.rating(name).matches for name in ("cat=cat", "mouse=m1", "mouse=m2", "mouse=m3")] == [1] * 4
    skills = openskill_ratings([TeamMatch([["cat"], ["m1", "m2", "m3"]], (0.0, 1.0))])
    rating = skills["m1"].mu - np.mean([skills[name].mu for name in ("m1", "m2", "m3")])
    assert table.rating("mouse=m1").mean == pytest.approx(POINTS * rating)


def test_a_side_at_a_disadvantage_is_no_skill():
    """Random mice lose nine of ten matches; a mouse that wins as many is rated about 0, one that wins none is below."""
    seats, table = (Seat("cat", 0, 0), Seat("mouse", 0, 1)), None
    table = SkillTable(anchors=("cat=random", "mouse=random"), seats=seats, sides={"mouse": "mouse"})
    matches = []
    for number in range(300):
        won = float(number % 10 == 0)
        matches += [match(number, ("random", name), 1 - won, won) for name in ("random", "mouse@1")]
        matches.append(match(number, ("random", "mouse@2"), 1.0, 0.0))
    table.replay(0, matches)
    assert table.rating("cat=random") == Rating(0.0, 0.0, 900)
    assert table.rating("mouse=random") == Rating(0.0, 0.0, 300)
    assert table.rating("mouse@1").mean == pytest.approx(0.0, abs=40)
    assert table.rating("mouse@2").mean < -150
    assert table.rating("mouse@3") == Rating(0.0, pytest.approx(POINTS * 25 / 3), 0)


def test_live_weights_are_not_rated():
    """They change with every update."""
    table = SkillTable(seats=DUEL)
    table.replay(0, [match(1, ("a@1+", "b"), 0.0, 1.0)])
    assert table.rating("b").matches == table.rating("a@1+").matches == 0


def test_without_the_package_the_error_is_one_line(monkeypatch):
    """It names the package to install."""
    found = builtins.__import__

    def missing(name, *rest):
        if name.startswith("openskill"):
            raise ModuleNotFoundError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError, match="needs the package openskill; pip install openskill"):
        SkillTable(seats=DUEL)


# --- restarts -----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_a_restart_changes_no_rating(tmp_path_factory, data):
    """Results of six fixtures arrive mixed, in reports of any size; live, reopened and read, ratings are the same."""
    ratings = partial(SkillTable, None)
    with Store.create(tmp_path_factory.mktemp("runs") / "run", {}) as store:
        names = ("random", "weak", "strong")
        league = League(store, players={"main": ("player", None)}, anchors=names, seats=DUEL, ratings=ratings)
        pairs = [(a, b) for a in names for b in names if a != b]
        plans = [Fixture(id=0, kind="eval", player="", participants=p, seed=1, matches=3, reason="test") for p in pairs]
        ids = [league.create_fixture(plan).id for plan in plans]
        rows = data.draw(st.permutations([(i, number) for i in ids for number in range(3)]))
        points = np.array(data.draw(st.lists(st.sampled_from([0, 0.5, 1]), min_size=18, max_size=18)), np.float32)
        size = data.draw(st.integers(1, 7))
        for start in range(0, data.draw(st.integers(1, 18)), size):
            fixture, number = np.array(rows[start : start + size], np.int64).T
            mine = points[start : start + size]
            outcome, ticks = np.stack([mine, 1 - mine], axis=1), np.ones(len(mine), np.int32)
            league.record({"fixture": fixture, "number": number, "ticks": ticks, "outcome": outcome})
            if data.draw(st.booleans()):
                league.rating("weak")
        store.commit()
        live = [league.rating(name) for name in names]
        assert sum(rating.matches for rating in live) == 2 * store.matches.count(kind="eval") > 0
        assert [League.of(store, ratings).rating(name) for name in names] == live
        with Store.read(store.run_dir) as reader:
            assert [League.of(reader, ratings).rating(name) for name in names] == live
