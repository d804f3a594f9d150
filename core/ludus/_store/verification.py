"""Verifying a league database: its pages, the checksums of its rows, and the sums that follow from the match log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from attrs import frozen

from ludus._store.checksums import FIXTURES_PER_PART, PARTED, Sums, stored_sums, sum_rows, tables
from ludus._store.database import reading
from ludus._store.definitions import expected_definitions, read_definitions
from ludus._store.journal import JOURNAL, describe_loss, lost_commits
from ludus._store.log_scan import LogScan, LogTotals
from ludus._store.store import Store
from ludus._store.verified_point import VerifiedPoint

_MISMATCH = "the rows do not agree with their checksum; they were damaged, or changed by another program"


def recount(store: Store) -> LogTotals:
    """Return the totals of the match log.

    Raises:
        sqlite3.DatabaseError: A row is malformed, or belongs to no fixture.
    """
    scan = LogScan(store)
    for part in scan.parts():
        for problem in scan.read(part):
            raise sqlite3.DatabaseError(problem)
    return scan.totals


@frozen(kw_only=True)
class Verification:
    """The result of `verify_store`.

    Attributes:
        problems: One line for every contradiction.
        first_fixture: The first fixture that was verified.
        point: The point from which the next verification may go on; None if there are problems.
    """

    problems: tuple[str, ...]
    first_fixture: int
    point: VerifiedPoint | None


def verify_store(store: Store, *, point: VerifiedPoint | None = None) -> Verification:
    """Compare a database with its checksums, and the sums in its tables with its match log.

    Args:
        store: The store; a reader, so that all is read from one snapshot.
        point: Skip the log before this point, unless its checksums have changed since; None: verify everything.
    """
    with reading("table checksums"):
        stored = stored_sums(store)
    start = point if point is not None and point.agrees_with(stored) else None
    scan = LogScan(store, LogTotals() if start is None else start.totals.copy())
    first, end = (0 if start is None else start.part), _first_open_part(store)
    problems = [
        *_check_journal(store),
        *_lines(_check_schema(store)),
        *_lines(_check_pages(store, whole=start is None)),
    ]
    problems += _lines(_check_tables(store, stored))
    problems += _lines(line for part in scan.parts(first, end) for line in scan.read(part))
    reached = VerifiedPoint.of(max(first, end), stored, scan.totals)
    problems += _lines(line for part in scan.parts(max(first, end)) for line in scan.read(part))
    problems += _compare_parts(stored, scan.sums, first)
    problems += _lines(compare_totals(store, scan.totals))
    return Verification(
        problems=tuple(problems), first_fixture=first * FIXTURES_PER_PART, point=None if problems else reached
    )


def _lines(problems: Iterable[str]) -> Iterator[str]:
    """Yield problems, and the error that ends them."""
    try:
        with reading("the database"):
            yield from problems
    except sqlite3.DatabaseError as error:
        yield str(error)


def _first_open_part(store: Store) -> int:
    sql = (
        "SELECT ifnull((SELECT min(id) FROM fixtures WHERE closed = 0), (SELECT ifnull(max(id), 0) + 1 FROM fixtures))"
    )
    return int(store.execute(sql).fetchone()[0]) // FIXTURES_PER_PART


def _check_journal(store: Store) -> Iterator[str]:
    """Check that no commit is lost by damage of the write-ahead log."""
    if lost := lost_commits(store.run_dir / JOURNAL):
        yield describe_loss(lost)


def _check_schema(store: Store) -> Iterator[str]:
    """Compare tables, indices and triggers with those of a new database."""
    different = read_definitions(store.execute).items() ^ expected_definitions().items()
    for name in sorted({name for (_, name), _ in different}, key=repr):
        yield f"{name}: its definition in the database is not that of this version of ludus"


def _check_pages(store: Store, *, whole: bool) -> Iterator[str]:
    """Check the structure of the whole file, or of the tables that do not grow with the matches."""
    pragmas = [f"integrity_check({table})" for table in tables(store) if table not in PARTED]
    for pragma in ["integrity_check"] if whole else pragmas:
        yield from (line for (line,) in store.execute(f"PRAGMA {pragma}") if line != "ok")


def _check_tables(store: Store, stored: Sums) -> Iterator[str]:
    """Compare the tables that do not grow with the matches with their checksums."""
    for table in tables(store):
        if table not in PARTED:
            rows = store.execute(f"SELECT * FROM {table}")  # noqa: S608 - names of the schema
            if sum_rows(rows) != stored.get((table, 0), 0):
                yield f"table {table}: {_MISMATCH}"


def _compare_parts(stored: Sums, counted: Sums, first: int) -> Iterator[str]:
    """Compare the checksums of the log from a part on."""
    for name, part in sorted({key for key in stored if key[0] in PARTED and key[1] >= first} | counted.keys()):
        if stored.get((name, part), 0) != counted.get((name, part), 0):
            start = part * FIXTURES_PER_PART
            yield f"table {name}, fixtures {start} to {start + FIXTURES_PER_PART - 1}: {_MISMATCH}"


def compare_totals(store: Store, counted: LogTotals) -> Iterator[str]:
    """Yield one line for every sum in the tables that is not that of the log."""
    for (kind, a, b), values in _different(store.payoffs.totals(), counted.payoffs, size=3):
        yield f"payoff of {a} against {b} ({kind}): {values}"
    for (participant, name), values in _different(store.behaviour.totals(), counted.behaviour, size=3):
        yield f"statistic {name} of {participant}: {values}"
    matches = [
        {kind: np.array([n]) for kind, n in totals.items()} for totals in (store.matches.totals(), counted.matches)
    ]
    for kind, values in _different(*matches, size=1):
        yield f"number of {kind} matches: {values}"


def _different(stored: Mapping[Any, np.ndarray], counted: Mapping[Any, np.ndarray], *, size: int) -> Iterator[Any]:
    """Yield each key with different values, and a text about them; missing values are zeros."""
    zeros = np.zeros(size, np.int64)
    for key in sorted(stored.keys() | counted.keys(), key=repr):
        actual, expected = stored.get(key, zeros), counted.get(key, zeros)
        # Sums of statistics are floating-point numbers, which depend on the order of addition.
        if not np.allclose(actual, expected, rtol=1e-6 if expected.dtype.kind == "f" else 0, atol=1e-6):
            yield key, f"stored {actual.tolist()}, the log has {expected.tolist()}"
