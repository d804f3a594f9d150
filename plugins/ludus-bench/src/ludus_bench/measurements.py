"""Measurements of one part in this process: ``env``, ``forward``, ``update``, ``sampling``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from attrs import evolve, frozen

from ludus_bench._setup import Setup, open_environment
from ludus_bench.machine import describe_machine, limit_threads
from ludus_bench.parts import TrainerPart, network_task, policy_task, record_segments, rows_of
from ludus_bench.random_play import RandomPlay
from ludus_bench.report import Figure, Limit, Report, rate_figure
from ludus_bench.timing import Plan, Rate, Stopwatch, harmonic, measure


@frozen(kw_only=True)
class Settings:
    """Settings of a measurement in this process.

    Args:
        plan: Duration.
        threads: Threads of NumPy and torch.
        device: Torch device.
    """

    plan: Plan
    threads: int = 1
    device: str = "cpu"

    def describe(self) -> dict[str, Any]:
        """Return the settings for a report."""
        return {"threads": self.threads, "device": self.device, "clock": self.plan.clock}


def bench_env(name: str, *, overrides: Sequence[str], matches: Sequence[int], settings: Settings) -> Report:
    """Measure an environment with random legal actions, at several numbers of matches.

    Raises:
        ConfigError: There is no such environment, or an option is invalid.
    """
    make = open_environment(name, overrides)
    figures: list[Figure] = []
    with limit_threads(settings.threads):
        for count in matches:
            with closing(RandomPlay(make(count), Stopwatch(settings.plan.clock))) as play:
                figures += _env_figures(play, settings.plan)
    return Report(
        command="env",
        figures=tuple(figures),
        machine=describe_machine(),
        config={"env": name, "set": " ".join(overrides), **settings.describe()},
    )


def _env_figures(play: RandomPlay, plan: Plan) -> list[Figure]:
    rates = measure({"play": play.step}, plan, stopwatches={"play": play.stopwatch})
    limit = Limit(value=rates["play inside"].median, description="the environment's step and reset alone")
    at = {"matches": play.environment.num_matches}
    decisions = play.decisions_per_tick
    per_decision = evolve(limit, value=limit.value * decisions)
    return [
        rate_figure("ticks_per_s", rates["play"], limit=limit, at=at),
        rate_figure("decisions_per_s", rates["play"].scaled(decisions), limit=per_decision, at=at),
    ]


def bench_forward(setup: Setup, *, rows: Sequence[int], settings: Settings) -> Report:
    """Measure the policy, from observations to actions, at several batch sizes.

    On another device than the CPU, measure the network alone, transfers included.
    """
    figures = []
    with limit_threads(settings.threads):
        policy = setup.make_player().policy
        network = None if settings.device == "cpu" else setup.network()
        recorded = record_segments(setup, max(rows))
        for count in rows:
            chosen = rows_of(recorded, count)
            if network is None:
                task = policy_task(policy, chosen)
            else:
                task = network_task(policy, network, chosen, settings.device)
            rate = measure({"forward": task}, settings.plan)["forward"]
            figures.append(rate_figure("decisions_per_s", rate, at={"rows": count}))
    return _report("forward", figures, setup, settings)


def bench_update(setup: Setup, *, settings: Settings) -> Report:
    """Measure the trainer on recorded segments."""
    with limit_threads(settings.threads):
        player = setup.make_player(device=settings.device)
        recorded = record_segments(setup, player.trainer.batch_decisions)
        trainer = TrainerPart.prepare(player, recorded)
        rate = measure({"update": trainer.update}, settings.plan)["update"]
    at = {"decisions": trainer.decisions, "minibatch": trainer.minibatch}
    passes = trainer.samples_per_decision
    figures = [
        rate_figure(name, rate.scaled(scale), at=at)
        for name, scale in (("samples_per_s", passes), ("updates_per_s", 1 / trainer.decisions))
    ]
    return _report("update", figures, setup, settings, values={"passes": passes})


def bench_sampling(setup: Setup, *, matches: Sequence[int], settings: Settings) -> Report:
    """Measure a sampler without learners, next to its environment and its policy alone."""
    figures: list[Figure] = []
    notes: list[str] = []
    with limit_threads(settings.threads):
        policy = setup.make_player().policy
        for count in matches:
            with (
                closing(setup.sampler(matches=count)) as sampler,
                closing(RandomPlay(setup.environment(count), Stopwatch(settings.plan.clock))) as play,
            ):
                rows = play.mean_acting_seats()
                act = policy_task(policy, rows_of(sampler.record(rows, skip=rows), rows))
                tasks = {"sampling": sampler.play_tick, "env": play.step, "forward": act}
                rates = measure(tasks, settings.plan, stopwatches={"env": play.stopwatch})
            environment = rates["env inside"].median * play.decisions_per_tick
            limit = Limit(
                value=harmonic(environment, rates["forward"].median), description="1/(1/environment + 1/forward)"
            )
            at = {"matches": count, "rows": rows}
            figures.append(rate_figure("decisions_per_s", rates["sampling"], limit=limit, at=at))
            notes.append(f"{count} matches: {_time_per_decision(rates, environment)}")
    return _report("sampling", figures, setup, settings, notes=tuple(notes))


def _time_per_decision(rates: dict[str, Rate], environment: float) -> str:
    """Return the time of a decision as the sum of its parts."""
    total, inside, forward = (1e6 / rate for rate in (rates["sampling"].median, environment, rates["forward"].median))
    return (
        f"{total:.2f} µs per decision = {inside:.2f} environment + {forward:.2f} policy "
        f"+ {total - inside - forward:.2f} engine, recording and messages"
    )


def _report(command: str, figures: Sequence[Figure], setup: Setup, settings: Settings, **extra: Any) -> Report:
    config = {**setup.describe(), **settings.describe()}
    return Report(command=command, figures=tuple(figures), machine=describe_machine(), config=config, **extra)
