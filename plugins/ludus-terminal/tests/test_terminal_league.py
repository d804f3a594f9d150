"""``ludus league`` shows the league of a run, also while the run goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ludus._league.league import League
from ludus._store.store import Store
from ludus.environment import Seat
from ludus.errors import ConfigError, RunError

SEATS = (Seat("player", 0, 0), Seat("player", 1, 1))
VIEWS = ("overview", "payoffs", "ratings", "pools", "lineage", "matches", "mix", "verify")


@pytest.fixture
def run(write):
    """Return the folder of a run whose writer is open."""
    made = write()
    made.freeze("main")
    made.freeze("main")
    made.enter("history", "main@1", "main@2")
    for a, b, points in (("main@1", "random", [1, 1, 0, 0.5]), ("random", "main@2", [0, 0, 0, 0.5])):
        made.duel(a, b, points)
    made.duel("main@2+", "main@2", [1], kind="train", player="main")
    made.duel("main@2+", "main@1", [1], reason="why [main@2+]")
    made.store.commit()
    return made.folder


def words(text):
    """Return the words of every line."""
    return [line.split() for line in text.splitlines()]


def test_the_overview_shows_players_ratings_and_records(run, show):
    """The overview shows the players, their ratings, and the scores of the newest models against anchors."""
    lines = words(show(run))
    assert ["main", "player", "main@2", "2", "2,000"] in lines
    assert ["main@2", "random", "4", "0.875", "0.405", "to", "0.977"] in lines
    assert ["main@2", "idle", "0"] in lines
    assert [line[1] for line in lines if line[:1] in (["1"], ["2"], ["3"])] == ["main@2", "main@1", "random"]


def test_the_overview_as_json(run, data):
    """JSON values are not rounded."""
    overview = data(run)
    assert (overview["environment"], overview["matches"]) == ("a-game", 10)
    (player,) = overview["players"]
    assert (player["name"], player["live"], player["newest"], player["models"]) == ("main", "main@2+", "main@2", 2)
    record = player["anchors"]["random"]
    assert (record["wins"], record["draws"], record["losses"], record["score"]) == (3, 1, 0, 0.875)
    assert player["anchors"]["idle"]["score"] is None
    assert [row["participant"] for row in overview["ratings"]] == ["main@2", "main@1", "random"]


def test_the_overview_computes_the_deviations_that_it_shows(write, show, data, computed):
    """A deviation is slow to compute with many models; JSON has all of them."""
    made = write()
    for i in range(1, 21):
        made.duel(made.freeze("main"), "random", [1] * i)
    made.store.commit()
    assert "… and 9 more" in show(made.folder)
    assert len(computed) == 12
    computed.clear()
    ratings = data(made.folder)["ratings"]
    assert len(computed) == len(ratings) - 1 == 20  # that of the reference is 0
    assert all(row["deviation"] > 0 for row in ratings if row["participant"] != "random")


def test_payoffs_are_a_matrix(run, show):
    """The matrix has every row against every column, and a dot for pairs without matches."""
    lines = words(show(run, "payoffs"))
    assert ["1", "random", "8", "·", "0.12", "0.38", "·"] in lines
    assert ["3", "main@1", "5", "0.62", "·", "·", "0.00"] in lines


def test_payoffs_as_json(run, data):
    """Training and evaluation matches are added up for every ordered pair."""
    payoffs = {(row["a"], row["b"]): row for row in data(run, "payoffs")["payoffs"]}
    assert payoffs["main@2+", "main@2"]["wins"] == 1
    assert payoffs["random", "main@1"]["losses"] == 2
    assert len(payoffs) == 8


def test_a_large_payoff_matrix_is_cut(run, monkeypatch, show):
    """The table keeps anchors and the newest models, and a line states that."""
    monkeypatch.setattr("ludus_terminal.views._ROWS", 2)
    text = show(run, "payoffs")
    assert ["1", "random", "8", "·", "0.12"] in words(text)
    assert ["2", "main@2", "5", "0.88", "·"] in words(text)
    assert "2 of 4 participants" in text


def test_pools_list_their_members(run, show, data):
    """Members are listed oldest first."""
    assert data(run, "pools") == {"pools": {"history": ["main@1", "main@2"]}}
    assert ["history", "2", "main@1", "main@2"] in words(show(run, "pools"))


def test_lineage_shows_parents(run, show, data):
    """A model is shown below its parent."""
    models = data(run, "lineage")["models"]
    assert [(model["participant"], model["parent"]) for model in models] == [("main@1", None), ("main@2", "main@1")]
    lines = show(run, "lineage").splitlines()
    assert lines[1].startswith("└── main@1")
    assert lines[2].startswith("    └── main@2")


def test_lineage_shows_player_resets(write, show, data):
    """The parent of a generation's first model is the model that the player was reset to, not the previous model."""
    made = write({"main": ("player", None), "other": ("player", None)})
    init = made.freeze("other")
    made.freeze("main")
    made.freeze("main", generation=1, init=made.league.models[init].hash, reason="converged")
    made.freeze("main", generation=1)
    made.freeze("main", generation=2, reason="stuck")
    made.freeze("main", generation=2)
    made.store.commit()
    models = {model["participant"]: model for model in data("lineage", made.folder)["models"]}
    assert [models[f"main@{i}"]["parent"] for i in range(1, 6)] == [None, "main@1", "other@1", "main@3", None]
    assert [models[f"main@{i}"]["generation"] for i in range(1, 6)] == [0, 0, 1, 1, 2]
    assert [models[f"main@{i}"]["reset"] for i in range(1, 6)] == [False, True, False, True, False]
    text = " ".join(show("lineage", made.folder).split())
    assert "2,000 decisions then reset to other@1: converged" in text
    assert "generation 1 then reset to initial weights: stuck" in text


def test_models_of_one_file_follow_each_other(write, data):
    """Models with equal weights have one hash and one file."""
    made = write()
    first = made.freeze("main")
    digest = made.league.models[first].hash
    made.league.freeze("main", hash=digest, decisions=1, version=1, manifest={"parent": digest})
    made.league.freeze("main", hash=digest, decisions=1, version=1, manifest={"parent": digest})
    made.store.commit()
    assert [model["parent"] for model in data("lineage", made.folder)["models"]] == [None, "main@1", "main@2"]


def test_matches_can_be_listed(run, show, data):
    """The list has the fixture of every match; a reason may contain brackets."""
    lines = words(show(run, "matches", "--last", 2))
    assert lines[-1] == ["4.0", "eval", "main@2+", "main@1", "1", "0", "12", "why", "[main@2+]"]
    assert "is not in the range" in show(run, "matches", "--last", 10**20, code=2)  # more than the database can count
    matches = data(run, "matches", "--last", "5")["matches"]
    assert len(matches) == 5
    assert matches[-1]["fixture"]["participants"] == ["main@2+", "main@1"]
    assert matches[-1]["outcome"] == [1, 0]


def test_control_characters_in_a_league_do_not_reach_the_terminal(write, show, data):
    """Names in a foreign run folder may contain ESC or CSI; JSON escapes them anyway."""
    league = write()
    league.duel("main@0+", "random", [1], kind="train", player="main", reason="why\x1b[31m\x9b2J\x07")
    league.store.commit()
    for view in ("matches", "mix"):
        assert "why\\x1b[31m\\x9b2J\\x07" in show(league.folder, view)
    assert data(league.folder, "matches")["matches"][-1]["fixture"]["reason"] == "why\x1b[31m\x9b2J\x07"


@pytest.mark.parametrize("view", VIEWS)
def test_names_with_control_characters_are_escaped(write, view, show):
    """An anchor of a foreign run may have such a name; plots are not tested here."""
    league = write(anchors=("random", "\x1b[31mred"))
    league.duel("random", "\x1b[31mred", [1, 0, 1])
    league.store.commit()
    assert "\x1b" not in show(league.folder, view)


def test_a_sound_league_verifies(run, show, data):
    """The exit status is 0."""
    assert "agrees with the log of 10 matches" in show(run, "verify")
    assert data(run, "verify") == {
        "ok": True,
        "matches": 10,
        "first_fixture": 0,
        "problems": [],
        "quarantined": {},
        "repairs": [],
    }


def test_a_contradiction_exits_with_1(run, show):
    """Every problem has its own line."""
    next((run / "models").glob("*.safetensors")).unlink()
    assert "cannot be read" in show(run, "verify", code=1)


@pytest.mark.parametrize("view", VIEWS)
def test_an_empty_league_can_be_shown(tmp_path, view, show, data):
    """Before the first match every view works."""
    with Store.create(tmp_path, {"seed": 1}) as store:
        League(store, players={"main": ("player", None)}, anchors=["random"], seats=SEATS)
        store.commit()
        assert show(tmp_path, view)
        assert isinstance(data(tmp_path, view), dict)


@pytest.mark.parametrize("view", VIEWS)
def test_a_run_that_has_only_just_begun_can_be_shown(tmp_path, view, show):
    """Every view works before the players are stored."""
    with Store.create(tmp_path, {"seed": 1}):
        assert show(tmp_path, view)


def test_a_folder_without_a_run_is_one_line(tmp_path, show):
    """The error names the missing file."""
    with pytest.raises(RunError, match="is not a run folder"):
        show(tmp_path)


@pytest.mark.parametrize(
    "words", [["payoffs", "RUN"], ["RUN", "payoffs"], ["--json", "RUN", "payoffs"], ["payoffs", "--json", "RUN"]]
)
def test_a_command_may_precede_or_follow_the_run(run, show, words):
    """Options may precede or follow the run too."""
    text = show(*(run if word == "RUN" else word for word in words))
    assert ('"payoffs": [' in text) == ("--json" in words)
    assert "main@2+" in text


def test_options_of_a_command_may_follow_a_run(run, show):
    """Also if the run precedes the command."""
    assert len(show(run, "matches", "--last", 1).splitlines()) == 3
    assert len(show("matches", run, "--last", 1).splitlines()) == 3


@pytest.mark.parametrize("words", [["--from", "mix", "RUN", "promote"], ["RUN", "--from", "mix", "promote"]])
def test_the_value_of_an_option_is_no_command(run, show, words):
    """A pool or an output folder may have the name of a command."""
    with pytest.raises(ConfigError, match="there is no pool 'mix'; there are: history"):
        show(*(run if word == "RUN" else word for word in words))


def test_a_folder_with_the_name_of_a_command_needs_a_path(run, show, tmp_path, monkeypatch):
    """The bare word is the command."""
    run.rename(tmp_path / "pools")
    monkeypatch.chdir(tmp_path)
    assert "history" in show("pools", "./pools")
    assert "Players" in show("./pools")
    assert "Missing argument 'RUN'" in show("pools", code=2)


def test_an_unknown_command_is_a_usage_error(run, show):
    """The message and --help list the commands."""
    assert "expected one of overview, payoffs" in show(run, "payofs", code=2)
    assert "expected one of overview, payoffs" in show("payofs", run, code=2)
    assert "No such option" in show(run, "--jsn", code=2)
    assert "compare" in show("--help")


def test_help_is_light():
    """--help imports neither numpy nor rich, and needs no run."""
    code = (
        "import sys; from ludus.__main__ import main; assert main(['league', '--help']) == 0\n"
        "sys.exit(bool({'numpy', 'rich', 'torch', 'matplotlib', 'openskill'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True, timeout=60)


def test_views_do_not_import_torch(run):
    """Views must be fast, and work without torch."""
    code = (
        "import sys; from ludus.__main__ import main; sys.exit(main(['league', sys.argv[1]]) or 'torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(run)], stdout=subprocess.DEVNULL, check=True, timeout=60)
