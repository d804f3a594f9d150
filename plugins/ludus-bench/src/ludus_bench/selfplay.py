"""``selfplay``: a whole run in its real processes, next to the limit that its parts set on these cores."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from attrs import evolve, frozen

from ludus_bench._setup import Setup, available_cores, oversubscription
from ludus_bench.machine import describe_machine, limit_threads
from ludus_bench.parts import TrainerPart, policy_task, rows_of
from ludus_bench.random_play import RandomPlay
from ludus_bench.report import Figure, Limit, Report, rate_figure
from ludus_bench.timing import Clock, Plan, Rate, Stopwatch, Task, harmonic, measure, summarize
from ludus_bench.watched_run import WatchedRun, cores_between, mean_metrics, rates, start_run

_TURNS = 5


@frozen(kw_only=True)
class Shape:
    """Distribution of a run over processes and threads; None or 0: as configured.

    Args:
        workers: Number of sampler processes.
        matches: Matches of each sampler.
        learner_threads: Threads of each learner.
    """

    workers: int | None = None
    matches: int | None = None
    learner_threads: int = 0

    @property
    def sections(self) -> dict[str, dict[str, Any]]:
        """Return the values to replace in a configuration, by section; the run gets no limit of its own."""
        run: dict[str, Any] = {"minutes": 0.0, "decisions": 0}
        if self.workers is not None:
            run["workers"] = self.workers
        if self.learner_threads:
            run["learner_threads"] = self.learner_threads
        sections: dict[str, dict[str, Any]] = {"run": run, "metrics": {"interval_s": 0.25}}
        if self.matches:
            sections["sampling"] = {"matches": self.matches}
        return sections


@frozen(kw_only=True)
class RunWindow:
    """Measurements of a run in a window of time.

    Args:
        per_s: Trained decisions per second in equal parts of the window.
        cores: CPU seconds per second of all processes.
        values: Further measurements; the README explains the names.
    """

    per_s: tuple[float, ...]
    cores: float
    values: Mapping[str, float]

    @classmethod
    def join(cls, windows: Sequence[RunWindow]) -> RunWindow:
        """Return several windows of equal length as one."""
        series = {name: [window.values[name] for window in windows] for name in windows[0].values}
        return cls(
            per_s=tuple(rate for window in windows for rate in window.per_s),
            cores=statistics.mean(window.cores for window in windows),
            values={name: (max if name == "peak_rss_mb" else statistics.mean)(each) for name, each in series.items()},
        )


def bench_selfplay(setup: Setup, *, shape: Shape, seconds: float, warmup_s: float, plan: Plan) -> Report:
    """Measure a run and its parts in turns; the run is stopped while the parts are measured.

    Other load on the machine then affects both alike.

    Args:
        setup: Configuration to measure.
        shape: Distribution of the run.
        seconds: Length of the measured window, all turns together.
        warmup_s: Seconds from the first trained decisions to the window.
        plan: Duration of the measurements of the parts, all turns together.

    Raises:
        RunError: The run ended early.
    """
    matches = shape.matches or setup.config.sampling.matches
    turns = max(1, min(_TURNS, int(seconds)))
    plan = evolve(plan, repeats=math.ceil(plan.repeats / turns))
    windows: list[RunWindow] = []
    part_rates: list[PartRates] = []
    with (
        limit_threads(1),
        closing(SelfplayParts(setup, matches=matches, clock=plan.clock)) as parts,
        start_run(setup.dump(**shape.sections)) as run,
    ):
        start_s = run.wait_until_learning(warmup_s=warmup_s)
        for turn in range(turns):
            if turn:
                start_s = run.wait_until_resumed()
            windows.append(_watch(run, start_s=start_s, seconds=seconds / turns, max_rates=1))
            with run.paused():
                part_rates.append(parts.measure(plan))
    workers = setup.workers if shape.workers is None else shape.workers
    config = {
        "env": setup.config.environment.name,
        "players": ", ".join(setup.players),
        "workers": workers,
        "matches": matches,
        "seconds": round(seconds, 2),
        "device": setup.device,
    }
    warning = oversubscription(_num_threads(setup, shape, workers), available_cores())
    return _report(windows, part_rates, config, gpus=setup.gpus, notes=(warning,) if warning else ())


def run_for(toml: str, *, seconds: float, warmup_s: float) -> RunWindow:
    """Run a configuration and return the measurements of a window.

    Raises:
        RunError: The run ended early.
    """
    with start_run(toml) as run:
        return _watch(run, start_s=run.wait_until_learning(warmup_s=warmup_s), seconds=seconds, max_rates=_TURNS)


def _num_threads(setup: Setup, shape: Shape, workers: int) -> int:
    """Return the number of computing threads of all processes."""
    options = setup.config.run
    learner_threads = shape.learner_threads or options.learner_threads or 1  # 0: as many as cores are free
    return workers * options.sampler_threads + setup.config.learner_processes * learner_threads if workers else 1


def _watch(run: WatchedRun, *, start_s: float, seconds: float, max_rates: int) -> RunWindow:
    """Watch a run from a moment that it has just reached, and split the window into at most `max_rates` rates."""
    first = len(run.moments) - 1
    end_s = start_s + seconds
    lines = run.wait(lambda lines: lines[-1].at_s >= end_s, within_s=60 + 2 * seconds)

    def values(pattern: str) -> list[float]:
        return list(mean_metrics(lines, pattern, start_s=start_s, end_s=end_s).values()) or [float("nan")]

    num_lines = sum(start_s <= line.at_s <= end_s for line in lines)
    return RunWindow(
        per_s=tuple(rates(lines, start_s=start_s, end_s=end_s, parts=max(1, min(max_rates, num_lines // 4)))),
        cores=cores_between(run.moments[first:]),
        values={
            "env_ticks_per_s": statistics.mean(values("sampling/ticks_per_s*")),
            "samples_trained_per_s": sum(values("learner/*/samples_per_s")),
            "played_per_s": statistics.mean(values("sampling/decisions_per_s*")),
            "sample_reuse": statistics.mean(values("learner/*/sample_reuse")),
            "staleness": statistics.mean(values("learner/*/staleness_mean")),
            "peak_rss_mb": max(moment.rss_mb for moment in run.moments),
        },
    )


def _report(
    windows: Sequence[RunWindow],
    part_rates: Sequence[PartRates],
    config: dict[str, Any],
    *,
    gpus: int,
    notes: tuple[str, ...],
) -> Report:
    cores = available_cores()
    window, parts = RunWindow.join(windows), PartRates.join(part_rates)
    limits = [rates.limit_per_s(cores, gpus=gpus) for rates in part_rates]
    ratios = tuple(rate / limit for rate, limit in zip(window.per_s, limits, strict=True))
    limit = Limit(value=statistics.median(limits), description=_limit_text(gpus))
    figure = Figure(
        name="decisions_per_s", summary=summarize(window.per_s), cores=window.cores, limit=limit, ratios=ratios
    )
    values = {
        "decisions_per_s": figure.summary.median,
        **window.values,
        "limit_per_s": limit.value,
        "ratio": figure.ratio,
        "ratios": [round(ratio, 3) for ratio in ratios],
        "parts": parts.values(),
    }
    return Report(
        command="selfplay",
        figures=(figure, *parts.figures()),
        machine=describe_machine(),
        config=config,
        values=values,
        notes=notes,
    )


def _limit_text(gpus: int) -> str:
    text = "cores / (1/environment + 1/forward + 1/update)"
    if gpus:
        text = f"the lower of {text} and the update rate of {'the GPU' if gpus == 1 else 'the GPUs'} alone"
    return text


@frozen(kw_only=True)
class PartRates:
    """Decisions per second and core of every part of self-play.

    Args:
        environment: Rate of the environment.
        forward: Rate of the policy.
        update: Rate of the trainer; per GPU, if it computes on one.
        rows: Seats that act at once.
        minibatch: Rows of one gradient step.
    """

    environment: Rate
    forward: Rate
    update: Rate
    rows: int
    minibatch: int

    @classmethod
    def join(cls, turns: Sequence[PartRates]) -> PartRates:
        """Return the rates of several turns as one measurement."""
        return evolve(
            turns[0],
            environment=Rate.join([rates.environment for rates in turns]),
            forward=Rate.join([rates.forward for rates in turns]),
            update=Rate.join([rates.update for rates in turns]),
        )

    def limit_per_s(self, cores: float, *, gpus: int = 0) -> float:
        """Return the decisions per second that a machine can play and learn from at most.

        Args:
            cores: Cores that play, and learn or keep GPUs busy.
            gpus: GPUs that learn; 0: the cores learn.
        """
        limit = cores * harmonic(self.environment.median, self.forward.median, self.update.median)
        return min(limit, gpus * self.update.median) if gpus else limit

    def values(self) -> dict[str, float]:
        """Return the medians by name."""
        return {
            "env_per_s": self.environment.median,
            "forward_per_s": self.forward.median,
            "update_per_s": self.update.median,
        }

    def figures(self) -> tuple[Figure, ...]:
        """Return one figure for each part."""
        return (
            rate_figure("env_per_s", self.environment, at={"rows": self.rows}),
            rate_figure("forward_per_s", self.forward, at={"rows": self.rows}),
            rate_figure("update_per_s", self.update, at={"rows": self.minibatch}),
        )


class SelfplayParts:
    """The parts of one configuration, each on the batch size of a run.

    Args:
        setup: Configuration to measure; the trainer computes on its device.
        matches: Matches of one sampler.
        clock: Clock of the plan.
    """

    def __init__(self, setup: Setup, *, matches: int, clock: Clock) -> None:
        self._play = RandomPlay(setup.environment(matches), Stopwatch(clock))
        self._rows = self._play.mean_acting_seats()
        player = setup.make_player(device=setup.device)
        decisions = player.trainer.batch_decisions
        with closing(setup.sampler(matches=matches)) as sampler:
            recorded = sampler.record(decisions, skip=decisions)
        trainer = TrainerPart.prepare(player, recorded)
        self._minibatch = trainer.minibatch
        self._tasks: dict[str, Task] = {
            "env": self._play.step,
            "forward": policy_task(player.policy, rows_of(recorded, self._rows)),
            "update": trainer.update,
        }

    def close(self) -> None:
        """Close the environment."""
        self._play.close()

    def measure(self, plan: Plan) -> PartRates:
        """Measure all parts in turns, with the current number of threads."""
        rates = measure(self._tasks, plan, stopwatches={"env": self._play.stopwatch})
        return PartRates(
            environment=rates["env inside"].scaled(self._play.decisions_per_tick),
            forward=rates["forward"],
            update=rates["update"],
            rows=self._rows,
            minibatch=self._minibatch,
        )
