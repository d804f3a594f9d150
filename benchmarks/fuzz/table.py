"""The table of a campaign: kind of message by what its inputs reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_HEAD = ("kind", "fuzzer", "inputs", "reached the handler", "handled", "findings", "inputs/s")


def table(reports: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table with one row per kind and fuzzer, and one per fuzzer with the sums.

    Args:
        reports: Reports as `fuzz.worker` writes them.
    """
    rows = [_row(report["kind"], report["engine"], [report]) for report in reports]
    engines = dict.fromkeys(report["engine"] for report in reports)
    rows += [_row("all", engine, [report for report in reports if report["engine"] == engine]) for engine in engines]
    lines = ["| " + " | ".join(row) + " |" for row in (_HEAD, *rows)]
    return "\n".join([lines[0], "|---" * len(_HEAD) + "|", *lines[1:]])


def _row(kind: str, engine: str, reports: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    stages = {name: sum(report["stages"].get(name, 0) for report in reports) for name in ("REFUSED", "HANDLED")}
    inputs = sum(sum(report["stages"].values()) for report in reports)
    seconds = sum(report["seconds"] for report in reports)
    numbers = (inputs, sum(stages.values()), stages["HANDLED"], sum(len(report["findings"]) for report in reports))
    return (kind, engine, *(f"{number:,}" for number in numbers), f"{inputs / max(seconds, 1e-9):,.0f}")
