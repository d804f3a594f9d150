"""Write the metrics of a running session to its metric sinks."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field

from ludus._config.section_reader import SelectedComponent
from ludus._config.sections import RunConfig
from ludus._league.coordinator import Coordinator
from ludus._plugins.manager import Plugins
from ludus._run.factories import make
from ludus._run.metrics import JsonLinesSink
from ludus._run.status import StallWatchdog, collect_metrics
from ludus.metrics import MetricSink

_MAX_LOAD = 0.05  # maximum share of the time that is spent on reports


@define
class MetricReporter:
    """Reports metrics at regular intervals, and warns of stalls.

    A sink that raises is closed and gets no more metrics; the metric file of the run is not such a sink.

    Args:
        config: Configuration of the run.
        plugins: The installed plugins, which receive an event for every report.
        run_dir: The run folder.
        print_line: Prints one line for the user.
    """

    config: RunConfig
    plugins: Plugins
    run_dir: Path
    print_line: Callable[[str], None]
    _file: JsonLinesSink = field(init=False)
    _sinks: list[tuple[str, MetricSink]] = field(init=False, factory=list)
    _due_s: float = field(init=False, default=0.0)
    _watchdog: StallWatchdog = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._file = JsonLinesSink(self.run_dir / "metrics.jsonl")
        self._watchdog = StallWatchdog(self.config.run.stall_s)

    def open_sinks(self, sinks: Iterable[SelectedComponent]) -> None:
        """Make the metric sinks.

        Raises:
            PluginError: A factory raised.
        """
        for sink in sinks:
            self._sinks.append((sink.name, make(sink, run_dir=self.run_dir)))

    def report_if_due(self, coordinator: Coordinator) -> None:
        """Report the metrics if the interval has passed, and print a warning if the run has stalled."""
        if time.monotonic() < self._due_s:
            return
        self.report(coordinator)
        if warning := self._watchdog.check(coordinator):
            logs = f"see {self.run_dir / 'logs'}, or " if self.config.run.workers else ""
            self.print_line(f"{warning}; {logs}stop and `ludus resume {shlex.quote(str(self.run_dir))}`")

    def report(self, coordinator: Coordinator) -> None:
        """Report the metrics of this moment.

        Raises:
            OSError: The metric file of the run cannot be written.
        """
        started_s = time.monotonic()
        metrics = collect_metrics(coordinator)
        self._file.write(metrics)
        for name, sink in list(self._sinks):
            with self._drop_on_error(name, sink):
                sink.write(metrics)
        self.plugins.emit("ludus_metrics_reported", metrics=metrics)
        # with tens of thousands of models a report takes seconds, as all ratings are computed again
        now_s = time.monotonic()
        self._due_s = now_s + max(self.config.metrics.interval_s, (now_s - started_s) / _MAX_LOAD)

    def close(self) -> None:
        """Close the metric file and all sinks."""
        self._file.close()
        for name, sink in list(self._sinks):
            with self._drop_on_error(name, sink):
                sink.close()

    @contextmanager
    def _drop_on_error(self, name: str, sink: MetricSink) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything, even exit
            self._sinks = [other for other in self._sinks if other[1] is not sink]
            self.print_line(f"metric sink {name!r} failed: {type(error).__name__}: {error} — it gets no more metrics")
