"""Mean returns of participants, where returns are what a game measures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ludus.runs import Mean, Run, mean_of
from rich.markup import escape
from rich.table import Table

from ludus_terminal.output import table

__all__ = ["mean_text", "returns_json", "returns_table"]

_RETURN = "return"  # statistic


def returns_json(run: Run, participants: Iterable[str]) -> list[dict[str, Any]]:
    """Return the mean returns of participants in their evaluation matches, by role, as JSON values.

    They are logged in games of one team and in those whose score is the return. The gain is the difference to the
    reference: the anchor ``random``, else the first anchor. Its interval takes both means as independent.
    """
    reference = min(run.league.anchors, key=lambda name: name != "random", default="")
    base = _means(run, reference) if reference else {}
    rows = []
    for participant in dict.fromkeys(participants):
        for role, mean in _means(run, participant).items():
            row = {"participant": participant, "role": role, **mean.json()}
            if role in base and participant != reference:
                row["gain"] = {"over": reference, **mean.minus(base[role]).json()}
            rows.append(row)
    return rows


def _means(run: Run, participant: str) -> dict[str, Mean]:
    """Return the mean return of a participant by role."""
    named = {name.partition("/"): statistic for name, statistic in run.league.statistics(participant).items()}
    return {role: mean_of(statistic) for (role, _, name), statistic in sorted(named.items()) if name == _RETURN}


def mean_text(value: dict[str, Any], *, sign: str = "") -> str:
    """Return a mean and its interval as text, from the values of `returns_json`."""
    mean = f"{value['mean']:{sign}.3g}"
    if value["interval"] is None:
        return mean
    low, high = value["interval"]
    return f"{mean} [{low:{sign}.3g}, {high:{sign}.3g}]"


def returns_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return a table of mean returns, given the values of `returns_json`."""
    with_roles = len({row["role"] for row in rows}) > 1
    gains = [row["gain"]["over"] for row in rows if "gain" in row]
    columns = ("participant", *(("role",) if with_roles else ()), ">matches", "mean return [95 %]")
    shown = table("Returns in evaluation matches", *columns, *([f"gain over {escape(gains[0])}"] if gains else []))
    for row in rows:
        role = (escape(row["role"]),) if with_roles else ()
        means = [mean_text(row), *([mean_text(row["gain"], sign="+")] if "gain" in row else [])]
        shown.add_row(escape(row["participant"]), *role, f"{row['matches']:,}", *map(escape, means))
    return shown
