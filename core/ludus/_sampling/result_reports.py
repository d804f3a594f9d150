"""Reports of match results, sent again until the coordinator has committed them."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from attrs import define, field

from ludus._messaging.messages import Results
from ludus._sampling.retry import retry_interval_s
from ludus._sampling.sampler_metrics import SamplerMetrics
from ludus.launcher import COORDINATOR, Link

__all__ = ["ResultReports"]

# Results of short matches are collected longer: each report costs the coordinator a transaction, and each fixture in
# it some queries. Intervals are counted in calls, see `fixture_requests.REQUEST_INTERVAL`.
_INTERVAL = 50
_LONG_INTERVAL = 200
_FEW_MATCHES = 512  # up to here the short interval applies
_MAX_MATCHES = 2048  # so many are sent at once


@define
class _UnackedReport:
    message: Results
    sent_s: float
    attempts: int = 1


@define
class ResultReports:
    """Collects the results of matches and sends them to the coordinator.

    Args:
        link: Link to the coordinator.
        clock: Seconds, for retries.
        metrics: Metrics of the matches.
    """

    link: Link
    clock: Callable[[], float]
    metrics: SamplerMetrics
    _collected: list[dict[str, np.ndarray]] = field(init=False, factory=list)  # by tick
    _num_collected: int = field(init=False, default=0)  # matches
    _unacked: dict[int, _UnackedReport] = field(init=False, factory=dict)
    _number: int = field(init=False, factory=lambda: os.getpid() << 32)  # differs from those of an earlier process
    _calls: int = field(init=False, default=0)  # of `send` since the last report

    def add(self, arrays: dict[str, np.ndarray]) -> None:
        """Add the results of a tick, see `MatchEngine.on_results`."""
        self._collected.append(arrays)
        self._num_collected += arrays["number"].size

    def send(self, now: float) -> None:
        """Send the collected results if there are many or the last report is old; repeat reports without an ack."""
        self._calls += 1
        interval = _INTERVAL if self._num_collected < _FEW_MATCHES else _LONG_INTERVAL
        if self._calls >= interval or self._num_collected >= _MAX_MATCHES:
            self.flush()
        for report in self._unacked.values():
            if now - report.sent_s >= retry_interval_s(report.attempts, first=5.0):
                report.sent_s, report.attempts = now, report.attempts + 1
                self.link.send(COORDINATOR, report.message)

    def flush(self) -> None:
        """Send the collected results."""
        self._calls = 0
        if not self._collected:
            return
        names = self._collected[-1]  # reward parts may have appeared for the first time
        arrays = {name: np.concatenate([one[name] for one in self._collected if name in one]) for name in names}
        self._collected.clear()
        self._num_collected = 0
        message = Results(report=self._number + 1, arrays=self.metrics.add_results(arrays))
        self._number += 1
        self._unacked[self._number] = _UnackedReport(message, self.clock())
        self.link.send(COORDINATOR, message)

    def acknowledge(self, report: int) -> None:
        """Drop a report that the coordinator has committed."""
        self._unacked.pop(report, None)

    @property
    def drained(self) -> bool:
        """Return whether the coordinator has committed all results."""
        return not self._unacked and not self._collected
