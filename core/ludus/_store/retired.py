"""The table of retired models: their weights are deleted, or will be."""

from __future__ import annotations

import time

from ludus._store.database import Database


class RetiredTable:
    """Reads and adds retired models."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, model: str) -> None:
        """Retire a model; its file may be deleted after the commit."""
        self._db.write("INSERT INTO retired VALUES (?, ?)", model, time.time())

    def names(self) -> frozenset[str]:
        """Return the retired models."""
        return frozenset(name for (name,) in self._db.execute("SELECT participant FROM retired"))
