"""The metric file of a run: JSON lines, appended, readable while the run goes on.

One line per write, ``{"t": elapsed_s, "d": decisions, "m": {name: value}}``; a value that is not finite is null.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from ludus.errors import RunError
from ludus.metrics import Metric


class JsonLinesSink:
    """A metric sink that appends to a file without buffering.

    Args:
        path: Path of the file, created if missing. An incomplete last line, left by a crash, is removed.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._file.truncate(_size_of_complete_lines(path))

    def write(self, metrics: Sequence[Metric]) -> None:
        """Append metrics; those of one moment share a line.

        Raises:
            OSError: The disk is full; the file is unchanged.
        """
        lines = [
            json.dumps({"t": elapsed_s, "d": decisions, "m": {metric.name: _finite(metric.value) for metric in group}})
            for (elapsed_s, decisions), group in groupby(metrics, key=attrgetter("elapsed_s", "decisions"))
        ]
        rest = memoryview("".join(f"{line}\n" for line in lines).encode())
        start = self._file.seek(0, os.SEEK_END)
        try:
            while rest:  # a nearly full disk writes a part, and raises when the rest is written
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._file.truncate(start)  # an incomplete line would damage the next one
            raise

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        self._file.close()


def read_metrics(path: Path) -> Iterator[Metric]:
    """Yield the metrics of a file in the order in which they were written; an incomplete last line is skipped.

    Raises:
        RunError: Another line is damaged.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield from _parse(line, location=f"{path}:{number}")


def _size_of_complete_lines(path: Path) -> int:
    """Return the size of a file up to its last newline, searched from the end because the file may be large."""
    if not path.stat().st_size:  # an empty file cannot be mapped
        return 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.rfind(b"\n") + 1


def _parse(line: bytes, *, location: str) -> Iterator[Metric]:
    try:
        entry: dict[str, Any] = json.loads(line)
        for name, value in entry["m"].items():
            number = math.nan if value is None else float(value)
            yield Metric(name=name, value=number, decisions=int(entry["d"]), elapsed_s=float(entry["t"]))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise RunError(f"{location}: damaged metric line ({error}); remove the line to go on") from None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
