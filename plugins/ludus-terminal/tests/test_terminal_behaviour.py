"""``ludus league behaviour``: the statistics of participants in evaluation matches."""

from __future__ import annotations

import ludus
import pytest
from ludus.environment import Seat
from ludus.errors import ConfigError
from ludus.runs import open_run
from ludus_terminal.drift import draw_drift
from ludus_terminal.profiles import draw_profiles
from ludus_terminal.verify import verify
from matplotlib.figure import Figure

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


def test_profiles_scale_every_statistic(made, data):
    """The lowest mean of a role is 0 and the highest 1; intervals are scaled alike; equal means are ½."""
    rows = {row["participant"]: row["statistics"] for row in data("behaviour", made.folder)["behaviour"]}
    first, second = (rows[name]["catches"]["normalised"] for name in ("cat@1", "cat@2"))
    assert (first["mean"], second["mean"]) == (0.0, 1.0)
    assert first["interval"] == pytest.approx([-1.96 / 2**0.5 / 2, 1.96 / 2**0.5 / 2])  # means are 3 and 5
    alone = data("behaviour", made.folder, "--players", "cat@2")["behaviour"]
    assert alone[0]["statistics"]["catches"]["normalised"]["mean"] == 0.5


def test_chosen_participants_are_shown(made, data):
    """In the given order; a player stands for its newest model."""
    rows = data("behaviour", made.folder, "--players", "random,cat,cat@1")["behaviour"]
    assert [row["participant"] for row in rows] == ["random", "cat@2", "cat@1"]
    with pytest.raises(ConfigError, match="dog"):
        data("behaviour", made.folder, "--players", "dog")


def test_profiles_are_drawn(made, data, tmp_path):
    """The file has one chart per role; a run without statistics leaves no file."""
    found = data("behaviour", made.folder, "--plot", tmp_path / "new" / "profiles.png")
    assert (tmp_path / "new" / "profiles.png").read_bytes().startswith(b"\x89PNG")
    assert found["plot"] == str(tmp_path / "new" / "profiles.png")
    figure = Figure()
    assert draw_profiles(figure, found["behaviour"])
    cat, mouse = figure.axes
    assert [text.get_text() for text in cat.get_legend().get_texts()] == ["cat@1", "cat@2"]
    assert [label.get_text() for label in cat.get_yticklabels()] == ["catches  (3 to 5)"]
    points = [container.lines[0].get_xdata().tolist() for container in cat.containers]
    assert points == [[0.0], [1.0]]
    assert not draw_profiles(Figure(), [])
    assert mouse.get_title().startswith("Behaviour of mouse")


def test_the_diversity_of_pools(made, data, show):
    """The mean distance of the members on the scale of pools and anchors, and what chance would give."""
    assert data("behaviour", made.folder)["diversity"] == []
    made.enter("cats", "cat@1", "cat@2")
    made.enter("mice", "mouse@1")
    made.store.commit()
    (row,) = data("behaviour", made.folder)["diversity"]
    assert {name: row[name] for name in ("pool", "role", "members", "statistics", "distance")} == {
        "pool": "cats",
        "role": "cat",
        "members": 2,
        "statistics": 1,
        "distance": 1.0,  # 3 and 5 are the ends of the scale
    }
    assert row["by_chance"] == pytest.approx(1 / 2**0.5 / 2)  # deviation 1 in 2 matches, and 0 in 1; scale of 2
    assert ["cats", "cat", "2", "1", "1.000", "0.354"] in [
        line.split() for line in show("behaviour", made.folder).splitlines()
    ]


def test_drift_is_drawn(made):
    """One chart per statistic, with a curve per player over the minutes of training."""
    figure = Figure()
    with open_run(made.folder) as run:
        assert draw_drift(run, figure)
    catches, cheese = figure.axes
    assert (catches.get_title(), cheese.get_title()) == ("cat/catches", "mouse/cheese")
    (line,) = catches.get_lines()
    assert line.get_ydata().tolist() == [3.0, 5.0]
    assert len(line.get_xdata()) == 2


def test_many_statistics_are_rows(write, show):
    """A table with more statistics than fit beside each other has one column per participant."""
    made = write()
    made.freeze("main")
    values = {f"player/number-{i}": [[i, 0], [i, 0]] for i in range(10)}
    made.duel("main@1", "random", [1, 0], statistics=values)
    made.store.commit()
    lines = [line.split() for line in show("behaviour", made.folder).splitlines()]
    assert ["main@1", "random"] in lines
    assert ["number-7", "7", "±", "0", "0", "±", "0"] in lines


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folder of a short run."""
    player = {
        "algorithm": "dummy-gradient",
        "dummy-gradient": {"segment_decisions": 4, "batch_decisions": 64},
        "matchmaker": "dummy-uniform",
        "freeze_every_decisions": 400,
    }
    tables = {
        "run": {"seed": 3, "workers": 0, "decisions": 1500},
        "environment": {"name": "dummy-count"},
        "sampling": {"matches": 8, "fixture_matches": 8, "rows_per_fixture": 4},
        "players": {"main": player, "other": player},
        "anchors": {"random": {"agent": "dummy-random"}},
        "evaluation": {"matches": 8, "fixture_matches": 5, "final_matches": 0},
    }
    folder = tmp_path_factory.mktemp("runs") / "run"
    ludus.train(tables, run_dir=folder).__exit__()
    return folder


def test_behaviour_is_measured_against_one_opponent(trained, data, show):
    """All participants play as many matches, in all seats, and the run does not change."""
    with open_run(trained) as run:
        before = run.num_matches()
    asked = ("behaviour", trained, "--players", "main@1,other,main@1", "--against", "random", "--matches", 9)
    rows = data(*asked)["behaviour"]
    assert [row["participant"].partition("@")[0] for row in rows] == ["main", "other"]
    added = [row["statistics"]["added"] for row in rows]
    assert [statistic["matches"] for statistic in added] == [10, 10]  # rounded up to exchanges of the seats
    assert all(statistic["mean"] > 0 for statistic in added)
    assert show(*asked).startswith("Behaviour of player per match against random")
    with open_run(trained) as run:
        assert run.num_matches() == before
