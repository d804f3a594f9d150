"""What a run says about itself: numbers for the sinks, a live table in a terminal, lines in a log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, field, frozen

from ludus._statistics import Score, score
from ludus.matchmaker import Rating
from ludus.metrics import Metric

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table

    from ludus._coordinator import Coordinator
    from ludus._league import League

__all__ = [
    "ConsoleReporter",
    "PlayerReport",
    "QuietReporter",
    "Reporter",
    "Snapshot",
    "measure",
    "summary",
    "summary_json",
]


@frozen(kw_only=True)
class PlayerReport:
    """One player's numbers.

    Attributes:
        name: The player.
        newest: Its newest frozen model, empty if none.
        models: How many it has frozen.
        decisions: Decisions learned from.
        rating: Of the newest model.
        rating_history: Of every frozen model, oldest first.
        anchors: Record of the newest model against every anchor.
        milestones: Record of the newest model against a few earlier ones, spread evenly.
        learner: What its learner reported last.
    """

    name: str
    newest: str
    models: int
    decisions: int
    rating: Rating | None
    rating_history: tuple[Rating, ...]
    anchors: dict[str, Score]
    milestones: dict[str, Score]
    learner: dict[str, float]


@frozen(kw_only=True)
class Snapshot:
    """The numbers of a moment."""

    elapsed_s: float
    decisions: int
    matches: int
    players: tuple[PlayerReport, ...]
    sampling: dict[str, float] = field(factory=dict)

    def metrics(self) -> list[Metric]:
        """Return everything as metrics."""
        values = {f"sampling/{name}": value for name, value in self.sampling.items()}
        values["league/matches"] = float(self.matches)
        for player in self.players:
            values[f"league/{player.name}/models"] = float(player.models)
            values |= {f"learner/{player.name}/{name}": value for name, value in player.learner.items()}
            if player.rating is not None and player.rating.matches:
                values[f"league/{player.name}/rating"] = player.rating.mean
                values[f"league/{player.name}/rating_deviation"] = player.rating.deviation
            for anchor, result in player.anchors.items():
                if result.matches:
                    values[f"league/{player.name}/score_v_{anchor}"] = result.score
                    values[f"league/{player.name}/score_v_{anchor}_low"] = result.low
                    values[f"league/{player.name}/score_v_{anchor}_high"] = result.high
        return [
            Metric(name=name, value=value, decisions=self.decisions, elapsed_s=self.elapsed_s)
            for name, value in values.items()
        ]


def measure(coordinator: Coordinator) -> Snapshot:
    """Return the numbers of this moment."""
    league = coordinator.league
    players = []
    for name, view in league.players.items():
        newest = view.models[-1] if view.models else ""
        players.append(
            PlayerReport(
                name=name,
                newest=newest,
                models=len(view.models),
                decisions=view.decisions,
                rating=league.rating(newest) if newest else None,
                rating_history=tuple(league.rating(model) for model in view.models),
                anchors=_records(league, newest, league.anchors),
                milestones=_records(league, newest, milestones(view.models)),
                learner=coordinator.values.get(f"learner-{name}", {}),
            )
        )
    return Snapshot(
        elapsed_s=coordinator.elapsed_s,
        decisions=coordinator.decisions,
        matches=coordinator.matches,
        players=tuple(players),
        sampling=_sampling(coordinator.values),
    )


def milestones(models: tuple[str, ...]) -> tuple[str, ...]:
    """Return a few models before the newest, spread evenly over its history."""
    return tuple(models[i] for i in evenly(len(models) - 1, 4)) if len(models) > 1 else ()


def _records(league: League, newest: str, opponents: tuple[str, ...]) -> dict[str, Score]:
    if not newest:
        return {}
    counts = league.payoff(newest, opponents)
    return {name: score(*(int(n) for n in row)) for name, row in zip(opponents, counts, strict=True)}


def _sampling(values: dict[str, dict[str, float]]) -> dict[str, float]:
    """Add rates up over samplers, average the rest."""
    samplers = [numbers for worker, numbers in values.items() if worker.startswith("sampler")]
    names = {name for numbers in samplers for name in numbers}
    combined: dict[str, float] = {}
    for name in sorted(names):
        present = [numbers[name] for numbers in samplers if name in numbers]
        combined[name] = sum(present) if name.endswith("_per_s") else sum(present) / len(present)
    return combined


class Reporter(Protocol):
    """Shows a run to a person."""

    def start(self) -> None:
        """Start showing."""

    def stop(self) -> None:
        """Stop showing; `say` still works."""

    def say(self, line: str) -> None:
        """Tell one line."""

    def show(self, snapshot: Snapshot) -> None:
        """Show the newest numbers."""


@define
class QuietReporter:
    """Keeps what it is told; for tests and ``--json``."""

    lines: list[str] = field(factory=list)

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def say(self, line: str) -> None:
        """Keep the line."""
        self.lines.append(line)

    def show(self, snapshot: Snapshot) -> None:
        """Do nothing."""


@define
class ConsoleReporter:
    """A live table in a terminal; elsewhere one line every ten seconds."""

    console: Console
    every_s: float = 10.0
    _live: Live | None = field(init=False, default=None)
    _shown_s: float = field(init=False, default=-1e9)

    def start(self) -> None:
        """Start the live table."""
        if self.console.is_terminal:
            from rich.live import Live  # noqa: PLC0415 - only a terminal needs it

            self._live = Live(console=self.console, refresh_per_second=4, transient=True)
            self._live.start()

    def stop(self) -> None:
        """Take the live table away."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, line: str) -> None:
        """Print the line above the table."""
        self.console.print(line, highlight=False, markup=False)

    def show(self, snapshot: Snapshot) -> None:
        """Refresh the table, or print a line when it is time."""
        if self._live is not None:
            self._live.update(_table(snapshot))
        elif time.monotonic() - self._shown_s > self.every_s:
            self._shown_s = time.monotonic()
            for player in snapshot.players:
                self.console.print(_line(snapshot, player), highlight=False, markup=False, soft_wrap=True)


def _line(snapshot: Snapshot, player: PlayerReport) -> str:
    learner = player.learner
    parts = [
        f"{snapshot.elapsed_s:6.0f} s",
        player.name,
        f"{player.decisions:,} decisions",
        f"{snapshot.sampling.get('decisions_per_s', 0):,.0f}/s played",
        f"{learner.get('samples_per_s', 0):,.0f}/s learned",
        f"staleness {learner.get('staleness_mean', 0):.1f}",
        f"entropy {learner.get('entropy', float('nan')):.2f}",
    ]
    if player.newest:
        rating = player.rating
        if rating is not None and rating.matches:
            parts.append(f"{player.newest} rated {rating.mean:.0f} ± {2 * rating.deviation:.0f}")
        parts += [f"v {name} {_percent(result)}" for name, result in player.anchors.items() if result.matches]
    return "  ".join(parts)


def _percent(result: Score) -> str:
    return f"{result.score:.0%} [{result.low:.0%}, {result.high:.0%}]"


def _table(snapshot: Snapshot) -> Table:
    from rich.table import Table  # noqa: PLC0415 - only a terminal needs it

    table = Table(title=f"{snapshot.elapsed_s:.0f} s · {snapshot.matches:,} matches", title_justify="left")
    table.add_column("")
    for player in snapshot.players:
        table.add_column(player.name, justify="right")
    rows: dict[str, list[str]] = {}
    for player in snapshot.players:
        for label, text in _cells(snapshot, player).items():
            rows.setdefault(label, []).append(text)
    for label, cells in rows.items():
        table.add_row(label, *cells)
    return table


def _cells(snapshot: Snapshot, player: PlayerReport) -> dict[str, str]:
    learner = player.learner

    def number(name: str, style: str = ",.0f") -> str:
        return format(learner[name], style) if name in learner else "-"

    cells = {
        "decisions learned from": f"{player.decisions:,}",
        "ticks/s played": f"{snapshot.sampling.get('ticks_per_s', 0):,.0f}",
        "decisions/s played": f"{snapshot.sampling.get('decisions_per_s', 0):,.0f}",
        "samples/s learned": number("samples_per_s"),
        "updates/s": number("updates_per_s", ".1f"),
        "staleness mean, max": f"{number('staleness_mean', '.1f')}, {number('staleness_max')}",
        "sample reuse": number("sample_reuse", ".2f"),
        "queued blocks": number("queue_blocks"),
        "policy loss": number("policy_loss", ".4f"),
        "value loss": number("value_loss", ".4f"),
        "entropy": number("entropy", ".3f"),
        "approximate KL": number("approx_kl", ".4f"),
        "clip fraction": number("clip_fraction", ".3f"),
        "explained variance": number("explained_variance", ".2f"),
        "return per match": f"{snapshot.sampling.get('return_mean', float('nan')):.2f}",
        "frozen models": str(player.models),
    }
    drops = [f"{name.removeprefix('dropped_')} {n:,.0f}" for name, n in learner.items() if name.startswith("dropped_")]
    cells["dropped"] = ", ".join(drops) or "-"
    rating = player.rating
    cells["rating of newest"] = f"{rating.mean:.0f} ± {2 * rating.deviation:.0f}" if rating and rating.matches else "-"
    for anchor, result in player.anchors.items():
        cells[f"score v {anchor}"] = _percent(result) if result.matches else "-"
    return cells


def summary(snapshot: Snapshot) -> Group:
    """Return what is printed at the end of a run: every player's newest model against anchors and earlier models."""
    from rich.console import Group  # noqa: PLC0415 - only the end of a run needs it

    title = f"{snapshot.elapsed_s:.0f} s, {snapshot.decisions:,} decisions, {snapshot.matches:,} training matches"
    return Group(title, *(_record(player) for player in snapshot.players))


def _record(player: PlayerReport) -> Table | str:
    from rich.table import Table  # noqa: PLC0415 - as above

    if not player.newest:
        return f"{player.name}: no model frozen yet"
    table = Table(title=player.newest, title_justify="left", caption_justify="left")
    table.add_column("against", no_wrap=True)
    for column in ("matches", "wins", "draws", "losses", "score", "95 % interval"):
        table.add_column(column, justify="right", no_wrap=True)
    for opponent, result in (player.anchors | player.milestones).items():
        if result.matches:
            cells = [str(n) for n in (result.matches, result.wins, result.draws, result.losses)]
            table.add_row(opponent, *cells, f"{result.score:.1%}", f"{result.low:.1%} to {result.high:.1%}")
    history = [rating for rating in player.rating_history if rating.matches]
    if len(history) > 1:
        table.caption = f"rating {_rise(history)}"
    return table


def _rise(history: list[Rating]) -> str:
    """Return some ratings along the history, first and last included."""
    chosen = [history[i] for i in evenly(len(history), 8)]
    return " → ".join(f"{rating.mean:.0f}" for rating in chosen) + f" (± {2 * chosen[-1].deviation:.0f})"


def evenly(count: int, most: int) -> list[int]:
    """Return at most `most` indices spread evenly over ``range(count)``, the first and the last included."""
    steps = min(count, most)
    return [round(i * (count - 1) / max(steps - 1, 1)) for i in range(steps)]


def summary_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return the same as JSON values."""
    return {
        "elapsed_s": snapshot.elapsed_s,
        "decisions": snapshot.decisions,
        "matches": snapshot.matches,
        "players": {
            player.name: {
                "newest": player.newest,
                "models": player.models,
                "decisions": player.decisions,
                "ratings": [rating.mean for rating in player.rating_history],
                "anchors": {anchor: result.json() for anchor, result in player.anchors.items()},
                "milestones": {model: result.json() for model, result in player.milestones.items()},
            }
            for player in snapshot.players
        },
    }
