"""What a study of leagues found, as tables, files and a picture."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import asdict
from league_statistics import difference, estimate
from league_studies import Study

Data = dict[str, Any]  # JSON values


def summarize(results: Data, study: Study) -> Data:
    """Return ``variants``: the figures of every variant and player over seeds, and ``claims``: what became of them."""
    figures = {
        variant: {player: _figures(results, variant, player) for player in _players(results)}
        for variant in results["settings"]
    }
    summary = {
        variant: {
            player: {name: asdict(estimate(values)) for name, values in of_player.items() if values}
            for player, of_player in of_variant.items()
        }
        for variant, of_variant in figures.items()
    }
    claims = []
    for claim in study.claims:
        if claim.better in figures and claim.worse in figures:
            a, b = (figures[name][claim.player][claim.figure] for name in (claim.better, claim.worse))
            found = difference(a, b)
            claims.append({**asdict(claim), **asdict(found), "verdict": found.verdict})
    return {"variants": summary, "claims": claims}


def _players(results: Data) -> list[str]:
    return list(results["runs"][0]["players"])


def _figures(results: Data, variant: str, player: str) -> dict[str, list[float]]:
    """Return every figure with one value per seed: none where the player's models did not play."""
    runs = [run for run in results["runs"] if run["variant"] == variant]
    told = [run["players"][player] for run in runs]
    finals = [who for who in results["entrants"] if (who["variant"], who["player"]) == (variant, player)]
    return {
        "rating": [who["rating"]["elo"] for who in finals],
        "mu": [who["rating"]["mu"] for who in finals],
        "against others": [share for who in finals if (share := _share(results, who)) is not None],
        "against bots": [one["curve"][-1]["score"] for one in told if "curve" in one],
        "generations": [float(len(one["converged"])) for one in told],
        "decisions": [float(one["decisions"]) for one in told],
    }


def _share(results: Data, who: Data) -> float | None:
    """Return the share of points that a final model got against those of other variants; None: there are no others."""
    variants = {other["name"]: other["variant"] for other in results["entrants"]}
    points = matches = 0.0
    for first, second, wins, draws, losses in results["pairs"]:
        others = {variants[first], variants[second]} - {who["variant"]}
        if who["name"] in (first, second) and others and "" not in others:
            points += draws / 2 + (wins if first == who["name"] else losses)
            matches += wins + draws + losses
    return points / matches if matches else None


# --- tables -----------------------------------------------------------------------------------------------------------

_COLUMNS = {
    "rating": ("Elo", "{:.0f}"),
    "mu": ("openskill", "{:.1f}"),
    "against others": ("against others", "{:.3f}"),
    "against bots": ("against bots", "{:.3f}"),
    "generations": ("converged", "{:.1f}"),
    "decisions": ("decisions", "{:,.0f}"),
}


def markdown(results: Data) -> Iterator[str]:
    """Yield the lines of a summary."""
    runs = results["runs"]
    yield f"# {results['title']}"
    yield ""
    yield (
        f"`python benchmarks/league_ablations.py {results['study']}`: {len(results['settings'])} variants, seeds "
        f"{', '.join(map(str, results['seeds']))}, one core each, {' '.join(results['budget'])}; "
        f"{results['matches']} matches per pair of final models. Means over seeds, with 95 % intervals."
    )
    yield ""
    rated = list(dict.fromkeys(who["player"] for who in results["entrants"] if who["variant"]))
    for player in rated:
        yield from _table(results, [player], figures=list(_COLUMNS))
        yield from _meetings(results, player)
    others = [player for player in _players(results) if player not in rated]
    yield from _table(results, others, figures=["generations", "decisions"])
    yield "| better, the paper says | than | player | figure | difference | here |"
    yield "|---|---|---|---|---|---|"
    for claim in results["claims"]:
        said = _told(claim, "{:+.1f}")
        names = (claim["better"], claim["worse"], claim["player"], claim["figure"])
        yield f"| {' | '.join(names)} | {said} | {claim['verdict']} |"
    yield ""
    shares = [100 * run["cpu_s"] / run["wall_s"] for run in runs]
    yield (
        f"Every difference has its own 95 % interval (Welch), whatever their number. "
        f"Trainings had {min(shares):.0f} to {max(shares):.0f} % of a core."
    )


def _table(results: Data, players: Sequence[str], *, figures: Sequence[str]) -> Iterator[str]:
    """Yield a table with a row per variant, and a column per player and figure unless it is 0 everywhere."""
    variants = results["variants"]
    columns = [
        (player, name)
        for player in players
        for name in figures
        if any(row[player].get(name, {"mean": 0})["mean"] for row in variants.values())
    ]
    if columns:
        one = players[0] if len(players) == 1 else ""
        titles = [_COLUMNS[name][0] if one else f"{player}: {_COLUMNS[name][0]}" for player, name in columns]
        yield f"| {one} | {' | '.join(titles)} |"
        yield f"|---|{'---|' * len(columns)}"
        for variant, row in variants.items():
            cells = [
                _told(row[player][name], _COLUMNS[name][1]) if name in row[player] else "" for player, name in columns
            ]
            yield f"| {variant} | {' | '.join(cells)} |"
        yield ""


def _meetings(results: Data, player: str) -> Iterator[str]:
    """Yield the table of what a player's final models got against everybody they met, seeds taken together."""
    rows = list(results["settings"])
    points, matches = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    known = {who["name"]: who for who in results["entrants"]}
    for first, second, wins, draws, losses in results["pairs"]:
        for name, other, won in ((first, second, wins), (second, first, losses)):
            if known[name]["player"] == player:
                pair = known[name]["variant"], known[other]["variant"] or other
                points[pair] += won + draws / 2
                matches[pair] += wins + draws + losses
    columns = [*rows, *(name for name, who in known.items() if not who["variant"])]
    columns = [column for column in columns if any(matches[row, column] for row in rows)]
    yield f"| points of {player} against | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for row in rows:
        met = [(points[row, column], matches[row, column]) for column in columns]
        yield f"| {row} | {' | '.join(f'{won / played:.2f}' if played else '' for won, played in met)} |"
    yield ""


def _told(value: Mapping[str, Any], form: str) -> str:
    """Return a mean with its interval."""
    mean, low, high = (None if value[key] is None else form.format(value[key]) for key in ("mean", "low", "high"))
    return f"{mean}" if low is None else f"{mean} [{low}, {high}]"


# --- files ------------------------------------------------------------------------------------------------------------


def write(results: Data, path: Path) -> None:
    """Write JSON, and beside it CSV (one line per point of a curve), Markdown and, with matplotlib, PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text("\n".join(markdown(results)) + "\n", encoding="utf-8")
    with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["variant", "seed", "player", "minutes", "decisions", "score"])
        for run, player, points in _curves(results):
            at = (run["variant"], run["seed"], player)
            rows.writerows([*at, point["minutes"], point["decisions"], point["score"]] for point in points)
    try:
        draw(results, path.with_suffix(".png"))
    except ModuleNotFoundError:
        print("no picture: pip install matplotlib")


def _curves(results: Data) -> Iterator[tuple[Data, str, list[Data]]]:
    for run in results["runs"]:
        for player, told in run["players"].items():
            if "curve" in told:
                yield run, player, told["curve"]


def draw(results: Data, path: Path) -> None:
    """Draw, for every player that was rated, ratings and the way there; generations where a rule told them."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - optional

    players = dict.fromkeys(player for _, player, _ in _curves(results))
    converged = any(told["converged"] for run in results["runs"] for told in run["players"].values())
    figure = Figure(figsize=(6 * (2 + converged), 4 * len(players)), layout="constrained")
    rows = figure.subplots(len(players), 2 + converged, squeeze=False)
    for axes, player in zip(rows, players, strict=True):
        _draw_ratings(axes[0], results, player)
        _draw_curves(axes[1], results, player)
        if converged:
            _draw_generations(axes[2], results, player)
    figure.suptitle(results["title"])
    figure.savefig(path, dpi=110)


def _draw_ratings(axes: Any, results: Data, player: str) -> None:
    """Draw one dot per seed, and mean and interval of every variant."""
    for place, (variant, figures) in enumerate(results["variants"].items()):
        found = figures[player]["rating"]
        seeds = [
            who["rating"]["elo"] for who in results["entrants"] if (who["variant"], who["player"]) == (variant, player)
        ]
        axes.plot(seeds, [place] * len(seeds), "o", color=f"C{place}", alpha=0.5)
        axes.plot(found["mean"], place, "|", color=f"C{place}", markersize=18)
        if found["low"] is not None:
            axes.plot([found["low"], found["high"]], [place, place], color=f"C{place}")
    axes.set_yticks(range(len(results["variants"])), list(results["variants"]))
    axes.invert_yaxis()
    axes.set(xlabel="Elo of the final models, 95 % interval over seeds", title=player)


def _draw_curves(axes: Any, results: Data, player: str) -> None:
    """Draw the mean share of points against scripted opponents over training time, and the range of the seeds."""
    times = np.linspace(0, max(points[-1]["minutes"] for _, _, points in _curves(results)), 100)
    for place, variant in enumerate(results["variants"]):
        lines = [
            np.interp(times, [point["minutes"] for point in points], [point["score"] for point in points])
            for run, who, points in _curves(results)
            if (run["variant"], who) == (variant, player)
        ]
        axes.plot(times, np.mean(lines, axis=0), color=f"C{place}", label=variant)
        axes.fill_between(times, np.min(lines, axis=0), np.max(lines, axis=0), color=f"C{place}", alpha=0.1)
    axes.set(xlabel="minutes of training", ylabel="share of points against scripted opponents", ylim=(0, 1))
    axes.legend(fontsize=7)


def _draw_generations(axes: Any, results: Data, player: str) -> None:
    """Draw how often everybody but the player (dashed) and the player had converged, one line per seed."""
    for place, variant in enumerate(results["variants"]):
        for run in results["runs"]:
            if run["variant"] == variant:
                for name, told in run["players"].items():
                    times = [0.0, *told["converged"], run["wall_s"] / 60]
                    counts = [*range(len(told["converged"]) + 1), len(told["converged"])]
                    axes.step(times, counts, where="post", color=f"C{place}", ls="-" if name == player else "--")
    axes.set(xlabel="minutes of training", ylabel="converged generations (others dashed)")
