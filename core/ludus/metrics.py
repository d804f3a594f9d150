"""The contract of metric sinks, which receive the metrics of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

__all__ = ["Metric", "MetricSink"]


@frozen(kw_only=True)
class Metric:
    """One value of a metric.

    Args:
        name: Path-like, for example ``"learner/main_agent/entropy"``.
        value: Finite, or NaN if it is not known yet.
        decisions: Trained decisions over all players; an x-axis that does not depend on the speed of the host.
        elapsed_s: Training time in seconds over all sessions.
    """

    name: str
    value: float
    decisions: int
    elapsed_s: float


class MetricSink(Protocol):
    """Receives metrics in the coordinator process. A sink that raises an exception gets no more metrics."""

    def write(self, metrics: Sequence[Metric]) -> None:
        """Write metrics; called every `metrics.interval_s` or less often."""

    def close(self) -> None:
        """Flush and release all resources."""
