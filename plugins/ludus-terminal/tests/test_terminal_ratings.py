"""``ludus league ratings`` and ``compare`` rate participants from the log by several methods."""

from __future__ import annotations

import math
import sys
import tracemalloc

import numpy as np
import pytest
from ludus.environment import Seat
from ludus.errors import ConfigError
from ludus.runs import open_run
from ludus_terminal.comparison import COMPARISON
from ludus_terminal.rating_views import evaluations

METHODS = ("bradley-terry", "elo", "openskill", "nash", "alpha-rank")
CHASE = (Seat("cat", 0, 0), *(Seat("mouse", i, 1) for i in range(4)))


@pytest.fixture
def made(write):
    """Return a league of two models and an anchor; matches of live weights do not count."""
    made = write()
    made.freeze("main")
    made.freeze("main")
    made.duel("main@1", "random", [1, 1, 0, 0.5])
    made.duel("random", "main@2", [0, 0, 0, 0.5])
    made.duel("main@2+", "main@2", [1], kind="train", player="main")
    made.duel("main@1", "random", [1] * 9, kind="train", player="main")  # as in a game of three teams
    made.duel("main@2+", "main@1", [1])
    made.store.commit()
    return made


def by_name(rows):
    """Return rows by participant."""
    return {row["participant"]: row for row in rows["ratings"]}


# --- ratings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_every_method_rates_from_the_log(made, show, data, method):
    """Only evaluation matches between frozen models and anchors count: 4 of each model, 8 of the anchor."""
    ratings = data("ratings", made.folder, "--method", method)
    assert ratings["method"] == method
    order = [(row["participant"], row["matches"]) for row in ratings["ratings"]]
    assert order[0] == ("main@2", 4)
    assert sorted(order) == [("main@1", 4), ("main@2", 4), ("random", 8)]
    assert "main@2" in show("ratings", made.folder, "--method", method)


@pytest.mark.parametrize("method", METHODS)
def test_without_matches_there_are_no_ratings(write, show, data, method):
    """An empty log is no error."""
    made = write()
    made.store.commit()
    assert data("ratings", made.folder, "--method", method)["ratings"] == []
    assert show("ratings", made.folder, "--method", method)


def test_bradley_terry_equals_the_ratings_of_the_league(made, data):
    """Matchmakers read the same numbers."""
    found = by_name(data("ratings", made.folder))
    for name, row in found.items():
        rating = made.league.rating(name)
        assert (row["mean"], row["deviation"]) == pytest.approx((rating.mean, rating.deviation), abs=1e-3)
    assert found["random"]["mean"] == 0


def test_elo_goes_through_the_log(made, data):
    """The first match moves 8 points of K = 16, the second one 16 · (1 - E(16)), and so on by hand."""
    mean = {"main@1": 0.0, "main@2": 0.0, "random": 0.0}
    for a, b, score in [("main@1", "random", s) for s in (1, 1, 0, 0.5)] + [
        ("random", "main@2", s) for s in (0, 0, 0, 0.5)
    ]:
        change = 16 * (score - 1 / (1 + 10 ** ((mean[b] - mean[a]) / 400)))
        mean[a], mean[b] = mean[a] + change, mean[b] - change
    found = by_name(data("ratings", made.folder, "--method", "elo"))
    assert {name: row["mean"] for name, row in found.items()} == pytest.approx(mean)
    assert {row["deviation"] for row in found.values()} == {None}


def test_shares_add_up(made, data):
    """Nash and alpha-rank give every participant a share; the best one has all of it here."""
    for method in ("nash", "alpha-rank"):
        found = by_name(data("ratings", made.folder, "--method", method))
        assert sum(row["share"] for row in found.values()) == pytest.approx(1)
        assert found["main@2"]["share"] == pytest.approx(1, abs=1e-6)


def test_a_cycle_shares_evenly(write, data):
    """In a cycle of wins all participants have equal shares."""
    made = write()
    for _ in range(3):
        made.freeze("main")
    for a, b in (("main@1", "main@2"), ("main@2", "main@3"), ("main@3", "main@1")):
        made.duel(a, b, [1] * 9 + [0])
    made.store.commit()
    for method in ("nash", "alpha-rank"):
        found = by_name(data("ratings", made.folder, "--method", method))
        assert [row["share"] for row in found.values()] == pytest.approx([1 / 3] * 3, abs=1e-6)


@pytest.fixture
def chase(write):
    """Return a league of one cat against four mice, in which the second model of each role is better."""
    made = write({"tom": ("cat", 0), "jerry": ("mouse", 1)}, anchors=("random",), seats=CHASE)
    for player in ("tom", "tom", "jerry", "jerry"):
        made.freeze(player)
    won = {(1, 1): 5, (1, 2): 2, (2, 1): 8, (2, 2): 5}
    for (cat, mouse), wins in won.items():
        made.play((f"tom@{cat}", *[f"jerry@{mouse}"] * 4), [(1, 0)] * wins + [(0, 1)] * (10 - wins))
    made.play(("random", *["jerry@1"] * 4), [(0, 1)] * 5)
    made.play(("tom@1", *["random"] * 4), [(1, 0)] * 5)
    made.store.commit()
    return made


@pytest.mark.parametrize("method", METHODS)
def test_sides_of_an_asymmetric_game_are_rated(chase, data, method):
    """Four seats of one model are one participant; the better cat and the better mouse come first in their roles."""
    found = by_name(data("ratings", chase.folder, "--method", method))
    key = "share" if method in ("nash", "alpha-rank") else "mean"
    assert found["tom@2"][key] > found["tom@1"][key]
    assert found["jerry@2"][key] > found["jerry@1"][key]
    assert found["jerry@1"]["matches"] == 25
    assert {name: row["role"] for name, row in found.items()} == {
        "tom@1": "cat",
        "tom@2": "cat",
        "cat=random": "cat",
        "jerry@1": "mouse",
        "jerry@2": "mouse",
        "mouse=random": "mouse",
    }


@pytest.mark.parametrize("method", ["bradley-terry", "elo", "openskill"])
def test_the_anchor_of_each_side_is_0(chase, data, show, method):
    """Sides have a table each; without a rated anchor the mean of a side is 0."""
    found = by_name(data("ratings", chase.folder, "--method", method))
    assert found["cat=random"]["mean"] == found["mouse=random"]["mean"] == 0.0
    shown = show("ratings", chase.folder, "--method", method)
    assert f"Ratings ({method}, ± 95 %): cat" in shown
    assert f"Ratings ({method}, ± 95 %): mouse" in shown


def test_roles_have_shares_of_their_own(chase, data):
    """The shares of cats and those of mice add up to 1 each."""
    for method in ("nash", "alpha-rank"):
        found = by_name(data("ratings", chase.folder, "--method", method))
        assert (found["tom@2"]["share"], found["jerry@2"]["share"]) == pytest.approx((1, 1), abs=1e-6)
        assert found["cat=random"]["share"] == pytest.approx(0, abs=1e-6)


def test_a_mouse_that_is_worse_than_random_has_a_negative_gain(write, data, show):
    """It wins 6 of 10 matches against random cats, a random mouse 9 of 10: 0.3 less, and a rating below 0."""
    made = write({"tom": ("cat", 0), "jerry": ("mouse", 1)}, anchors=("random", "bot"), seats=CHASE)
    made.freeze("jerry")
    made.play(("random", *["jerry@1"] * 4), [(0, 1)] * 60 + [(1, 0)] * 40)
    made.play(("random", *["random"] * 4), [(0, 1)] * 90 + [(1, 0)] * 10)
    made.play(("bot", *["jerry@1"] * 4), [(0, 1)] * 10)
    made.store.commit()
    overview = data(made.folder)
    record = {player["name"]: player for player in overview["players"]}["jerry"]["anchors"]["random"]
    assert record["score"] == 0.6
    assert record["baseline"]["participant"] == "mouse=random"
    assert record["baseline"]["score"] == 0.9
    assert record["gain"]["score"] == pytest.approx(-0.3)
    (own, base), (low, high) = (record, record["baseline"]), record["gain"]["interval"]
    assert low == pytest.approx(-0.3 - math.hypot(0.6 - own["interval"][0], base["interval"][1] - 0.9))
    assert high == pytest.approx(-0.3 + math.hypot(own["interval"][1] - 0.6, 0.9 - base["interval"][0]))
    assert by_name(overview)["jerry@1"]["mean"] < 0
    lines = [line.split() for line in show(made.folder).splitlines()]
    cells = ["jerry@1", "random", "100", "0.600", "0.502", "to", "0.691", "0.900", "-0.300"]
    assert cells in [line[:9] for line in lines]
    assert ["jerry@1", "bot", "10", "1.000"] in [line[:4] for line in lines]


def test_too_many_models_of_two_roles_are_an_error(write, show):
    """Alpha-rank would allocate a table of all pairs against all pairs."""
    made = write({"tom": ("cat", 0), "jerry": ("mouse", 1)}, seats=CHASE)
    for player in ("tom", "jerry"):
        for _ in range(64):
            made.freeze(player)
    for number in range(1, 65):
        made.play((f"tom@{number}", *[f"jerry@{number}"] * 4), [(1, 0)])
    made.store.commit()
    with pytest.raises(ConfigError, match=r"64 and 64 models of two roles make 4,096 pairs, more .* try nash"):
        show("ratings", made.folder, "--method", "alpha-rank")


def test_a_missing_openskill_is_one_line(made, show, monkeypatch):
    """The message names the package to install."""
    monkeypatch.setitem(sys.modules, "openskill.models", None)
    with pytest.raises(ConfigError, match="pip install openskill"):
        show("ratings", made.folder, "--method", "openskill")


def test_evaluations_can_be_restricted_and_extended(made):
    """Removed participants lose their matches, added ones have none."""
    with open_run(made.folder) as run:
        table = evaluations(run)
    assert table.names == ("main@1", "main@2", "random")
    cut = table.only(["random", "idle", "main@1"])
    assert cut.points().tolist() == [[0, 0, 1.5], [0, 0, 0], [2.5, 0, 0]]
    met = cut.pair_results()
    assert (met.num, met.pairs.tolist(), met.points.tolist(), met.draws.tolist()) == (3, [[0, 2]], [[1.5, 2.5]], [1])


# --- comparison ---------------------------------------------------------------------------------------------------


@pytest.fixture
def rivals(write):
    """Return a function that creates leagues of an anchor and two models that played on paired seeds."""

    def make(first, second, *, against_random=()):
        made = write()
        made.freeze("main")
        made.freeze("main")
        one = made.duel("main@1", "main@2", [1 - won for won in first])
        made.duel("main@2", "main@1", second, paired=one)
        for name, points in zip(("main@1", "main@2"), against_random, strict=False):
            made.duel(name, "random", points)
        made.store.commit()
        return made.folder

    return make


def test_matches_with_exchanged_seats_are_pairs(rivals, data):
    """The first seat always wins: 40 matches on 20 seeds show equal strength, with the deviation of pairs."""
    answer = data("compare", rivals([0] * 20, [1] * 20), "main@1", "main@2")
    assert (answer["a"], answer["b"], answer["verdict"]) == ("main@1", "main@2", "undecided")
    direct = answer["direct"]
    assert (direct["matches"], direct["seeds"], direct["score"]) == (40, 20, 0.5)
    assert direct["interval"][1] - direct["interval"][0] < 0.1


@pytest.mark.parametrize(
    ("points", "verdict", "words"),
    [
        ([1, 1, 1, 1, 0] * 10, "better", "main@2 is better than main@1."),
        ([0, 0, 0, 0, 1] * 10, "worse", "main@2 is worse than main@1."),
        ([1, 1, 0, 1, 0], "undecided", "Not decided yet whether main@2 is better than main@1: if the difference"),
        ([1, 0], "undecided", "they look equal."),
    ],
)
def test_the_answer_is_one_sentence(rivals, show, data, points, verdict, words):
    """It names the number of matches that would decide the comparison, if that is known."""
    folder = rivals(points, points)
    answer = data("compare", folder, "main@1", "main@2")
    text = " ".join(show("compare", folder, "main@1", "main@2").split())
    assert (answer["verdict"], words in text) == (verdict, True)
    assert ("more matches would decide it" in text) == ("if the difference" in words)
    assert (answer["more_matches"] == 0) == (verdict != "undecided")


def test_participants_are_compared_through_common_opponents(rivals, show, data):
    """Without matches between them the comparison rests on other matches."""
    folder = rivals([], [], against_random=([0] * 30 + [1] * 10, [1] * 30 + [0] * 10))
    answer = data("compare", folder, "main@1", "main@2")
    assert (answer["verdict"], answer["direct"]["score"]) == ("better", None)
    assert answer["combined"] == answer["indirect"]
    assert answer["indirect"]["interval"][0] > 0
    assert "through others" in show("compare", folder, "main@1", "main@2")


def test_contradictions_are_shown(rivals, show):
    """Only matches between the two count then."""
    folder = rivals([0] * 40, [0] * 40, against_random=([0] * 50, [1] * 50))
    text = show("compare", folder, "main@1", "main@2")
    assert "main@2 is worse than main@1." in text
    assert "contradict each other" in text


def test_unconnected_participants_cannot_be_compared(rivals, show):
    """No chain of matches connects them."""
    text = " ".join(show("compare", rivals([], []), "main@1", "idle").split())
    assert "no matches connect them; ludus gate RUN idle main@1 plays as many as it takes." in text


def test_names_are_resolved(made, show, data):
    """Names resolve as in other commands; live weights and two equal names are errors."""
    assert data("compare", made.folder, "main@1", "main@latest")["b"] == "main@2"
    with pytest.raises(ConfigError, match="still learning"):
        show("compare", made.folder, "main@1", "main")
    with pytest.raises(ConfigError, match="better than itself"):
        show("compare", made.folder, "main@2", "main@latest")
    with pytest.raises(ConfigError, match="did you mean"):
        show("compare", made.folder, "main@1", "rndom")


def test_cats_are_compared_through_mice(chase, data):
    """Two models of one role never play each other."""
    answer = data("compare", chase.folder, "tom@1", "tom@2")
    assert (answer["direct"]["matches"], answer["verdict"]) == (0, "undecided")
    assert answer["indirect"]["mean"] > 0


def test_matches_in_one_team_are_no_evidence(write, data):
    """Matches in which one participant holds both sides do not count either."""
    made = write({"tom": ("cat", 0), "jerry": ("mouse", 1)}, anchors=("random",), seats=CHASE)
    for _ in range(2):
        made.freeze("jerry")
    made.play(("random", "jerry@1", "jerry@2", "jerry@1", "jerry@2"), [(1, 0)] * 5)
    made.play(("random", "random", "jerry@2", "jerry@1", "jerry@2"), [(1, 0)] * 5)
    made.store.commit()
    assert data("compare", made.folder, "jerry@1", "jerry@2")["direct"]["matches"] == 0
    assert data("compare", made.folder, "random", "jerry@2")["direct"]["matches"] == 0  # random was no mouse


def test_different_roles_are_not_compared(chase, show):
    """The message has both roles and the command that plays the two."""
    with pytest.raises(ConfigError) as error:
        show("compare", chase.folder, "tom@1", "jerry@1")
    assert str(error.value) == (
        "tom@1 plays cat and jerry@1 plays mouse: expected participants of one role; ludus eval RUN tom@1 jerry@1 "
        "plays them against each other"
    )
    with pytest.raises(ConfigError, match=r"^cat=jerry@1: jerry@1 learned the role mouse, so it does not play cat$"):
        show("compare", chase.folder, "cat=jerry@1", "tom@1")
    with pytest.raises(ConfigError, match=r"^dog=tom@1: there is no role 'dog'; the roles are cat, mouse$"):
        show("compare", chase.folder, "dog=tom@1", "tom@2")


def test_an_anchor_is_compared_in_one_role(write, data, show):
    """Its matches in the other role are no evidence: the cat wins all matches, so random mice lose as jerry does."""
    made = write({"tom": ("cat", 0), "jerry": ("mouse", 1)}, anchors=("random", "bot"), seats=CHASE)
    made.freeze("tom")
    made.freeze("jerry")
    for cat in ("tom@1", "random"):
        for mouse in ("jerry@1", "random"):
            if cat != mouse:
                made.play((cat, *[mouse] * 4), [(1, 0)] * 18 + [(0, 1)] * 2)
    made.store.commit()
    answer = data("compare", made.folder, "random", "jerry@1")
    assert (answer["a"], answer["b"], answer["role"]) == ("mouse=random", "jerry@1", "mouse")
    assert (answer["direct"]["matches"], answer["verdict"]) == (0, "undecided")
    assert answer["indirect"]["mean"] == pytest.approx(0, abs=10)
    assert data("compare", made.folder, "tom@1", "cat=random")["indirect"]["mean"] == pytest.approx(0, abs=10)
    with pytest.raises(ConfigError, match="random and bot play every role; name one, for example ROLE=random"):
        show("compare", made.folder, "random", "bot")


def test_a_comparison_needs_memory_for_pairs_that_met(write):
    """One table of all 500 x 500 pairs would take 2 MB."""
    made = write()
    made.freeze("main")
    file = made.league.models["main@1"]
    for i in range(2, 501):  # all of them in one file
        made.league.freeze("main", hash=file.hash, decisions=1000 * i, version=i, manifest=file.manifest)
        made.duel(f"main@{i}", f"main@{i - 1}", [1, 0.5])
    made.store.commit()
    with open_run(made.folder) as run:
        tracemalloc.start()
        answer = COMPARISON.data(run, a="main@100", b="main@110")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert answer["indirect"]["mean"] > 0
    assert peak < 4e6


def test_ratings_follow_known_strengths(write, data):
    """Every method ranks five models by their strength."""
    made, rng = write(), np.random.default_rng(0)
    for _ in range(5):
        made.freeze("main")
    for i in range(1, 6):
        for j in range(1, i):
            share = 1 / (1 + 10 ** ((j - i) * 200 / 400))
            made.duel(f"main@{i}", f"main@{j}", (rng.random(60) < share).astype(float))
    made.store.commit()
    for method in ("bradley-terry", "openskill", "nash"):
        found = by_name(data("ratings", made.folder, "--method", method))
        assert sorted(found, key=lambda name: found[name]["mean"]) == [f"main@{i}" for i in range(1, 6)]
