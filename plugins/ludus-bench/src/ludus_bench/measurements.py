"""Measurements of one part in this process: ``env``, ``forward``, ``update``, ``sampling``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

from attrs import evolve, frozen

from ludus_bench._setup import Setup, open_environment, open_library
from ludus_bench.machine import describe_machine, limit_threads
from ludus_bench.parts import TrainerPart, network_task, policy_task, record_segments, rows_of
from ludus_bench.products import products_task
from ludus_bench.random_play import LibraryMatch, LibraryPlay, RandomPlay
from ludus_bench.report import Figure, Limit, Report, rate_figure
from ludus_bench.timing import Plan, Rate, Stopwatch, Task, harmonic, measure


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
    with limit_threads(settings.threads), ExitStack() as opened:
        library = open_library(name, overrides)
        if library is not None:
            opened.callback(library.close)
        for count in matches:
            with closing(RandomPlay(make(count), Stopwatch(settings.plan.clock))) as play:
                figures += _env_figures(play, library, settings.plan)
    return Report(
        command="env",
        figures=tuple(figures),
        machine=describe_machine(),
        config={"env": name, "set": " ".join(overrides), **settings.describe()},
    )


def _env_figures(play: RandomPlay, library: LibraryMatch | None, plan: Plan) -> list[Figure]:
    tasks, stopwatches = {"play": play.step}, {"play": play.stopwatch}
    if library is not None:
        bare = LibraryPlay(library, Stopwatch(plan.clock))
        tasks["library"], stopwatches["library"] = bare.step, bare.stopwatch
    rates = measure(tasks, plan, stopwatches=stopwatches)
    limit = Limit(value=rates["play inside"].median, description="the environment's step and reset alone")
    at = {"matches": play.environment.num_matches}
    decisions = play.decisions_per_tick
    per_decision = evolve(limit, value=limit.value * decisions)
    figures = [
        rate_figure("ticks_per_s", rates["play"], limit=limit, at=at),
        rate_figure("decisions_per_s", rates["play"].scaled(decisions), limit=per_decision, at=at),
    ]
    if library is not None:
        alone = Limit(value=rates["library inside"].median, description=library.description)
        figures.append(rate_figure("adapter_ticks_per_s", rates["play inside"], limit=alone, at=at))
    return figures


def bench_forward(setup: Setup, *, rows: Sequence[int], settings: Settings) -> Report:
    """Measure the policy, from observations to actions, at several batch sizes, next to the products of its network.

    On another device than the CPU, measure the network alone, transfers included.
    """
    figures = []
    with limit_threads(settings.threads):
        policy = setup.make_player().policy
        network = setup.network() if settings.device != "cpu" or setup.has_network else None
        recorded = record_segments(setup, max(rows))
        for count in rows:
            chosen = rows_of(recorded, count)
            alone = None if network is None else network_task(policy, network, chosen, settings.device)
            task = policy_task(policy, chosen) if settings.device == "cpu" or alone is None else alone
            rate, limit = _measure_with_products("forward", task, alone, settings)
            figures.append(rate_figure("decisions_per_s", rate, limit=limit, at={"rows": count}))
    return _report("forward", figures, setup, settings)


def _measure_with_products(
    name: str, task: Task, torch_task: Task | None, settings: Settings
) -> tuple[Rate, Limit | None]:
    """Return the rate of a task, and that of the products of a task by torch in the same units, if they are known.

    Only products of this thread are known, on the CPU.
    """
    tasks = {name: task}
    if torch_task is not None and settings.device == "cpu" and settings.threads == 1:
        products = products_task(torch_task)
        if products is not None:
            tasks["products"] = products
    rates = measure(tasks, settings.plan)
    if "products" not in rates:
        return rates[name], None
    return rates[name], Limit(value=rates["products"].median, description="matrix products and convolutions alone")


def bench_update(setup: Setup, *, settings: Settings) -> Report:
    """Measure the trainer on recorded segments, next to the products of its passes."""
    with limit_threads(settings.threads):
        player = setup.make_player(device=settings.device)
        recorded = record_segments(setup, player.trainer.batch_decisions)
        trainer = TrainerPart.prepare(player, recorded)
        rate, limit = _measure_with_products("update", trainer.update, trainer.update, settings)
    at = {"decisions": trainer.decisions, "minibatch": trainer.minibatch}
    passes = trainer.samples_per_decision
    figures = [
        rate_figure(
            name, rate.scaled(scale), limit=None if limit is None else evolve(limit, value=limit.value * scale), at=at
        )
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
