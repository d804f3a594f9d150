"""Metrics of a sampler: speed, waiting time and results of matches."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from attrs import define, field

__all__ = ["SamplerMetrics"]

_INTERVAL_S = 1.0


@define
class SamplerMetrics:
    """Collects metrics between two reports."""

    _reported_s: float = field(init=False, default=-1.0)  # -1: never
    _reported_ticks: int = field(init=False, default=0)
    _reported_decisions: int = field(init=False, default=0)
    _matches: int = field(init=False, default=0)
    _return_sum: float = field(init=False, default=0.0)  # of means over the seats of a match
    _tick_sum: int = field(init=False, default=0)
    _part_sums: defaultdict[str, float] = field(init=False, factory=lambda: defaultdict(float))

    def add_results(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Add the results of matches and return the arrays that the coordinator stores."""
        returns = arrays["returns"]
        self._matches += returns.shape[0]
        self._return_sum += float(returns.mean(axis=1).sum())
        self._tick_sum += int(arrays["ticks"].sum())
        for name, values in arrays.items():
            if name.startswith("part/"):
                self._part_sums[name.removeprefix("part/")] += float(values.sum())
        return {name: array for name, array in arrays.items() if name != "returns" and not name.startswith("part/")}

    def is_due(self, now: float) -> bool:
        """Return whether the last report is at least a second ago."""
        return now - self._reported_s >= _INTERVAL_S

    def report(self, now: float, *, ticks: int, decisions: int, waiting: bool) -> dict[str, float]:
        """Return the metrics since the last report, and start the next one; empty on the first call.

        Args:
            now: Present time in seconds.
            ticks: Number of ticks so far.
            decisions: Number of decisions so far.
            waiting: Whether the sampler waits for a learner.
        """
        values: dict[str, float] = {}
        if self._reported_s >= 0:
            elapsed_s = now - self._reported_s
            values = {
                "ticks_per_s": (ticks - self._reported_ticks) / elapsed_s,
                "decisions_per_s": (decisions - self._reported_decisions) / elapsed_s,
                "waiting": float(waiting),
            }
            if self._matches:
                values |= {
                    "return_mean": self._return_sum / self._matches,
                    "match_ticks": self._tick_sum / self._matches,
                    **{f"return/{part}": total / self._matches for part, total in self._part_sums.items()},
                }
        self._reported_s, self._reported_ticks, self._reported_decisions = now, ticks, decisions
        self._matches, self._return_sum, self._tick_sum = 0, 0.0, 0
        self._part_sums.clear()
        return values
