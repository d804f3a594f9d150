"""The metric stream of a run: JSON lines, appended, readable while the run goes on.

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


class JsonLines:
    """A metric sink that appends to a file; every write is on its way to the disk when it returns.

    Args:
        path: The file; made if missing. A last line torn by a crash is cut off.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._file.truncate(_end_of_lines(path))

    def write(self, metrics: Sequence[Metric]) -> None:
        """Append metrics; those of one moment share a line.

        Raises:
            OSError: They do not fit on the disk; nothing of them is left in the file.
        """
        lines = [
            json.dumps({"t": elapsed_s, "d": decisions, "m": {metric.name: _finite(metric.value) for metric in group}})
            for (elapsed_s, decisions), group in groupby(metrics, key=attrgetter("elapsed_s", "decisions"))
        ]
        rest = memoryview("".join(f"{line}\n" for line in lines).encode())
        start = self._file.seek(0, os.SEEK_END)
        try:
            while rest:  # a disk that is nearly full takes a part, and refuses what is left of it with its reason
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._file.truncate(start)  # half a line would spoil the next one
            raise

    def close(self) -> None:
        """Close the file; may be called again."""
        self._file.close()


def read_metrics(path: Path) -> Iterator[Metric]:
    """Read a metric stream in the order in which it was written; a torn last line is left out.

    Raises:
        RunError: Another line is damaged.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield from _parse(line, where=f"{path}:{number}")


def _end_of_lines(path: Path) -> int:
    """Return the size of a file up to its last newline, looked for from the end: the file may be that of a long run."""
    if not path.stat().st_size:  # nothing to map
        return 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.rfind(b"\n") + 1


def _parse(line: bytes, *, where: str) -> Iterator[Metric]:
    try:
        entry: dict[str, Any] = json.loads(line)
        for name, value in entry["m"].items():
            number = math.nan if value is None else float(value)
            yield Metric(name=name, value=number, decisions=int(entry["d"]), elapsed_s=float(entry["t"]))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise RunError(f"{where}: damaged metric line ({error}); remove the line to go on") from None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
