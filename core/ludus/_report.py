"""What a run says about itself: numbers for the sinks and the display, lines in a log, and a summary."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from attrs import define, field, frozen

from ludus._columns import columns
from ludus._statistics import Score, score
from ludus.matchmaker import Rating
from ludus.metrics import Metric

if TYPE_CHECKING:
    from ludus._coordinator import Coordinator
    from ludus._league import League


@frozen(kw_only=True)
class PlayerReport:
    """One player's numbers.

    Attributes:
        name: The player.
        newest: Its newest frozen model, empty if none.
        models: How many it has frozen.
        generation: How often it has started anew.
        share: Its part of all training matches as the league wants it, in [0, 1].
        matches: Training matches that ended since the run was started or resumed.
        decisions: Decisions learned from.
        rating: Of the newest model; the prior without one.
        rating_history: Of every frozen model, oldest first.
        anchors: Record of the newest model against every anchor.
        milestones: Record of the newest model against a few earlier ones, spread evenly.
        learner: What its learner reported last.
    """

    name: str
    newest: str
    models: int
    generation: int
    share: float
    matches: int
    decisions: int
    rating: Rating
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
    services: dict[str, float] = field(factory=dict)

    def metrics(self) -> list[Metric]:
        """Return everything as metrics."""
        values = {f"sampling/{name}": value for name, value in self.sampling.items()} | self.services
        values["league/matches"] = float(self.matches)
        for player in self.players:
            for name in ("models", "generation", "share", "matches", "decisions"):
                values[f"league/{player.name}/{name}"] = float(getattr(player, name))
            values |= {f"learner/{player.name}/{name}": value for name, value in player.learner.items()}
            if player.rating.matches:
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
    players, shares = [], sum(view.share for view in league.players.values())
    for name, view in league.players.items():
        newest = view.models[-1] if view.models else ""
        players.append(
            PlayerReport(
                name=name,
                newest=newest,
                models=len(view.models),
                generation=view.generation,
                share=view.share / shares if shares else 0.0,
                matches=coordinator.trained.get(name, 0),
                decisions=view.decisions,
                rating=league.rating(newest),
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
        services=_services(coordinator.values),
    )


def milestones(models: tuple[str, ...]) -> tuple[str, ...]:
    """Return a few models before the newest, spread evenly over its history."""
    return tuple(models[i] for i in evenly(len(models) - 1, 4)) if len(models) > 1 else ()


def _records(league: League, newest: str, opponents: tuple[str, ...]) -> dict[str, Score]:
    if not newest:
        return {}
    counts = league.payoff(newest, opponents)
    return {name: score(*(int(n) for n in row)) for name, row in zip(opponents, counts, strict=True)}


def _services(values: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return what services say, under their names."""
    services = {worker: numbers for worker, numbers in values.items() if worker.startswith("service-")}
    return {f"{worker}/{name}": value for worker, numbers in services.items() for name, value in numbers.items()}


def _sampling(values: dict[str, dict[str, float]]) -> dict[str, float]:
    """Add rates up over samplers, average the rest."""
    samplers = [numbers for worker, numbers in values.items() if worker.startswith("sampler")]
    names = {name for numbers in samplers for name in numbers}
    combined: dict[str, float] = {}
    for name in sorted(names):
        present = [numbers[name] for numbers in samplers if name in numbers]
        combined[name] = sum(present) if name.endswith("_per_s") else sum(present) / len(present)
    return combined


@define
class QuietReporter:
    """Keeps what it is told; for tests and ``--json``."""

    lines: list[str] = field(factory=list)

    def say(self, line: str) -> None:
        """Keep the line."""
        self.lines.append(line)

    def show(self, snapshot: Snapshot) -> None:
        """Do nothing."""


@define
class ConsoleReporter:
    """Prints lines; numbers too, every ten seconds, unless a metric sink shows them."""

    numbers: bool = True
    every_s: float = 10.0
    _shown_s: float = field(init=False, default=-1e9)

    def say(self, line: str) -> None:
        """Print the line."""
        click.echo(line)

    def show(self, snapshot: Snapshot) -> None:
        """Print a line for every player when it is time."""
        if self.numbers and time.monotonic() - self._shown_s > self.every_s:
            self._shown_s = time.monotonic()
            for player in snapshot.players:
                click.echo(_line(snapshot, player))


#: Shows a run to a person.
Reporter: TypeAlias = QuietReporter | ConsoleReporter


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
    if player.rating.matches:
        parts.append(f"{player.newest} rated {player.rating.mean:.0f} ± {2 * player.rating.deviation:.0f}")
    for name, result in player.anchors.items():
        if result.matches:
            parts.append(f"v {name} {result.score:.0%} [{result.low:.0%}, {result.high:.0%}]")
    return "  ".join(parts)


def summary(snapshot: Snapshot) -> str:
    """Return what is printed at the end of a run: every player's newest model against anchors and earlier models."""
    title = f"{snapshot.elapsed_s:.0f} s, {snapshot.decisions:,} decisions, {snapshot.matches:,} training matches"
    return "\n".join([title, *(line for player in snapshot.players for line in _record(player))])


def _record(player: PlayerReport) -> Iterator[str]:
    if not player.newest:
        yield f"{player.name}: no model frozen yet"
        return
    rows: list[tuple[str, ...]] = [(player.newest, "matches", "wins", "draws", "losses", "score", "95 % interval")]
    for opponent, result in (player.anchors | player.milestones).items():
        if result.matches:
            counts = [str(n) for n in (result.matches, result.wins, result.draws, result.losses)]
            interval = f"{result.low:.1%} to {result.high:.1%}"
            rows.append((f"against {opponent}", *counts, f"{result.score:.1%}", interval))
    yield columns(rows, numbers=True)
    history = [rating for rating in player.rating_history if rating.matches]
    if len(history) > 1:
        chosen = [history[i] for i in evenly(len(history), 8)]
        rise = " → ".join(f"{rating.mean:.0f}" for rating in chosen)
        yield f"rating {rise} (± {2 * chosen[-1].deviation:.0f})"


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
