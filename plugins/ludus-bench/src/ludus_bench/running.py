"""A real run in real processes, watched from outside: its metric stream, its memory, its CPU time."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from attrs import define, field, frozen
from ludus.errors import RunError
from ludus_local.memory import temporary_folder

from ludus_bench._pieces import read_metrics
from ludus_bench.machine import ProcessUse, process_tree

__all__ = ["Line", "Moment", "WatchedRun", "cores_between", "gauge", "rates", "start_run"]

_log = logging.getLogger(__name__)
_EVERY_S = 0.25
_STARTS_S = 180.0
_STOPS_S = 40.0
_REPORTED_S = 2.0  # workers report once a second, of the time since they did so last


@frozen(kw_only=True)
class Line:
    """What a run said at one moment.

    Args:
        at_s: Seconds that it had trained.
        decisions: Decisions that it had learned from.
        values: Its metrics by name.
    """

    at_s: float
    decisions: int
    values: dict[str, float]


@frozen(kw_only=True)
class Moment:
    """What the processes of a run used at one moment; `at_s` counts from the start of the watching."""

    at_s: float
    processes: tuple[ProcessUse, ...]

    @property
    def rss_mb(self) -> float:
        """Return the resident memory of all processes together."""
        return sum(use.rss_mb for use in self.processes)


@define
class WatchedRun:
    """A run that was started by `start_run`.

    Args:
        folder: The run folder.
        process: The coordinator.
        output: Where it prints.
    """

    folder: Path
    process: subprocess.Popen[bytes]
    output: Path
    moments: list[Moment] = field(init=False, factory=list)
    _since: float = field(init=False, factory=time.monotonic)

    def lines(self) -> list[Line]:
        """Return the metric stream so far."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return []
        grouped = itertools.groupby(read_metrics(path), key=lambda metric: (metric.elapsed_s, metric.decisions))
        return [
            Line(at_s=at_s, decisions=decisions, values={metric.name: metric.value for metric in group})
            for (at_s, decisions), group in grouped
        ]

    def wait(self, reached: Callable[[list[Line]], bool], *, within_s: float) -> list[Line]:
        """Watch until the metric stream satisfies a condition, and return it.

        Args:
            reached: The condition.
            within_s: How long at most.

        Raises:
            RunError: The run ended, or took too long.
        """
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            uses = tuple(process_tree(self.process.pid))
            self.moments.append(Moment(at_s=time.monotonic() - self._since, processes=uses))
            lines = self.lines()
            if reached(lines):
                return lines
            if self.process.poll() is not None:
                raise RunError(f"the run that was to be measured ended: {self._last_words()}")
            time.sleep(_EVERY_S)
        raise RunError(f"the run that was to be measured learned too little in {within_s:.0f} s: {self._last_words()}")

    def _last_words(self) -> str:
        text = self.output.read_text(encoding="utf-8", errors="replace").strip()
        errors = [line for line in text.splitlines() if line.startswith("error:")]
        return (errors or text.splitlines() or ["it said nothing"])[-1]

    def stop(self) -> None:
        """End the run and its processes."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(_STOPS_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop all processes for a while, so that others have the machine to themselves."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for use in process_tree(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(use.pid, number)

    def resumed(self) -> float:
        """Wait until the run has said what does not reach back before now, and return its own time of that.

        Raises:
            RunError: The run ended, or says nothing.
        """
        before = len(self.lines())
        fresh_s = self.wait(lambda lines: len(lines) > before, within_s=60)[-1].at_s
        return self.wait(lambda lines: lines[-1].at_s > fresh_s + _REPORTED_S, within_s=60)[-1].at_s

    def learning(self, *, warmup_s: float = 0.0) -> float:
        """Wait for the first trained decisions and a while longer, and return the run's own time of the end of that.

        Raises:
            RunError: The run ended, or there were none for long.
        """
        lines = self.wait(lambda lines: bool(lines) and lines[-1].decisions > 0, within_s=_STARTS_S)
        _log.info("it learns; measuring it")
        start_s = lines[-1].at_s + warmup_s
        self.wait(lambda lines: lines[-1].at_s >= start_s, within_s=60 + 2 * warmup_s)
        return start_s


@contextmanager
def start_run(toml: str) -> Iterator[WatchedRun]:
    """Start ``ludus train`` in a temporary folder and end it, whatever happens: where this process is killed, too.

    Args:
        toml: The text of its configuration.
    """
    with temporary_folder("ludus-bench") as place:
        folder, output = place / "run", place / "output.txt"
        path = place / "bench.toml"
        path.write_text(toml, encoding="utf-8")
        _log.info("starting a run")
        ludus = [sys.executable, "-m", "ludus_bench.following", str(os.getpid())]
        command = [*ludus, "train", str(path), "--run", str(folder), "--json"]
        with output.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)  # noqa: S603 - ourselves
        run = WatchedRun(folder, process, output)
        try:
            yield run
        finally:
            run.stop()


def rates(lines: list[Line], *, start_s: float, end_s: float, parts: int) -> list[float]:
    """Return the decisions learned from per second in equal parts of a window.

    Args:
        lines: The metric stream.
        start_s: Where the window begins, in the stream's seconds.
        end_s: Where it ends.
        parts: How many; ≥ 1.
    """
    edges = np.linspace(start_s, end_s, parts + 1)
    counts = np.interp(edges, [line.at_s for line in lines], [line.decisions for line in lines])
    return [float(rate) for rate in np.diff(counts) / np.diff(edges)]


def gauge(lines: list[Line], pattern: str, *, start_s: float, end_s: float) -> dict[str, float]:
    """Return the means over a window of the metrics that begin and end as a pattern says.

    Args:
        lines: The metric stream.
        pattern: With one ``*``, for example ``"learner/*/sample_reuse"``.
        start_s: Where the window begins.
        end_s: Where it ends.

    Returns:
        What stands for the star, to its mean.
    """
    head, _, tail = pattern.partition("*")
    found: dict[str, list[float]] = {}
    for line in lines:
        if start_s <= line.at_s <= end_s:
            for name, value in line.values.items():
                if name.startswith(head) and name.endswith(tail) and np.isfinite(value):
                    found.setdefault(name.removeprefix(head).removesuffix(tail), []).append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}


def cores_between(moments: list[Moment]) -> float:
    """Return the CPU seconds per second of all processes that lived through the first and the last moment."""
    first, last = moments[0], moments[-1]
    before = {use.pid: use.cpu_s for use in first.processes}
    used = sum(use.cpu_s - before[use.pid] for use in last.processes if use.pid in before)
    return used / max(last.at_s - first.at_s, 1e-9)
