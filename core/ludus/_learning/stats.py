"""What a learner counts: between two reports of its numbers, and over the whole run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from attrs import define, field

from ludus.algorithm import UpdateResult

_TOTALS = ("received", "samples", "updates", "gradient_steps")


@define
class LearnerMeter:
    """Counts between two reports, and totals over the run.

    Attributes:
        totals: What a resumed run counts on from: decisions received, samples, updates and gradient steps.
        idle_s: How long it has waited for data.
        drops: Segments and updates that were not used, by reason.
    """

    totals: Counter[str] = field(factory=lambda: Counter(dict.fromkeys(_TOTALS, 0)))
    idle_s: float = 0.0
    drops: Counter[str] = field(factory=Counter)
    _latest: dict[str, float] = field(factory=dict)
    _staleness: list[np.ndarray] = field(factory=list)
    _at: tuple[float, Counter[str], float] | None = None
    _idle_since: float | None = None

    def waits(self, now: float) -> None:
        """Note that there is too little data for an update."""
        if self._idle_since is None:
            self._idle_since = now

    def goes_on(self, now: float) -> None:
        """Note that there is enough data."""
        if self._idle_since is not None:
            self.idle_s += now - self._idle_since
            self._idle_since = None

    def saw(self, staleness: np.ndarray) -> None:
        """Note the staleness of the segments of a block."""
        self._staleness.append(staleness)

    def trained(self, result: UpdateResult) -> None:
        """Note an update."""
        self.totals.update(samples=result.samples, updates=1, gradient_steps=result.gradient_steps)
        self._latest = dict(result.metrics)

    def restore(self, totals: dict[str, Any]) -> None:
        """Count on from `totals`."""
        self.totals = Counter({name: int(totals[name]) for name in _TOTALS})

    def report(self, now: float) -> dict[str, float] | None:
        """Return the values for one report, None when the last one is less than a second old."""
        if self._at is None:
            self._at = (now, self.totals.copy(), self.idle_s)
            return None
        since, before, idle_s = self._at
        if now - since < 1.0:
            return None
        if self._idle_since is not None:
            self.goes_on(now)
            self.waits(now)
        totals = self.totals.copy()
        self._at = (now, totals, self.idle_s)
        values = {
            **{f"{name}_per_s": (totals[name] - before[name]) / (now - since) for name in ("samples", "updates")},
            "updates": float(totals["updates"]),
            "idle_share": (self.idle_s - idle_s) / (now - since),
            "sample_reuse": totals["samples"] / max(totals["received"], 1),
            **{f"dropped_{reason}": float(count) for reason, count in self.drops.items()},
            **self._latest,
        }
        if self._staleness:
            every = np.concatenate(self._staleness)
            self._staleness.clear()
            if every.size:
                values |= {"staleness_mean": float(every.mean()), "staleness_max": float(every.max())}
        return values
