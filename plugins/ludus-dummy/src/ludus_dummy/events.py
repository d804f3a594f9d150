"""Keep the events and the metrics of a run in memory, for tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from ludus.metrics import Metric

#: The last events as (name, arguments), oldest first.
received_events: deque[tuple[str, tuple[object, ...]]] = deque(maxlen=1000)


class MemorySink:
    """Holds metrics in a list."""

    def __init__(self, config: None, *, run_dir: Path) -> None:
        del config
        self.run_dir = run_dir
        self.metrics: list[Metric] = []
        self.closed = False

    def write(self, metrics: Sequence[Metric]) -> None:
        """Append the metrics to the list."""
        self.metrics.extend(metrics)

    def close(self) -> None:
        """Set `closed`."""
        self.closed = True
