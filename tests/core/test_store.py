"""The league store: commits are durable and atomic, and the payoffs agree with the match log."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus._messaging.messages import Checkpoint
from ludus._seeding import match_seeds
from ludus._store.database import connect_writer
from ludus._store.store import Store
from ludus._store.verification import recount, verify_store
from ludus.environment import Scenario, Seat
from ludus.errors import RunError, StoreError, WireError
from ludus.matchmaker import PoolChange
from ludus.records import Fixture, ModelRecord

SEATS = (Seat("player", 0, 0), Seat("player", 1, 1))
PLAYERS = {"main": ("player", None)}


def make(folder, seats=SEATS):
    """Create a store of one player and one anchor."""
    store = Store.create(folder, {"seed": 3, "environment": "a game"})
    store.declare(PLAYERS, anchors=["random"], seats=seats)
    store.commit()
    return store


@pytest.fixture
def store(tmp_path):
    """Return a new store."""
    with make(tmp_path / "run") as store:
        yield store


def results(fixture, number, outcome, ticks=None):
    """Return the arrays of a report; `outcome` is the points of the first of two teams, or rows of all teams."""
    outcome = np.asarray(outcome, np.float32)
    if outcome.ndim == 1:
        outcome = np.stack([outcome, 1 - outcome], axis=1)
    return {
        "fixture": np.asarray(fixture, np.int64),
        "number": np.asarray(number, np.int64),
        "ticks": np.full(len(outcome), 9, np.int32) if ticks is None else np.asarray(ticks, np.int32),
        "outcome": outcome,
    }


def add_fixture(store, seats=("main@0+", "random"), *, matches=10, kind="train", **more):
    """Add a fixture with seed 5."""
    fixture = Fixture(
        id=0, kind=kind, player="main", participants=seats, seed=5, matches=matches, reason="test", **more
    )
    return store.fixtures.add(fixture)


def listed(payoffs):
    """Return the payoffs with lists for arrays."""
    return {key: count.tolist() for key, count in payoffs.items()}


def model(number, **more):
    """Return the record of a model."""
    values = {
        "participant": f"main@{number}",
        "player": "main",
        "number": number,
        "hash": f"{number:064x}",
        "parent": None,
        "decisions": 100 * number,
        "version": number,
        "created_s": 1.0,
        "manifest": {"network": "mlp"},
    }
    return ModelRecord(**{**values, **more})


# --- opening ------------------------------------------------------------------------------------------------------


def test_metadata_and_participants_are_stored(tmp_path):
    """A reopened store returns seed, environment, players, anchors and seats."""
    make(tmp_path / "run").close()
    with Store.open(tmp_path / "run") as store:
        assert (store.meta("seed"), store.meta("environment"), store.meta("nothing", 7)) == (3, "a game", 7)
        assert store.meta("created_s") == pytest.approx(time.time(), abs=60)
        assert (store.players(), store.anchors(), store.seats()) == (PLAYERS, ("random",), SEATS)


def test_create_refuses_a_used_folder(tmp_path):
    """`create` raises in a folder with a league, and does not change it."""
    with make(tmp_path) as store:
        store.models.add(model(1))
        store.commit()
    with pytest.raises(RunError, match="already holds a league; resume it"):
        Store.create(tmp_path, {})
    with Store.open(tmp_path) as store:
        assert store.players() == PLAYERS


def test_create_replaces_an_unused_league(tmp_path):
    """`create` replaces the league of a failed start in one transaction, also if the seats differ."""
    with make(tmp_path) as store:
        add_fixture(store)
        store.set_counter("sessions", 1)
        store.commit()
    Store.create(tmp_path, {"seed": 4}).close()
    with Store.open(tmp_path) as store:
        assert (store.meta("seed"), store.meta("environment"), store.counters()) == (4, None, {})
        assert list(store.fixtures.records()) == []
        store.declare({"cat": ("cat", 0)}, anchors=[], seats=(Seat("cat", 0, 0),))
        assert list(store.players()) == ["cat"]


@pytest.mark.parametrize("folder", ["models", "learners/main"])
def test_create_keeps_a_league_with_model_files(tmp_path, folder):
    """A folder with a model or checkpoint file is not unused."""
    make(tmp_path).close()
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "00000001.safetensors").touch()
    with pytest.raises(RunError, match="already holds a league; resume it"):
        Store.create(tmp_path, {})


def test_create_keeps_a_locked_league(tmp_path):
    """A running writer may add the first result at any time."""
    with make(tmp_path), pytest.raises(RunError, match="in use"):
        Store.create(tmp_path, {})


def test_create_is_atomic(tmp_path):
    """A writer that dies while creating leaves a folder in which a league can be created."""
    connect_writer(tmp_path, create=True).close()
    assert (tmp_path / "league.sqlite").exists()
    with pytest.raises(StoreError, match="not a sound league database: no such table"):
        Store.open(tmp_path)
    make(tmp_path).close()


@pytest.mark.parametrize("open_store", [Store.open, Store.read])
@pytest.mark.parametrize("name", [".", "nowhere"])
def test_open_reports_a_folder_without_a_league(tmp_path, open_store, name):
    """The error names what is missing."""
    with pytest.raises(RunError, match="is not a run folder"):
        open_store(tmp_path / name)


@pytest.mark.parametrize("open_store", [Store.open, Store.read])
def test_open_refuses_a_newer_schema(tmp_path, open_store):
    """A store of a later schema version raises `StoreError`."""
    make(tmp_path).close()
    with sqlite3.connect(tmp_path / "league.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="schema 99, this ludus reads 6"):
        open_store(tmp_path)


@pytest.mark.parametrize("open_store", [Store.open, Store.read])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER extra AFTER INSERT ON meta BEGIN DELETE FROM players; END",
        "CREATE VIEW extra AS SELECT * FROM meta",
        "DROP TRIGGER pools_stay; CREATE TRIGGER pools_stay BEFORE DELETE ON pools BEGIN SELECT 1; END",
        "DROP TABLE meta; CREATE VIEW meta AS WITH RECURSIVE n AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT * FROM n",
        "CREATE VIRTUAL TABLE extra USING fts5(x)",
        "ALTER TABLE counters ADD COLUMN extra AS (hex(zeroblob(1000000000)))",
        "CREATE INDEX extra ON counters (hex(name))",
    ],
)
def test_open_refuses_foreign_definitions(tmp_path, open_store, statement):
    """SQLite would execute them whenever a table is read or written; the view of the fourth has no end."""
    make(tmp_path).close()
    with sqlite3.connect(tmp_path / "league.sqlite") as connection:
        connection.executescript(statement)
    connection.close()
    with pytest.raises(StoreError, match=r"contains a (trigger|view|table|index) '\w+' that ludus did not write"):
        open_store(tmp_path)


@pytest.mark.parametrize("open_store", [Store.open, Store.read])
@pytest.mark.parametrize("data", [b"", b"this is no database, whatever its name says" * 100])
def test_open_refuses_other_files(tmp_path, open_store, data):
    """A file that is no league database raises `StoreError`."""
    (tmp_path / "league.sqlite").write_bytes(data)
    with pytest.raises(StoreError, match=r"league\.sqlite: "):
        open_store(tmp_path)


@pytest.mark.parametrize("open_store", [Store.open, Store.read])
def test_open_refuses_a_truncated_database(tmp_path, open_store):
    """SQLite would read zeros in place of the missing part."""
    make(tmp_path).close()
    path = tmp_path / "league.sqlite"
    os.truncate(path, path.stat().st_size - 10)
    for _ in range(2):
        with pytest.raises(
            StoreError, match=r"league\.sqlite: not a sound league database: it is truncated; restore it"
        ):
            open_store(tmp_path)
    assert path.stat().st_size % 4096 == 4096 - 10


def test_length_check_ignores_unreadable_files(tmp_path, monkeypatch):
    """The check of the length does not raise for a file without read permission."""
    make(tmp_path).close()
    monkeypatch.setattr("pathlib.Path.open", lambda *_: (_ for _ in ()).throw(PermissionError))
    Store.read(tmp_path).close()


def test_open_accepts_a_database_that_ends_in_the_write_ahead_log(store, tmp_path):
    """This is the state after a power failure during a checkpoint of SQLite."""
    copy = tmp_path / "copy"
    shutil.copytree(store.run_dir, copy)
    os.truncate(copy / "league.sqlite", (copy / "league.sqlite").stat().st_size - 10)
    with Store.open(copy) as opened:
        assert opened.players() == store.players() == PLAYERS


def test_open_refuses_a_second_writer(store):
    """The error names the process that holds the lock."""
    with pytest.raises(RunError, match=f"is in use by pid {os.getpid()}"):
        Store.open(store.run_dir)


def test_failed_open_releases_the_lock(tmp_path):
    """The folder can be opened after a failed attempt."""
    for _ in range(2):
        with pytest.raises(RunError, match="is not a run folder"):
            Store.open(tmp_path)


def test_close_releases_the_lock(tmp_path):
    """The folder can be opened again; a second `close` does nothing."""
    store = make(tmp_path)
    store.close()
    store.close()
    Store.open(tmp_path).close()


def test_next_writer_deletes_partial_files(tmp_path):
    """A writer deletes partial model and checkpoint files of killed writers; a reader keeps them."""
    folder = tmp_path / "run"
    make(folder).close()
    left = [folder / name for name in (".run.toml.7.partial", "models/.a.json.7.partial", "learners/main/.1.7.partial")]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    Store.read(folder).close()
    assert all(path.exists() for path in left)
    with Store.open(folder):
        left[1].write_bytes(b"half")
        with pytest.raises(RunError, match="in use"):
            Store.open(folder)
    assert [path.exists() for path in left] == [False, True, False]


@pytest.mark.parametrize("again", [False, True])
def test_commit_refuses_a_moved_folder(tmp_path, again):
    """New files would be created at the old path; committed data stays in the moved folder."""
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    with make(folder) as store:
        add_fixture(store)
        store.commit()
        folder.rename(elsewhere)
        if again:
            make(folder).close()
        add_fixture(store)
        with pytest.raises(RunError, match=f"{folder} was moved or removed while the run wrote it; .* `ludus resume"):
            store.commit()
    with Store.open(elsewhere) as store:
        assert [fixture.id for fixture in store.fixtures.unfinished()] == [1]


def test_commit_refuses_a_removed_lock(store):
    """Another process may hold a new lock file."""
    (store.run_dir / "lock").unlink()
    with pytest.raises(RunError, match="was moved or removed"):
        store.commit()


def test_commits_are_synchronous(store):
    """The database uses a write-ahead log and full synchronization."""
    assert store.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store.execute("PRAGMA synchronous").fetchone() == (2,)


def test_write_ahead_log_shrinks_after_a_long_reader(tmp_path, monkeypatch):
    """The log grows while a reader holds an old snapshot, and shrinks when it has closed."""
    monkeypatch.setattr("ludus._store.database._JOURNAL_BYTES", 65536)
    with make(tmp_path / "run") as store:
        store.commit()

        def commit():
            for number in range(40):
                store.set_meta(f"large/{number}", "x" * 50_000)
                store.commit()
            return (store.run_dir / "league.sqlite-wal").stat().st_size

        with Store.read(store.run_dir):
            largest = [commit() for _ in range(3)][-1]
            assert largest > 1_000_000
        commit()
        assert commit() < largest // 4


def test_a_reader_sees_one_commit(store):
    """A reader keeps its snapshot while the writer commits."""
    store.set_counter("x", 1)
    store.commit()
    with Store.read(store.run_dir) as reader:
        store.set_counter("x", 2)
        assert reader.counters() == {"x": 1}
        store.commit()
        assert reader.counters() == {"x": 1}
    with Store.read(store.run_dir) as reader:
        assert reader.counters() == {"x": 2}


def test_a_reader_cannot_write(store):
    """Every write of a reader raises `StoreError`."""
    with Store.read(store.run_dir) as reader:
        assert not reader.writable
        with pytest.raises(StoreError, match="for reading only"):
            reader.set_counter("x", 1)


def test_a_store_on_read_only_media_can_be_read(tmp_path, monkeypatch):
    """A reader needs no write permission."""
    make(tmp_path).close()
    for path in tmp_path.glob("league.sqlite-*"):
        path.unlink()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Store.read(tmp_path) as reader:
        assert reader.meta("seed") == 3
    assert not list(tmp_path.glob("league.sqlite-*"))


# --- transactions -------------------------------------------------------------------------------------------------


def test_close_drops_uncommitted_changes(tmp_path):
    """A fixture, its results and their payoffs are dropped together."""
    with make(tmp_path) as store:
        fixture = add_fixture(store)
        store.matches.add_results(results([fixture.id], [0], [1]))
    with Store.open(tmp_path) as store:
        assert store.matches.count() == 0
        assert store.payoffs.totals() == {}
        assert store.fixtures.unfinished() == []


def test_rollback_drops_uncommitted_changes(store):
    """The same results can be added after a rollback and count once."""
    fixture = add_fixture(store)
    store.commit()
    for _ in range(3):
        (summary,) = store.matches.add_results(results([fixture.id], [0], [1])).fixtures
        assert summary.matches == 1
        store.rollback()
    store.matches.add_results(results([fixture.id], [0], [1]))
    store.commit()
    assert listed(store.payoffs.totals())["train", "main@0+", "random"] == [1, 0, 0]


MAKE_ROOM = r"free disk space or fix its permissions and continue with `ludus resume .*`$"


def test_full_disk_raises_and_rolls_back(store):
    """Statements before the failed one are rolled back too."""
    store.execute("PRAGMA max_page_count = 1")  # no page more than there are
    store.set_counter("x", 1)
    fixture, numbers = add_fixture(store, matches=5000), np.arange(5000)
    with pytest.raises(StoreError, match=rf"could not be written: database or disk is full; .* — {MAKE_ROOM}"):
        store.matches.add_results(results([fixture.id] * 5000, numbers, np.ones(5000), ticks=1 + numbers**2))
    store.execute("PRAGMA max_page_count = 100000")
    store.matches.add_results(results([fixture.id], [0], [1]))
    assert store.counters()["results_refused"] == 1
    assert (store.matches.count(), store.payoffs.totals(), "x" in store.counters()) == (0, {}, False)


def test_locked_database_raises(store):
    """The error advises to close the other program; afterwards a commit succeeds."""
    store.commit()
    store.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(store.run_dir / "league.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        suggested_fix = r"close the other program that writes league\.sqlite and continue with `ludus resume .*`$"
        with pytest.raises(StoreError, match=rf"could not be written: database is locked; .* — {suggested_fix}"):
            store.set_counter("x", 1)
    store.set_counter("x", 1)
    store.commit()
    assert store.counters()["x"] == 1


def test_create_on_a_full_disk_raises(tmp_path, monkeypatch):
    """The error advises to free disk space; afterwards `create` succeeds."""
    connect, made = sqlite3.connect, []

    def connect_to_full(*given, **options):
        made.append(connect(*given, **options))
        made[-1].execute("PRAGMA max_page_count = 4")
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect_to_full)
        with pytest.raises(StoreError, match=rf"league\.sqlite: database or disk is full; {MAKE_ROOM}"):
            Store.create(tmp_path, {})
    made[-1].close()
    make(tmp_path).close()


@pytest.mark.parametrize("name", ["100 %", "who? #1", "it's", "line\nline", "größe", os.fsdecode(b"gr\xf6\xdfe")])
def test_a_run_folder_may_have_any_name(tmp_path, name):
    """Characters with a meaning in URIs are quoted; the last name is not valid UTF-8."""
    make(tmp_path / name).close()
    with Store.read(tmp_path / name) as store:
        assert store.meta("environment") == "a game"


@pytest.mark.parametrize("open_store", [Store.open, Store.read])
def test_open_on_a_full_disk_raises(store, tmp_path, open_store):
    """SQLite allocates a shared memory file when it opens a database."""
    store.commit()
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("league.sqlite", "league.sqlite-wal"):
        shutil.copy(store.run_dir / name, crashed)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # no file may grow beyond
    try:
        with pytest.raises(StoreError, match=rf"crashed/league\.sqlite: disk I/O error; {MAKE_ROOM}"):
            open_store(crashed)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    open_store(crashed).close()


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM matches", "UPDATE matches SET ticks = 1", "DELETE FROM pools", "UPDATE pools SET enters = 0"],
)
def test_logs_are_append_only(store, statement):
    """Triggers refuse updates and deletions."""
    fixture = add_fixture(store)
    store.matches.add_results(results([fixture.id], [0], [1]))
    store.pools.add(PoolChange(pool="p", model="main@1", enters=True))
    store.commit()
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        store.execute(statement)


# --- players, counters, checkpoints, models, pools ----------------------------------------------------------------


def test_declare_refuses_other_seats(store):
    """The log of one environment cannot be continued with another."""
    with pytest.raises(StoreError, match="its matches have seats"):
        store.declare(PLAYERS, anchors=[], seats=(Seat("cat", 0, 0), Seat("mouse", 0, 1)))


def test_players_and_anchors_may_be_added(store):
    """A resumed run may have more participants, in the order of its configuration."""
    players = {"second": ("player", 1), **PLAYERS}
    store.declare(players, anchors=["random", "strong"], seats=SEATS)
    assert list(store.players().items()) == list(players.items())
    assert store.anchors() == ("random", "strong")


def test_counters_add_up(store):
    """A counter starts at 0, can be added to, and set."""
    store.add_counter("a", 2)
    store.add_counter("a", 0.5)
    store.set_counter("b", 7)
    store.set_counter("b", 8)
    assert store.counters() == {"a": 2.5, "b": 8}


def test_the_last_checkpoint_of_every_player_is_kept(store):
    """A newer one takes the place of the older one."""
    first = Checkpoint(player="main", path="a", hash="1", version=1, decisions=10)
    last = Checkpoint(player="main", path="b", hash="2", version=2, decisions=20)
    store.checkpoints.put(first)
    store.checkpoints.put(last)
    assert store.checkpoints.latest() == {"main": last}


def test_models_come_back_in_order(store):
    """Number 10 comes after number 9, with its manifest."""
    models = tuple(model(number) for number in range(1, 12))
    for record in models:
        store.models.add(record)
    assert store.models.records() == models


def test_model_names_are_unique(store):
    """A second model of the same name raises `StoreError`."""
    store.models.add(model(1))
    with pytest.raises(StoreError, match="main@1 is already in the league"):
        store.models.add(model(1, hash="f" * 64))


def test_pool_changes_are_kept_in_order(store):
    """Entering and leaving are kept in order."""
    changes = [PoolChange(pool="p", model="main@1", enters=enters) for enters in (True, False, True)]
    for change in changes:
        store.pools.add(change)
    assert [record.change for record in store.pools.records()] == changes


# --- fixtures -----------------------------------------------------------------------------------------------------


def test_fixture_round_trip(store):
    """A stored fixture is returned with all of its fields."""
    scenario = Scenario(name="corner", parameters={"wind": 0.5})
    fixture = add_fixture(store, scenario=scenario, paired="7")
    store.commit()
    with Store.read(store.run_dir) as reader:
        (record,) = reader.fixtures.unfinished()
    assert record == fixture
    assert (record.scenario, record.paired, record.participants) == (scenario, "7", ("main@0+", "random"))


def test_ids_continue_after_a_restart(tmp_path):
    """No id is used twice."""
    with make(tmp_path) as store:
        first = [add_fixture(store).id for _ in range(3)]
        store.commit()
    with Store.open(tmp_path) as store:
        assert add_fixture(store).id == first[-1] + 1 == 4


def test_unfinished_fixtures(tmp_path):
    """Fixtures that are finished or closed are left out, also after a restart."""
    with make(tmp_path) as store:
        half, whole, closed = add_fixture(store, matches=4), add_fixture(store, matches=2), add_fixture(store)
        store.matches.add_results(results([half.id] * 2 + [whole.id] * 2, [3, 1, 0, 1], [1, 1, 0, 0]))
        store.fixtures.close(closed.id)
        store.commit()
    with Store.open(tmp_path) as store:
        assert store.fixtures.unfinished() == [half]


def test_finished_fixtures_are_closed(store):
    """The last result of a fixture closes it."""
    whole, half = add_fixture(store, matches=1), add_fixture(store, matches=2)
    store.matches.add_results(results([whole.id, half.id], [0, 0], [1, 1]))
    store.commit()
    assert store.execute("SELECT id FROM fixtures WHERE closed = 1").fetchall() == [(whole.id,)]


def test_results_of_a_closed_fixture_still_count(store):
    """Results that arrive late are added to the log."""
    fixture = add_fixture(store)
    store.fixtures.close(fixture.id)
    store.commit()
    (summary,) = store.matches.add_results(results([fixture.id], [0], [1])).fixtures
    assert summary.matches == store.matches.count() == 1


# --- results ------------------------------------------------------------------------------------------------------


def test_results_are_counted_and_described(store):
    """The summary has the points of both teams and states whether the fixture is finished."""
    fixture = add_fixture(store, matches=3)
    first = store.matches.add_results(results([fixture.id] * 2, [2, 0], [1, 0.5]))
    last = store.matches.add_results(results([fixture.id], [1], [0]))
    assert (first.fixtures[0].outcome, first.fixtures[0].matches, first.fixtures[0].finished) == ((1.5, 0.5), 2, False)
    assert (last.fixtures[0].outcome, last.fixtures[0].matches, last.fixtures[0].finished) == ((0, 1), 1, True)
    assert first.fixtures[0].fixture == fixture


def test_an_empty_report_changes_nothing(store):
    """A report without rows is valid."""
    recorded = store.matches.add_results(results([], [], np.zeros((0, 2))))
    assert (store.matches.count(), recorded.fixtures, recorded.payoffs) == (0, (), {})


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("restart", [True, False])
def test_a_repeated_report_counts_once(tmp_path, commit, restart):
    """Repetitions before and after a commit and a restart are counted as duplicates."""
    store = make(tmp_path)
    fixture = add_fixture(store, matches=2)
    report = results([fixture.id] * 2, [0, 1], [1, 0])
    store.matches.add_results(report)
    if commit or restart:
        store.commit()
    if restart:
        store.close()
        store = Store.open(tmp_path)
    again = store.matches.add_results(report)
    store.commit()
    assert (again.fixtures, again.payoffs, store.matches.count()) == ((), {}, 2)
    assert listed(store.payoffs.totals())["train", "main@0+", "random"] == [1, 0, 1]
    assert store.counters() == {"results_duplicate": 2}
    store.close()


def test_a_repetition_inside_a_report_counts_once(store):
    """The first of two rows about one match is kept."""
    fixture = add_fixture(store)
    recorded = store.matches.add_results(results([fixture.id] * 3, [4, 4, 5], [1, 0, 0.5]))
    assert (recorded.fixtures[0].matches, store.counters()) == (2, {"results_duplicate": 1})
    assert [match.outcome for match in store.matches.records()] == [(1, 0), (0.5, 0.5)]


def test_results_of_unknown_matches_are_refused_and_counted(store):
    """Neither an unknown fixture nor a number that a fixture does not have gets into the log."""
    fixture = add_fixture(store, matches=3)
    recorded = store.matches.add_results(results([fixture.id] * 4 + [99, 99], [-1, 3, 0, 10**12, 0, 0], [1] * 6))
    assert recorded.fixtures[0].matches == 1
    assert store.counters() == {"results_refused": 5}
    assert [match.number for match in store.matches.records()] == [0]


GOOD = results([1], [0], [1])


@pytest.mark.parametrize(
    "arrays",
    [
        {name: array for name, array in GOOD.items() if name != "ticks"},
        {**GOOD, "fixture": GOOD["fixture"].astype(np.float64)},
        {**GOOD, "number": np.zeros(2, np.int64)},
        {**GOOD, "ticks": np.zeros((1, 1), np.int32)},
        {**GOOD, "outcome": np.ones((1, 3), np.float32)},
        {**GOOD, "outcome": np.full((1, 2), np.nan, np.float32)},
        {**GOOD, "outcome": np.full((1, 2), 1.5, np.float32)},
        {**GOOD, "fixture": np.int64(1).reshape(())},
        {name: array.reshape(array.shape[1:]) for name, array in GOOD.items()},
    ],
)
def test_malformed_results_are_refused(store, arrays):
    """A peer's arrays are checked before anything is written."""
    with pytest.raises(WireError, match="results: expected"):
        store.matches.add_results(arrays)


def test_evaluation_and_training_are_summed_apart(store):
    """Payoffs are stored by kind of fixture."""
    train, evaluation = add_fixture(store), add_fixture(store, kind="eval")
    store.matches.add_results(results([train.id, evaluation.id], [0, 0], [1, 0]))
    store.commit()
    payoffs = listed(store.payoffs.totals())
    assert payoffs["train", "main@0+", "random"] == [1, 0, 0]
    assert payoffs["eval", "main@0+", "random"] == [0, 0, 1]


def test_self_matches_are_logged_but_not_counted(store):
    """Matches of a participant against itself do not change payoffs."""
    fixture = add_fixture(store, ("main@0+", "main@0+"))
    recorded = store.matches.add_results(results([fixture.id], [0], [1]))
    store.commit()
    assert store.matches.count() == 1
    assert recorded.fixtures[0].outcome == (1, 0)
    assert store.payoffs.totals() == {}


@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_payoffs_agree_with_the_log(tmp_path_factory, data):
    """For all sequences of reports, repetitions and commits, each match is logged once and payoffs agree."""
    seats = tuple(Seat("player", i, team) for i, team in enumerate((0, 1, 1, 2)))
    rows = st.tuples(
        st.integers(1, 6), st.integers(-1, 5), st.lists(st.sampled_from([0, 0.5, 1]), min_size=3, max_size=3)
    )
    expected = {}
    with make(tmp_path_factory.mktemp("runs") / "run", seats) as store:
        for names in ("aabc", "abab", "abcd", "dcba"):
            add_fixture(store, tuple(names), matches=5)
        for _ in range(data.draw(st.integers(1, 4))):
            report = data.draw(st.lists(rows, max_size=12))
            for fixture, number, outcome in report:
                if fixture <= 4 and 0 <= number < 5:
                    expected.setdefault((fixture, number), tuple(outcome))
            columns = list(zip(*report, strict=True)) or [(), (), np.zeros((0, 3))]
            store.matches.add_results(results(*columns))
            if data.draw(st.booleans()):
                store.commit()
        store.commit()
        assert {(match.fixture.id, match.number): match.outcome for match in store.matches.records()} == expected
        assert listed(store.payoffs.totals()) == listed(recount(store).payoffs)


def test_a_fixture_may_have_many_matches(store):
    """Matches of several rows of the log, reported in any order, are listed by number and counted once."""
    fixture = add_fixture(store, matches=1000)
    order = np.random.default_rng(0).permutation(1000)
    for numbers in np.split(order, [1, 300, 301, 700]):
        store.matches.add_results(results([fixture.id] * len(numbers), numbers, numbers % 3 / 2, ticks=1 + numbers**2))
    store.commit()
    listed_matches = [(match.number, match.ticks, match.outcome[0]) for match in store.matches.records()]
    assert listed_matches == [(i, 1 + i**2, i % 3 / 2) for i in range(1000)]
    assert [match.number for match in store.matches.records(last=300)] == list(range(700, 1000))
    assert store.matches.count() == 1000
    assert verify_store(store).problems == ()
    assert store.fixtures.unfinished() == []


# --- listing ------------------------------------------------------------------------------------------------------


def test_a_match_record_has_everything_that_was_fixed(store):
    """Seats, seed, scenario and reason come from the fixture, the seed of the match from its number."""
    fixture = add_fixture(store)
    store.matches.add_results(results([fixture.id], [3], [0.5], ticks=[17]))
    (match,) = store.matches.records()
    assert match.fixture == fixture
    assert (match.number, match.outcome, match.ticks) == (3, (0.5, 0.5), 17)
    assert match.seed == match_seeds(5, np.array([3]))[0]


def test_the_last_matches_are_listed_in_order(store):
    """The end of the log, oldest first; and only those of one kind if asked."""
    train, evaluation = add_fixture(store, matches=3), add_fixture(store, matches=2, kind="eval")
    store.matches.add_results(results([train.id] * 3 + [evaluation.id] * 2, [0, 1, 2, 0, 1], [1] * 5))

    def ids(**options):
        return [(match.fixture.id, match.number) for match in store.matches.records(**options)]

    assert ids() == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
    assert ids(last=3) == [(1, 2), (2, 0), (2, 1)]
    assert ids(last=2, kind="train") == [(1, 1), (1, 2)]
    assert ids(kind="eval") == [(2, 0), (2, 1)]


# --- crashes ------------------------------------------------------------------------------------------------------

_WRITER = """
    import os, sys
    from pathlib import Path
    import numpy as np
    from ludus.records import Fixture
    from ludus._messaging.messages import Checkpoint
    from ludus._store.store import Store

    seats = ("main@0+", "random")
    planned = Fixture(id=0, kind="train", player="main", participants=seats, seed=1, matches=20, reason="x")
    run, acks = Path(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write():
        store = Store.open(run)
        while True:
            fixture = store.fixtures.add(planned)
            for half in (np.arange(10), np.arange(10, 20)):
                wins = ((fixture.id + half) % 3 / 2).astype(np.float32)
                store.matches.add_results({
                    "fixture": np.full(10, fixture.id), "number": half, "ticks": np.ones(10, np.int32),
                    "outcome": np.stack([wins, 1 - wins], axis=1),
                })
            store.add_counter("batches", 1)
            store.commit()
            os.write(acks, b"%d\\n" % fixture.id)

    for line in sys.stdin:  # every line asks for one more writer, which lives until it is killed
        child = os.fork()
        if not child:
            write()
        print(child, flush=True)
        os.waitpid(child, 0)
        print("dead", flush=True)
"""


def test_a_killed_writer_loses_nothing_that_was_acknowledged(tmp_path):
    """SIGKILL at 20 random moments: acknowledged results are there, half transactions are not, the sums agree."""
    make(tmp_path / "run").close()
    acks = tmp_path / "acks"
    argv = [sys.executable, "-c", textwrap.dedent(_WRITER), str(tmp_path / "run"), str(acks)]
    rng, observed = random.Random(0), 0
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as nursery:
        for _ in range(20):
            print("go", file=nursery.stdin, flush=True)
            child = int(nursery.stdout.readline())
            deadline = time.monotonic() + 30
            while (not acks.exists() or acks.stat().st_size <= observed) and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.03))
            os.kill(child, signal.SIGKILL)
            assert nursery.stdout.readline() == "dead\n"
            observed = acks.stat().st_size
            with Store.read(tmp_path / "run") as store:
                _check_after_crash(store, [int(line) for line in acks.read_text().split()])
        nursery.stdin.close()
    assert observed > 0


def _check_after_crash(store, acknowledged):
    batches = int(store.counters()["batches"])
    assert len(acknowledged) <= batches <= len(acknowledged) + 20  # at most one commit per kill came unannounced
    assert store.matches.count() == 20 * batches
    assert set(acknowledged) <= {match.fixture.id for match in store.matches.records()}
    assert store.fixtures.unfinished() == []
    assert listed(store.payoffs.totals()) == listed(recount(store).payoffs)
    assert sum(listed(store.payoffs.totals())["train", "main@0+", "random"]) == store.matches.count()
    assert verify_store(store).problems == ()


def test_json_is_readable_by_other_programs(store):
    """Seats and scenarios are plain JSON in the database, for people with sqlite3 at hand."""
    add_fixture(store, scenario=Scenario(name="corner", parameters={"wind": 0.5}))
    (row,) = store.execute("SELECT seats, scenario FROM fixtures").fetchall()
    assert [json.loads(text) for text in row] == [["main@0+", "random"], ["corner", {"wind": 0.5}]]


def test_a_damaged_write_ahead_log_is_reported_and_kept(tmp_path):
    """SQLite drops the commits after the damage; a copy of the file stays, and verification names the loss."""
    store = make(tmp_path / "run")
    for number in range(40):
        store.set_meta("number", number)
        store.commit()
    shutil.copytree(tmp_path / "run", tmp_path / "killed")
    store.close()
    log = tmp_path / "killed" / "league.sqlite-wal"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with Store.read(tmp_path / "killed") as reader:
        assert re.match(r"league\.sqlite-wal is damaged: the newest \d+ commits", verify_store(reader).problems[0])
    with Store.open(tmp_path / "killed") as again:
        assert 10 < again.lost_commits < 40
        assert again.meta("number") == 39 - again.lost_commits
    assert (tmp_path / "killed" / "damaged" / "league.sqlite-wal").read_bytes() == bytes(data)
