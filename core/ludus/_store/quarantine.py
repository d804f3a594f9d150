"""The models that are quarantined because their files are damaged."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import asdict, frozen

from ludus._store.database import Database, reading

_META = "quarantine"


@frozen(kw_only=True)
class QuarantineRecord:
    """A quarantined model.

    Attributes:
        damage: How its file is damaged.
        pools: Pools that it was in.
    """

    damage: str
    pools: tuple[str, ...] = ()


class QuarantineTable:
    """Reads and writes the quarantined models."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def records(self) -> Mapping[str, QuarantineRecord]:
        """Return the quarantined models by participant."""
        with reading(f"meta value {_META!r}"):
            return {
                name: QuarantineRecord(damage=values["damage"], pools=tuple(values["pools"]))
                for name, values in self._db.meta(_META, {}).items()
            }

    def add(self, model: str, record: QuarantineRecord) -> None:
        """Quarantine a model."""
        self._db.set_meta(_META, {**self._db.meta(_META, {}), model: asdict(record)})

    def remove(self, model: str) -> None:
        """End the quarantine of a model."""
        self._db.set_meta(_META, {name: values for name, values in self._db.meta(_META, {}).items() if name != model})
