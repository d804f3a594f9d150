"""The runs in a folder, and the files of a run that pages show as they are."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from attrs import frozen
from ludus.runs import MetricReport, open_regular, running_pid

from ludus_dashboard.history import last_report

__all__ = ["RunSummary", "find_runs", "plot_files", "read_end", "read_plot", "summarize", "worker_logs"]

_DATABASE = "league.sqlite"
_MAX_RUNS = 500
_MAX_TOML = 2**20  # bytes
_MAX_FILES = 100  # shown of a kind
_MAX_PLOT = 2**24  # bytes


def find_runs(root: Path) -> dict[str, Path]:
    """Return the run folders below a folder by name, the last written first; the folder itself may be one.

    Addresses name runs by these names only, so no address leads to another folder. Links are not followed.
    """
    if (root / _DATABASE).is_file():
        return {root.resolve().name: root}
    with os.scandir(root) as entries:
        folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    found = {folder: time for folder in folders if (time := _written_s(folder))}
    newest = sorted(found, key=lambda folder: -found[folder])[:_MAX_RUNS]
    return {folder.name: folder for folder in newest}


def _written_s(folder: Path) -> float:
    """Return when a run has written its metrics or database last (Unix time); 0 if the folder is no run."""
    times = []
    for name in (_DATABASE, "metrics.jsonl"):
        with suppress(OSError):
            times.append((folder / name).stat().st_mtime)
    return max(times) if (folder / _DATABASE).is_file() else 0.0


@frozen(kw_only=True)
class RunSummary:
    """What is known of a run without opening its league.

    Attributes:
        name: Name of its folder.
        environment: Name of its environment.
        is_running: Whether a process of this user writes it.
        written_s: When it has written last (Unix time).
        report: Its last metrics; None if there are none.
        scores: Scores of the newest models by (player, anchor), with their 95 % intervals.
    """

    name: str
    environment: str
    is_running: bool
    written_s: float
    report: MetricReport | None
    scores: dict[tuple[str, str], tuple[float, float, float]]


def summarize(folder: Path) -> RunSummary:
    """Return the summary of a run folder."""
    report = last_report(folder)
    return RunSummary(
        name=folder.name,
        environment=_environment(folder),
        is_running=bool(running_pid(folder)),
        written_s=_written_s(folder),
        report=report,
        scores={} if report is None else dict(_scores(report)),
    )


def _environment(folder: Path) -> str:
    try:
        with open_regular(folder / "run.toml") as file:
            name = tomllib.loads(file.read(_MAX_TOML).decode())["environment"]["name"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return str(name)


def _scores(report: MetricReport) -> Iterator[tuple[tuple[str, str], tuple[float, float, float]]]:
    values = report.values
    for name, value in values.items():
        scope, _, rest = name.partition("/")
        player, _, metric = rest.partition("/")
        anchor = metric.removeprefix("score_v_")
        if scope == "league" and anchor != metric and "/" not in anchor:
            yield (player, anchor), (value, values.get(f"{name}/low", 0.0), values.get(f"{name}/high", 1.0))


def worker_logs(folder: Path) -> list[str]:
    """Return the names of the log files of a run's workers."""
    return _regular_files(folder / "logs", ".log")


def plot_files(folder: Path) -> list[str]:
    """Return the names of the PNG files of a run."""
    return _regular_files(folder / "plots", ".png")


def _regular_files(folder: Path, suffix: str) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        names = [
            entry.name for entry in entries if entry.name.endswith(suffix) and entry.is_file(follow_symlinks=False)
        ]
        return sorted(names)[:_MAX_FILES]
    return []


def read_plot(folder: Path, name: str) -> bytes | None:
    """Return the content of a PNG file of a run; None if there is none of this name, or it is too large."""
    if name not in plot_files(folder):
        return None
    with suppress(OSError), open_regular(folder / "plots" / name) as file:
        content = file.read(_MAX_PLOT + 1)
        return content if len(content) <= _MAX_PLOT else None
    return None


def read_end(path: Path, *, max_bytes: int = 65536) -> str:
    """Return the last lines of a regular file; empty if it cannot be read."""
    with suppress(OSError), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - max_bytes))
        text = file.read(max_bytes).decode("utf-8", "replace")
        return text if size <= max_bytes else text.partition("\n")[2]
    return ""
