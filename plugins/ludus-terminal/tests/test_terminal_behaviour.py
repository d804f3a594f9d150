"""``ludus league behaviour``: the statistics of participants in evaluation matches."""

from __future__ import annotations

import pytest
from ludus.environment import Seat
from ludus.runs import open_run
from ludus_terminal.verify import verify

CHASE = (Seat("cat", 0, 0), Seat("mouse", 0, 1), Seat("mouse", 1, 1))


@pytest.fixture
def made(write):
    """Return a league of a cat with two models and a mouse with one, of which two fixtures are played."""
    made = write({"cat": ("cat", 0), "mouse": ("mouse", 1)}, seats=CHASE)
    for player in ("cat", "cat", "mouse"):
        made.freeze(player)
    one = {"cat/catches": [[2], [4]], "mouse/cheese": [[0, 1], [0, 3]]}
    made.play(("cat@1", "mouse@1", "mouse@1"), [(1, 0), (0, 1)], statistics=one)
    made.play(("cat@2", "random", "random"), [(1, 0)], statistics={"cat/catches": [[5]], "mouse/cheese": [[1, 0]]})
    made.store.commit()
    return made


def test_statistics_are_means_per_match(made, data):
    """With a 95 % interval; models and anchors that have some."""
    rows = {row["participant"]: row for row in data("behaviour", made.folder)["behaviour"]}
    assert {name: row["role"] for name, row in rows.items()} == {
        "cat@1": "cat",
        "cat@2": "cat",
        "mouse@1": "mouse",
        "random": "mouse",
    }
    catches = rows["cat@1"]["statistics"]["catches"]
    assert (catches["mean"], catches["deviation"], catches["matches"]) == (3.0, 1.0, 2)
    assert catches["interval"] == pytest.approx([3 - 1.96 / 2**0.5, 3 + 1.96 / 2**0.5])
    assert rows["mouse@1"]["statistics"]["cheese"]["mean"] == 1.0


def test_only_the_newest_models_are_shown(made, data):
    """By option."""
    rows = data("behaviour", made.folder, "--last", 1)["behaviour"]
    assert [row["participant"] for row in rows] == ["cat@2", "mouse@1", "random"]


def test_every_role_has_a_table(made, show):
    """One row per participant, one column per statistic."""
    lines = [line.split() for line in show("behaviour", made.folder).splitlines()]
    assert ["Behaviour", "of", "cat", "per", "evaluation", "match"] in lines
    assert ["cat@1", "2", "3", "±", "1.4"] in lines
    assert ["random", "1", "0.5", "±", "0"] in lines


def test_games_without_statistics_have_none(write, show):
    """One line states it."""
    made = write()
    made.store.commit()
    assert show("behaviour", made.folder).startswith("no statistics yet")


def test_candidates_show_their_statistics(made, data, show):
    """Beside ratings, for the judgement of a person."""
    found = {candidate["model"]: candidate for candidate in data("promote", made.folder)["candidates"]}
    assert found["cat@2"]["behaviour"]["cat/catches"]["mean"] == 5.0
    assert any(line.split()[:1] == ["cat/catches"] for line in show("promote", made.folder).splitlines())


def test_verify_compares_the_sums_with_the_log(made):
    """A changed sum is found."""
    with open_run(made.folder) as run:
        assert not [problem for problem in verify(run).problems if "statistic" in problem]
    made.store.write("UPDATE behaviour SET total = total + 1 WHERE participant = 'cat@1'")
    made.store.commit()
    with open_run(made.folder) as run:
        (problem,) = (problem for problem in verify(run).problems if "statistic" in problem)
    assert problem.startswith("statistic cat/catches of cat@1: stored [2.0, 7.0, 20.0], the log has [2.0, 6.0, 20.0]")
