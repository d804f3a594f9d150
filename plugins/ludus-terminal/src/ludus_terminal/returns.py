"""Mean returns of participants, where returns are what a game measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product, starmap
from typing import Any

import numpy as np
from attrs import evolve, frozen
from ludus.environment import Seat
from ludus.matchmaker import Statistic
from ludus.runs import Mean, Run, mean_of
from rich.markup import escape
from rich.table import Table

from ludus_terminal.output import table

__all__ = ["mean_text", "returns_json", "returns_table", "rule_of"]

_RETURN = "return"  # statistic


@frozen
class _Entry:
    """What a mean is over.

    Attributes:
        participant: Participant of the seats.
        role: Role of the seats.
        against: The only participant of all other teams; empty in a game of one team.
    """

    participant: str
    role: str
    against: str = ""


def returns_json(run: Run, participants: Iterable[str], opponents: Sequence[str]) -> list[dict[str, Any]]:
    """Return the mean returns of participants in their evaluation matches, by role and opponent, as JSON values.

    They are logged in games of one team and in those whose score is the return. The gain is the difference to the
    reference in the same role against the same opponent: the anchor ``random``, else the first anchor. Its interval
    takes both means as independent.

    Args:
        run: The run.
        participants: The participants.
        opponents: Their opponents, which fill all other teams; ignored in a game of one team.
    """
    alone = run.league.num_teams == 1
    means = _means(run) if alone else _means_against(run)
    reference = min(run.league.anchors, key=lambda name: name != "random", default="")
    roles = dict.fromkeys(seat.role for seat in run.seats)
    places = product(dict.fromkeys(participants), roles, ("",) if alone else opponents)
    return [
        _row_json(entry, means[entry], means.get(evolve(entry, participant=reference)), reference)
        for entry in starmap(_Entry, places)
        if entry in means
    ]


def _row_json(entry: _Entry, mean: Mean, base: Mean | None, reference: str) -> dict[str, Any]:
    """Return one row of `returns_json`, given the mean of the reference in the same place."""
    against = {"against": entry.against} if entry.against else {}
    row: dict[str, Any] = {"participant": entry.participant, "role": entry.role, **against, **mean.json()}
    if base is not None and entry.participant != reference:
        row["gain"] = {"over": reference, **mean.minus(base).json()}
    return row


def rule_of(run: Run) -> str:
    """Return how returns decide the matches of a run, in words; empty where they do not."""
    return "" if run.return_outcome is None else run.return_outcome.rule


def _means(run: Run) -> dict[_Entry, Mean]:
    """Return the mean returns of all participants of a game of one team."""
    found = {}
    for participant in (*run.models, *run.league.anchors):
        for key, statistic in sorted(run.league.statistics(participant).items()):
            role, _, name = key.partition("/")
            if name == _RETURN:
                found[_Entry(participant, role)] = mean_of(statistic)
    return found


def _means_against(run: Run) -> dict[_Entry, Mean]:
    """Return the mean returns in matches in which one participant fills all other teams."""
    values: dict[_Entry, list[float]] = {}
    entries: tuple[int, Mapping[_Entry, Sequence[int]]] = (-1, {})
    for match in run.matches(kind="eval"):
        if entries[0] != match.fixture.id:
            entries = match.fixture.id, _entries(run.seats, match.fixture.participants)
        for entry, indices in entries[1].items():
            returns = match.statistics.get(f"{entry.role}/{_RETURN}")
            if returns is not None:
                values.setdefault(entry, []).append(sum(returns[i] for i in indices) / len(indices))
    return {
        entry: mean_of(Statistic(mean=float(np.mean(own)), deviation=float(np.std(own)), matches=len(own)))
        for entry, own in values.items()
    }


def _entries(seats: Sequence[Seat], participants: Sequence[str]) -> dict[_Entry, list[int]]:
    """Return the entries that the matches of a lineup count for, with the indices of the seats within their role."""
    found: dict[_Entry, list[int]] = {}
    held = list(zip(seats, participants, strict=True))
    for seat, participant in held:
        others = {name for other, name in held if other.team != seat.team}
        if len(others) == 1:
            found.setdefault(_Entry(participant, seat.role, others.pop()), []).append(seat.index)
    return found


def mean_text(value: dict[str, Any], *, sign: str = "") -> str:
    """Return a mean and its interval as text, from the values of `returns_json`."""
    mean = f"{value['mean']:{sign}.3g}"
    if value["interval"] is None:
        return mean
    low, high = value["interval"]
    return f"{mean} [{low:{sign}.3g}, {high:{sign}.3g}]"


def _place_columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the columns that the means of one participant differ in."""
    with_roles = len({row["role"] for row in rows}) > 1
    return [*(["role"] if with_roles else []), *(["against"] if "against" in rows[0] else [])]


def returns_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return a table of mean returns, given the values of `returns_json`."""
    names = _place_columns(rows)
    gains = [row["gain"]["over"] for row in rows if "gain" in row]
    columns = ("participant", *names, ">matches", "mean return [95 %]")
    shown = table("Returns in evaluation matches", *columns, *([f"gain over {escape(gains[0])}"] if gains else []))
    for row in rows:
        means = [mean_text(row), *([mean_text(row["gain"], sign="+")] if "gain" in row else [])]
        texts = (row["participant"], *(row[name] for name in names))
        shown.add_row(*map(escape, texts), f"{row['matches']:,}", *map(escape, means))
    return shown
