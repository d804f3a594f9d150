"""``ludus league`` shows what the league is, also while a run goes on."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from ludus._league import League
from ludus._messages import Fixture
from ludus._models import save_arrays
from ludus._store import Store
from ludus.environment import Seat
from ludus.errors import RunError
from ludus.matchmaker import PoolChange
from ludus_terminal.league import league as command

SEATS = (Seat("player", 0, 0), Seat("player", 1, 1))
VIEWS = ("overview", "payoffs", "ratings", "pools", "lineage", "matches", "verify")


def play(league, a, b, points, *, kind="eval"):
    """Play a fixture of a against b with the given points of a."""
    plan = Fixture(id=0, kind=kind, player="", seats=(a, b), matches=len(points), seed=1, reason=f"why [{a}]")
    fixture = league.create_fixture(plan)
    points = np.asarray(points, np.float32)
    ids, ticks = np.full(len(points), fixture.id), np.full(len(points), 12, np.int32)
    outcome = np.stack([points, 1 - points], axis=1)
    league.record({"fixture": ids, "number": np.arange(len(points)), "ticks": ticks, "outcome": outcome})


def freeze(league, number, parent=None):
    """Write a model file and freeze it."""
    folder = league.store.run_dir / "models"
    digest = save_arrays(folder, {"w": np.full(3, number)}, {"player": "main", "parent": parent})
    league.freeze("main", hash=digest, decisions=1000 * number, version=number, manifest={"parent": parent})
    return digest


@pytest.fixture
def run(tmp_path):
    """Return the folder of a run that is still going on: its writer is open."""
    with Store.create(tmp_path / "run", {"seed": 1, "environment": "a-game"}) as store:
        league = League(store, players={"main": ("player", None)}, anchors=["random", "idle"], seats=SEATS)
        freeze(league, 2, parent=freeze(league, 1))
        league.apply(PoolChange(pool="history", model=f"main@{i}", enters=True) for i in (1, 2))
        play(league, "main@1", "random", [1, 1, 0, 0.5])
        play(league, "random", "main@2", [0, 0, 0, 0.5])
        play(league, "main@2+", "main@2", [1], kind="train")
        play(league, "main@2+", "main@1", [1])
        store.commit()
        yield store.run_dir


def invoke(*arguments, code=0):
    """Run the command and return what it prints."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def data(*arguments):
    """Run the command with --json and return what it prints."""
    return json.loads(invoke(*arguments, "--json"), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def words(text):
    """Return the words of every line."""
    return [line.split() for line in text.splitlines()]


def test_the_overview_shows_players_ratings_and_records(run):
    """One look tells who takes part, how strong everybody is, and how the newest model does against the anchors."""
    lines = words(invoke(run))
    assert ["main", "player", "main@2", "2", "2,000"] in lines
    assert ["main@2", "random", "4", "0.875", "0.405", "to", "0.977"] in lines
    assert ["main@2", "idle", "0"] in lines
    assert [line[1] for line in lines if line[:1] in (["1"], ["2"], ["3"])] == ["main@2", "main@1", "random"]


def test_the_overview_as_json(run):
    """Programs get everything unrounded."""
    overview = data(run)
    assert (overview["environment"], overview["matches"]) == ("a-game", 10)
    (player,) = overview["players"]
    assert (player["name"], player["live"], player["newest"], player["models"]) == ("main", "main@2+", "main@2", 2)
    record = player["anchors"]["random"]
    assert (record["wins"], record["draws"], record["losses"], record["score"]) == (3, 1, 0, 0.875)
    assert player["anchors"]["idle"]["score"] is None
    assert [row["participant"] for row in overview["ratings"]] == ["main@2", "main@1", "random"]


def test_payoffs_are_a_matrix(run):
    """Every row against every column; who never met has a dot."""
    lines = words(invoke(run, "payoffs"))
    assert ["1", "main@1", "5", "·", "·", "0.00", "0.62"] in lines
    assert ["4", "random", "8", "0.38", "0.12", "·", "·"] in lines


def test_payoffs_as_json(run):
    """Training and evaluation together, for every ordered pair."""
    payoffs = {(row["a"], row["b"]): row for row in data(run, "payoffs")["payoffs"]}
    assert payoffs["main@2+", "main@2"]["wins"] == 1
    assert payoffs["random", "main@1"]["losses"] == 2
    assert len(payoffs) == 8


def test_a_large_payoff_matrix_is_cut(run, monkeypatch):
    """The table keeps those with most matches and says so."""
    monkeypatch.setattr("ludus_terminal.league._ROWS", 2)
    text = invoke(run, "payoffs")
    assert ["1", "main@1", "5", "·", "0.62"] in words(text)
    assert "2 of 4 participants" in text


@pytest.mark.parametrize("method", ["elo", "sequential", "openskill"])
def test_every_method_rates_from_the_log(run, method):
    """Only evaluations between frozen models and anchors count: 4 matches each, 8 of the anchor."""
    ratings = data(run, "ratings", "--method", method)
    assert ratings["method"] == method
    assert [(row["participant"], row["matches"]) for row in ratings["ratings"]] == [
        ("main@2", 4),
        ("main@1", 4),
        ("random", 8),
    ]
    assert f"Ratings ({method}" in invoke(run, "ratings", "--method", method)


def test_pools_list_their_members(run):
    """Oldest first."""
    assert data(run, "pools") == {"pools": {"history": ["main@1", "main@2"]}}
    assert ["history", "2", "main@1", "main@2"] in words(invoke(run, "pools"))


def test_lineage_shows_who_comes_from_whom(run):
    """A child hangs below its parent."""
    models = data(run, "lineage")["models"]
    assert [(model["participant"], model["parent"]) for model in models] == [("main@1", None), ("main@2", "main@1")]
    lines = invoke(run, "lineage").splitlines()
    assert lines[1].startswith("└── main@1")
    assert lines[2].startswith("    └── main@2")


def test_matches_can_be_listed(run):
    """With everything that was fixed before they started; a reason may have brackets."""
    lines = words(invoke(run, "matches", "--last", 2))
    assert lines[-1] == ["4", "0", "eval", "main@2+", "main@1", "1", "0", "12", "why", "[main@2+]"]
    matches = data(run, "matches", "--last", "5")["matches"]
    assert len(matches) == 5
    assert matches[-1]["fixture"]["seats"] == ["main@2+", "main@1"]
    assert matches[-1]["outcome"] == [1, 0]


def test_a_sound_league_verifies(run):
    """The exit status is 0."""
    assert "agrees with the log of 10 matches" in invoke(run, "verify")
    assert data(run, "verify") == {"ok": True, "matches": 10, "problems": []}


def test_a_contradiction_exits_with_1(run):
    """The problem has a line of its own."""
    next((run / "models").glob("*.safetensors")).unlink()
    assert "cannot be read" in invoke(run, "verify", code=1)


@pytest.mark.parametrize("view", VIEWS)
def test_an_empty_league_can_be_shown(tmp_path, view):
    """Before the first match there is little to see, and no error."""
    with Store.create(tmp_path, {"seed": 1}) as store:
        League(store, players={"main": ("player", None)}, anchors=["random"], seats=SEATS)
        store.commit()
        assert invoke(tmp_path, view)
        assert isinstance(data(tmp_path, view), dict)


@pytest.mark.parametrize("view", VIEWS)
def test_a_run_that_has_only_just_begun_can_be_shown(tmp_path, view):
    """Between the creation of the folder and its players."""
    with Store.create(tmp_path, {"seed": 1}):
        assert invoke(tmp_path, view)


def test_a_folder_without_a_run_is_one_line(tmp_path):
    """The error says what the folder lacks."""
    with pytest.raises(RunError, match="is not a run folder"):
        invoke(tmp_path)


def test_an_unknown_view_is_a_usage_error(run):
    """The message lists the views."""
    assert "expected one of overview, payoffs" in invoke(run, "payofs", code=2)


def test_looking_does_not_import_torch(run):
    """It must be quick, also on a computer without torch."""
    code = (
        "import sys; from ludus.__main__ import main; sys.exit(main(['league', sys.argv[1]]) or 'torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(run)], stdout=subprocess.DEVNULL, check=True, timeout=60)
