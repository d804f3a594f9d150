"""The point up to which a match log was verified, kept in a file of the run folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
from attrs import frozen

from ludus._store.checksums import PARTED, Sums
from ludus._store.durable import write_durably
from ludus._store.log_scan import LogTotals

_FILE = "verified.json"


@frozen(kw_only=True)
class VerifiedPoint:
    """Everything before a part of the log was verified.

    Attributes:
        part: Index of the first part that was not verified, see `ludus._store.checksums`.
        checksum: Hash of the checksums of all earlier parts.
        totals: What the earlier parts add up to.
    """

    part: int
    checksum: str
    totals: LogTotals

    @classmethod
    def of(cls, part: int, sums: Sums, totals: LogTotals) -> VerifiedPoint:
        """Return the point before a part.

        Args:
            part: Index of the part.
            sums: The checksums of the database.
            totals: What the earlier parts add up to; copied.
        """
        return cls(part=part, checksum=_hash_sums(part, sums), totals=totals.copy())

    def agrees_with(self, sums: Sums) -> bool:
        """Return whether the parts before this point have the checksums that they had when they were verified."""
        return self.checksum == _hash_sums(self.part, sums)

    @classmethod
    def load(cls, run_dir: Path) -> VerifiedPoint | None:
        """Return the point that was saved; None if there is none, or its file is damaged."""
        try:
            digest, _, text = (run_dir / _FILE).read_text(encoding="utf-8").partition("\n")
        except (OSError, UnicodeDecodeError):
            return None
        if digest != _hash(text):
            return None
        values = json.loads(text)
        totals = LogTotals(
            payoffs={tuple(key): np.array(counts, np.int64) for *key, counts in values["payoffs"]},
            behaviour={tuple(key): np.array(sums, np.float64) for *key, sums in values["behaviour"]},
            matches=values["matches"],
        )
        return cls(part=values["part"], checksum=values["checksum"], totals=totals)

    def save(self, run_dir: Path) -> None:
        """Write the point to the run folder, with a hash of the file's text."""
        values = {
            "part": self.part,
            "checksum": self.checksum,
            "payoffs": [[*key, counts.tolist()] for key, counts in self.totals.payoffs.items()],
            "behaviour": [[*key, sums.tolist()] for key, sums in self.totals.behaviour.items()],
            "matches": self.totals.matches,
        }
        text = json.dumps(values)
        write_durably(run_dir / _FILE, f"{_hash(text)}\n{text}".encode())


def _hash_sums(part: int, sums: Sums) -> str:
    return _hash(json.dumps(sorted([*key, total] for key, total in sums.items() if key[0] in PARTED and key[1] < part)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
