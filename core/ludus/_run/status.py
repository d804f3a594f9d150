"""What a run says about itself: numbers for the sinks while it goes on, and a summary for programs at its end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ludus._league.statistics import Score, score
from ludus.launcher import learner_name
from ludus.metrics import Metric

if TYPE_CHECKING:
    from ludus._league.coordinator import Coordinator
    from ludus._league.league import League
    from ludus.matchmaker import PlayerView


def measure(coordinator: Coordinator) -> list[Metric]:
    """Return the numbers of this moment."""
    reported, players = coordinator.membership.metrics, coordinator.league.players
    values = {f"sampling/{name}": value for name, value in _sampling(reported).items()} | _services(reported)
    values["league/matches"] = coordinator.counts.training
    for player, view in players.items():
        values |= {f"league/{player}/{name}": value for name, value in _standing(coordinator, view).items()}
        values |= {f"learner/{player}/{name}": value for name, value in reported.get(learner_name(player), {}).items()}
    return [
        Metric(name=name, value=float(value), decisions=coordinator.decisions, elapsed_s=coordinator.league.elapsed_s)
        for name, value in values.items()
    ]


def _standing(coordinator: Coordinator, view: PlayerView) -> dict[str, float]:
    """Return a player's numbers; its rating and scores are those of its newest model, where there are any."""
    league, shares = coordinator.league, sum(other.share for other in coordinator.league.players.values())
    values = {
        "models": len(view.models),
        "generation": view.generation,
        "share": view.share / shares if shares else 0.0,  # of the ticks of training matches, as wanted
        "matches": coordinator.counts.by_player.get(view.name, 0),
        "ticks": coordinator.counts.ticks_by_player.get(view.name, 0),
        "decisions": view.decisions,
    }
    rating = league.rating(view.models[-1] if view.models else "")
    if rating.matches:
        values |= {"rating": rating.mean, "rating_deviation": rating.deviation}
    for anchor, result in _records(league, view, league.anchors).items():
        if result.matches:
            name = f"score_v_{anchor}"  # no anchor has a slash in its name, but one may end in _low
            values |= {name: result.score, f"{name}/low": result.low, f"{name}/high": result.high}
    return values


@define
class Standstill:
    """Notices that nothing is played or learned any more, or that what is played comes to nothing.

    Args:
        patience_s: So long nothing may move.
    """

    patience_s: float
    _moved_s: float = field(init=False, default=-math.inf)
    _counts: tuple[int, int] = field(init=False, default=(-1, -1))

    def notice(self, coordinator: Coordinator) -> str:
        """Return what to tell the person, once until something has moved again; an empty string else."""
        now, sampling = coordinator.clock(), _sampling(coordinator.membership.metrics)
        counts = (coordinator.decisions, coordinator.counts.training)
        if not sampling or sampling.get("decisions_per_s") or counts != self._counts:
            self._moved_s, self._counts = now, counts
        if now - self._moved_s < self.patience_s:
            return ""
        self._moved_s = math.inf
        ticks, waiting = (sampling.get(name, 0.0) for name in ("ticks_per_s", "waiting"))
        if ticks:
            return (
                f"no seat has acted and no match has ended for {self.patience_s:.0f} s: the environment plays "
                f"{ticks:,.0f} ticks/s, and has to let somebody act or end its matches"
            )
        who = "every sampler waits" if waiting == 1 else "some samplers wait"
        why = f"{who} for a learner" if waiting else "samplers have no matches, or do not get on with them"
        return f"nothing was played for {self.patience_s:.0f} s: {why}"


def summarize(coordinator: Coordinator) -> dict[str, Any]:
    """Return, as JSON values, every player's newest model against anchors and earlier models, and all its ratings."""
    league = coordinator.league
    return {
        "elapsed_s": coordinator.league.elapsed_s,
        "decisions": coordinator.decisions,
        "matches": coordinator.counts.training,
        "players": {
            player: {
                "newest": view.models[-1] if view.models else "",
                "models": len(view.models),
                "decisions": view.decisions,
                "ratings": [rating.mean for model in view.models if (rating := league.rating(model)).matches],
                "anchors": {name: result.json() for name, result in _records(league, view, league.anchors).items()},
                "milestones": {
                    name: result.json() for name, result in _records(league, view, milestones(view.models)).items()
                },
            }
            for player, view in league.players.items()
        },
    }


def milestones(models: tuple[str, ...]) -> tuple[str, ...]:
    """Return a few models before the newest, spread evenly over its history."""
    return tuple(models[i] for i in evenly(len(models) - 1, 4))


def evenly(count: int, most: int) -> list[int]:
    """Return at most `most` indices spread evenly over ``range(count)``, the first and the last included."""
    steps = min(count, most)
    return [round(i * (count - 1) / max(steps - 1, 1)) for i in range(steps)]


def _records(league: League, view: PlayerView, opponents: tuple[str, ...]) -> dict[str, Score]:
    """Return the scores of a player's newest model."""
    if not view.models:
        return {}
    counts = league.payoff(view.models[-1], opponents)
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
