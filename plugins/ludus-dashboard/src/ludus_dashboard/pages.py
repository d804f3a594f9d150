"""The pages of a run: each returns the HTML of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ludus.records import HUMAN
from ludus.runs import Run, RunLog, score
from ludus_terminal.views import LINEAGE, NEAR, best_ratings, records_json

from ludus_dashboard.behaviour import behaviour, compared_behaviour
from ludus_dashboard.charts import (
    heat_map,
    human_ratings,
    line_chart,
    lineage,
    metric_chart,
    pools_of,
    rating_charts,
    share_chart,
)
from ludus_dashboard.folders import read_end, worker_logs
from ludus_dashboard.matches import KINDS, OUTCOMES, MatchQuery, find_matches
from ludus_dashboard.reader import Snapshot
from ludus_dashboard.rendering import render

__all__ = ["PAGES", "Page", "model"]

#: Returns the HTML of a snapshot, given the parameters of the address and the values of the layout.
Page: TypeAlias = Callable[[Snapshot, Mapping[str, str], Mapping[str, Any]], str]

_MAX_RESULTS = 200  # opponents on the page of a model
_MAX_LOG = 400  # changes of pools


def overview(snapshot: Snapshot, query: Mapping[str, str], layout: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Show scores against anchors, ratings, speed, staleness, and who waits for which worker."""
    run, history = snapshot.run, snapshot.history
    rated, left = best_ratings(run) if run.league.num_teams != 1 else ([], 0)
    ratings: dict[str, list[Any]] = {}
    for row in rated:
        ratings.setdefault(row.get("role", ""), []).append(row)
    players = list(run.league.players)
    charts = [
        *rating_charts(run),
        metric_chart(
            "Decisions per second",
            history,
            {"played": "sampling/decisions_per_s"} | _per_player(players, "samples_per_s", "learned: "),
        ),
        metric_chart("Mean staleness of what is learned, in updates", history, _per_player(players, "staleness_mean")),
    ]
    return render(
        "overview.html",
        **layout,
        players=[_player(snapshot, name) for name in players],
        decisions=sum(view.decisions for view in run.league.players.values()),
        elapsed_s=run.league.elapsed_s,
        rates={name: history.value(f"sampling/{name}") for name in ("decisions_per_s", "ticks_per_s", "waiting")},
        ratings=ratings,
        left=left,
        near=NEAR,
        charts=[chart for chart in charts if chart["series"]],
    )


def _per_player(players: list[str], metric: str, prefix: str = "") -> dict[str, str]:
    return {f"{prefix}{player}": f"learner/{player}/{metric}" for player in players}


def _player(snapshot: Snapshot, name: str) -> dict[str, Any]:
    run, history = snapshot.run, snapshot.history
    view = run.league.players[name]
    shown = view.models[-1] if view.models else view.live
    metrics = ("samples_per_s", "staleness_mean", "staleness_max", "idle_share", "queue_blocks")
    scores = records_json(run, shown, run.league.anchors) if run.league.num_teams != 1 else {}
    return {
        "name": name,
        "role": view.role,
        "shown": shown,
        "is_model": bool(view.models),
        "models": view.num_frozen,
        "generation": view.generation,
        "decisions": view.decisions,
        "share": view.share,
        "anchors": scores,
        "metrics": {metric: history.value(f"learner/{name}/{metric}") for metric in metrics},
    }


def payoffs(snapshot: Snapshot, query: Mapping[str, str], layout: Mapping[str, Any]) -> str:
    """Show the scores of participants against each other."""
    kind = query.get("kind", "") if query.get("kind") in KINDS else ""
    pool = query.get("pool", "") if query.get("pool") in snapshot.run.pools else ""
    sort = "name" if query.get("sort") == "name" else "rating"
    shown = heat_map(snapshot, kind=kind, pool=pool, sort=sort)
    return render(
        "payoffs.html",
        **layout,
        map=shown,
        kind=kind,
        kinds=KINDS,
        people=human_ratings(snapshot) if kind == HUMAN else {},
        near=NEAR,
        pool=pool,
        sort=sort,
        pools=sorted(snapshot.run.pools),
    )


def matches(snapshot: Snapshot, query: Mapping[str, str], layout: Mapping[str, Any]) -> str:
    """Show a page of the match log."""
    searched = MatchQuery.parse(query, snapshot.run)
    with RunLog(snapshot.run.folder) as log:
        page = find_matches(log, snapshot.run.seats, searched)
    values = {name: query.get(name, "") for name in ("a", "b", "kind", "outcome", "reason", "scenario")}
    names = [*snapshot.run.league.players, *snapshot.run.league.anchors]
    names += [view.models[-1] for view in snapshot.run.league.players.values() if view.models]
    return render(
        "matches.html",
        **layout,
        found=page,
        values=values,
        names=names,
        outcomes=OUTCOMES,
        kinds=KINDS,
        is_continued=searched.before is not None,
        total=sum(snapshot.matches.values()),
        folder=snapshot.run.folder,
    )


def model(snapshot: Snapshot, name: str, layout: Mapping[str, Any]) -> str | None:
    """Show a model: manifest, parents, results and behaviour; None if there is none of this name."""
    run = snapshot.run
    record = run.models.get(name)
    if record is None:
        return None
    ancestries = LINEAGE.data(run)["models"]
    results = _results(snapshot, name)
    return render(
        "model.html",
        **layout,
        model=record,
        ancestry=next(one for one in ancestries if one["participant"] == name),
        children=[one["participant"] for one in ancestries if one["parent"] == name],
        rating=run.league.rating(name),
        near=NEAR,
        pools=pools_of(run, name),
        damage=run.quarantined.get(name),
        is_retired=name in run.retired,
        results=results[:_MAX_RESULTS],
        left=max(0, len(results) - _MAX_RESULTS),
        behaviour=compared_behaviour(run, name),
        kinds=KINDS,
    )


def _results(snapshot: Snapshot, name: str) -> list[dict[str, Any]]:
    """Return the scores of a participant by opponent and kind, those of the most matches first."""
    results = [
        {"opponent": b, "kind": kind, **score(*(int(n) for n in count)).json()}
        for (kind, a, b), count in snapshot.payoffs.items()
        if a == name and count.sum()
    ]
    return sorted(results, key=lambda row: -(row["wins"] + row["draws"] + row["losses"]))


def lineages(snapshot: Snapshot, query: Mapping[str, str], layout: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Show models, their parents, and new starts."""
    return render("lineage.html", **layout, drawing=lineage(snapshot.run))


def opponents(snapshot: Snapshot, query: Mapping[str, str], layout: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Show the mix of opponents, asked and played, and the shares of the players."""
    players = snapshot.run.league.players
    total = sum(view.share for view in players.values())
    return render(
        "opponents.html",
        **layout,
        rows=snapshot.opponents.rows(),
        shares={name: view.share / total if total else 0.0 for name, view in players.items()},
        chart=share_chart(snapshot.history, list(players))
        if len(snapshot.history.reports) > 1
        else line_chart("", "", [], []),
    )


def pools(snapshot: Snapshot, query: Mapping[str, str], layout: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Show the members of all pools, and which models entered and left them, and why."""
    run = snapshot.run
    log = [
        {
            "pool": r.change.pool,
            "model": r.change.model,
            "enters": r.change.enters,
            "created_s": r.created_s,
            "reason": _reason(run, r.change.model, enters=r.change.enters),
        }
        for r in reversed(snapshot.pool_log[-_MAX_LOG:])
    ]
    members = {name: list(run.pools[name]) for name in sorted(run.pools)}
    return render("pools.html", **layout, pools=members, log=log, left=max(0, len(snapshot.pool_log) - _MAX_LOG))


def _reason(run: Run, model: str, *, enters: bool) -> str:
    """Return why a model was frozen, or why it may have left a pool, as far as the league keeps it."""
    if model not in run.models:
        return ""
    if enters:
        return run.league.freeze_reason(model) or "frozen by its number of decisions"
    if model in run.quarantined:
        return f"its file is damaged: {run.quarantined[model]}"
    return "retired" if model in run.retired else ""


def files(snapshot: Snapshot, query: Mapping[str, str], layout: Mapping[str, Any]) -> str:
    """Show the configuration and the end of a worker's log."""
    folder = snapshot.run.folder
    names = worker_logs(folder)
    log = query.get("log", "")
    shown = log if log in names else next(iter(names), "")
    return render(
        "files.html",
        **layout,
        names=names,
        shown=shown,
        text=read_end(folder / "logs" / shown) if shown else "",
        configuration=read_end(folder / "run.toml", max_bytes=2**18),
    )


#: Pages by the last segment of their address, with their titles.
PAGES: dict[str, tuple[str, Page]] = {
    "": ("Overview", overview),
    "payoffs": ("Payoffs", payoffs),
    "matches": ("Matches", matches),
    "lineage": ("Lineage", lineages),
    "opponents": ("Opponents", opponents),
    "pools": ("Pools", pools),
    "behaviour": ("Behaviour", behaviour),
    "files": ("Files", files),
}
