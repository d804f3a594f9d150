"""What the pages draw: curves as values for uPlot, heat maps and lineages as positions for templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from attrs import frozen
from ludus.human_matches import is_person
from ludus.matchmaker import Rating
from ludus.records import HUMAN
from ludus.runs import MetricReport, Run, Score, score, spread_evenly
from ludus_ratings.elo_table import EloTable
from ludus_ratings.sides import Sides
from ludus_terminal.views import LINEAGE, NEAR

from ludus_dashboard.history import History
from ludus_dashboard.reader import Snapshot

__all__ = [
    "Chart",
    "HeatMap",
    "Lineage",
    "heat_map",
    "line_chart",
    "lineage",
    "metric_chart",
    "pools_of",
    "rating_charts",
    "share_chart",
]

Chart = dict[str, Any]

_MAX_POINTS = 60  # models of a player in a chart of ratings
_MAX_LABELS = 60  # rows of a heat map
_MAX_MODELS = 300  # of a lineage
_STEPS = 20  # shades of a heat map
_BINS = 60  # steps of a chart of shares
_LANE = 56  # pixels
_WIDTH = 960


def line_chart(title: str, x_label: str, x: Sequence[float], series: Sequence[Mapping[str, Any]]) -> Chart:
    """Return the values of a chart.

    Args:
        title: Title, also for readers of the screen.
        x_label: Label of the horizontal axis.
        x: ``[n]``, increasing.
        series: Each has ``label`` and ``values`` ``[n]``, with None where there is none; perhaps ``low`` and ``high``
            for a band, ``dash``, and ``color``, an index.
    """
    return {"title": title, "xLabel": x_label, "x": list(x), "series": list(series)}


def metric_chart(title: str, history: History, names: Mapping[str, str]) -> Chart:
    """Return a chart of metrics over the minutes of training, given their names by label."""
    series: list[dict[str, Any]] = [
        {"label": label, "values": history.series(name), "color": i} for i, (label, name) in enumerate(names.items())
    ]
    known = [one for one in series if any(value is not None for value in one["values"])]
    return line_chart(title, "minutes of training", history.minutes(), known)


# --- ratings ------------------------------------------------------------------------------------------------------


def rating_charts(run: Run) -> list[Chart]:
    """Return one chart per side of the game: ratings of frozen models over training time with 95 % bands."""
    side_of = Sides(run.league.rated_anchors, run.sides).side
    by_side: dict[str, list[str]] = {}
    for player, view in run.league.players.items():
        if view.models:
            by_side.setdefault(side_of(view.models[0]), []).append(player)
    return [chart for side, players in sorted(by_side.items()) if (chart := _rating_chart(run, side, players))["x"]]


def _rating_chart(run: Run, side: str, players: Sequence[str]) -> Chart:
    rated = {player: _rated_models(run, player) for player in players}
    x = sorted({minutes for points in rated.values() for minutes in points})
    series = [
        {"label": player, "color": color, **_bands([points.get(minutes) for minutes in x])}
        for color, (player, points) in enumerate(rated.items())
    ]
    title = f"Ratings of {side}, with 95 % bands" if side else "Ratings of frozen models, with 95 % bands"
    return line_chart(title, "minutes of training", x, series)


def _bands(ratings: Sequence[Rating | None]) -> dict[str, list[float | None]]:
    """Return the values, and the lower and upper bounds, of a curve of ratings; None where there is no rating."""

    def curve(factor: float) -> list[float | None]:
        return [None if one is None else one.mean + factor * NEAR * one.deviation for one in ratings]

    return {"values": curve(0.0), "low": curve(-1.0), "high": curve(1.0)}


def _rated_models(run: Run, player: str) -> dict[float, Rating]:
    rated = [model for model in run.league.players[player].models if run.league.rating(model).matches]
    shown = [rated[i] for i in spread_evenly(len(rated), _MAX_POINTS)]
    return {run.league.frozen_s(model) / 60: run.league.rating(model) for model in shown}


# --- shares -------------------------------------------------------------------------------------------------------


def share_chart(history: History, players: Sequence[str]) -> Chart:
    """Return a chart of the players' shares of the training ticks: configured (dashed) and played."""
    chosen = [history.reports[i] for i in spread_evenly(len(history.reports), _BINS)]
    ticks = {player: _increments(chosen, f"league/{player}/ticks") for player in players}
    totals = [sum(values) for values in zip(*ticks.values(), strict=True)]
    series: list[dict[str, Any]] = []
    for color, player in enumerate(players):
        asked = [report.values.get(f"league/{player}/share") for report in chosen[1:]]
        played = [own / total if total else None for own, total in zip(ticks[player], totals, strict=True)]
        series.append({"label": f"{player}, played", "values": played, "color": color})
        series.append({"label": f"{player}, asked", "values": asked, "color": color, "dash": True})
    minutes = [report.elapsed_s / 60 for report in chosen[1:]]
    return line_chart("Shares of the ticks of training matches", "minutes of training", minutes, series)


def _increments(reports: Sequence[MetricReport], name: str) -> list[float]:
    """Return the increases of a count from report to report; a count restarts from 0 when a run is resumed."""
    values = [report.values.get(name, 0.0) for report in reports]
    return [max(after - before, 0.0) for before, after in pairwise(values)]


# --- payoffs ------------------------------------------------------------------------------------------------------


@frozen
class Cell:
    """The results of a row's participant against a column's; `shade` is from 0, all lost, to 20, all won."""

    score: Score
    shade: int


@frozen
class HeatMap:
    """Scores of participants against each other.

    Attributes:
        names: The participants that are shown, sorted.
        pools: The pools of each.
        rows: ``[n, n]`` cells, row against column; None without a match.
        left: Number of participants that are not shown.
    """

    names: list[str]
    pools: dict[str, list[str]]
    rows: list[list[Cell | None]]
    left: int


def heat_map(snapshot: Snapshot, *, kind: str, pool: str, sort: str) -> HeatMap:
    """Return the heat map of a run.

    Args:
        snapshot: The run.
        kind: ``"eval"``, ``"train"`` or ``"human"`` matches only; empty: the first two.
        pool: Show models of this pool and anchors only; empty: the best rated or newest participants.
        sort: ``"rating"``, the best first, or ``"name"``.
    """
    run = snapshot.run
    counts = _counts(snapshot, kind)
    members = {*run.pools[pool], *run.league.rated_anchors} if pool else {a for a, _ in counts}
    known = [name for name in dict.fromkeys(a for a, _ in counts) if name in members]
    names = sorted(known, key=lambda name: _order(run, name, "newest"))[:_MAX_LABELS]
    names.sort(key=lambda name: _order(run, name, sort))
    rows = [[_cell(counts.get((a, b))) for b in names] for a in names]
    return HeatMap(names, {name: pools_of(run, name) for name in names}, rows, len(known) - len(names))


def _counts(snapshot: Snapshot, kind: str) -> dict[tuple[str, str], Any]:
    """Return ``[3]`` wins, draws and losses of a against b by (a, b), in matches of one kind.

    An empty kind stands for rating and training matches.
    """
    counts: dict[tuple[str, str], Any] = {}
    for (one, a, b), count in snapshot.payoffs.items():
        if one == kind or (not kind and one != HUMAN):
            counts[a, b] = counts.get((a, b), 0) + count
    return counts


def human_ratings(snapshot: Snapshot) -> dict[str, Rating]:
    """Return the ratings of people, the best first.

    They are fitted to rating matches and human matches together, apart from the league: its own ratings do not change.
    """
    run = snapshot.run
    table = EloTable(anchors=run.league.rated_anchors, seats=run.seats, sides=run.sides)
    for (kind, a, b), count in snapshot.payoffs.items():
        if kind == HUMAN or (kind == "eval" and not (a.endswith("+") or b.endswith("+"))):
            table.add(a, b, count)
    people = {a for kind, a, _ in snapshot.payoffs if kind == HUMAN and is_person(a.rpartition("=")[2])}
    ratings = {name: table.rating(name) for name in people}
    return dict(sorted(ratings.items(), key=lambda item: (-item[1].mean, item[0])))


def pools_of(run: Run, model: str) -> list[str]:
    """Return the pools that a model is in."""
    return sorted(pool for pool, members in run.pools.items() if model in members)


def _order(run: Run, name: str, sort: str) -> tuple[Any, ...]:
    player, _, number = name.partition("@")
    age = -int(number.rstrip("+") or 0) if number.rstrip("+").isdecimal() else 0
    if sort == "newest":
        return (bool(number), age, player)
    if sort == "name":
        return (bool(number), player, age)
    rating = run.league.rating(name)
    return (not rating.matches, -rating.mean, player, age)


def _cell(count: Any) -> Cell | None:
    if count is None or not count.sum():
        return None
    result = score(*(int(n) for n in count))
    return Cell(result, round(result.score * _STEPS))


# --- lineage ------------------------------------------------------------------------------------------------------


@frozen
class Lineage:
    """Models over training time, in one lane per player; positions are pixels of a drawing.

    Attributes:
        models: Values of `ludus_terminal.views.LINEAGE` with ``x``, ``y``, ``lane``, and ``from``, the position of the
            parent or None.
        lanes: Vertical position by player.
        width: Width of the drawing.
        height: Its height.
        minutes: Training time at the right end.
        left: Number of older models that are not drawn.
    """

    models: list[dict[str, Any]]
    lanes: dict[str, int]
    width: int
    height: int
    minutes: float
    left: int


def lineage(run: Run) -> Lineage:
    """Return the lineage of the newest models of a run."""
    all_models = LINEAGE.data(run)["models"]
    models = all_models[-_MAX_MODELS:]
    players = dict.fromkeys([*run.league.players, *(run.models[model["participant"]].player for model in models)])
    lanes = {player: _LANE * lane + _LANE // 2 for lane, player in enumerate(players)}
    start_s = models[0]["elapsed_s"] if len(models) < len(all_models) else 0.0
    end_s = max((model["elapsed_s"] for model in models), default=0.0)
    positions: dict[str, tuple[float, int]] = {}
    for model in models:
        player = run.models[model["participant"]].player
        x = 12 + (_WIDTH - 24) * (model["elapsed_s"] - start_s) / max(end_s - start_s, 1e-9)
        positions[model["participant"]] = (round(x, 1), lanes[player])
        model |= {"x": round(x, 1), "y": lanes[player], "lane": list(lanes).index(player), "player": player}
    for model in models:
        model["from"] = positions.get(model["parent"] or "")
    return Lineage(models, lanes, _WIDTH, _LANE * len(lanes), end_s / 60, len(all_models) - len(models))
