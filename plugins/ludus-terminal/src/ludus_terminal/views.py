"""Views of a league: functions that return JSON values of a run, and functions that render them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
from ludus import printing
from ludus.matchmaker import Rating, team_sides
from ludus.records import HUMAN
from ludus.runs import ModelRecord, Run, Score, score
from ludus_ratings.sides import Sides
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from ludus_terminal.output import NEAR, table
from ludus_terminal.returns import returns_json, returns_table, rule_of

__all__ = [
    "LINEAGE",
    "MATCHES",
    "NEAR",
    "OVERVIEW",
    "PAYOFFS",
    "POOLS",
    "Data",
    "View",
    "best_ratings",
    "natural",
    "printable",
    "ratings_json",
    "ratings_tables",
    "records_json",
    "table",
]

_ROWS = 12  # maximum rows of a table of the overview, and of the payoff matrix

Data: TypeAlias = Any  # JSON values


@attrs.frozen
class View:
    """A view of a league.

    Attributes:
        data: Returns JSON values of an opened run, or objects with a method ``json``; keyword arguments are options.
        show: Returns the renderables of these values.
    """

    data: Callable[..., Data]
    show: Callable[[Data], Iterable[RenderableType]]


def printable(data: Data) -> Data:
    """Return JSON values with the control characters of all strings escaped."""
    if isinstance(data, str):
        return printing.printable(data)
    if isinstance(data, dict):
        return {printable(key): printable(value) for key, value in data.items()}
    return [printable(value) for value in data] if isinstance(data, list | tuple) else data


def records_json(run: Run, participant: str, opponents: Sequence[str]) -> Data:
    """Return the scores of a participant against opponents by name, as JSON values.

    In a game whose teams have different roles, a score has a baseline: what the reference anchor of the participant's
    side scores against the same opponent.
    """
    scores = _scores(run, participant, opponents)
    records = {opponent: own.json() for opponent, own in scores.items()}
    reference = Sides(run.league.rated_anchors, run.sides).reference(participant)
    if any(team_sides(run.seats)) and reference is not None and reference != participant:
        for opponent, base in _scores(run, reference, opponents).items():
            records[opponent]["baseline"] = {"participant": reference, **base.json()}
            records[opponent]["gain"] = _difference(scores[opponent], base)
    return records


def _scores(run: Run, participant: str, opponents: Sequence[str]) -> dict[str, Score]:
    counted = zip(opponents, run.league.payoff(participant, opponents), strict=True)
    return {opponent: score(*(int(count) for count in counts)) for opponent, counts in counted}


def _difference(own: Score, base: Score) -> Data:
    """Return the difference of two scores and its 95 % interval, from the intervals of both (Newcombe 1998)."""
    if not (own.matches and base.matches):
        return None
    mean = own.score - base.score
    low = mean - math.hypot(own.score - own.low, base.high - base.score)
    high = mean + math.hypot(own.high - own.score, base.score - base.low)
    return {"score": mean, "interval": [low, high]}


def natural(participant: str) -> tuple[str, int, bool]:
    """Return a sort key: player, model number, and whether the participant is live."""
    player, _, number = participant.partition("@")
    return player, int(number.rstrip("+") or 0), number.endswith("+")


# --- overview -----------------------------------------------------------------------------------------------------


def _overview(run: Run) -> Data:
    newest = [model for view in run.league.players.values() for model in view.models[-1:]]
    return {
        "run": str(run.folder),
        "environment": run.meta("environment"),
        "created_s": run.meta("created_s"),
        "matches": run.num_matches(),
        "teams": run.league.num_teams,
        "players": [_player(run, name) for name in run.league.players],
        "rule": rule_of(run),
        "returns": returns_json(run, (*newest, *run.league.anchors), run.league.anchors),
        "ratings": _best_first(run, _league_ratings(run)),
    }


def _player(run: Run, name: str) -> Data:
    view = run.league.players[name]
    shown = view.models[-1] if view.models else view.live
    return {
        "name": name,
        "role": view.role,
        "live": view.live,
        "models": len(view.models),
        "decisions": view.decisions,
        "newest": shown,
        "anchors": records_json(run, shown, run.league.anchors),
    }


def _show_overview(data: Data) -> Iterable[RenderableType]:
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(data["created_s"]))
    environment = data["environment"] if isinstance(data["environment"], str) else "league"
    yield escape(f"{data['run']}: {environment}, started {started}, {data['matches']:,} matches")
    yield from _players_and_scores(data["players"], data["teams"])
    if data["returns"]:
        yield returns_table(data["returns"])
    if data["rule"]:
        yield escape(f"score: {data['rule']}")
    if data["teams"] == 1:
        return
    best, left = _best_of_each_side(data["ratings"])
    yield from ratings_tables("Ratings (± 95 %)", printable([row.json() for row in best]), digits=0)
    if left:
        yield f"… and {left} more: ludus league {escape(data['run'])} ratings"


def _players_and_scores(rows: Sequence[Data], teams: int) -> Iterable[RenderableType]:
    players = table("Players", "player", "role", "newest", ">models", ">decisions")
    records = table("Newest models against anchors", "model", "anchor", ">matches", ">score", "95 % interval")
    with_baseline = any("baseline" in record for player in rows for record in player["anchors"].values())
    for column in (">baseline", ">gain", "95 % interval") if with_baseline else ():
        records.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left")
    for player in rows:
        columns = (player["name"], player["role"], player["newest"])
        players.add_row(*map(escape, columns), f"{player['models']:,}", f"{player['decisions']:,}")
        for anchor, record in player["anchors"].items() if teams != 1 else ():
            records.add_row(escape(player["newest"]), escape(anchor), *_score_cells(record), *_baseline_cells(record))
    yield players
    if records.row_count:
        yield records
    if with_baseline:
        yield "baseline: the score of the anchor that is rated 0 in the same role; gain: score minus baseline"


def _best_of_each_side(ratings: Sequence[_Rated]) -> tuple[list[_Rated], int]:
    """Return the best rated participants of every side, and the number of the others."""
    by_side: dict[str, list[_Rated]] = {}
    for row in ratings:
        by_side.setdefault(row.side, []).append(row)
    best = [row for rows in by_side.values() for row in rows[:_ROWS]]
    return best, len(ratings) - len(best)


def _baseline_cells(record: Mapping[str, Any]) -> tuple[str, ...]:
    if "baseline" not in record:
        return ()
    base, gain = record["baseline"]["score"], record["gain"]
    shown = "" if base is None else f"{base:.3f}"
    if gain is None:
        return shown, "", ""
    low, high = gain["interval"]
    return shown, f"{gain['score']:+.3f}", f"{low:+.3f} to {high:+.3f}"


def _league_ratings(run: Run) -> Mapping[str, Rating]:
    """Return the ratings that matchmakers use, of all rated participants."""
    names = (*run.league.rated_anchors, *run.models)
    return {name: rating for name in names if (rating := run.league.rating(name)).matches}


@attrs.frozen
class _Rated:
    """A participant and its rating; only `json` reads the deviation, which may take long to compute."""

    participant: str
    rating: Rating
    side: str = ""

    def json(self) -> Data:
        """Return JSON values; an unknown deviation is null."""
        deviation = self.rating.deviation
        return {
            "participant": self.participant,
            "mean": self.rating.mean,
            "deviation": None if math.isnan(deviation) else deviation,
            "matches": self.rating.matches,
            **({"role": self.side} if self.side else {}),
        }


def _best_first(run: Run, ratings: Mapping[str, Rating]) -> list[_Rated]:
    side = Sides(run.league.rated_anchors, run.sides).side
    return sorted(
        (_Rated(name, rating, side(name)) for name, rating in ratings.items()), key=lambda row: -row.rating.mean
    )


def best_ratings(run: Run) -> tuple[list[Data], int]:
    """Return the best rated participants of every side as values of `ratings_json`, and the number of the others."""
    best, left = _best_of_each_side(_best_first(run, _league_ratings(run)))
    return [row.json() for row in best], left


def ratings_json(run: Run, ratings: Mapping[str, Rating]) -> Data:
    """Return ratings as JSON values, the best first; an unknown deviation is null."""
    return [row.json() for row in _best_first(run, ratings)]


def ratings_tables(title: str, rows: Iterable[Mapping[str, Any]], *, digits: int) -> Iterator[Table]:
    """Yield a table of ratings per side, given the values of `ratings_json`: sides are not compared."""
    by_side: dict[str, list[Mapping[str, Any]]] = {"": []}
    for row in rows:
        by_side.setdefault(row.get("role", ""), []).append(row)
    for side, own in sorted(by_side.items()):
        if own or len(by_side) == 1:
            yield _ratings_table(f"{title}: {side}" if side else title, own, digits=digits)


def _ratings_table(title: str, rows: Iterable[Mapping[str, Any]], *, digits: int) -> Table:
    shown = table(title, ">", "participant", ">rating", ">±", ">matches")
    for rank, row in enumerate(rows, start=1):
        near = "" if row["deviation"] is None else f"{NEAR * row['deviation']:.{digits}f}"
        shown.add_row(str(rank), escape(row["participant"]), f"{row['mean']:.{digits}f}", near, f"{row['matches']:,}")
    return shown


def _score_cells(record: Mapping[str, Any]) -> tuple[str, str, str]:
    matches = record["wins"] + record["draws"] + record["losses"]
    low, high = record["interval"]
    return (f"{matches:,}", f"{record['score']:.3f}", f"{low:.3f} to {high:.3f}") if matches else ("0", "", "")


# --- payoffs ------------------------------------------------------------------------------------------------------


def _payoffs(run: Run) -> Data:
    total: dict[tuple[str, str], list[int]] = {}
    for (kind, a, b), counts in run.payoffs().items():
        if kind == HUMAN:
            continue
        sums = total.get((a, b), [0, 0, 0])
        total[a, b] = [x + y for x, y in zip(sums, counts.tolist(), strict=True)]
    newest = [f"{name}@{number}" for name, view in run.league.players.items() for number in [view.num_frozen]]
    return {
        "payoffs": [{"a": a, "b": b, **score(*counts).json()} for (a, b), counts in sorted(total.items())],
        "first": [*run.league.rated_anchors, *newest],
    }


def _first_rows(names: Sequence[str], first: Sequence[str]) -> list[str]:
    """Return at most `_ROWS` names: those in `first`, then frozen models and live weights, the newest first."""
    rank = {name: i for i, name in enumerate(first)}

    def key(name: str) -> tuple[int, bool, int, str]:
        player, number, live = natural(name)
        return rank.get(name, len(rank)), live, -number, player

    return sorted(names, key=key)[:_ROWS]


def _show_payoffs(data: Data) -> Iterable[RenderableType]:
    cells = {(entry["a"], entry["b"]): entry for entry in data["payoffs"]}
    played: dict[str, int] = {}
    for (a, _b), entry in cells.items():
        played[a] = played.get(a, 0) + entry["wins"] + entry["draws"] + entry["losses"]
    names = _first_rows(list(played), data["first"])
    numbers = [f">{i}" for i in range(1, len(names) + 1)]
    shown = table("Share of points of the row against the column", ">", "participant", ">matches", *numbers)
    for i, a in enumerate(names, start=1):
        scores = (f"{cells[a, b]['score']:.2f}" if (a, b) in cells else "·" for b in names)
        shown.add_row(str(i), escape(a), f"{played[a]:,}", *scores)
    yield shown
    if len(played) > len(names):
        yield f"anchors and the newest models, {len(names)} of {len(played)} participants; --json has all"


# --- pools, lineage, matches --------------------------------------------------------------------------------------


def _pools(run: Run) -> Data:
    return {"pools": {name: list(run.pools[name]) for name in sorted(run.pools)}}


def _show_pools(data: Data) -> Iterable[RenderableType]:
    shown = table("Pools", "pool", ">models", "members, oldest first")
    for name, members in data["pools"].items():
        shown.add_row(escape(name), str(len(members)), escape(" ".join(members)))
    yield shown


def _lineage(run: Run) -> Data:
    by_hash = {model.hash: model.participant for model in reversed(list(run.models.values()))}
    return {"models": [_ancestry(run, model, by_hash) for model in run.models.values()]}


def _ancestry(run: Run, model: ModelRecord, by_hash: Mapping[str, str]) -> Data:
    """Return the parent and generation of a model, and whether its player was reset after it."""
    generation_starts = (
        run.league.players[model.player].generation_starts if model.player in run.league.players else (0,)
    )
    before = run.models.get(f"{model.player}@{model.number - 1}")
    parent = by_hash.get(model.parent or "")
    if before is not None and model.number - 1 in generation_starts[1:]:  # the first model of a generation
        parent = by_hash.get(before.manifest.get("init", ""))
    elif before is not None and before.hash == model.parent:  # several models may share one file
        parent = before.participant
    reset = model.number in generation_starts[1:]
    return {
        "participant": model.participant,
        "parent": parent,
        "generation": sum(birth < model.number for birth in generation_starts[1:]),
        "reset": reset,
        "reset_to": by_hash.get(model.manifest.get("init", "")) if reset else None,
        "reason": model.manifest.get("reason", ""),
        "hash": model.hash,
        "decisions": model.decisions,
        "version": model.version,
        "created_s": model.created_s,
        "elapsed_s": run.league.frozen_s(model.participant),
    }


def _show_lineage(data: Data) -> Iterable[RenderableType]:
    root = Tree("models")
    branches: dict[str, Tree] = {}
    for model in data["models"]:  # in the order of freezing, so that parents come first
        label = f"{model['participant']}  {model['hash'][:12]}  {model['decisions']:,} decisions"
        if model["generation"]:
            label += f"  generation {model['generation']}"
        if model["reset"]:
            label += f"  then reset to {model['reset_to'] or 'initial weights'}"
        if model["reason"]:
            label += f": {model['reason']}"
        branches[model["participant"]] = branches.get(model["parent"], root).add(escape(label))
    yield root


def _matches(run: Run, *, last: int) -> Data:
    matches = run.matches(last=last)
    return {"matches": [attrs.asdict(match, filter=lambda field, _: field.name != "models") for match in matches]}


def _show_matches(data: Data) -> Iterable[RenderableType]:
    shown = table("Last matches", "match", "kind", "participants", "outcome", ">ticks", "reason")
    for match in data["matches"]:
        fixture = match["fixture"]
        shown.add_row(
            f"{fixture['id']}.{match['number']}",
            fixture["kind"],
            escape(" ".join(fixture["participants"])),
            " ".join(f"{points:g}" for points in match["outcome"]),
            f"{match['ticks']:,}",
            escape(fixture["reason"]),
        )
    yield shown


OVERVIEW = View(_overview, _show_overview)
PAYOFFS = View(_payoffs, _show_payoffs)
POOLS = View(_pools, _show_pools)
LINEAGE = View(_lineage, _show_lineage)
MATCHES = View(_matches, _show_matches)
