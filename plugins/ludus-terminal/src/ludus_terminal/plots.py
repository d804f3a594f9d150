"""``ludus league plot``: draw a league with matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ludus.runs import Run
from rich.console import RenderableType
from rich.markup import escape

from ludus_terminal.behaviour import newest_behaviour
from ludus_terminal.drift import draw_drift
from ludus_terminal.figures import new_figure, save_figure
from ludus_terminal.mix import MIX
from ludus_terminal.profiles import draw_profiles
from ludus_terminal.rating_views import evaluations
from ludus_terminal.views import LINEAGE, NEAR, Data, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PLOTS"]

_MAX_LABELS = 40  # names beside a heat map
_MAX_BINS = 30  # steps of a curve over training time


def _plot(run: Run, *, out: Path) -> Data:
    """Draw all plots that have data, replacing earlier files, and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for name, draw in _DRAWINGS.items():
        figure, path = new_figure(), out / f"{name}.png"
        path.unlink(missing_ok=True)  # it may be of another run
        if draw(run, figure):
            save_figure(figure, path)
            files.append(str(path))
    return {"files": files}


def _show_files(data: Data) -> Iterable[RenderableType]:
    yield from (escape(file) for file in data["files"])
    if not data["files"]:
        yield "there is nothing to draw yet"


def _minutes(run: Run, created_s: Sequence[float]) -> np.ndarray:
    """Return the minutes of training at Unix times.

    Models have both times; times between models are interpolated, which removes the breaks between sessions. Times
    after the last model are extrapolated up to the training time of the run.
    """
    started = float(run.meta("created_s"))
    models = run.models.values()
    points = [(started, 0.0), *((m.created_s, run.league.frozen_s(m.participant)) for m in models)]
    unix, trained = np.array(sorted(points)).T
    times = np.asarray(created_s, np.float64)
    seconds = np.interp(times, unix, trained) + np.maximum(times - unix[-1], 0.0)
    return np.asarray(np.minimum(seconds, max(trained[-1], run.league.elapsed_s)) / 60)


def _payoffs(run: Run, figure: Figure) -> bool:
    """Draw the shares of points of the evaluation matches; pairs without matches are grey."""
    table = evaluations(run)
    n = len(table.names)
    points = table.points()
    games = points + points.T
    if not n:
        return False
    shares = np.where(games > 0, points / np.maximum(games, 1), np.nan)
    size = float(np.clip(2.5 + 0.3 * n, 5, 14))
    figure.set_size_inches(size + 1, size)
    axes = figure.subplots()
    axes.set_facecolor("0.85")
    image = axes.imshow(shares, vmin=0, vmax=1, cmap="RdBu")
    shown = range(0, n, -(-n // _MAX_LABELS))
    axes.set_xticks(shown, [table.names[i] for i in shown], rotation=90, fontsize=7)
    axes.set_yticks(shown, [table.names[i] for i in shown], fontsize=7)
    if n <= 16:
        for i, j in np.argwhere(games > 0).tolist():
            axes.text(j, i, f"{shares[i, j]:.2f}", ha="center", va="center", fontsize=6)
    axes.set_title("Share of points of the row against the column")
    figure.colorbar(image, ax=axes, shrink=0.8)
    return True


def _ratings(run: Run, figure: Figure) -> bool:
    """Draw the ratings of every player with 95 % bands over training time; a new generation starts a new curve."""
    if not any(run.league.rating(model).matches for model in run.models):
        return False
    figure.set_size_inches(8, 5)
    axes = figure.subplots()
    for index, (player, view) in enumerate(run.league.players.items()):
        for generation, models in enumerate(_generations(view.models, view.generation_starts)):
            label = player if generation == 0 else None
            _draw_rating_curve(run, axes, models, color=f"C{index}", label=label)
    for anchor in run.league.anchors:
        rating = run.league.rating(anchor)
        if rating.matches:
            axes.axhline(rating.mean, color="0.6", ls=":", lw=1)
            axes.annotate(anchor, (1, rating.mean), xycoords=("axes fraction", "data"), fontsize=7)
    axes.set(xlabel="minutes of training", ylabel="rating, with 95 % interval", title="Ratings of frozen models")
    axes.legend(fontsize=8)
    return True


def _draw_rating_curve(run: Run, axes: Axes, models: Sequence[str], *, color: str, label: str | None) -> None:
    rated = [model for model in models if run.league.rating(model).matches]
    minutes = [run.league.frozen_s(model) / 60 for model in rated]
    mean = np.array([run.league.rating(model).mean for model in rated])
    near = NEAR * np.array([run.league.rating(model).deviation for model in rated])
    axes.plot(minutes, mean, marker=".", color=color, label=label)
    axes.fill_between(minutes, mean - near, mean + near, color=color, alpha=0.15, lw=0)


def _generations(models: Sequence[str], generation_starts: Sequence[int]) -> list[Sequence[str]]:
    """Return the models of every generation of a player, given the number of older models of each."""
    ends = [*generation_starts[1:], len(models)]
    return [models[start:end] for start, end in zip(generation_starts, ends, strict=True)]


def _lineage(run: Run, figure: Figure) -> bool:
    """Draw models over training time with lines from their parents, one lane per player; a cross is a player reset."""
    models = LINEAGE.data(run)["models"]
    if not models:
        return False
    lanes = {player: lane for lane, player in enumerate(run.league.players)}
    figure.set_size_inches(8, 1.8 + 0.6 * len(lanes))
    axes = figure.subplots()
    positions: dict[str, tuple[float, int]] = {}
    for model in models:
        lane = lanes.setdefault(run.models[model["participant"]].player, len(lanes))
        positions[model["participant"]] = model["elapsed_s"] / 60, lane
    for model in models:
        _draw_model(axes, model, positions)
    axes.set_yticks(range(len(lanes)), list(lanes))
    axes.set_ylim(-0.6, len(lanes) - 0.4)
    axes.set(xlabel="minutes of training", title="Models and their parents; a cross ends a generation")
    return True


def _draw_model(axes: Axes, model: Mapping[str, Any], positions: Mapping[str, tuple[float, int]]) -> None:
    """Draw a model and the line from its parent, which is dashed if the parent is not the previous model."""
    minutes, lane = positions[model["participant"]]
    color = f"C{lane}"
    if model["parent"]:
        start = positions[model["parent"]]
        line = {"arrowstyle": "-", "color": color, "alpha": 0.7}
        if start[1] != lane or start[0] >= minutes or _skips_models(model):
            line |= {"connectionstyle": "arc3,rad=-0.3", "ls": "--"}
        axes.annotate("", (minutes, lane), start, arrowprops=line)
    marker, size = ("X", 9) if model["reset"] else ("o", 5)
    axes.plot(minutes, lane, marker=marker, ms=size, color=color)
    if model["reset"]:
        axes.annotate(f"generation {model['generation'] + 1}", (minutes, lane + 0.18), fontsize=7, ha="center")


def _skips_models(model: Mapping[str, Any]) -> bool:
    """Return whether the parent of a model is not the previous model of its player."""
    player, _, number = str(model["participant"]).rpartition("@")
    return bool(model["parent"] != f"{player}@{int(number) - 1}")


def _pools(run: Run, figure: Figure) -> bool:
    """Draw the times during which models were in pools, one line per model, in the order of entry."""
    periods = _pool_periods(run)
    if not periods:
        return False
    colors = {player: f"C{i}" for i, player in enumerate(run.league.players)}
    figure.set_size_inches(8, 1 + 1.6 * len(periods))
    rows = figure.subplots(len(periods), squeeze=False, sharex=True)[:, 0]
    for axes, (pool, models) in zip(rows, sorted(periods.items()), strict=True):
        for line, (model, spans) in enumerate(models.items()):
            color = colors.get(run.models[model].player, "0.5")
            axes.broken_barh([(start, stop - start) for start, stop in spans], (line, 0.9), color=color)
        axes.set(ylabel=pool, ylim=(0, max(len(models), 3)))
        axes.set_yticks([])
    rows[-1].set_xlabel("minutes of training")
    figure.suptitle("Models in pools, from entering to leaving")
    return True


def _pool_periods(run: Run) -> dict[str, dict[str, list[list[float]]]]:
    """Return [start, end] in minutes of training of every stay of a model in a pool, by pool and model."""
    log = list(run.pool_log())
    if not log:
        return {}
    minutes = _minutes(run, [record.created_s for record in log])
    end = max(minutes.max(), max(run.league.frozen_s(model) for model in run.models) / 60) + 1e-3
    periods: dict[str, dict[str, list[list[float]]]] = {}
    for record, now in zip(log, minutes.tolist(), strict=True):
        spans = periods.setdefault(record.change.pool, {}).setdefault(record.change.model, [])
        if record.change.enters:
            spans.append([now, end])
        elif spans:
            spans[-1][1] = now
    return periods


def _opponents(run: Run, figure: Figure) -> bool:
    """Draw the shares of kinds of opponents by player: scheduled matches above played ones."""
    rows = MIX.data(run)["opponents"]
    if not rows:
        return False
    players = list(dict.fromkeys(row["player"] for row in rows))
    kinds = list(dict.fromkeys(_kind(row) for row in rows))
    shares = np.zeros((2, len(kinds), len(players)))  # scheduled, played
    for row in rows:
        shares[:, kinds.index(_kind(row)), players.index(row["player"])] = row["share_asked"], row["share_played"]
    left = np.cumsum(shares, axis=1) - shares
    figure.set_size_inches(9, 2 + 0.8 * len(players))
    axes, positions = figure.subplots(), np.arange(len(players))
    for index, kind in enumerate(kinds):
        color, hatch = f"C{index % 10}", "//" if index >= 10 else ""
        axes.barh(positions + 0.2, shares[0, index], 0.36, left=left[0, index], color=color, hatch=hatch, label=kind)
        axes.barh(positions - 0.2, shares[1, index], 0.36, left=left[1, index], color=color, hatch=hatch)
    axes.set_yticks(range(len(players)), players)
    axes.set(xlabel="share of the training matches", title="Opponents: scheduled (above), played (below)", xlim=(0, 1))
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    return True


def _kind(row: Mapping[str, Any]) -> str:
    return f"{row['reason']} ({row['opponents']})"


def _shares(run: Run, figure: Figure) -> bool:
    """Draw the share of every player of the training matches over time, and its configured share (dashed)."""
    fixtures = list(run.fixtures(kind="train"))
    if not fixtures:
        return False
    minutes = _minutes(run, [record.created_s for record in fixtures])
    edges = np.linspace(0, minutes.max() + 1e-9, min(_MAX_BINS, len(fixtures)) + 1)
    played = {
        player: np.histogram(
            minutes, edges, weights=[record.played * (record.fixture.player == player) for record in fixtures]
        )[0]
        for player in run.league.players
    }
    total = np.maximum(sum(played.values()), 1)
    figure.set_size_inches(8, 4)
    axes = figure.subplots()
    for color, (player, matches) in enumerate(played.items()):
        axes.stairs(matches / total, edges, color=f"C{color}", label=player)
        configured = [(m.elapsed_s / 60, m.value) for m in run.metrics() if m.name == f"league/{player}/share"]
        if configured:
            axes.plot(*np.array(configured).T, color=f"C{color}", ls="--", lw=1)
    axes.set(xlabel="minutes of training", ylabel="share of the training matches", ylim=(0, 1.02))
    axes.set_title("Shares of the players: played (steps), configured (dashed)")
    axes.legend(fontsize=8)
    return True


def _behaviour(run: Run, figure: Figure) -> bool:
    """Draw the profiles of the newest evaluated models of all players."""
    return draw_profiles(figure, newest_behaviour(run))


_DRAWINGS: dict[str, Callable[[Run, Figure], bool]] = {
    "payoffs": _payoffs,
    "ratings": _ratings,
    "lineage": _lineage,
    "pools": _pools,
    "opponents": _opponents,
    "shares": _shares,
    "behaviour": _behaviour,
    "drift": draw_drift,
}

PLOTS = View(_plot, _show_files)
