"""The metric-sink contract: where numbers about a run go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

__all__ = ["Metric", "MetricSink"]


@frozen(kw_only=True)
class Metric:
    """One number.

    Args:
        name: Path-like, for example ``"learner/main_agent/entropy"``.
        value: Finite, or NaN where it is not known yet.
        decisions: Decisions the league had trained on, the x-axis that does not depend on the machine.
        elapsed_s: Seconds the run has trained, over all resumes.
    """

    name: str
    value: float
    decisions: int
    elapsed_s: float


class MetricSink(Protocol):
    """Receives metrics in the coordinator process. One that raises is told of and gets nothing more."""

    def write(self, metrics: Sequence[Metric]) -> None:
        """Take a few metrics; called every `metrics.interval_s` or less often."""

    def close(self) -> None:
        """Flush and free everything."""
