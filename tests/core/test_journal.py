"""Commits that a damaged write-ahead log loses."""

from __future__ import annotations

import random
import shutil
import sqlite3
import time
from contextlib import closing

import pytest
from ludus._store.journal import lost_commits

COMMITS = 5


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return a database whose commits are all in its write-ahead log, as a killed process leaves it."""
    folder = tmp_path_factory.mktemp("log")
    with closing(sqlite3.connect(folder / "open.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE numbers (number, filler)")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for number in range(COMMITS):
            connection.execute("INSERT INTO numbers VALUES (?, ?)", (number, "x" * 3000 * (1 + number)))
        for end in ("", "-wal"):
            shutil.copy(f"{folder}/open.sqlite{end}", f"{folder}/killed.sqlite{end}")
    return folder / "killed.sqlite-wal"


def surviving(log, data, tmp_path):
    """Return how many commits SQLite reads if the log has this content."""
    database = tmp_path / "read.sqlite"
    shutil.copy(str(log).removesuffix("-wal"), database)
    (tmp_path / "read.sqlite-wal").write_bytes(data)
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT count(*) FROM numbers").fetchone()[0]


def frames(data):
    """Return the first bytes of all frames, and of those that commit."""
    page = int.from_bytes(data[8:12], "big")
    starts = range(32, len(data), 24 + page)
    return list(starts), [at for at in starts if int.from_bytes(data[at + 4 : at + 8], "big")]


def test_a_sound_log_loses_nothing(log):
    """Nor does a missing one."""
    assert lost_commits(log) == 0
    assert lost_commits(log.with_name("missing")) == 0
    assert len(frames(log.read_bytes())[1]) == COMMITS


def test_lost_commits_are_reported(log, tmp_path, monkeypatch):
    """Whichever bit flips: SQLite drops commits in silence; a single one could be that of a crash."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    data, rng = log.read_bytes(), random.Random(1)
    starts, _ = frames(data)
    places = [
        *range(12, 32),
        *(start + rng.randrange(24) for start in starts),
        *rng.choices(range(32, len(data)), k=60),
    ]
    damaged, seen = tmp_path / "damaged", set()
    for place in places:
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.randrange(8)
        damaged.write_bytes(flipped)
        lost = COMMITS - surviving(log, bytes(flipped), tmp_path)
        seen.add(lost)
        counted = lost_commits(damaged)
        assert (counted > 0) == (lost > 1) or lost == 1, place
        assert abs(counted - lost) <= 1, place  # the bit may be the mark of a commit
    assert seen >= {1, 2, 3, 4, COMMITS}


def test_a_transaction_cut_by_a_crash_is_no_damage(log, tmp_path):
    """Wherever its end is."""
    data = log.read_bytes()
    _, commits = frames(data)
    cut = tmp_path / "cut"
    for end in [*range(commits[-2], len(data), 997), *commits, 0, 31, 32]:
        cut.write_bytes(data[:end])
        assert lost_commits(cut) == 0


def test_a_torn_last_transaction_is_no_damage(log, tmp_path):
    """After a loss of power its commit may be there, and an earlier page not."""
    data = bytearray(log.read_bytes())
    starts, commits = frames(data)
    first = next(start for start in starts if start > commits[-2])
    data[first + 30] ^= 1
    torn = tmp_path / "torn"
    torn.write_bytes(data)
    assert lost_commits(torn) == 0


def test_frames_of_an_earlier_log_do_not_count(tmp_path):
    """SQLite writes over a log that it has copied to the database."""
    with closing(sqlite3.connect(tmp_path / "open.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE numbers (number)")
        for number in range(20):
            connection.execute("INSERT INTO numbers VALUES (?)", (number,))
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        connection.execute("INSERT INTO numbers VALUES (20)")
        log = tmp_path / "copy"
        shutil.copy(tmp_path / "open.sqlite-wal", log)
    assert len(frames(log.read_bytes())[1]) > 2
    assert lost_commits(log) == 0


def test_large_logs_are_read_fast(log, tmp_path):
    """16 MB, the limit of a run's log, take less than a second."""
    data = log.read_bytes()
    large = tmp_path / "large"
    large.write_bytes(data + data[32:] * (16 * 1024**2 // len(data)))
    start = time.process_time()
    lost_commits(large)
    assert time.process_time() - start < 2
