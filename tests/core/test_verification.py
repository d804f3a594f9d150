"""Verification finds every changed value of a league database, and can go on from the point that it has reached."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from ludus._messaging.messages import Checkpoint
from ludus._store import checksums
from ludus._store.checksums import stored_sums, sum_rows, tables
from ludus._store.database import connect_writer
from ludus._store.log_scan import LogScan
from ludus._store.store import Store
from ludus._store.verification import recount, verify_store
from ludus._store.verified_point import VerifiedPoint
from ludus.environment import Seat
from ludus.errors import LudusError, StoreError
from ludus.matchmaker import PoolChange
from ludus.records import Fixture, ModelRecord

SEATS = (Seat("player", 0, 0), Seat("player", 1, 1))


def add_matches(store, *, fixtures=3, matches=20, kind="train", participants=("main@1", "random")):
    """Add fixtures with all of their matches."""
    rng = np.random.default_rng(1)
    for _ in range(fixtures):
        fixture = store.fixtures.add(
            Fixture(id=0, kind=kind, player="main", participants=participants, matches=matches, seed=5, reason="test")
        )
        wins = rng.integers(0, 3, matches) / 2
        arrays = {
            "fixture": np.full(matches, fixture.id),
            "number": np.arange(matches),
            "ticks": rng.integers(7, 43, matches).astype(np.int32),
            "outcome": np.stack([wins, 1 - wins], axis=1).astype(np.float32),
        }
        if kind == "eval":
            arrays["statistic/player/stones"] = rng.random((matches, 2)).astype(np.float32)
        store.matches.add_results(arrays)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Return the folder of a store with rows in every table, whose file has no write-ahead log."""
    folder = tmp_path_factory.mktemp("runs") / "sound"
    with Store.create(folder, {"seed": 3, "environment": "a game"}) as store:
        store.declare({"main": ("player", None)}, anchors=["random"], seats=SEATS)
        for number in (1, 2):
            model = ModelRecord(
                participant=f"main@{number}",
                player="main",
                number=number,
                hash=f"{number:064x}",
                parent=None,
                decisions=100 * number,
                version=number,
                created_s=1.5,
                manifest={"network": "mlp", "elapsed_s": 1.25},
            )
            store.models.add(model)
            store.pools.add(PoolChange(pool="main", model=model.participant, enters=True))
        store.checkpoints.put(Checkpoint(player="main", path="a", hash="1", version=1, decisions=10))
        store.set_counter("elapsed_s", 12.75)
        store.retired.add("main@1")
        store.commit()
        add_matches(store)
        add_matches(store, kind="eval")
        add_matches(store, participants=("main@2+", "main@2+"))
        store.commit()
    return folder


@pytest.fixture
def folder(sound, tmp_path):
    """Return a copy of the sound store."""
    return shutil.copytree(sound, tmp_path / "run")


def problems(folder):
    """Return what verification finds, or the error that ends it."""
    try:
        with Store.read(folder) as store:
            return list(verify_store(store).problems)
    except (LudusError, sqlite3.Error) as error:
        return [str(error)]


def edit(folder, *statements):
    """Change rows as another program could, without the triggers that protect the logs."""
    with closing(sqlite3.connect(folder / "league.sqlite")) as database:
        database.execute("PRAGMA synchronous = OFF")
        triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            database.execute(statement)
        for _, sql in triggers:
            database.execute(sql)
        database.commit()


def content(folder):
    """Return all stored values, and what a reader makes of them; None if they cannot be read."""
    try:
        with closing(sqlite3.connect(folder / "league.sqlite")) as database:
            database.text_factory = bytes
            names = [name.decode() for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")]
            return {name: database.execute(f"SELECT * FROM {name}").fetchall() for name in sorted(names)}
    except (sqlite3.Error, UnicodeDecodeError):
        return None


def test_a_sound_store_has_no_problems(sound):
    """Every table has rows, and a checksum."""
    assert problems(sound) == []
    with Store.read(sound) as store:
        sums = stored_sums(store)
        assert {name for name, _ in sums} == set(tables(store))
        assert all(store.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables(store))


def cells(folder):
    """Yield the table, column and row of every stored value but checksums."""
    with closing(sqlite3.connect(folder / "league.sqlite")) as database:
        for table in tables(database):
            columns = database.execute(f"PRAGMA table_info({table})").fetchall()
            keys = [name for _, name, _, _, _, key in columns if key]
            for row in database.execute(f"SELECT {', '.join(keys)} FROM {table} ORDER BY 1 DESC LIMIT 2").fetchall():
                where = " AND ".join(f"{key} = {value!r}" for key, value in zip(keys, row, strict=True))
                yield from ((table, name, where) for _, name, *_ in columns)


def test_every_changed_cell_is_found(sound, folder):
    """A value is replaced by another of its type, in every column of the last two rows of every table."""
    changed = 0
    for table, column, where in cells(sound):
        shutil.copy(sound / "league.sqlite", folder)
        change = (
            f"CASE typeof({column}) WHEN 'text' THEN {column} || ' ' WHEN 'blob' THEN CAST({column} || x'00' AS BLOB)"
        )
        change += f" WHEN 'null' THEN 'x' ELSE {column} + 1000 END"
        edit(folder, f"UPDATE {table} SET {column} = {change} WHERE {where}")
        found = problems(folder)
        assert any(table in line or "malformed" in line for line in found), (table, column, where, found)
        changed += 1
    assert changed > 80


@pytest.mark.parametrize("table", ["fixtures", "matches", "models", "pools", "payoffs", "meta", "players", "counters"])
def test_every_removed_or_repeated_row_is_found(sound, folder, table):
    """Also a row that is there twice under another key."""
    edit(folder, f"DELETE FROM {table} WHERE rowid = 1" if table in {"models", "pools"} else f"DELETE FROM {table}")
    assert any(table in line for line in problems(folder))


def test_swapped_rows_are_found(folder):
    """The results of two fixtures change places."""
    edit(
        folder,
        *(f"UPDATE matches SET fixture = {new} WHERE fixture = {old}" for old, new in [(1, 99), (2, 1), (99, 2)]),
    )
    assert any("table matches" in line for line in problems(folder))


@pytest.mark.parametrize("seed", range(8))
def test_every_flipped_bit_that_changes_a_value_is_found(sound, folder, seed):
    """Bits of the file at random places; a flip is sound only if no stored value has changed."""
    expected, data = content(sound), (sound / "league.sqlite").read_bytes()
    used = [i for i in range(len(data)) if any(data[max(i - 2, 0) : i + 3])]  # the rest is free space
    rng, found = random.Random(seed), 0
    for _ in range(100):
        place, bit = rng.choice(used), rng.randrange(8)
        flipped = bytearray(data)
        flipped[place] ^= 1 << bit
        (folder / "league.sqlite").write_bytes(flipped)
        lines = problems(folder)
        assert lines or content(folder) == expected, f"bit {bit} of byte {place}"
        found += bool(lines)
    assert found > 20


def test_the_writer_keeps_checksums_through_every_kind_of_change(folder):
    """Replaced, updated and deleted rows, errors, rollbacks and restarts."""
    for _ in range(2):
        with Store.open(folder) as store:
            store.set_meta("seed", 4)
            store.set_counter("elapsed_s", 13)
            store.add_counter("elapsed_s", 1)
            store.checkpoints.put(Checkpoint(player="main", path="b", hash="2", version=2, decisions=20))
            add_matches(store, fixtures=1)
            store.commit()
            store.set_meta("seed", 5)
            add_matches(store, fixtures=1)
            store.rollback()
            with pytest.raises(StoreError, match="already in the league"):
                store.models.add(store.models.records()[0])
            add_matches(store, fixtures=1)
            store.commit()
            store.declare({"other": ("player", 1), "main": ("player", None)}, anchors=["random"], seats=SEATS)
            store.write("DELETE FROM counters WHERE name = 'elapsed_s'")
            store.commit()
            add_matches(store, fixtures=1)
        assert problems(folder) == []
        with Store.read(folder) as store:
            assert stored_sums(store)["meta", 0] == sum_rows(store.execute("SELECT * FROM meta"))


def test_a_replaced_unused_league_has_sound_checksums(tmp_path):
    """The rows of the failed start are gone."""
    for seed in (1, 2):
        with Store.create(tmp_path, {"seed": seed}) as store:
            store.declare({"main": ("player", None)}, anchors=["random"], seats=SEATS)
            store.fixtures.add(
                Fixture(id=0, kind="train", player="main", participants=("a", "b"), matches=1, seed=5, reason="x")
            )
            store.commit()
        assert problems(tmp_path) == []


def test_all_problems_are_reported(folder):
    """Damage in one part of the database does not hide damage in another."""
    edit(
        folder,
        "UPDATE matches SET outcomes = x'00' WHERE fixture = 2",
        "UPDATE matches SET ticks = CAST(ticks || x'00' AS BLOB) WHERE fixture = 3",
        "UPDATE models SET version = 9 WHERE id = 1",
        "UPDATE counters SET value = value + 1",
    )
    found = problems(folder)
    for part in (
        "matches of fixture",
        "matches of fixture 3 from number 0 in table matches is malformed",
        "table models: the rows do not agree with their checksum",
        "table counters: the rows do not agree",
        "table matches, fixtures 0 to 1023: the rows do not agree",
        "payoff of main@1 against random (train): stored",
    ):
        assert any(part in line for line in found), (part, found)


def test_recount_refuses_malformed_rows(folder):
    """The error names the row."""
    edit(folder, "UPDATE matches SET ticks = x'01' WHERE fixture = 3")
    with Store.read(folder) as store, pytest.raises(sqlite3.DatabaseError, match="matches of fixture 3 from number 0"):
        recount(store)


# --- going on from a point -----------------------------------------------------------------------------------------


@pytest.fixture
def small_parts(monkeypatch):
    """Let a part have four fixtures."""
    for module in ("checksums", "log_scan", "verification"):
        monkeypatch.setattr(f"ludus._store.{module}.FIXTURES_PER_PART", 4)


@pytest.fixture
def long(small_parts, tmp_path):
    """Return the folder of a store with 18 fixtures, of which the 15th is open."""
    with Store.create(tmp_path / "long", {}) as store:
        store.declare({"main": ("player", None)}, anchors=["random"], seats=SEATS)
        for kind in ("train", "eval", "train"):
            add_matches(store, fixtures=6, kind=kind)
        store.write("UPDATE fixtures SET closed = 0 WHERE id = 15")
        store.commit()
    return tmp_path / "long"


def verified(folder):
    """Verify from the saved point on, and save the point that was reached."""
    with Store.read(folder) as store:
        verification = verify_store(store, point=VerifiedPoint.load(folder))
    if verification.point is not None:
        verification.point.save(folder)
    return verification


def count_reads(monkeypatch):
    """Return the list of parts that are read from now on."""
    read, parts = LogScan.read, []
    monkeypatch.setattr(LogScan, "read", lambda self, part: (parts.append(part), read(self, part))[1])
    return parts


def test_verification_goes_on_from_the_part_of_the_first_open_fixture(long, monkeypatch):
    """Earlier parts are not read again, also when matches were added."""
    parts = count_reads(monkeypatch)
    assert (verified(long).problems, verified(long).first_fixture) == ((), 12)
    assert parts == [0, 1, 2, 3, 4, 3, 4]
    with Store.open(long) as store:
        store.fixtures.close(15)
        add_matches(store, fixtures=10, kind="eval")
        store.commit()
    parts.clear()
    assert (verified(long).problems, parts) == ((), [3, 4, 5, 6, 7])
    assert (verified(long).first_fixture, parts[5:]) == (28, [7])


def test_new_damage_is_found_from_a_point_on(long):
    """A problem leaves the point where it was."""
    verified(long)
    saved = (long / "verified.json").read_bytes()
    edit(long, "UPDATE matches SET ticks = CAST(ticks || x'00' AS BLOB) WHERE fixture = 17")
    assert any("table matches, fixtures 16 to 19" in line for line in verified(long).problems)
    assert (long / "verified.json").read_bytes() == saved


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE matches SET ticks = CAST(ticks || x'00' AS BLOB) WHERE fixture = 2",
        "UPDATE checksums SET sum = x'00' WHERE name = 'matches' AND part = 1",
    ],
)
def test_a_whole_verification_finds_damage_before_the_point(long, change):
    """A changed checksum before the point makes every verification read everything."""
    verified(long)
    edit(long, change)
    assert problems(long)
    assert bool(verified(long).problems) == ("checksums" in change)


def test_late_results_before_the_point_are_verified(long):
    """The checksums before the point have changed."""
    with Store.open(long) as store:
        late = store.fixtures.add(
            Fixture(id=0, kind="eval", player="", participants=("main@1", "random"), matches=1, seed=5, reason="late")
        )
        store.fixtures.close(late.id)
        store.fixtures.close(15)
        add_matches(store, fixtures=6)
        store.commit()
    assert verified(long).problems == ()
    with Store.open(long) as store:
        one = {
            "number": np.zeros(1, np.int64),
            "ticks": np.ones(1, np.int32),
            "outcome": np.eye(2, dtype=np.float32)[:1],
        }
        store.matches.add_results({"fixture": np.array([late.id]), **one})
        store.commit()
    again = verified(long)
    assert (again.problems, again.first_fixture) == ((), 0)
    assert verified(long).first_fixture == 24


@pytest.mark.parametrize("place", [0, 70, 100, -1])
def test_a_damaged_point_is_not_used(long, place):
    """Everything is verified again."""
    verified(long)
    data = bytearray((long / "verified.json").read_bytes())
    data[place] ^= 1
    (long / "verified.json").write_bytes(data)
    assert VerifiedPoint.load(long) is None
    assert (verified(long).first_fixture, verified(long).first_fixture) == (0, 12)


# --- at a start ------------------------------------------------------------------------------------------------------


def test_a_start_refuses_a_database_with_a_damaged_structure(folder):
    """A row in the wrong order is found by SQLite's quick check, in one line."""
    path = folder / "league.sqlite"
    with closing(sqlite3.connect(path)) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'matches'").fetchone()
    data = bytearray(path.read_bytes())
    start = (page - 1) * 4096
    data[start + 3] ^= 4  # the number of cells
    path.write_bytes(data)
    with pytest.raises(
        StoreError, match=r"^[^\n]*not a sound league database: [^\n]*; restore it from a copy of the run$"
    ):
        Store.open(folder)


def test_the_check_at_a_start_takes_a_limited_time(folder, monkeypatch):
    """A check that takes longer is ended, and the store opens."""
    with Store.open(folder) as store:
        for number in range(60):
            store.set_meta(f"large/{number}", "x" * 200_000)
        store.commit()
    monkeypatch.setattr("ludus._store.database._CHECK_S", -1.0)
    connection = connect_writer(folder, create=False)
    assert connection.execute("SELECT count(*) FROM meta").fetchone()[0] > 60
    connection.close()


def test_hashes_do_not_depend_on_python(folder):
    """The checksum of given values is fixed: stores are read by later versions."""
    assert f"{sum_rows([(1, 'größe', 2.5, None, b'x')]):032x}" == "8ef808a60331f1c7cf18f4e304757064"
    assert checksums.FIXTURES_PER_PART == 1024
