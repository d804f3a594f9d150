"""Promoting a model by a person's judgement: who the candidates are, how they behave, and the promotion itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from ludus.errors import ConfigError
from ludus.matchmaker import PoolChange
from ludus.runs import Run, change_pool, open_run
from rich.console import RenderableType
from rich.markup import escape

from ludus_terminal.rating_views import evaluations
from ludus_terminal.views import NEAR, View, records_json, table

__all__ = ["CANDIDATES", "PROMOTED", "enter"]

Data: TypeAlias = Any  # JSON values
_NO_POOLS = ("", "own", "anchors", "*")


def enter(folder: Path, model: str, pool: str) -> Data:
    """Put a frozen model into a pool and return what was done, as JSON values.

    Raises:
        ConfigError: There is no such model, it is in the pool already, or no pool can have that name.
        RunError: The run is going on.
    """
    if pool.partition("/")[0] in _NO_POOLS or not pool.isprintable():
        raise ConfigError(
            f"pool {pool!r}: expected a name such as chosen or main_agent/superior, and not own, anchors or *, which "
            f"matchmakers take for something else"
        )
    with open_run(folder) as run:
        chosen = run.resolve(model)
        if chosen not in run.models:
            raise ConfigError(f"{model} is no frozen model; name one, for example {next(iter(run.models), 'player@1')}")
        new = pool not in run.pools
    if not change_pool(folder, PoolChange(pool=pool, model=chosen, enters=True)):
        raise ConfigError(f"{chosen} is in the pool {pool} already")
    return {"model": chosen, "pool": pool, "new_pool": new}


def _promoted(run: Run, *, promoted: Data) -> Data:
    return {**promoted, "members": list(run.pools[promoted["pool"]])}


def _show_promoted(data: Data) -> Iterable[RenderableType]:
    what = "the new pool" if data["new_pool"] else "the pool"
    yield escape(f"{data['model']} is in {what} {data['pool']} now: {' '.join(data['members'])}")


def _candidates(run: Run, *, source: str, top: int) -> Data:
    if source and source not in run.pools:
        raise ConfigError(f"there is no pool {source!r}; there are: {', '.join(sorted(run.pools)) or 'none'}")
    names = run.pools[source] if source else list(run.models)
    rating = run.league.rating
    best = sorted(names, key=lambda name: (not rating(name).matches, -rating(name).mean))[:top]
    ticks, scores, learned = _match_ticks(run), _scores(run), _while_learned(run, best)
    return {"candidates": [_behaviour(run, name, ticks, scores, learned[name]) for name in best]}


def _behaviour(run: Run, name: str, ticks: Mapping[str, float], scores: Mapping[str, float], learned: Data) -> Data:
    rating = run.league.rating(name)
    return {
        "model": name,
        "rating": rating.mean if rating.matches else None,
        "deviation": rating.deviation if rating.matches else None,
        "matches": rating.matches,
        "score": scores.get(name),
        "match_ticks": ticks.get(name),
        "anchors": records_json(run, name, run.league.anchors),
        "pools": [pool for pool, members in sorted(run.pools.items()) if name in members],
        "learning": learned,
    }


def _scores(run: Run) -> dict[str, float]:
    """Return everybody's share of the points of their evaluation matches."""
    total: dict[str, np.ndarray] = {}
    for (name, _), count in evaluations(run).counts.items():
        total[name] = total.get(name, 0) + count
    return {name: float(won + 0.5 * drawn) / float(won + drawn + lost) for name, (won, drawn, lost) in total.items()}


def _match_ticks(run: Run) -> dict[str, float]:
    """Return everybody's mean length of an evaluation match."""
    total: dict[str, list[int]] = {}
    for match in run.matches(kind="eval"):
        for name in set(match.fixture.participants):
            sums = total.setdefault(name, [0, 0])
            sums[0] += match.ticks
            sums[1] += 1
    return {name: ticks / matches for name, (ticks, matches) in total.items()}


def _while_learned(run: Run, names: Iterable[str]) -> dict[str, Data]:
    """Return means of return, length and reward parts of training matches while each model was being learned.

    They are means over all training matches of that time, and parts are those of the model's role.
    """
    spans: dict[str, tuple[float, float]] = {}
    values: dict[str, dict[str, list[float]]] = {}
    for name in names:
        model = run.models[name]
        before = f"{model.player}@{model.number - 1}"
        start = run.league.frozen_s(before) if before in run.models else 0.0
        spans[name], values[name] = (start, run.league.frozen_s(name)), {}
    for metric in run.metrics():
        if not metric.name.startswith("sampling/") or math.isnan(metric.value):
            continue
        for name, (start, end) in spans.items():
            said = _said(metric.name.removeprefix("sampling/"), run.league.players[run.models[name].player].role)
            if said and start < metric.elapsed_s <= end:
                values[name].setdefault(said, []).append(metric.value)
    return {
        name: {said: float(np.mean(seen)) for said, seen in sorted(known.items())} for name, known in values.items()
    }


def _said(metric: str, role: str) -> str:
    """Return what a metric tells of a role's behaviour; empty where it tells nothing."""
    part = metric.removeprefix(f"return/{role}/")
    return part if part != metric or metric in ("return_mean", "match_ticks") else ""


def _show_candidates(data: Data) -> Iterable[RenderableType]:
    candidates = data["candidates"]
    if not candidates:
        yield "no candidates yet"
        return
    shown = table("Candidates, the best rated first", "", *(f">{candidate['model']}" for candidate in candidates))

    def row(title: str, cells: Iterable[str]) -> None:
        shown.add_row(escape(title), *map(escape, cells))

    row("rating", (f"{c['rating']:.0f} ± {NEAR * c['deviation']:.0f}" if c["matches"] else "" for c in candidates))
    row("evaluation matches", (f"{c['matches']:,}" for c in candidates))
    row("score", (_number(c["score"]) for c in candidates))
    for anchor in candidates[0]["anchors"]:
        row(f"score against {anchor}", (_number(c["anchors"][anchor]["score"]) for c in candidates))
    row("ticks per evaluation", (_number(c["match_ticks"], digits=1) for c in candidates))
    for said in dict.fromkeys(said for c in candidates for said in c["learning"]):
        row(f"{said} while learned", (_number(c["learning"].get(said)) for c in candidates))
    row("pools", (" ".join(c["pools"]) for c in candidates))
    yield shown
    yield "one of them enters a pool by: ludus league promote RUN MODEL POOL"


def _number(value: float | None, *, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


CANDIDATES = View(_candidates, _show_candidates)
PROMOTED = View(_promoted, _show_promoted)
