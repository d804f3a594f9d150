"""Repair of the tables that are sums over the match log: payoffs, behaviour, and the numbers of matches."""

from __future__ import annotations

from collections.abc import Iterator

from ludus._store.checksums import PARTED, Sums, stored_sums, sum_rows
from ludus._store.log_scan import LogScan, LogTotals
from ludus._store.store import Store
from ludus._store.verification import compare_totals

_TABLES = ("behaviour", "payoffs", "totals")


def rebuild_sums(store: Store) -> Iterator[str]:
    """Write the sums over the match log again if they do not agree with it, and yield a line; the caller commits.

    Nothing is changed if the log itself does not agree with its checksums.

    Args:
        store: The store, open for writing.

    Raises:
        sqlite3.DatabaseError: The database cannot be read.
        StoreError: The disk failed.
    """
    counted = _count(store)
    if counted is None:
        return
    yield from _rebuild_counter(store, float(counted.matches.get("train", 0)))
    if _agree(store, counted):
        return
    for table in _TABLES:
        store.write(f"DELETE FROM {table}")  # noqa: S608 - names of the schema
    store.payoffs.add(counted.payoffs)
    store.behaviour.add(counted.behaviour)
    store.write_many("INSERT INTO totals VALUES (?, ?)", counted.matches.items())
    for table in _TABLES:
        store.reset_checksum(table)
    yield (
        f"payoffs, behaviour and numbers of matches: did not agree with the log of {sum(counted.matches.values()):,} "
        "matches; counted again from it"
    )


def _rebuild_counter(store: Store, matches: float) -> Iterator[str]:
    """Correct the counter of training matches, unless other counters are damaged too: nothing else has their values."""
    rows = dict(store.execute("SELECT name, value FROM counters").fetchall())
    if not matches or rows.get("matches") == matches:
        return
    rows["matches"] = matches
    if sum_rows(rows.items()) == stored_sums(store).get(("counters", 0), 0):
        store.set_counter("matches", matches)
        store.reset_checksum("counters")
        yield f"counter of training matches: did not agree with the log; set to {matches:,.0f}"


def _count(store: Store) -> LogTotals | None:
    """Return the totals of the log; None if it is damaged."""
    scan = LogScan(store)
    if any(problem for part in scan.parts() for problem in scan.read(part)):
        return None
    return scan.totals if _of_log(scan.sums) == _of_log(stored_sums(store)) else None


def _of_log(sums: Sums) -> Sums:
    """Return the checksums of the log without those of parts that have no rows."""
    return {key: total for key, total in sums.items() if key[0] in PARTED and total}


def _agree(store: Store, counted: LogTotals) -> bool:
    """Return whether the tables have their checksums, and the sums of the log."""
    stored = stored_sums(store)
    for table in _TABLES:
        if sum_rows(store.execute(f"SELECT * FROM {table}")) != stored.get((table, 0), 0):  # noqa: S608 - as above
            return False
    return next(compare_totals(store, counted), None) is None
