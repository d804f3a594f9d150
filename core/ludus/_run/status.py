"""Metrics of a running league, detection of stalls, and the summary of a finished session."""

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


def collect_metrics(coordinator: Coordinator) -> list[Metric]:
    """Return the metrics of this moment."""
    reported, players = coordinator.membership.metrics, coordinator.league.players
    values = {f"sampling/{name}": value for name, value in _sampling_metrics(reported).items()}
    values |= _service_metrics(reported)
    values["league/matches"] = coordinator.counts.training
    for player, view in players.items():
        values |= _player_metrics(coordinator, view)
        values |= {f"learner/{player}/{name}": value for name, value in reported.get(learner_name(player), {}).items()}
    return [
        Metric(name=name, value=float(value), decisions=coordinator.decisions, elapsed_s=coordinator.league.elapsed_s)
        for name, value in values.items()
    ]


def _player_metrics(coordinator: Coordinator, view: PlayerView) -> dict[str, float]:
    """Return the metrics of a player; rating and scores are those of its newest model."""
    player = view.name
    league, shares = coordinator.league, sum(other.share for other in coordinator.league.players.values())
    values = {
        f"league/{player}/models": len(view.models),
        f"league/{player}/generation": view.generation,
        f"league/{player}/share": view.share / shares if shares else 0.0,  # of the ticks of training matches
        f"league/{player}/matches": coordinator.counts.by_player.get(player, 0),
        f"league/{player}/ticks": coordinator.counts.ticks_by_player.get(player, 0),
        f"league/{player}/decisions": view.decisions,
    }
    rating = league.rating(view.models[-1] if view.models else "")
    if rating.matches:
        values |= {
            f"league/{player}/rating": rating.mean,
            f"league/{player}/rating_deviation": rating.deviation,
        }
    for anchor, result in _scores_of_newest(league, view, league.anchors).items():
        if result.matches:
            # a slash separates the bounds, as the name of an anchor may end in _low but contains no slash
            values |= {
                f"league/{player}/score_v_{anchor}": result.score,
                f"league/{player}/score_v_{anchor}/low": result.low,
                f"league/{player}/score_v_{anchor}/high": result.high,
            }
    return values


@define
class StallWatchdog:
    """Detects that nothing is played or learned any more, or that what is played produces no decisions.

    Args:
        timeout_s: Seconds without progress after which a stall is reported.
    """

    timeout_s: float
    _progress_s: float = field(init=False, default=-math.inf)
    _counts: tuple[int, int] = field(init=False, default=(-1, -1))

    def check(self, coordinator: Coordinator) -> str:
        """Return a warning once per stall; empty otherwise."""
        now, sampling = coordinator.clock(), _sampling_metrics(coordinator.membership.metrics)
        counts = (coordinator.decisions, coordinator.counts.training)
        if not sampling or sampling.get("decisions_per_s") or counts != self._counts:
            self._progress_s, self._counts = now, counts
        if now - self._progress_s < self.timeout_s:
            return ""
        self._progress_s = math.inf
        ticks, waiting = (sampling.get(name, 0.0) for name in ("ticks_per_s", "waiting"))
        if ticks:
            return (
                f"no seat has acted and no match has ended for {self.timeout_s:.0f} s: the environment plays "
                f"{ticks:,.0f} ticks/s; expected seats that act, or matches that end"
            )
        samplers = "every sampler waits" if waiting == 1 else "some samplers wait"
        reason = f"{samplers} for a learner" if waiting else "samplers have no matches, or make no progress in them"
        return f"nothing was played for {self.timeout_s:.0f} s: {reason}"


def summarize(coordinator: Coordinator) -> dict[str, Any]:
    """Return a summary as JSON values: counts, ratings, and the scores of every player's newest model."""
    league = coordinator.league
    return {
        "elapsed_s": coordinator.league.elapsed_s,
        "decisions": coordinator.decisions,
        "matches": coordinator.counts.training,
        "players": {player: _summarize_player(league, view) for player, view in league.players.items()},
    }


def _summarize_player(league: League, view: PlayerView) -> dict[str, Any]:
    ratings = [league.rating(model) for model in view.models]
    anchors = _scores_of_newest(league, view, league.anchors)
    earlier = _scores_of_newest(league, view, earlier_models(view.models))
    return {
        "newest": view.models[-1] if view.models else "",
        "models": len(view.models),
        "decisions": view.decisions,
        "ratings": [rating.mean for rating in ratings if rating.matches],
        "anchors": {name: result.json() for name, result in anchors.items()},
        "milestones": {name: result.json() for name, result in earlier.items()},
    }


def earlier_models(models: tuple[str, ...]) -> tuple[str, ...]:
    """Return up to four models before the newest, spread evenly over the player's history."""
    return tuple(models[i] for i in spread_evenly(len(models) - 1, 4))


def spread_evenly(count: int, most: int) -> list[int]:
    """Return at most `most` indices spread evenly over ``range(count)``, including the first and the last."""
    steps = min(count, most)
    return [round(i * (count - 1) / max(steps - 1, 1)) for i in range(steps)]


def _scores_of_newest(league: League, view: PlayerView, opponents: tuple[str, ...]) -> dict[str, Score]:
    """Return the scores of a player's newest model against opponents."""
    if not view.models:
        return {}
    counts = league.payoff(view.models[-1], opponents)
    return {name: score(*(int(n) for n in row)) for name, row in zip(opponents, counts, strict=True)}


def _service_metrics(values: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the metrics that services report."""
    services = {worker: numbers for worker, numbers in values.items() if worker.startswith("service-")}
    return {f"{worker}/{name}": value for worker, numbers in services.items() for name, value in numbers.items()}


def _sampling_metrics(values: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the metrics of all samplers: rates are added up, other values averaged."""
    samplers = [numbers for worker, numbers in values.items() if worker.startswith("sampler")]
    names = {name for numbers in samplers for name in numbers}
    combined: dict[str, float] = {}
    for name in sorted(names):
        present = [numbers[name] for numbers in samplers if name in numbers]
        combined[name] = sum(present) if name.endswith("_per_s") else sum(present) / len(present)
    return combined
