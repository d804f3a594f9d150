"""``ludus report``: the scores and ratings of the newest models, as ``ludus train`` prints them at the end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from ludus.matchmaker import Rating
from ludus.runs import Run, earlier_models, open_run, spread_evenly
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from ludus_terminal.output import output_width
from ludus_terminal.returns import returns_json, returns_table, rule_of
from ludus_terminal.views import NEAR, printable, records_json

__all__ = ["report"]

_MAX_RATINGS = 8  # ratings shown of a player's history


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, complete and unrounded.")
def report(run: Path, *, as_json: bool) -> None:
    """Show the scores of every player's newest model against anchors and other models, and the rating history."""
    with open_run(run) as opened:
        data = _data(opened)
    if as_json:
        click.echo(json.dumps(data, indent=2, default=_rating))
        return
    console = Console(highlight=False, width=output_width())
    for part in _show(printable(data)):
        console.print(part)


def _data(run: Run) -> dict[str, Any]:
    counters = run.counters()
    return {
        "elapsed_s": counters.get("elapsed_s", 0.0),
        "decisions": sum(player.decisions for player in run.league.players.values()),
        "matches": int(counters.get("matches", 0)),
        "teams": run.league.num_teams,
        "rule": rule_of(run),
        "players": {name: _player(run, name) for name in run.league.players},
    }


def _player(run: Run, name: str) -> dict[str, Any]:
    league, models = run.league, run.league.players[name].models
    newest = models[-1] if models else ""
    opponents = (*league.anchors, *earlier_models(models), *_newest_of_others(run, name))
    records = records_json(run, newest, opponents) if newest else {}
    ratings = [league.rating(model) for model in models]
    return {
        "newest": newest,
        "records": {opponent: record for opponent, record in records.items() if record["score"] is not None},
        "returns": _returns(run, newest, opponents) if newest else [],
        "ratings": [rating if rating.matches else None for rating in ratings],
    }


def _newest_of_others(run: Run, player: str) -> list[str]:
    """Return the newest models of the other players."""
    return [model for view in run.league.players.values() if view.name != player for model in view.models[-1:]]


def _returns(run: Run, newest: str, others: Sequence[str]) -> list[dict[str, Any]]:
    """Return the mean returns of all participants in a game of one team, else those of the newest model by opponent."""
    return returns_json(run, (newest, *others) if run.league.num_teams == 1 else (newest,), others)


def _rating(rating: Rating) -> dict[str, float]:
    """Return a rating as JSON values. Reading a deviation may take long, so only those shown are read."""
    return {"mean": rating.mean, "deviation": rating.deviation}


def _show(data: dict[str, Any]) -> Iterable[RenderableType]:
    yield f"{data['elapsed_s']:.0f} s, {data['decisions']:,} decisions, {data['matches']:,} training matches"
    for name, player in data["players"].items():
        if not player["newest"]:
            yield f"{escape(name)}: no model frozen yet"
            continue
        if player["returns"]:
            yield returns_table(player["returns"])
        if player["records"] or not player["returns"]:
            yield _records(player) if player["records"] else _unrated(player["newest"], teams=data["teams"])
        if len(player["ratings"]) > 1 and any(player["ratings"]):
            yield _rating_history(player["ratings"])
    if data["rule"]:
        yield escape(f"score: {data['rule']}")


def _rating_history(ratings: Sequence[Rating | None]) -> str:
    """Return a line of ratings spread evenly over all models of a player; a model without a rating is a ``?``."""
    shown = [ratings[i] for i in spread_evenly(len(ratings), _MAX_RATINGS)]
    history = " → ".join("?" if rating is None else f"{rating.mean:.0f}" for rating in shown)
    last = next(rating for rating in reversed(ratings) if rating is not None)
    return f"rating {history} (± {NEAR * last.deviation:.0f})"


def _unrated(model: str, *, teams: int) -> str:
    name = escape(model)
    if teams > 1:
        return f"{name}: no evaluation matches"
    return f"{name}: no evaluation matches; ludus eval RUN {name} measures its return"


def _records(player: dict[str, Any]) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    shown.add_column(escape(player["newest"]))
    for column in ("matches", "wins", "draws", "losses", "score", "95 % interval"):
        shown.add_column(column, justify="right")
    for opponent, record in player["records"].items():
        counts = [record[name] for name in ("wins", "draws", "losses")]
        low, high = record["interval"]
        numbers = [f"{sum(counts)}", *map(str, counts), f"{record['score']:.1%}", f"{low:.1%} to {high:.1%}"]
        shown.add_row(escape(f"against {opponent}"), *numbers)
    return shown
