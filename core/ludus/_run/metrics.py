"""Collect the metrics of a running league, and report them to the metric file and to sinks."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ludus._config.section_reader import SelectedComponent
from ludus._config.sections import RunConfig
from ludus._league.statistics import Score, mean_of, score
from ludus._plugins.manager import Plugins
from ludus._run.factories import make
from ludus._run.metric_file import MetricFile
from ludus._sampling.match_state import RETURN
from ludus.launcher import learner_name
from ludus.metrics import Metric, MetricSink

if TYPE_CHECKING:
    from ludus._league.coordinator import Coordinator
    from ludus._league.league import League
    from ludus.matchmaker import PlayerView


_UNRATED = 16  # newest models that may be unrated while the rating of an older one is reported


def collect_metrics(coordinator: Coordinator) -> list[Metric]:
    """Return the metrics of this moment."""
    reported, league = coordinator.membership.metrics, coordinator.league
    values = _prefixed("sampling", _sampling_metrics(reported))
    for worker, numbers in reported.items():
        if worker.startswith("service-"):
            values |= _prefixed(worker, numbers)
    values["league/progress"] = league.progress
    values["league/matches"] = coordinator.counts.training
    values["league/refused_messages"] = coordinator.refusals.total
    values["league/quarantined_hosts"] = len(coordinator.quarantine.hosts)
    for player, view in league.players.items():
        values |= _prefixed(f"league/{player}", _player_metrics(coordinator, view))
        values |= _prefixed(f"learner/{player}", reported.get(learner_name(player), {}))
    return [
        Metric(name=name, value=float(value), decisions=league.decisions, elapsed_s=league.elapsed_s)
        for name, value in values.items()
    ]


def _prefixed(prefix: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{prefix}/{name}": value for name, value in values.items()}


def _player_metrics(coordinator: Coordinator, view: PlayerView) -> dict[str, float]:
    """Return the metrics of a player: scores of its newest model, and the rating of the newest one that is rated."""
    league, counts = coordinator.league, coordinator.counts
    shares = sum(other.share for other in league.players.values())
    values = {
        "models": view.num_frozen,
        "generation": view.generation,
        "share": view.share / shares if shares else 0.0,  # of the ticks of training matches
        "matches": counts.by_player.get(view.name, 0),
        "ticks": counts.ticks_by_player.get(view.name, 0),
        "decisions": view.decisions,
    }
    for number in range(view.num_frozen, max(0, view.num_frozen - _UNRATED), -1):
        rating = league.rating(f"{view.name}@{number}")
        if rating.matches:
            values |= {"rating": rating.mean, "rating_deviation": rating.deviation, "rated_model": number}
            break
    for anchor, result in _scores_of_newest(league, view, league.anchors).items():
        if result.matches:
            # a slash separates the bounds, as the name of an anchor may end in _low but contains no slash
            score_name = f"score_v_{anchor}"
            values |= {score_name: result.score, **_prefixed(score_name, {"low": result.low, "high": result.high})}
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
        counts = (coordinator.league.decisions, coordinator.counts.training)
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
        "decisions": coordinator.league.decisions,
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
        "returns": _returns(league, (*view.models[-1:], *earlier_models(view.models), *league.anchors)),
        "milestones": {name: result.json() for name, result in earlier.items()},
    }


def _returns(league: League, participants: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return mean returns in evaluation matches by participant and role, as JSON values; empty if not logged."""
    found: dict[str, dict[str, Any]] = {}
    for participant in participants:
        for key, statistic in league.statistics(participant).items():
            role, _, name = key.partition("/")
            if name == RETURN:
                found.setdefault(participant, {})[role] = mean_of(statistic).json()
    return found


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


def _sampling_metrics(values: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the metrics of all samplers: rates are added up, other values averaged."""
    samplers = [numbers for worker, numbers in values.items() if worker.startswith("sampler")]
    names = {name for numbers in samplers for name in numbers}
    combined: dict[str, float] = {}
    for name in sorted(names):
        present = [numbers[name] for numbers in samplers if name in numbers]
        combined[name] = sum(present) if name.endswith("_per_s") else sum(present) / len(present)
    return combined


_MAX_LOAD = 0.05  # maximum share of the time that is spent on reports


@define
class MetricReporter:
    """Reports metrics at regular intervals, and warns of stalls.

    A sink that raises is closed and gets no more metrics; the metric file of the run is not such a sink.

    Args:
        config: Configuration of the run.
        plugins: The installed plugins, which receive an event for every report.
        run_dir: The run folder.
        print_line: Prints one line for the user.
    """

    config: RunConfig
    plugins: Plugins
    run_dir: Path
    print_line: Callable[[str], None]
    _file: MetricFile = field(init=False)
    _sinks: list[tuple[str, MetricSink]] = field(init=False, factory=list)
    _due_s: float = field(init=False, default=0.0)
    _watchdog: StallWatchdog = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._file = MetricFile(self.run_dir / "metrics.jsonl", full_s=self.config.metrics.full_hours * 3600)
        self._watchdog = StallWatchdog(self.config.run.stall_s)

    def open_sinks(self, sinks: Iterable[SelectedComponent]) -> None:
        """Make the metric sinks.

        Raises:
            PluginError: A factory raised.
        """
        for sink in sinks:
            self._sinks.append((sink.name, make(sink, run_dir=self.run_dir)))

    def report_if_due(self, coordinator: Coordinator) -> None:
        """Report the metrics if the interval has passed, and print a warning if the run has stalled."""
        if time.monotonic() < self._due_s:
            return
        self.report(coordinator)
        if warning := self._watchdog.check(coordinator):
            logs = f"see {self.run_dir / 'logs'}, or " if self.config.run.workers else ""
            self.print_line(f"{warning}; {logs}stop and `ludus resume {shlex.quote(str(self.run_dir))}`")

    def report(self, coordinator: Coordinator) -> None:
        """Report the metrics of this moment.

        Raises:
            OSError: The metric file of the run cannot be written.
        """
        started_s = time.monotonic()
        metrics = collect_metrics(coordinator)
        self._file.write(metrics)
        for name, sink in list(self._sinks):
            with self._drop_on_error(name, sink):
                sink.write(metrics)
        self.plugins.emit("ludus_metrics_reported", metrics=metrics)
        # with tens of thousands of models a report takes seconds, as all ratings are computed again
        now_s = time.monotonic()
        self._due_s = now_s + max(self.config.metrics.interval_s, (now_s - started_s) / _MAX_LOAD)

    def close(self) -> None:
        """Close the metric file and all sinks."""
        self._file.close()
        for name, sink in list(self._sinks):
            with self._drop_on_error(name, sink):
                sink.close()

    @contextmanager
    def _drop_on_error(self, name: str, sink: MetricSink) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything, even exit
            self._sinks = [other for other in self._sinks if other[1] is not sink]
            self.print_line(f"metric sink {name!r} failed: {type(error).__name__}: {error} — it gets no more metrics")
