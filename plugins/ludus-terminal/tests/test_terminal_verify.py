"""A league is compared with its log and its files."""

from __future__ import annotations

import re
import shutil
import sqlite3

import numpy as np
import pytest
from ludus._league.league import League
from ludus._messaging.messages import Checkpoint
from ludus._store.model_files import save_arrays, save_checkpoint
from ludus._store.store import Store
from ludus.environment import Seat
from ludus.matchmaker import PoolChange
from ludus.records import Fixture
from ludus.runs import kept_checkpoints, open_run
from ludus_terminal.verify import verify


@pytest.fixture
def run(tmp_path):
    """Return the folder of a small, valid run."""
    with Store.create(tmp_path, {"seed": 1}) as store:
        seats = (Seat("player", 0, 0), Seat("player", 1, 1))
        league = League(store, players={"main": ("player", None)}, anchors=["random"], seats=seats)
        digest = save_arrays(tmp_path / "models", {"w": np.ones(3)}, {"player": "main"})
        league.freeze("main", hash=digest, decisions=1, version=1, manifest={})
        league.apply([PoolChange(pool="p", model="main@1", enters=True)])
        saved = save_checkpoint(tmp_path / "learners" / "main", {"w": np.ones(3)}, {})
        store.checkpoints.put(Checkpoint(player="main", path=saved.path, hash=saved.hash, version=1, decisions=1))
        fixture = league.create_fixture(
            Fixture(id=0, kind="eval", player="", participants=("main@1", "random"), matches=4, seed=1, reason="test")
        )
        outcome = np.array([[1, 0], [0.5, 0.5]], np.float32)
        ids, ticks = np.full(2, fixture.id), np.ones(2, np.int32)
        league.record({"fixture": ids, "number": np.arange(2), "ticks": ticks, "outcome": outcome})
        store.commit()
    return tmp_path


def problems(run):
    """Return the problems of a run folder."""
    with open_run(run) as opened:
        return list(verify(opened).problems)


def tamper(run, sql):
    """Change the database directly."""
    connection = sqlite3.connect(run / "league.sqlite")
    with connection:
        connection.execute(sql)
    connection.close()


def test_a_sound_run_has_no_problems(run):
    """A valid run has no contradictions."""
    assert problems(run) == []


_ADD_MATCH = "INSERT INTO matches VALUES ({}, 1, x'', x'000000803f00000000', x'0900000000', x'')"


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("UPDATE payoffs SET wins = 7 WHERE a = 'main@1'", r"payoff of main@1 against random .* stored \[7, 1, 0\]"),
        ("DELETE FROM payoffs WHERE a = 'random'", r"payoff of random .* the log has \[0, 1, 1\]"),
        (
            "INSERT INTO payoffs VALUES ('train', 'x', 'y', 1, 0, 0)",
            r"payoff of x against y .* the log has \[0, 0, 0\]",
        ),
        (_ADD_MATCH.format("1, 3"), r"the log has \[2, 1, 0\]"),
        (_ADD_MATCH.format("1, 9"), "fixture 1: match 9 is beyond its number of matches, 4"),
        (_ADD_MATCH.format("8, 0"), "fixture 8: the log has matches of fixtures that do not exist"),
        ("UPDATE totals SET matches = 5", r"number of eval matches: stored \[5\], the log has \[2\]"),
        ("UPDATE players SET position = 7", "table players: the rows do not agree with their checksum"),
        ("UPDATE fixtures SET reason = 'x'", "table fixtures, fixtures 0 to 1023: the rows do not agree"),
        ("DELETE FROM checksums WHERE name = 'models'", "table models: the rows do not agree with their checksum"),
        ("DROP INDEX open_fixtures", "open_fixtures: its definition in the database is not that of this version"),
        ("UPDATE models SET participant = 'main@2'", "main@1 has played, but it is not among the models"),
        ("INSERT INTO pools VALUES (9, 'p', 'main@5', 1, 0)", "pool p: main@5 is not among the models"),
        ("INSERT INTO pools VALUES (9, 'p', 'main@1', 1, 0)", "pool p: main@1 enters twice"),
        ("INSERT INTO pools VALUES (9, 'q', 'main@1', 0, 0)", "pool q: main@1 leaves but is not in it"),
        ("UPDATE models SET number = 2", "main@1: its number is 2, expected main@1 to be next"),
        ("UPDATE models SET parent = hash", "main@1: its parent is not the model before it"),
        (
            """UPDATE models SET manifest = '{"generation": 2}'""",
            "main@1: is of generation 2, expected 0 or 1",
        ),
        (
            """UPDATE models SET manifest = '{"init": "00"}'""",
            "main@1: the model that its player started from is not in the league",
        ),
        (
            "INSERT INTO counters VALUES ('matches', 3)",
            "counter of training matches: stored 3, the log has 0",
        ),
        (
            "UPDATE counters SET value = 0 WHERE name = 'decisions/main'",
            "decisions of main: stored 0, a model of it has 1",
        ),
        ("UPDATE models SET hash = '../../secret'", "main@1: model hash .* 64 hexadecimal"),
        ("UPDATE checkpoints SET path = '../x'", "checkpoint of main: checkpoint path"),
    ],
)
def test_a_changed_database_is_noticed(run, sql, problem):
    """Every contradiction has its own line."""
    tamper(run, sql)
    found = problems(run)
    assert any(re.search(problem, line) for line in found), found


@pytest.mark.parametrize("pattern", ["models/*.safetensors", "models/*.json", "learners/main/*.safetensors"])
def test_a_missing_file_is_noticed(run, pattern):
    """Models, manifests and checkpoints must exist."""
    (path,) = run.glob(pattern)
    path.unlink()
    (line,) = problems(run)
    assert "cannot be read" in line


@pytest.mark.parametrize(
    ("pattern", "who"), [("models/*.safetensors", "main@1"), ("learners/main/*", "checkpoint of main")]
)
def test_a_flipped_bit_is_noticed_in_any_file(run, pattern, who):
    """The hash of the file differs."""
    (path,) = run.glob(pattern)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (line,) = problems(run)
    assert line.startswith(f"{who}: ")
    assert "damaged" in line


def test_a_checkpoint_replaced_meanwhile_is_no_problem(run):
    """A running run commits a newer checkpoint and deletes the old one; the newer one is verified."""
    with open_run(run) as snapshot:  # from here on the snapshot is fixed
        replaced = kept_checkpoints(snapshot.folder)["main"][0]
        with Store.open(run) as store:
            for version in (2, 3):
                saved = save_checkpoint(run / "learners" / "main", {"w": np.zeros(3)}, {})
                checkpoint = Checkpoint(player="main", path=saved.path, hash=saved.hash, version=version, decisions=2)
                store.checkpoints.put(checkpoint)
            store.commit()
        (run / replaced.path).unlink()
        assert verify(snapshot).problems == ()
        (run / saved.path).unlink()
        assert [problem.partition(":")[0] for problem in verify(snapshot).problems] == ["checkpoint of main"]


def test_verify_repairs_from_a_copy_or_quarantines(run, show, data, tmp_path_factory):
    """Afterwards everything agrees."""
    (path,) = (run / "models").glob("*.safetensors")
    copy = shutil.copytree(run, tmp_path_factory.mktemp("copies") / "copy")
    path.unlink()
    for checkpoint in run.glob("learners/*/*"):  # of the same weights
        checkpoint.unlink()
    shown = show(run, "verify", "--repair")
    assert "quarantined" in shown
    assert "agrees with the log" in shown
    (name,) = data(run, "verify")["quarantined"]
    assert name in show(run, "verify")
    repairs = data(run, "verify", "--repair", "--copy", str(copy))["repairs"]
    assert "restored from" in repairs[0]
    assert repairs[1].startswith(f"{name}: not quarantined any more")
    assert data(run, "verify")["quarantined"] == {}
    assert "--copy needs --repair" in show(run, "verify", "--copy", str(copy), code=2)
