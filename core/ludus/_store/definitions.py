"""The definitions of tables, indices and triggers in a league database."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

SCHEMA = Path(__file__).with_name("schema.sql")

#: Definition of a table, an index, a trigger or a view, by kind and name.
Definitions: TypeAlias = "dict[tuple[str, str], str | None]"


def read_definitions(execute: Callable[[str], sqlite3.Cursor]) -> Definitions:
    """Return the definitions in a database, of which `execute` runs a statement."""
    rows = execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return {(kind, name): sql for kind, name, sql in rows}


@functools.cache
def expected_definitions() -> Definitions:
    """Return the definitions in a new database."""
    with closing(sqlite3.connect(":memory:")) as new:
        new.executescript(SCHEMA.read_text(encoding="utf-8"))
        return read_definitions(new.execute)
