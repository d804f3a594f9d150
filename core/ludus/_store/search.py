"""Search of the log of a run without its league, which takes long to read in a large run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from ludus._store.database import DATABASE, wrap_database_errors
from ludus._store.store import Store
from ludus.records import FixtureRecord, FixtureSearch, MatchRecord


class RunLog(AbstractContextManager["RunLog"]):
    """The fixtures and matches of a run as of one moment, closed at the end of its ``with`` block.

    All methods raise a `StoreError` if the database is damaged.

    Args:
        folder: The run folder.

    Raises:
        RunError: The folder holds no run.
        StoreError: The league is damaged or was written by another version of ludus.
    """

    def __init__(self, folder: Path) -> None:
        self._wrap_errors = partial(wrap_database_errors, folder / DATABASE)
        self._store = Store.read(folder)

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def last_fixture(self) -> int:
        """Return the id of the newest fixture; 0 if there is none."""
        with self._wrap_errors():
            return self._store.fixtures.last_id()

    def search(self, search: FixtureSearch, *, before: int, depth: int) -> Iterator[FixtureRecord]:
        """Yield the fixtures that a search finds, the newest first.

        Args:
            search: The search.
            before: Fixtures with smaller ids only.
            depth: Number of ids below `before` to look at: a long log is searched in several calls.
        """
        with self._wrap_errors():
            yield from self._store.fixtures.search(search, before=before, depth=depth)

    def matches(self, fixture: int) -> Iterator[MatchRecord]:
        """Yield the matches of the fixture with this id, ordered by number."""
        with self._wrap_errors():
            yield from self._store.matches.of_fixture(fixture)
