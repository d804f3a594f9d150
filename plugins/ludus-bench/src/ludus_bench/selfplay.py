"""``selfplay``: a whole run in its real processes, beside what its parts allow on these cores."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import attrs
from attrs import frozen

from ludus_bench._pieces import Setup, available_cores, oversubscription
from ludus_bench.machine import describe, limit_threads
from ludus_bench.parts import AS_PLAYED, Rates, rate_parts
from ludus_bench.report import Figure, Limit, Report
from ludus_bench.running import WatchedRun, cores_between, gauge, rates, start_run
from ludus_bench.timing import Plan, summarize

__all__ = ["Shape", "bench_selfplay", "played"]

_PARTS = 5


@frozen(kw_only=True)
class Shape:
    """How a run is spread; None or 0: as configured.

    Args:
        workers: Sampler processes.
        matches: Matches of each.
        learner_threads: Threads of each learner.
    """

    workers: int | None = None
    matches: int | None = None
    learner_threads: int = 0

    @property
    def sections(self) -> dict[str, dict[str, Any]]:
        """Return the sections to replace in a configuration, limits of the run included."""
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
class Played:
    """What a run did in the measured window; see the README for the words."""

    per_s: tuple[float, ...]
    env_ticks_per_s: float
    played_per_s: float
    samples_trained_per_s: float
    sample_reuse: float
    staleness: float
    peak_rss_mb: float
    cores: float
    seconds: float
    end_s: float  # of the run's own time

    @property
    def middle_s(self) -> float:
        """Return the middle of the window, in the run's own time."""
        return self.end_s - self.seconds / 2

    @classmethod
    def joined(cls, several: Sequence[Played]) -> Played:
        """Return windows of equal length, one after another, as one."""
        means = {
            name: statistics.mean(getattr(window, name) for window in several)
            for name in (
                "env_ticks_per_s",
                "played_per_s",
                "samples_trained_per_s",
                "sample_reuse",
                "staleness",
                "cores",
            )
        }
        return cls(
            per_s=tuple(rate for window in several for rate in window.per_s),
            peak_rss_mb=max(window.peak_rss_mb for window in several),
            seconds=sum(window.seconds for window in several),
            end_s=several[-1].end_s,
            **means,
        )


def bench_selfplay(setup: Setup, *, shape: Shape, seconds: float, warmup_s: float, plan: Plan) -> Report:
    """Measure a run and its parts in turns: the run is stopped while the parts are measured.

    So what else the machine does meets both alike. The parts begin with the players as they were in the middle of what
    was watched: what these have learned changes how often the network sees the same, and so what a decision costs where
    equal ones are not all computed.

    Args:
        setup: The configuration.
        shape: How the run is spread.
        seconds: Length of the measured window, all turns together.
        warmup_s: From the first trained decisions to the window.
        plan: How long the parts are measured, all turns together.

    Raises:
        RunError: The run ended early.
    """
    matches = shape.matches or setup.config.sampling.matches
    turns = max(1, min(_PARTS, int(seconds)))
    plan = attrs.evolve(plan, repeats=math.ceil(plan.repeats / turns))
    windows: list[Played] = []
    parts: list[Rates] = []
    with start_run(setup.dump(**shape.sections)) as run, limit_threads(1):
        start_s = run.learning(warmup_s=warmup_s)
        for turn in range(turns):
            if turn:
                start_s = run.resumed()
            windows.append(_watched(run, start_s=start_s, seconds=seconds / turns, parts=1))
            with run.paused():
                then = setup.during(run.folder, at_s=windows[-1].middle_s)
                parts.append(rate_parts(then, matches=matches, plan=plan))
    options, workers = setup.config.run, setup.workers if shape.workers is None else shape.workers
    learner_threads = shape.learner_threads or options.learner_threads or 1  # 0: what is free
    config = {
        "env": setup.config.environment.name,
        "players": ", ".join(setup.players),
        "workers": workers,
        "matches": matches,
        "seconds": round(seconds, 2),
        "device": options.device,
    }
    threads = workers * options.sampler_threads + setup.config.learner_processes * learner_threads if workers else 1
    return _report(windows, parts, config, threads=threads, gpus=setup.gpus)


def played(toml: str, *, seconds: float, warmup_s: float) -> Played:
    """Run a configuration and return what it did in a window.

    Raises:
        RunError: It ended early.
    """
    with start_run(toml) as run:
        return _watched(run, start_s=run.learning(warmup_s=warmup_s), seconds=seconds, parts=_PARTS)


def _watched(run: WatchedRun, *, start_s: float, seconds: float, parts: int) -> Played:
    """Watch a run for so long from a moment that it has just reached."""
    first = len(run.moments) - 1
    end_s = start_s + seconds
    lines = run.wait(lambda lines: lines[-1].at_s >= end_s, within_s=60 + 2 * seconds)

    def mean(pattern: str, *, total: bool = False) -> float:
        values = list(gauge(lines, pattern, start_s=start_s, end_s=end_s).values())
        if not values:
            return float("nan")
        return sum(values) if total else sum(values) / len(values)

    inside = sum(start_s <= line.at_s <= end_s for line in lines)
    return Played(
        per_s=tuple(rates(lines, start_s=start_s, end_s=end_s, parts=max(1, min(parts, inside // 4)))),
        env_ticks_per_s=mean("sampling/ticks_per_s*"),
        played_per_s=mean("sampling/decisions_per_s*"),
        samples_trained_per_s=mean("learner/*/samples_per_s", total=True),
        sample_reuse=mean("learner/*/sample_reuse"),
        staleness=mean("learner/*/staleness_mean"),
        peak_rss_mb=max(moment.rss_mb for moment in run.moments),
        cores=cores_between(run.moments[first:]),
        seconds=end_s - start_s,
        end_s=end_s,
    )


def _report(
    windows: Sequence[Played], parts: Sequence[Rates], config: dict[str, Any], *, threads: int, gpus: int
) -> Report:
    cores = available_cores()
    found, measured = Played.joined(windows), Rates.joined(parts)
    limit_of = "cores / (1/environment + 1/forward + 1/update)"
    if gpus:
        limit_of = f"the lesser of {limit_of} and what {'the GPU updates' if gpus == 1 else 'the GPUs update'} alone"
    summary = summarize(found.per_s)

    def beside(limits: Sequence[float], *, suffix: str = "") -> Figure:
        return Figure(
            name=f"decisions_per_s{suffix}",
            summary=summary,
            cores=found.cores,
            limit=Limit(value=statistics.median(limits), of=limit_of + suffix),
            ratios=tuple(rate / limit for rate, limit in zip(found.per_s, limits, strict=True)),
        )

    figure = beside([rates.selfplay(cores, gpus=gpus) for rates in parts])
    as_played = beside([rates.selfplay(cores, gpus=gpus, as_played=True) for rates in parts], suffix=AS_PLAYED)
    values = {
        "decisions_per_s": summary.median,
        "env_ticks_per_s": found.env_ticks_per_s,
        "samples_trained_per_s": found.samples_trained_per_s,
        "played_per_s": found.played_per_s,
        "sample_reuse": found.sample_reuse,
        "staleness": found.staleness,
        **_against(figure),
        "peak_rss_mb": found.peak_rss_mb,
        "parts": {"env_per_s": measured.env, **measured.each.values()},
        "as_played": {**_against(as_played), "parts": measured.played.values()},
    }
    note = oversubscription(threads, cores)
    return Report(
        command="selfplay",
        figures=(figure, as_played, *measured.figures()),
        machine=describe(),
        config=config,
        values=values,
        notes=(note,) if note else (),
    )


def _against(figure: Figure) -> dict[str, Any]:
    assert figure.limit is not None
    return {
        "limit_per_s": figure.limit.value,
        "ratio": figure.ratio,
        "ratios": [round(ratio, 3) for ratio in figure.ratios],
    }
