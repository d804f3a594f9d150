"""``ludus league``: look at the league of a run, also while it goes on."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import click
from ludus.matchmaker import Rating
from ludus.runs import MatchRecord, Run, open_run, score
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from ludus_terminal.ratings import SequentialElo, SkillTable

__all__ = ["league"]

_ROWS = 12  # lines of a table of the overview, rows and columns of the payoff matrix
_NEAR = 1.96  # standard deviations in what is shown after ±

Data: TypeAlias = Any  # JSON values


@attrs.frozen
class _View:
    """One view: what it says, as JSON values, and how that is shown."""

    data: Callable[[Run, _Options], Data]
    show: Callable[[Data], Iterable[RenderableType]]


@attrs.frozen(kw_only=True)
class _Options:
    last: int
    method: str


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("view", default="overview", metavar="[VIEW]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, complete and unrounded.")
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="How many matches to list.")
@click.option(
    "--method",
    type=click.Choice(["elo", "sequential", "openskill"]),
    default="elo",
    show_default=True,
    help="Which ratings to show.",
)
@click.pass_context
def league(context: click.Context, run: Path, view: str, *, as_json: bool, last: int, method: str) -> None:
    """Show the league of the run folder RUN.

    VIEW is one of: overview (players, ratings, records against anchors), payoffs, ratings, pools, lineage,
    matches, verify (recompute everything from the match log and the files; exits with 1 if something differs).
    """
    if view not in _VIEWS:
        raise click.BadParameter(f"expected one of {', '.join(_VIEWS)}, got {view!r}", param_hint="VIEW")
    with open_run(run) as opened:
        data = _VIEWS[view].data(opened, _Options(last=last, method=method))
    if as_json:
        click.echo(json.dumps(data, indent=2))
    else:
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
        for part in _VIEWS[view].show(data):
            console.print(part)
    context.exit(1 if view == "verify" and data["problems"] else 0)


# --- overview -----------------------------------------------------------------------------------------------------


def _overview(run: Run, options: _Options) -> Data:
    return {
        "run": str(run.folder),
        "environment": run.meta("environment"),
        "created_s": run.meta("created_s"),
        "matches": run.num_matches(),
        "players": [_player(run, name) for name in run.league.players],
        "ratings": _ratings(run, options)["ratings"],
    }


def _player(run: Run, name: str) -> Data:
    view, anchors = run.league.players[name], run.league.anchors
    shown = view.models[-1] if view.models else view.live
    records = zip(anchors, run.league.payoff(shown, anchors), strict=True)
    return {
        "name": name,
        "role": view.role,
        "live": view.live,
        "models": len(view.models),
        "decisions": view.decisions,
        "newest": shown,
        "anchors": {anchor: score(*(int(count) for count in counts)).json() for anchor, counts in records},
    }


def _show_overview(data: Data) -> Iterable[RenderableType]:
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(data["created_s"]))
    environment = data["environment"] if isinstance(data["environment"], str) else "league"
    yield escape(f"{data['run']}: {environment}, started {started}, {data['matches']:,} matches")
    players = _table("Players", "player", "role", "newest", ">models", ">decisions")
    records = _table("Newest models against anchors", "model", "anchor", ">matches", ">score", "95 % interval")
    for player in data["players"]:
        columns = (player["name"], player["role"], player["newest"])
        players.add_row(*map(escape, columns), f"{player['models']:,}", f"{player['decisions']:,}")
        for anchor, record in player["anchors"].items():
            records.add_row(escape(player["newest"]), escape(anchor), *_score_cells(record))
    yield players
    yield records
    yield from _show_ratings({"method": "elo", "ratings": data["ratings"][:_ROWS]})
    if len(data["ratings"]) > _ROWS:
        yield f"… and {len(data['ratings']) - _ROWS} more: ludus league {escape(data['run'])} ratings"


def _score_cells(record: Mapping[str, Any]) -> tuple[str, str, str]:
    matches = record["wins"] + record["draws"] + record["losses"]
    low, high = record["interval"]
    return (f"{matches:,}", f"{record['score']:.3f}", f"{low:.3f} to {high:.3f}") if matches else ("0", "", "")


# --- payoffs ------------------------------------------------------------------------------------------------------


def _payoffs(run: Run, _: _Options) -> Data:
    total: dict[tuple[str, str], list[int]] = {}
    for (_kind, a, b), counts in run.payoffs().items():
        known = total.get((a, b), [0, 0, 0])
        total[a, b] = [x + y for x, y in zip(known, counts.tolist(), strict=True)]
    return {"payoffs": [{"a": a, "b": b, **score(*counts).json()} for (a, b), counts in sorted(total.items())]}


def _show_payoffs(data: Data) -> Iterable[RenderableType]:
    cells = {(entry["a"], entry["b"]): entry for entry in data["payoffs"]}
    played: dict[str, int] = {}
    for (a, _b), entry in cells.items():
        played[a] = played.get(a, 0) + entry["wins"] + entry["draws"] + entry["losses"]
    names = sorted(sorted(played, key=lambda name: -played[name])[:_ROWS], key=_natural)
    numbers = [f">{i}" for i in range(1, len(names) + 1)]
    table = _table("Share of points of the row against the column", ">", "participant", ">matches", *numbers)
    for i, a in enumerate(names, start=1):
        scores = (f"{cells[a, b]['score']:.2f}" if (a, b) in cells else "·" for b in names)
        table.add_row(str(i), escape(a), f"{played[a]:,}", *scores)
    yield table
    if len(played) > len(names):
        yield f"the {len(names)} of {len(played)} participants with most matches; --json has all"


# --- ratings ------------------------------------------------------------------------------------------------------


def _ratings(run: Run, options: _Options) -> Data:
    ratings = _METHODS[options.method](run)
    rows = [
        {
            "participant": name,
            "mean": rating.mean,
            "deviation": None if math.isnan(rating.deviation) else rating.deviation,
            "matches": rating.matches,
        }
        for name, rating in ratings.items()
    ]
    return {"method": options.method, "ratings": sorted(rows, key=lambda row: -row["mean"])}


def _elo(run: Run) -> Mapping[str, Rating]:
    return {name: rating for name in (*run.league.anchors, *run.models) if (rating := run.league.rating(name)).matches}


def _sequential(run: Run) -> Mapping[str, Rating]:
    elo = SequentialElo()
    for match in _rated(run):
        for i, a in enumerate(match.fixture.seats):
            for j, b in enumerate(match.fixture.seats[:i]):
                mine, theirs = (match.outcome[run.seats[seat].team] for seat in (i, j))
                if run.seats[i].team != run.seats[j].team and a != b:
                    elo.add(a, b, 0.5 if mine == theirs else float(mine > theirs))
    return elo.ratings()


def _openskill(run: Run) -> Mapping[str, Rating]:
    skills = SkillTable()
    for match in _rated(run):
        teams: list[list[str]] = [[] for _ in range(run.league.num_teams)]
        for seat, participant in zip(run.seats, match.fixture.seats, strict=True):
            teams[seat.team].append(participant)
        skills.add(teams, match.outcome)
    return skills.ratings()


def _rated(run: Run) -> Iterable[MatchRecord]:
    """Return the evaluation matches between frozen models and anchors, in the order of the log."""
    for match in run.matches(kind="eval"):
        if not any(participant.endswith("+") for participant in match.fixture.seats):
            yield match


_METHODS: dict[str, Callable[[Run], Mapping[str, Rating]]] = {
    "elo": _elo,
    "sequential": _sequential,
    "openskill": _openskill,
}


def _show_ratings(data: Data) -> Iterable[RenderableType]:
    table = _table(f"Ratings ({data['method']}, ± 95 %)", ">", "participant", ">rating", ">±", ">matches")
    digits = 2 if data["method"] == "openskill" else 0
    for rank, row in enumerate(data["ratings"], start=1):
        near = "" if row["deviation"] is None else f"{_NEAR * row['deviation']:.{digits}f}"
        table.add_row(str(rank), escape(row["participant"]), f"{row['mean']:.{digits}f}", near, f"{row['matches']:,}")
    yield table


# --- pools, lineage, matches, verify ------------------------------------------------------------------------------


def _pools(run: Run, _: _Options) -> Data:
    return {"pools": {name: list(run.pools[name]) for name in sorted(run.pools)}}


def _show_pools(data: Data) -> Iterable[RenderableType]:
    table = _table("Pools", "pool", ">models", "members, oldest first")
    for name, members in data["pools"].items():
        table.add_row(escape(name), str(len(members)), escape(" ".join(members)))
    yield table


def _lineage(run: Run, _: _Options) -> Data:
    by_hash = {model.hash: model.participant for model in reversed(list(run.models.values()))}
    return {
        "models": [
            {
                "participant": model.participant,
                "parent": by_hash.get(model.parent or ""),
                "parent_hash": model.parent,
                "hash": model.hash,
                "decisions": model.decisions,
                "version": model.version,
                "created_s": model.created_s,
            }
            for model in run.models.values()
        ]
    }


def _show_lineage(data: Data) -> Iterable[RenderableType]:
    root = Tree("models")
    branches: dict[str, Tree] = {}
    for model in data["models"]:  # in the order of freezing, so that parents come first
        label = f"{model['participant']}  {model['hash'][:12]}  {model['decisions']:,} decisions"
        branches[model["participant"]] = branches.get(model["parent"], root).add(escape(label))
    yield root


def _matches(run: Run, options: _Options) -> Data:
    matches = run.matches(last=options.last)
    return {"matches": [attrs.asdict(match, filter=lambda field, _: field.name != "models") for match in matches]}


def _show_matches(data: Data) -> Iterable[RenderableType]:
    table = _table(
        "Matches, the last ones", ">fixture", ">match", "kind", "participants", "outcome", ">ticks", "reason"
    )
    for match in data["matches"]:
        fixture = match["fixture"]
        table.add_row(
            str(fixture["id"]),
            str(match["number"]),
            fixture["kind"],
            escape(" ".join(fixture["seats"])),
            " ".join(f"{points:g}" for points in match["outcome"]),
            f"{match['ticks']:,}",
            escape(fixture["reason"]),
        )
    yield table


def _verify(run: Run, _: _Options) -> Data:
    problems = run.verify()
    return {"ok": not problems, "matches": run.num_matches(), "problems": problems}


def _show_verify(data: Data) -> Iterable[RenderableType]:
    yield from map(escape, data["problems"])
    if data["ok"]:
        yield f"everything agrees with the log of {data['matches']:,} matches and with the files"


_VIEWS = {
    "overview": _View(_overview, _show_overview),
    "payoffs": _View(_payoffs, _show_payoffs),
    "ratings": _View(_ratings, _show_ratings),
    "pools": _View(_pools, _show_pools),
    "lineage": _View(_lineage, _show_lineage),
    "matches": _View(_matches, _show_matches),
    "verify": _View(_verify, _show_verify),
}


def _table(title: str, *columns: str) -> Table:
    """Return an empty table; a column whose name starts with > is aligned to the right."""
    table = Table(title=title, title_justify="left", min_width=len(title), box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", overflow="fold")
    return table


def _natural(participant: str) -> tuple[str, int, bool]:
    """Sort by player and number; the live participant comes after the model that it grew from."""
    player, _, number = participant.partition("@")
    return player, int(number.rstrip("+") or 0), number.endswith("+")
