"""The metric file of a run, ``metrics.jsonl``: one line per report, which thins out with age.

``{"t": elapsed seconds, "d": decisions, "m": {name: value}}``; a value that is not finite is null. Reports of the last
hours are all kept, of the day before one per minute, and of older ones one per ten minutes: the last of each interval.
"""

from __future__ import annotations

import json
import logging
import math
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BufferedReader
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from ludus._store.durable import write_durably
from ludus._store.foreign_files import open_regular
from ludus.metrics import Metric

_log = logging.getLogger(__name__)

_TIME = re.compile(rb'\{"t": ([0-9.e+-]+),')
_DAY_S = 24 * 3600.0
_THINNED_BYTES = 16 * 2**20  # a smaller file is not thinned
_GROWTH = 2.0  # from one thinning to the next
_MAX_LINE_BYTES = 2**20
_DAMAGED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)  # raised by `_parse`


class MetricFile:
    """Appends metrics to a file without buffering, and thins it out when it has grown.

    Args:
        path: Path of the file, created if missing. An incomplete last line, left by a crash, is removed.
        full_s: Age in seconds of training up to which all reports are kept.
    """

    def __init__(self, path: Path, *, full_s: float = 7200.0) -> None:
        self._path, self._full_s = path, full_s
        self._file = path.open("ab", buffering=0)
        self._file.truncate(_size_of_complete_lines(path))
        self._thin_at_bytes: float = _THINNED_BYTES

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
        end = start + len(rest)
        try:
            while rest:  # a nearly full disk writes a part, and raises when the rest is written
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._file.truncate(start)  # an incomplete line would damage the next one
            raise
        if end > self._thin_at_bytes:
            self._thin(metrics[-1].elapsed_s)

    def _thin(self, now_s: float) -> None:
        """Replace the file by a thinner one; a reader that has opened it goes on with the old one."""
        with suppress(OSError), self._path.open("rb") as lines:  # without space for both, the old one stays
            write_durably(self._path, thinned(lines, now_s=now_s, full_s=self._full_s))
            self._file.close()
            self._file = self._path.open("ab", buffering=0)
        self._thin_at_bytes = max(_THINNED_BYTES, _GROWTH * self._file.seek(0, os.SEEK_END))

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        self._file.close()


def thinned(lines: Iterable[bytes], *, now_s: float, full_s: float) -> Iterator[bytes]:
    """Yield the lines of a metric file that are kept; damaged lines are.

    Args:
        lines: The lines, oldest first.
        now_s: Present time in seconds of training.
        full_s: Age up to which all are kept.
    """
    for _, group in groupby(lines, key=lambda line: _interval(line, now_s=now_s, full_s=full_s)):
        *_, last = group
        yield last


def _interval(line: bytes, *, now_s: float, full_s: float) -> tuple[float, float] | bytes:
    """Return the interval of which only the last line is kept, as its length and number; the line if it is kept."""
    match = _TIME.match(line)
    try:
        time_s = float(match[1]) if match else math.nan
    except ValueError:
        time_s = math.nan
    if math.isnan(time_s):  # a damaged line
        return line
    if now_s - time_s <= full_s:
        return line
    length_s = 60.0 if now_s - time_s <= full_s + _DAY_S else 600.0
    return (length_s, time_s // length_s)


def read_metrics(path: Path) -> Iterator[Metric]:
    """Yield the metrics of a file in the order in which they were written; an incomplete last line is skipped.

    Damaged lines are skipped too; at the end one warning with their number is logged.
    """
    damaged: list[int] = []
    with open_regular(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                yield from _parse(line)
            except _DAMAGED:
                damaged.append(number)
    if damaged:
        plural = "s" if len(damaged) > 1 else ""
        _log.warning("%s: skipped %d damaged line%s, the first is line %d", path, len(damaged), plural, damaged[0])


@frozen
class MetricReport:
    """The metrics of one moment: seconds of training, decisions of all players, and values by name."""

    elapsed_s: float
    decisions: int
    values: Mapping[str, float]


@define
class MetricTail:
    """Reads a metric file while it grows. Damaged lines are skipped.

    Args:
        path: Path of the file, which may be missing.

    Attributes:
        replaced: Whether the last call of `read` started at the beginning, because the file is new or was thinned.
        behind_bytes: Bytes that the last call of `read` has left.
    """

    path: Path
    replaced: bool = field(init=False, default=False)
    behind_bytes: int = field(init=False, default=0)
    _offset: int = field(init=False, default=0)
    _inode: int = field(init=False, default=-1)

    def read(self, *, max_bytes: int = 2**22) -> list[MetricReport]:
        """Return the reports that were added since the last call.

        Args:
            max_bytes: Maximum number of bytes to read, which bounds the time that a call takes.
        """
        try:
            with open_regular(self.path) as file:
                return self._read(file, max_bytes)
        except OSError:
            return []

    def skip(self) -> None:
        """Skip all reports but the last one."""
        with suppress(OSError), open_regular(self.path) as file:
            status = os.fstat(file.fileno())
            start = max(0, status.st_size - _MAX_LINE_BYTES)
            file.seek(start)
            end = file.read().rstrip(b"\n").rfind(b"\n")
            self._inode, self._offset = status.st_ino, start + end + 1

    def _read(self, file: BufferedReader, max_bytes: int) -> list[MetricReport]:
        status = os.fstat(file.fileno())
        self.replaced = status.st_ino != self._inode or status.st_size < self._offset
        if self.replaced:
            self._inode, self._offset = status.st_ino, 0
        file.seek(self._offset)
        data = file.read(max_bytes)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == max_bytes:  # no line of a run is as long
            end = len(data)
        self._offset += end
        reports = []
        for line in data[:end].split(b"\n"):
            with suppress(*_DAMAGED):
                reports.append(_parse_report(line))
        self.behind_bytes = max(0, status.st_size - self._offset)
        return reports


def _size_of_complete_lines(path: Path) -> int:
    """Return the size of a file up to its last newline, searched from the end because the file may be large."""
    if not path.stat().st_size:  # an empty file cannot be mapped
        return 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.rfind(b"\n") + 1


def _parse(line: bytes) -> list[Metric]:
    """Return the metrics of a line; raises for a damaged one."""
    report = _parse_report(line)
    return [
        Metric(name=name, value=value, decisions=report.decisions, elapsed_s=report.elapsed_s)
        for name, value in report.values.items()
    ]


def _parse_report(line: bytes) -> MetricReport:
    entry: dict[str, Any] = json.loads(line)
    values = {name: math.nan if value is None else float(value) for name, value in entry["m"].items()}
    return MetricReport(float(entry["t"]), int(entry["d"]), values)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
