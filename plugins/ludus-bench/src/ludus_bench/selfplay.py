"""``selfplay``: a whole run in its real processes, next to the limit that its parts set on these cores."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from attrs import frozen

from ludus_bench._setup import Setup, available_cores, oversubscription
from ludus_bench.machine import describe_machine, limit_threads
from ludus_bench.parts import TrainerPart, policy_task, rows_of
from ludus_bench.random_play import RandomPlay
from ludus_bench.report import Figure, Limit, Report, rate_figure
from ludus_bench.timing import Plan, Rate, Stopwatch, harmonic, measure, summarize
from ludus_bench.watched_run import cores_between, mean_metrics, rates, start_run

_RATES = 5  # of a window


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


def bench_selfplay(setup: Setup, *, shape: Shape, seconds: float, warmup_s: float, plan: Plan) -> Report:
    """Measure the parts of a run alone, then the run.

    Args:
        setup: Configuration to measure.
        shape: Distribution of the run.
        seconds: Length of the measured window.
        warmup_s: Seconds from the first trained decisions to the window.
        plan: Duration of the measurements of the parts.

    Raises:
        RunError: The run ended early.
    """
    cores, matches = available_cores(), shape.matches or setup.config.sampling.matches
    workers = setup.workers if shape.workers is None else shape.workers
    parts = measure_parts(setup, matches=matches, plan=plan)
    window = run_for(setup.dump(**shape.sections), seconds=seconds, warmup_s=warmup_s)
    limit = Limit(value=parts.limit_per_s(cores, gpus=setup.gpus), description=_limit_text(setup.gpus))
    figure = Figure(name="decisions_per_s", summary=summarize(window.per_s), cores=window.cores, limit=limit)
    warning = oversubscription(_num_threads(setup, shape, workers), cores)
    return Report(
        command="selfplay",
        figures=(figure, *parts.figures()),
        machine=describe_machine(),
        config={
            "env": setup.config.environment.name,
            "players": ", ".join(setup.players),
            "workers": workers,
            "matches": matches,
            "seconds": round(seconds, 2),
            "device": setup.device,
        },
        values={
            "decisions_per_s": figure.summary.median,
            **window.values,
            "limit_per_s": limit.value,
            "ratio": figure.ratio,
            "parts": parts.values(),
        },
        notes=(warning,) if warning else (),
    )


def run_for(toml: str, *, seconds: float, warmup_s: float) -> RunWindow:
    """Run a configuration and return the measurements of a window.

    Args:
        toml: Text of the configuration.
        seconds: Length of the window.
        warmup_s: Seconds from the first trained decisions to the window.

    Raises:
        RunError: The run ended early.
    """
    with start_run(toml) as run:
        start_s = run.wait_until_learning(warmup_s=warmup_s)
        first, end_s = len(run.moments) - 1, start_s + seconds
        lines = run.wait(lambda lines: lines[-1].at_s >= end_s, within_s=60 + 2 * seconds)

    def values(pattern: str) -> list[float]:
        return list(mean_metrics(lines, pattern, start_s=start_s, end_s=end_s).values()) or [float("nan")]

    num_lines = sum(start_s <= line.at_s <= end_s for line in lines)
    return RunWindow(
        per_s=tuple(rates(lines, start_s=start_s, end_s=end_s, parts=max(1, min(_RATES, num_lines // 4)))),
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


def _num_threads(setup: Setup, shape: Shape, workers: int) -> int:
    """Return the number of computing threads of all processes."""
    options = setup.config.run
    learner_threads = shape.learner_threads or options.learner_threads or 1  # 0: as many as cores are free
    return workers * options.sampler_threads + setup.config.learner_processes * learner_threads if workers else 1


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


def measure_parts(setup: Setup, *, matches: int, plan: Plan) -> PartRates:
    """Measure the parts of a run in turns, each on one core and on the batch size of the run.

    Args:
        setup: Configuration to measure; the trainer computes on its device.
        matches: Matches of one sampler.
        plan: Duration.
    """
    with limit_threads(1), closing(RandomPlay(setup.environment(matches), Stopwatch(plan.clock))) as play:
        rows = play.mean_acting_seats()
        player = setup.make_player(device=setup.device)
        decisions = player.trainer.batch_decisions
        with closing(setup.sampler(matches=matches)) as sampler:
            recorded = sampler.record(decisions, skip=decisions)
        trainer = TrainerPart.prepare(player, recorded)
        act = policy_task(player.policy, rows_of(recorded, rows))
        tasks = {"env": play.step, "forward": act, "update": trainer.update}
        found = measure(tasks, plan, stopwatches={"env": play.stopwatch})
        return PartRates(
            environment=found["env inside"].scaled(play.decisions_per_tick),
            forward=found["forward"],
            update=found["update"],
            rows=rows,
            minibatch=trainer.minibatch,
        )
