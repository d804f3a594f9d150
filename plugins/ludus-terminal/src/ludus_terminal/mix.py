"""Scheduled and played opponents of the players, and their shares of the training matches."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs
import numpy as np
from ludus.runs import FixtureRecord, Run
from rich.console import RenderableType
from rich.markup import escape

from ludus_terminal.views import Data, View, table

__all__ = ["MIX", "kind_of_opponents", "kind_of_reason"]


@attrs.define
class _Count:
    scheduled: int = 0
    played: int = 0

    def add(self, record: FixtureRecord) -> None:
        self.scheduled += record.fixture.matches
        self.played += record.played


def kind_of_reason(reason: str) -> str:
    """Return the kind of a reason, without its numbers: ``"pfsp"`` of ``"pfsp: win rate 0.31"``."""
    kinds = (part.partition(":")[0].strip() for part in re.split(r";\s*", reason))
    return "; ".join(dict.fromkeys(kinds))


def kind_of_opponents(run: Run, record: FixtureRecord) -> str:
    """Return the kinds of opponents of a training fixture, relative to its player."""
    fixture = record.fixture
    live = f"{fixture.player}@"
    own = {
        seat.team
        for seat, name in zip(run.seats, fixture.participants, strict=True)
        if name.startswith(live) and name.endswith("+")
    }
    team = min(own, default=0)
    kinds = {
        _kind(fixture.player, name)
        for seat, name in zip(run.seats, fixture.participants, strict=True)
        if seat.team != team
    }
    return ", ".join(sorted(kinds)) or "none"


def _kind(player: str, participant: str) -> str:
    name, _, number = participant.partition("@")
    if not number:
        return name  # an anchor
    if number.endswith("+"):
        return "itself" if name == player else f"{name}, live"
    return "its past" if name == player else f"{name}, past"


def _late_shares(run: Run) -> list[Data]:
    """Return the configured, played and learned shares over the last half of the ticks, from the metrics."""
    names = list(run.league.players)
    numbers = {"share": 0, "ticks": 1, "decisions": 2}
    indices = {f"league/{name}/{metric}": (row, i) for i, name in enumerate(names) for metric, row in numbers.items()}
    points: dict[float, np.ndarray] = {}
    for metric in run.metrics():
        if metric.name in indices:
            points.setdefault(metric.elapsed_s, np.zeros((3, len(names))))[indices[metric.name]] = metric.value
    if len(points) < 2:
        return []
    samples = np.stack(list(points.values()))  # [times, 3, players]
    increments = np.maximum(np.diff(samples[:, 1:], axis=0), 0.0)  # counts restart from 0 when a run is resumed
    ticks = increments[:, 0].sum(axis=1)
    late = np.cumsum(ticks) > ticks.sum() / 2
    if not late.any():
        return []
    seats = [sum(seat.role == run.league.players[name].role for seat in run.seats) for name in names]
    wanted = ticks[late] @ samples[:-1, 0][late] / ticks[late].sum()
    played, learned = increments[late].sum(axis=0)
    learned = learned / seats
    shares = np.stack([wanted, played / played.sum(), learned / max(learned.sum(), 1.0)], axis=1).tolist()
    return [
        dict(zip(("player", "wanted", "played", "learned"), (n, *row), strict=True))
        for n, row in zip(names, shares, strict=True)
    ]


def _mix(run: Run) -> Data:
    opponents: dict[tuple[str, str, str], _Count] = {}
    players = {name: _Count() for name in run.league.players}
    for record in run.fixtures(kind="train"):
        player = record.fixture.player
        key = (player, kind_of_reason(record.fixture.reason), kind_of_opponents(run, record))
        opponents.setdefault(key, _Count()).add(record)
        players.setdefault(player, _Count()).add(record)
    shares = {name: view.share for name, view in run.league.players.items()}
    wanted, played = sum(shares.values()), sum(count.played for count in players.values())
    return {
        "players": [
            {
                "player": name,
                "share_wanted": shares.get(name, 0.0) / wanted if wanted else 0.0,
                "share_played": count.played / played if played else 0.0,
                "matches": count.played,
            }
            for name, count in players.items()
        ],
        "late": _late_shares(run),
        "opponents": [
            {
                "player": player,
                "reason": reason,
                "opponents": kind,
                "asked": count.scheduled,
                "played": count.played,
                "share_asked": count.scheduled / max(players[player].scheduled, 1),
                "share_played": count.played / max(players[player].played, 1),
            }
            for (player, reason, kind), count in sorted(opponents.items())
        ],
    }


def _show_mix(data: Data) -> Iterable[RenderableType]:
    shares = table("Training matches of the players", "player", ">configured", ">played", ">matches")
    for row in data["players"]:
        numbers = (f"{row['share_wanted']:.1%}", f"{row['share_played']:.1%}", f"{row['matches']:,}")
        shares.add_row(escape(row["player"]), *numbers)
    yield shares
    if data["late"]:
        late = table(
            "Over the last half of the ticks", "player", ">configured", ">ticks played", ">decisions learned, per seat"
        )
        for row in data["late"]:
            late.add_row(escape(row["player"]), *(f"{row[name]:.1%}" for name in ("wanted", "played", "learned")))
        yield late
    mix = table("Their opponents", "player", "reason", "opponents", ">scheduled", ">played", ">matches")
    for row in data["opponents"]:
        words = (row["player"], row["reason"], row["opponents"])
        numbers = (f"{row['share_asked']:.1%}", f"{row['share_played']:.1%}", f"{row['played']:,}")
        mix.add_row(*map(escape, words), *numbers)
    yield mix


MIX = View(_mix, _show_mix)
