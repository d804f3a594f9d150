"""The metric stream of a run: JSON lines, appended, readable while the run goes on.

One line per write, ``{"t": elapsed_s, "d": decisions, "m": {name: value}}``; a value that is not finite is null.
"""

from __future__ import annotations

import json
import math
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
        self._file.truncate(path.read_bytes().rfind(b"\n") + 1)

    def write(self, metrics: Sequence[Metric]) -> None:
        """Append metrics; those of one moment share a line."""
        lines = [
            json.dumps({"t": elapsed_s, "d": decisions, "m": {metric.name: _finite(metric.value) for metric in group}})
            for (elapsed_s, decisions), group in groupby(metrics, key=attrgetter("elapsed_s", "decisions"))
        ]
        self._file.write("".join(f"{line}\n" for line in lines).encode())

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


def _parse(line: bytes, *, where: str) -> Iterator[Metric]:
    try:
        entry: dict[str, Any] = json.loads(line)
        for name, value in entry["m"].items():
            number = math.nan if value is None else float(value)
            yield Metric(name=name, value=number, decisions=int(entry["d"]), elapsed_s=float(entry["t"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunError(f"{where}: damaged metric line ({error}); remove the line to go on") from None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
