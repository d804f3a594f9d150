"""Metrics of a learner: counters over the run, and rates between two reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from attrs import asdict, define, evolve, field

from ludus.algorithm import UpdateResult

REPORT_INTERVAL_S = 1.0


@define
class LearnerTotals:
    """Counters over the whole run; checkpoints store them.

    Attributes:
        received: Decisions received.
        samples: Decisions trained on; one decision counts as often as it is reused.
        updates: Updates.
        gradient_steps: Gradient steps.
    """

    received: int = 0
    samples: int = 0
    updates: int = 0
    gradient_steps: int = 0

    def as_dict(self) -> dict[str, float]:
        """Return the counters by name."""
        return {name: float(count) for name, count in asdict(self).items()}

    @classmethod
    def from_dict(cls, counters: Mapping[str, float]) -> LearnerTotals:
        """Return the counters of a checkpoint."""
        return cls(
            received=int(counters["received"]),
            samples=int(counters["samples"]),
            updates=int(counters["updates"]),
            gradient_steps=int(counters["gradient_steps"]),
        )


@define
class _Snapshot:
    """Counters at the time of the last report."""

    time_s: float
    totals: LearnerTotals
    idle_s: float


@define
class LearnerMetrics:
    """Counts what a learner does.

    Attributes:
        totals: Counters over the run.
        idle_s: Seconds without enough data for an update.
        drops: Dropped segments, blocks and updates, by the name of their metric.
    """

    totals: LearnerTotals = field(factory=LearnerTotals)
    idle_s: float = 0.0
    drops: Counter[str] = field(factory=Counter)
    _update_metrics: dict[str, float] = field(factory=dict)
    _staleness: list[np.ndarray] = field(factory=list)
    _reported: _Snapshot | None = None
    _idle_since_s: float | None = None

    def start_idle(self, now_s: float) -> None:
        """Record that there is too little data for an update."""
        if self._idle_since_s is None:
            self._idle_since_s = now_s

    def end_idle(self, now_s: float) -> None:
        """Record that there is enough data for an update."""
        if self._idle_since_s is not None:
            self.idle_s += now_s - self._idle_since_s
            self._idle_since_s = None

    def record_block(self, decisions: int, staleness: np.ndarray) -> None:
        """Record a received block: its decisions, and the staleness of its segments."""
        self.totals.received += decisions
        self._staleness.append(staleness)

    def record_update(self, result: UpdateResult) -> None:
        """Record an update."""
        self.totals.samples += result.samples
        self.totals.updates += 1
        self.totals.gradient_steps += result.gradient_steps
        self._update_metrics = dict(result.metrics)

    def report(self, now_s: float) -> dict[str, float] | None:
        """Return the metrics since the last report, None if it is less than a second old."""
        totals = evolve(self.totals)
        before = self._reported
        if before is None:
            self._reported = _Snapshot(now_s, totals, self.idle_s)
            return None
        seconds = now_s - before.time_s
        if seconds < REPORT_INTERVAL_S:
            return None
        if self._idle_since_s is not None:
            self.end_idle(now_s)
            self.start_idle(now_s)
        self._reported = _Snapshot(now_s, totals, self.idle_s)
        values = {
            "samples_per_s": (totals.samples - before.totals.samples) / seconds,
            "updates_per_s": (totals.updates - before.totals.updates) / seconds,
            "updates": float(totals.updates),
            "idle_share": (self.idle_s - before.idle_s) / seconds,
            "sample_reuse": totals.samples / max(totals.received, 1),
        }
        values |= {name: float(count) for name, count in self.drops.items()}
        values |= self._update_metrics
        staleness = np.concatenate(self._staleness) if self._staleness else np.empty(0)
        self._staleness.clear()
        if staleness.size:
            values |= {"staleness_mean": float(staleness.mean()), "staleness_max": float(staleness.max())}
        return values
