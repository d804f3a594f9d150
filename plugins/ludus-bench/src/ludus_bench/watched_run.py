"""Run a configuration in its real processes and read its metrics, memory and CPU time from outside."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil  # type: ignore[import-untyped,unused-ignore]
from attrs import define, field, frozen
from ludus.errors import RunError
from ludus_local.memory import temporary_folder

from ludus_bench._setup import read_metrics

_log = logging.getLogger(__name__)
_POLL_S = 0.25
_START_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 40.0


@frozen(kw_only=True)
class MetricLine:
    """Metrics of a run at one moment.

    Args:
        at_s: Seconds of training.
        decisions: Trained decisions.
        values: Value by metric name.
    """

    at_s: float
    decisions: int
    values: dict[str, float]


@frozen(kw_only=True)
class Moment:
    """Resources of the processes of a run at one moment.

    Args:
        at_s: Seconds since the start of the run.
        rss_mb: Resident memory of all processes in megabytes (10⁶ bytes); shared memory counts in each.
        cpu_s: CPU seconds of each process since it started, by process id.
    """

    at_s: float
    rss_mb: float
    cpu_s: Mapping[int, float]

    @classmethod
    def read(cls, pid: int, at_s: float) -> Moment:
        """Read the resources of a process and its descendants; processes that end meanwhile are left out."""
        rss_mb, cpu_s = 0.0, {}
        with suppress(psutil.Error):
            parent = psutil.Process(pid)
            for process in (parent, *parent.children(recursive=True)):
                with suppress(psutil.Error), process.oneshot():
                    times = process.cpu_times()
                    rss_mb += process.memory_info().rss / 1e6
                    cpu_s[process.pid] = times.user + times.system
        return cls(at_s=at_s, rss_mb=rss_mb, cpu_s=cpu_s)


@define
class WatchedRun:
    """A run that was started by `start_run`.

    Args:
        folder: Run folder.
        process: Process of the coordinator.
        output: File of everything that the run prints.
    """

    folder: Path
    process: subprocess.Popen[bytes]
    output: Path
    moments: list[Moment] = field(init=False, factory=list)
    _started_at: float = field(init=False, factory=time.monotonic)

    def lines(self) -> list[MetricLine]:
        """Return the metrics written so far."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return []
        grouped = itertools.groupby(read_metrics(path), key=lambda metric: (metric.elapsed_s, metric.decisions))
        return [
            MetricLine(at_s=at_s, decisions=decisions, values={metric.name: metric.value for metric in group})
            for (at_s, decisions), group in grouped
        ]

    def wait(self, reached: Callable[[list[MetricLine]], bool], *, within_s: float) -> list[MetricLine]:
        """Wait until the metrics satisfy a condition, and return them.

        Args:
            reached: Condition.
            within_s: Timeout.

        Raises:
            RunError: The run ended, or the timeout expired.
        """
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            self.moments.append(Moment.read(self.process.pid, time.monotonic() - self._started_at))
            lines = self.lines()
            if reached(lines):
                return lines
            if self.process.poll() is not None:
                raise RunError(f"the measured run ended: {self._last_output()}")
            time.sleep(_POLL_S)
        raise RunError(f"the measured run learned too little in {within_s:.0f} s: {self._last_output()}")

    def _last_output(self) -> str:
        text = self.output.read_text(encoding="utf-8", errors="replace").strip()
        errors = [line for line in text.splitlines() if line.startswith("error:")]
        return (errors or text.splitlines() or ["no output"])[-1]

    def stop(self) -> None:
        """Stop the run and its processes."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def wait_until_learning(self, *, warmup_s: float = 0.0) -> float:
        """Wait for the first trained decisions and a warm-up, and return the time of its end in the run.

        Args:
            warmup_s: Duration of the warm-up.

        Raises:
            RunError: The run ended, or trained on nothing for long.
        """
        lines = self.wait(lambda lines: bool(lines) and lines[-1].decisions > 0, within_s=_START_TIMEOUT_S)
        _log.info("the run learns; measuring it")
        start_s = lines[-1].at_s + warmup_s
        self.wait(lambda lines: lines[-1].at_s >= start_s, within_s=60 + 2 * warmup_s)
        return start_s


@contextmanager
def start_run(toml: str) -> Iterator[WatchedRun]:
    """Start ``ludus train`` in a temporary folder; it ends with the ``with`` block, and if this process is killed.

    Args:
        toml: Text of the configuration.
    """
    with temporary_folder("ludus-bench") as root:
        folder, output = root / "run", root / "output.txt"
        path = root / "bench.toml"
        path.write_text(toml, encoding="utf-8")
        _log.info("starting a run")
        ludus = [sys.executable, "-m", "ludus_bench.child", str(os.getpid())]
        command = [*ludus, "train", str(path), "--run", str(folder), "--json"]
        with output.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)  # noqa: S603 - runs this package
        run = WatchedRun(folder, process, output)
        try:
            yield run
        finally:
            run.stop()


def rates(lines: list[MetricLine], *, start_s: float, end_s: float, parts: int) -> list[float]:
    """Return the trained decisions per second in equal parts of a window.

    Args:
        lines: Metrics of the run.
        start_s: Start of the window, in seconds of training.
        end_s: End of the window.
        parts: Number of parts; ≥ 1.
    """
    edges = np.linspace(start_s, end_s, parts + 1)
    counts = np.interp(edges, [line.at_s for line in lines], [line.decisions for line in lines])
    return [float(rate) for rate in np.diff(counts) / np.diff(edges)]


def mean_metrics(lines: list[MetricLine], pattern: str, *, start_s: float, end_s: float) -> dict[str, float]:
    """Return the means of metrics over a window.

    Args:
        lines: Metrics of the run.
        pattern: Name with one ``*``, for example ``"learner/*/sample_reuse"``.
        start_s: Start of the window.
        end_s: End of the window.

    Returns:
        Mean by the text that the star matches.
    """
    head, _, tail = pattern.partition("*")
    series: dict[str, list[float]] = {}
    for line in lines:
        if start_s <= line.at_s <= end_s:
            for name, value in line.values.items():
                if name.startswith(head) and name.endswith(tail) and np.isfinite(value):
                    series.setdefault(name.removeprefix(head).removesuffix(tail), []).append(value)
    return {name: float(np.mean(values)) for name, values in series.items()}


def cores_between(moments: list[Moment]) -> float:
    """Return CPU seconds per second of the processes that exist at the first and at the last moment."""
    first, last = moments[0], moments[-1]
    used = sum(cpu_s - first.cpu_s[pid] for pid, cpu_s in last.cpu_s.items() if pid in first.cpu_s)
    return used / max(last.at_s - first.at_s, 1e-9)
