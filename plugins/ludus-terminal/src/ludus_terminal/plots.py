"""``ludus league plot``: pictures of a league."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from ludus.errors import ConfigError
from ludus.runs import Run
from rich.console import RenderableType
from rich.markup import escape

from ludus_terminal.mix import MIX
from ludus_terminal.rating_views import evaluations
from ludus_terminal.views import LINEAGE, NEAR, View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PLOTS"]

Data: TypeAlias = Any  # JSON values

_MOST_LABELS = 40  # names beside a heat map
_DPI = 110
_BINS = 30  # steps of a curve over training time


def _plot(run: Run, *, out: Path) -> Data:
    """Draw everything there is something to draw of, in place of what was drawn there before; return the files."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and half a second to import
    except ModuleNotFoundError as error:
        raise ConfigError("ludus league plot needs matplotlib; pip install 'ludus-terminal[plot]'") from error
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for name, draw in _DRAWINGS.items():
        figure, path = Figure(layout="constrained"), out / f"{name}.png"
        path.unlink(missing_ok=True)  # it may be of another run, of which there was more to draw
        if draw(run, figure):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Glyph .* missing")  # names may have letters no font has
                figure.savefig(path, dpi=_DPI)
            files.append(str(path))
    return {"files": files}


def _show_files(data: Data) -> Iterable[RenderableType]:
    yield from (escape(file) for file in data["files"])
    if not data["files"]:
        yield "there is nothing to draw yet"


def _minutes(run: Run, created_s: Sequence[float]) -> np.ndarray:
    """Return at how many minutes of training something was written, given in Unix time.

    The models know both times; in between it is interpolated, so that breaks between a stop and a resume vanish. After
    the last model it is the time that passed, as long as the run went on.
    """
    started = float(run.meta("created_s"))
    models = run.models.values()
    known = [(started, 0.0), *((m.created_s, run.league.frozen_s(m.participant)) for m in models)]
    unix, trained = np.array(sorted(known)).T
    asked = np.asarray(created_s, np.float64)
    went = np.interp(asked, unix, trained) + np.maximum(asked - unix[-1], 0.0)
    return np.asarray(np.minimum(went, max(trained[-1], run.league.elapsed_s)) / 60)


def _payoffs(run: Run, figure: Figure) -> bool:
    """Draw shares of points of the evaluation matches; grey where two have not met."""
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
    shown = range(0, n, -(-n // _MOST_LABELS))
    axes.set_xticks(shown, [table.names[i] for i in shown], rotation=90, fontsize=7)
    axes.set_yticks(shown, [table.names[i] for i in shown], fontsize=7)
    if n <= 16:
        for i, j in np.argwhere(games > 0).tolist():
            axes.text(j, i, f"{shares[i, j]:.2f}", ha="center", va="center", fontsize=6)
    axes.set_title("Share of points of the row against the column")
    figure.colorbar(image, ax=axes, shrink=0.8)
    return True


def _ratings(run: Run, figure: Figure) -> bool:
    """Draw every player's ratings with 95 % bands over training time; a new generation begins a new curve."""
    if not any(run.league.rating(model).matches for model in run.models):
        return False
    figure.set_size_inches(8, 5)
    axes = figure.subplots()
    for color, (player, view) in enumerate(run.league.players.items()):
        for generation, models in enumerate(_generations(view.models, view.generation_starts)):
            rated = [model for model in models if run.league.rating(model).matches]
            minutes = [run.league.frozen_s(model) / 60 for model in rated]
            mean = np.array([run.league.rating(model).mean for model in rated])
            near = NEAR * np.array([run.league.rating(model).deviation for model in rated])
            label = player if generation == 0 else None
            axes.plot(minutes, mean, marker=".", color=f"C{color}", label=label)
            axes.fill_between(minutes, mean - near, mean + near, color=f"C{color}", alpha=0.15, lw=0)
    for anchor in run.league.anchors:
        if run.league.rating(anchor).matches:
            axes.axhline(run.league.rating(anchor).mean, color="0.6", ls=":", lw=1)
            axes.annotate(anchor, (1, run.league.rating(anchor).mean), xycoords=("axes fraction", "data"), fontsize=7)
    axes.set(xlabel="minutes of training", ylabel="rating, with 95 % interval", title="Ratings of frozen models")
    axes.legend(fontsize=8)
    return True


def _generations(models: Sequence[str], generation_starts: Sequence[int]) -> list[Sequence[str]]:
    """Return a player's models of each generation; `generation_starts` says how many models are older."""
    ends = [*generation_starts[1:], len(models)]
    return [models[start:end] for start, end in zip(generation_starts, ends, strict=True)]


def _lineage(run: Run, figure: Figure) -> bool:
    """Draw models over training time, a lane for each player, with lines from parents; a cross is a new start."""
    models = LINEAGE.data(run)["models"]
    if not models:
        return False
    lanes = {player: lane for lane, player in enumerate(run.league.players)}
    figure.set_size_inches(8, 1.8 + 0.6 * len(lanes))
    axes = figure.subplots()
    place = {
        model["participant"]: (
            model["elapsed_s"] / 60,
            lanes.setdefault(run.models[model["participant"]].player, len(lanes)),
        )
        for model in models
    }
    for model in models:
        x, lane = place[model["participant"]]
        color = f"C{lane}"
        if model["parent"]:
            start = place[model["parent"]]
            curve = {"arrowstyle": "-", "color": color, "alpha": 0.7}
            if start[1] == lane and start[0] < x and not _skips(model):
                axes.annotate("", (x, lane), start, arrowprops=curve)
            else:
                axes.annotate(
                    "", (x, lane), start, arrowprops={**curve, "connectionstyle": "arc3,rad=-0.3", "ls": "--"}
                )
        axes.plot(x, lane, marker="X" if model["reset"] else "o", ms=9 if model["reset"] else 5, color=color)
        if model["reset"]:
            axes.annotate(f"generation {model['generation'] + 1}", (x, lane + 0.18), fontsize=7, ha="center")
    axes.set_yticks(range(len(lanes)), list(lanes))
    axes.set_ylim(-0.6, len(lanes) - 0.4)
    axes.set(xlabel="minutes of training", title="Models and their parents; a cross ends a generation")
    return True


def _skips(model: Mapping[str, Any]) -> bool:
    """Return whether a model comes from another one than the one before it."""
    player, _, number = str(model["participant"]).rpartition("@")
    return bool(model["parent"] != f"{player}@{int(number) - 1}")


def _pools(run: Run, figure: Figure) -> bool:
    """Draw from when to when every model was in a pool, one line for each, the first to enter at the bottom."""
    log = list(run.pool_log())
    if not log:
        return False
    minutes = _minutes(run, [record.created_s for record in log])
    end = max(minutes.max(), max(run.league.frozen_s(model) for model in run.models) / 60) + 1e-3
    stays: dict[str, dict[str, list[list[float]]]] = {}
    for record, now in zip(log, minutes.tolist(), strict=True):
        spans = stays.setdefault(record.change.pool, {}).setdefault(record.change.model, [])
        if record.change.enters:
            spans.append([now, end])
        elif spans:
            spans[-1][1] = now
    colors = {player: f"C{i}" for i, player in enumerate(run.league.players)}
    figure.set_size_inches(8, 1 + 1.6 * len(stays))
    for axes, (pool, models) in zip(
        figure.subplots(len(stays), squeeze=False, sharex=True)[:, 0], sorted(stays.items()), strict=True
    ):
        for line, (model, spans) in enumerate(models.items()):
            color = colors.get(run.models[model].player, "0.5")
            axes.broken_barh([(start, stop - start) for start, stop in spans], (line, 0.9), color=color)
        axes.set(ylabel=pool, ylim=(0, max(len(models), 3)))
        axes.set_yticks([])
    axes.set_xlabel("minutes of training")
    figure.suptitle("Models in pools, from entering to leaving")
    return True


def _opponents(run: Run, figure: Figure) -> bool:
    """Draw shares of kinds of opponents by player: what was asked for above what was played."""
    rows = MIX.data(run)["opponents"]
    if not rows:
        return False
    players = list(dict.fromkeys(row["player"] for row in rows))
    kinds = list(dict.fromkeys(_kind(row) for row in rows))
    shares = np.zeros((2, len(kinds), len(players)))  # asked, played
    for row in rows:
        shares[:, kinds.index(_kind(row)), players.index(row["player"])] = row["share_asked"], row["share_played"]
    left = np.cumsum(shares, axis=1) - shares
    figure.set_size_inches(9, 2 + 0.8 * len(players))
    axes, place = figure.subplots(), np.arange(len(players))
    for index, kind in enumerate(kinds):
        color, hatch = f"C{index % 10}", "//" if index >= 10 else ""
        axes.barh(place + 0.2, shares[0, index], 0.36, left=left[0, index], color=color, hatch=hatch, label=kind)
        axes.barh(place - 0.2, shares[1, index], 0.36, left=left[1, index], color=color, hatch=hatch)
    axes.set_yticks(range(len(players)), players)
    axes.set(xlabel="share of the training matches", title="Opponents: asked for (above), played (below)", xlim=(0, 1))
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    return True


def _kind(row: Mapping[str, Any]) -> str:
    return f"{row['reason']} ({row['opponents']})"


def _shares(run: Run, figure: Figure) -> bool:
    """Draw every player's part of the training matches over time, and the part that the league wanted (dashed)."""
    fixtures = list(run.fixtures(kind="train"))
    if not fixtures:
        return False
    minutes = _minutes(run, [record.created_s for record in fixtures])
    edges = np.linspace(0, minutes.max() + 1e-9, min(_BINS, len(fixtures)) + 1)
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
        wanted = [(m.elapsed_s / 60, m.value) for m in run.metrics() if m.name == f"league/{player}/share"]
        if wanted:
            axes.plot(*np.array(wanted).T, color=f"C{color}", ls="--", lw=1)
    axes.set(xlabel="minutes of training", ylabel="share of the training matches", ylim=(0, 1.02))
    axes.set_title("Shares of the players: played (steps), wanted (dashed)")
    axes.legend(fontsize=8)
    return True


_DRAWINGS: dict[str, Callable[[Run, Figure], bool]] = {
    "payoffs": _payoffs,
    "ratings": _ratings,
    "lineage": _lineage,
    "pools": _pools,
    "opponents": _opponents,
    "shares": _shares,
}

PLOTS = View(_plot, _show_files)
