"""The behaviour of participants: the statistics of their evaluation matches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ludus.runs import Run
from rich.console import RenderableType
from rich.markup import escape

from ludus_terminal.views import NEAR, Data, View, natural, table

__all__ = ["BEHAVIOUR", "statistics_json"]


def statistics_json(run: Run, participant: str) -> Data:
    """Return mean, deviation, 95 % interval and matches of each statistic of a participant by ``"ROLE/NAME"``."""
    found = {}
    for name, statistic in sorted(run.league.statistics(participant).items()):
        error = NEAR * statistic.deviation / math.sqrt(statistic.matches)
        found[name] = {
            "mean": statistic.mean,
            "deviation": statistic.deviation,
            "interval": [statistic.mean - error, statistic.mean + error],
            "matches": statistic.matches,
        }
    return found


def _behaviour(run: Run, *, last: int) -> Data:
    newest = [model for player in run.league.players.values() for model in player.models[-last:]]
    rows = [
        {"participant": name, "role": role, "statistics": own}
        for name in [*sorted(newest, key=natural), *run.league.anchors]
        for role, own in _by_role(statistics_json(run, name)).items()
    ]
    return {"behaviour": rows}


def _by_role(statistics: Data) -> Data:
    roles: Data = {}
    for key, value in statistics.items():
        role, _, name = key.partition("/")
        roles.setdefault(role, {})[name] = value
    return roles


def _show(data: Data) -> Iterable[RenderableType]:
    rows = data["behaviour"]
    if not rows:
        yield "no statistics yet: the environment has none, or no evaluation match has ended"
    for role in dict.fromkeys(row["role"] for row in rows):
        yield _role_table(role, [row for row in rows if row["role"] == role])


def _role_table(role: str, rows: Sequence[Data]) -> RenderableType:
    names = list(dict.fromkeys(name for row in rows for name in row["statistics"]))
    title = f"Behaviour of {escape(role)} per evaluation match"
    shown = table(title, "participant", ">matches", *(f">{name}" for name in names))
    for row in rows:
        statistics = row["statistics"]
        matches = max(value["matches"] for value in statistics.values())
        shown.add_row(escape(row["participant"]), f"{matches:,}", *(_cell(statistics.get(name)) for name in names))
    return shown


def _cell(value: Data) -> str:
    if value is None:
        return ""
    return f"{value['mean']:.3g} ± {value['interval'][1] - value['mean']:.2g}"


BEHAVIOUR = View(_behaviour, _show)
