"""The table of a campaign: fault by kind of process."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from chaos.campaign import Instant

_HEAD = (
    "fault",
    "process",
    "instants",
    "lost matches",
    "lost models",
    "with problems",
    "orphans",
    "recovered after, s: median",
    "max",
)


def table(instants: Sequence[Instant], missing: Mapping[str, str]) -> str:
    """Return a Markdown table with one row per fault and kind, one per kind, and one per fault that was not possible.

    Args:
        instants: Results.
        missing: Why faults were not possible, by name.
    """
    groups: dict[tuple[str, str], list[Instant]] = {}
    for instant in instants:
        groups.setdefault((instant.fault, instant.kind), []).append(instant)
    for instant in instants:
        groups.setdefault(("all", instant.kind), []).append(instant)
    rows = [_HEAD, *(_row(fault, kind, group) for (fault, kind), group in sorted(groups.items(), key=_order))]
    rows += [(fault, f"not possible here: {reason}", *[""] * 7) for fault, reason in missing.items()]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(_HEAD) + "|", *lines[1:]])


def _order(item: tuple[tuple[str, str], list[Instant]]) -> tuple[bool, str, str]:
    (fault, kind), _ = item
    return fault == "all", fault, kind


def _row(fault: str, kind: str, group: Sequence[Instant]) -> tuple[str, ...]:
    recovered_s = [instant.recovered_s for instant in group]
    sums = (
        len(group),
        sum(instant.lost_matches for instant in group),
        sum(instant.lost_models for instant in group),
        sum(bool(instant.problems) for instant in group),
        sum(instant.orphans for instant in group),
    )
    return (fault, kind, *map(str, sums), f"{statistics.median(recovered_s):.1f}", f"{max(recovered_s):.1f}")
