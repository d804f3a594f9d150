"""Add a model to a pool by hand: the candidates, their behaviour, and the change itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from ludus.errors import ConfigError
from ludus.matchmaker import PoolChange
from ludus.metrics import Metric
from ludus.runs import Run, change_pool, open_run
from rich.console import RenderableType
from rich.markup import escape

from ludus_terminal.behaviour import statistics_json
from ludus_terminal.rating_views import evaluations
from ludus_terminal.views import NEAR, Data, View, records_json, table

__all__ = ["CANDIDATES", "PROMOTED", "add_to_pool", "check_promotion"]

_RESERVED = ("", "own", "anchors", "*")


def add_to_pool(folder: Path, model: str, pool: str) -> Data:
    """Add a frozen model to a pool of a run, running or not, and return the change as JSON values.

    Raises:
        ConfigError: There is no such model, it is in the pool already, or the name of the pool is invalid.
        RunError: The run is going on and did not answer.
    """
    with open_run(folder) as run:
        participant, new = check_promotion(run, model, pool), pool not in run.pools
    if not change_pool(folder, PoolChange(pool=pool, model=participant, enters=True)):
        raise ConfigError(f"{participant} is in the pool {pool} already")
    return {"model": participant, "pool": pool, "new_pool": new}


def check_promotion(run: Run, model: str, pool: str) -> str:
    """Return the frozen model of a name that is to enter a pool.

    Raises:
        ConfigError: There is no such model, or the name of the pool is invalid.
    """
    if pool.partition("/")[0] in _RESERVED or not pool.isprintable():
        raise ConfigError(
            f"pool {pool!r}: expected a name such as chosen or main_agent/superior, and not own, anchors or *, which "
            f"have other meanings for matchmakers"
        )
    participant = run.resolve(model)
    if participant not in run.models:
        raise ConfigError(f"{model} is no frozen model; name one, for example {next(iter(run.models), 'player@1')}")
    return participant


def _promoted(run: Run, *, promoted: Data) -> Data:
    return {**promoted, "members": list(run.pools[promoted["pool"]])}


def _show_promoted(data: Data) -> Iterable[RenderableType]:
    noun = "the new pool" if data["new_pool"] else "the pool"
    yield escape(f"{data['model']} is in {noun} {data['pool']} now: {' '.join(data['members'])}")


def _candidates(run: Run, *, source: str, top: int) -> Data:
    if source and source not in run.pools:
        raise ConfigError(f"there is no pool {source!r}; there are: {', '.join(sorted(run.pools)) or 'none'}")
    names = run.pools[source] if source else list(run.models)
    rating = run.league.rating
    best = sorted(names, key=lambda name: (not rating(name).matches, -rating(name).mean))[:top]
    ticks, scores, learning = _mean_match_ticks(run), _mean_scores(run), _learning_metrics(run, best)
    return {"candidates": [_describe(run, name, ticks, scores, learning[name]) for name in best]}


def _describe(run: Run, name: str, ticks: Mapping[str, float], scores: Mapping[str, float], learning: Data) -> Data:
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
        "behaviour": statistics_json(run, name),
        "learning": learning,
    }


def _mean_scores(run: Run) -> dict[str, float]:
    """Return the share of points of every participant in its evaluation matches."""
    total: dict[str, np.ndarray] = {}
    for (name, _), count in evaluations(run).counts.items():
        total[name] = total.get(name, 0) + count
    return {name: float(won + 0.5 * drawn) / float(won + drawn + lost) for name, (won, drawn, lost) in total.items()}


def _mean_match_ticks(run: Run) -> dict[str, float]:
    """Return the mean length of the evaluation matches of every participant."""
    total: dict[str, list[int]] = {}
    for match in run.matches(kind="eval"):
        for name in set(match.fixture.participants):
            sums = total.setdefault(name, [0, 0])
            sums[0] += match.ticks
            sums[1] += 1
    return {name: ticks / matches for name, (ticks, matches) in total.items()}


def _learning_metrics(run: Run, models: Iterable[str]) -> dict[str, Data]:
    """Return the means of return, length and reward parts while each model was being learned.

    They are means over all training matches of that time; reward parts are those of the model's role.
    """
    periods = {name: _learning_period(run, name) for name in models}
    roles = {name: run.league.players[run.models[name].player].role for name in periods}
    values: dict[str, dict[str, list[float]]] = {name: {} for name in periods}
    for metric in _sampling_metrics(run):
        for name, (start_s, end_s) in periods.items():
            label = _behaviour_label(metric.name.removeprefix("sampling/"), roles[name])
            if label and start_s < metric.elapsed_s <= end_s:
                values[name].setdefault(label, []).append(metric.value)
    return {
        name: {label: float(np.mean(numbers)) for label, numbers in sorted(metrics.items())}
        for name, metrics in values.items()
    }


def _sampling_metrics(run: Run) -> Iterator[Metric]:
    """Yield the known values of the metrics of all samplers."""
    for metric in run.metrics():
        if metric.name.startswith("sampling/") and not math.isnan(metric.value):
            yield metric


def _learning_period(run: Run, name: str) -> tuple[float, float]:
    """Return the training times in seconds at which the previous model and this one were frozen."""
    model = run.models[name]
    previous = f"{model.player}@{model.number - 1}"
    start_s = run.league.frozen_s(previous) if previous in run.models else 0.0
    return start_s, run.league.frozen_s(name)


def _behaviour_label(metric: str, role: str) -> str:
    """Return the label of a metric that describes the behaviour of a role; empty for other metrics."""
    part = metric.removeprefix(f"return/{role}/")
    return part if part != metric or metric in ("return_mean", "match_ticks") else ""


def _show_candidates(data: Data) -> Iterable[RenderableType]:
    candidates = data["candidates"]
    if not candidates:
        yield "no candidates yet"
        return
    shown = table("Candidates, the best rated first", "", *(f">{candidate['model']}" for candidate in candidates))
    labels, statistics = (
        list(dict.fromkeys(label for candidate in candidates for label in candidate[group]))
        for group in ("learning", "behaviour")
    )
    columns = [_candidate_cells(candidate, labels, statistics) for candidate in candidates]
    for title in columns[0]:
        shown.add_row(escape(title), *(escape(cells[title]) for cells in columns))
    yield shown
    yield "add one of them to a pool by: ludus league promote RUN MODEL POOL"


def _candidate_cells(candidate: Data, labels: Iterable[str], statistics: Iterable[str]) -> dict[str, str]:
    """Return the cells of a candidate by the titles of their rows.

    Args:
        candidate: The candidate.
        labels: Those of the training metrics of all candidates.
        statistics: Those of the evaluation matches of all candidates, ``"ROLE/NAME"``.
    """
    return {
        "rating": f"{candidate['rating']:.0f} ± {NEAR * candidate['deviation']:.0f}" if candidate["matches"] else "",
        "evaluation matches": f"{candidate['matches']:,}",
        "score": _number(candidate["score"]),
        **{f"score against {anchor}": _number(result["score"]) for anchor, result in candidate["anchors"].items()},
        "ticks per evaluation": _number(candidate["match_ticks"], digits=1),
        **{name: _number(candidate["behaviour"].get(name, {}).get("mean")) for name in statistics},
        **{f"{label} while learned": _number(candidate["learning"].get(label)) for label in labels},
        "pools": " ".join(candidate["pools"]),
    }


def _number(value: float | None, *, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


CANDIDATES = View(_candidates, _show_candidates)
PROMOTED = View(_promoted, _show_promoted)
