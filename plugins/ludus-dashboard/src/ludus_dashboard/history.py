"""The metrics of a run over time, read while the run goes on, and what they show about its state."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import define, field, frozen
from ludus.runs import MetricReport, MetricTail, running_pid

__all__ = ["History", "RunState", "last_report", "run_state"]

_MAX_REPORTS = 1500  # then every second one is dropped
_QUIET_S = 60.0  # without progress, before it is called a stall
_WINDOW_S = 10.0  # of training, over which rates are averaged


@define
class History:
    """Reports of a run, spread evenly over its time; the newest one is always among them.

    Args:
        folder: The run folder.

    Attributes:
        reports: The reports, oldest first.
        progress_s: Unix time of the last report in which a number of matches or decisions differed from before.
    """

    folder: Path
    reports: list[MetricReport] = field(init=False, factory=list)
    progress_s: float = field(init=False, factory=time.time)
    _tail: MetricTail = field(init=False)
    _every: int = field(init=False, default=1)  # reports between two that are kept
    _skipped: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._tail = MetricTail(self.folder / "metrics.jsonl")

    @property
    def behind_bytes(self) -> int:
        """Return how much of the file is not read yet."""
        return self._tail.behind_bytes

    def read(self) -> None:
        """Read the new reports, at most 4 MiB of them."""
        before = self.last
        reports = self._tail.read()
        if self._tail.replaced:
            self.reports, self._every, self._skipped = [], 1, 0
        for report in reports:
            self._add(report)
        if self.last is not None and (before is None or _counts(before) != _counts(self.last)):
            self.progress_s = time.time()

    def _add(self, report: MetricReport) -> None:
        if self._skipped and self.reports:
            self.reports[-1] = report
        else:
            self.reports.append(report)
        self._skipped = (self._skipped + 1) % self._every
        if len(self.reports) > _MAX_REPORTS:
            self.reports = self.reports[::2]
            self._every *= 2

    @property
    def last(self) -> MetricReport | None:
        """Return the newest report; None if there is none."""
        return self.reports[-1] if self.reports else None

    def value(self, name: str) -> float | None:
        """Return the newest known value of a metric; a rate (``…_per_s``) is a mean over ten seconds."""
        newest = self.reports[-1].elapsed_s if self.reports else 0.0
        values = []
        for report in reversed(self.reports):
            if name in report.values and not math.isnan(report.values[name]):
                values.append(report.values[name])
            if values and (not name.endswith("_per_s") or report.elapsed_s < newest - _WINDOW_S):
                break
        return sum(values) / len(values) if values else None

    def series(self, name: str) -> list[float | None]:
        """Return the values of a metric in all reports; None where it is not known."""
        return [_finite(report.values.get(name, math.nan)) for report in self.reports]

    def minutes(self) -> list[float]:
        """Return the times of all reports in minutes of training."""
        return [report.elapsed_s / 60 for report in self.reports]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _counts(report: MetricReport) -> tuple[int, float | None]:
    return report.decisions, report.values.get("league/matches")


def last_report(folder: Path) -> MetricReport | None:
    """Return the newest report of a run without reading the others; None if there is none."""
    tail = MetricTail(folder / "metrics.jsonl")
    tail.skip()
    return next(reversed(tail.read()), None)


@frozen(kw_only=True)
class RunState:
    """What a run is doing.

    Attributes:
        name: ``"running"``, ``"stalled"`` or ``"stopped"``.
        pid: Process that writes the run; 0 if it is stopped.
        warnings: One line each: stalls, and who waits for which other worker.
    """

    name: str
    pid: int
    warnings: tuple[str, ...] = ()


def run_state(history: History, players: Iterable[str]) -> RunState:
    """Return the state of a run from its lock and its metrics."""
    pid = running_pid(history.folder)
    if not pid:
        return RunState(name="stopped", pid=0)
    quiet_s = time.time() - history.progress_s
    values = {} if history.last is None else history.last.values
    warnings = tuple(_waits(values, players))
    if quiet_s < _QUIET_S:
        return RunState(name="running", pid=pid, warnings=warnings)
    stall = (
        f"no match has ended and nothing was learned for {quiet_s // 60:.0f} min; the logs of the workers may show why"
    )
    return RunState(name="stalled", pid=pid, warnings=(stall, *warnings))


def _waits(values: Mapping[str, float], players: Iterable[str]) -> Iterable[str]:
    waiting = values.get("sampling/waiting", 0.0)
    if waiting >= 0.5:
        yield f"{waiting:.0%} of the samplers wait for a learner: learning is slower than playing"
    for player in players:
        idle = values.get(f"learner/{player}/idle_share", 0.0)
        if idle >= 0.5:
            yield f"the learner of {player} waits for samplers {idle:.0%} of its time: playing is slower than learning"
