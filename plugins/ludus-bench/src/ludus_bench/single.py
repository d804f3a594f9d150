"""The benchmarks of one part in this process: ``env``, ``forward``, ``update``, ``sampling``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import torch
from attrs import evolve, frozen
from ludus.segment import SegmentBatch
from ludus.service import Network

from ludus_bench._pieces import Setup, open_environment
from ludus_bench.bare import bare_library
from ludus_bench.gemm import trace_gemms
from ludus_bench.machine import describe, limit_threads
from ludus_bench.parts import (
    Acting,
    EnvironmentAlone,
    Updating,
    as_played,
    gemm_limit,
    gemm_works,
    harmonic,
    rows_of,
)
from ludus_bench.play import RandomPlay
from ludus_bench.report import Figure, Limit, Report, figure_of
from ludus_bench.timing import Plan, Rate, Stopwatch, measure

__all__ = ["Settings", "bench_env", "bench_forward", "bench_sampling", "bench_update", "on_device", "record", "said_of"]


@frozen(kw_only=True)
class Settings:
    """How to measure in this process.

    Args:
        plan: How long.
        threads: Of numpy and torch.
        device: Torch device.
    """

    plan: Plan
    threads: int = 1
    device: str = "cpu"

    def said(self) -> dict[str, Any]:
        """Return what a report repeats."""
        return {"threads": self.threads, "device": self.device, "clock": self.plan.clock}


def _scaled(rate: Rate, factor: float) -> Rate:
    return Rate(per_s=tuple(value * factor for value in rate.per_s), cores=rate.cores)


# -- env -----------------------------------------------------------------------------------------------------------


def bench_env(name: str, *, overrides: Sequence[str], matches: Sequence[int], settings: Settings) -> Report:
    """Measure an environment with random legal moves, at several numbers of matches.

    Raises:
        ConfigError: There is no such environment, or an option is wrong.
    """
    make, config = open_environment(name, overrides)
    figures: list[Figure] = []
    with limit_threads(settings.threads):
        for count in matches:
            play = RandomPlay(make(count), Stopwatch(settings.plan.clock))
            try:
                figures += _env_figures(play, bare_library(name, config, count), settings.plan)
            finally:
                play.environment.close()
    drained = {"env": name, "set": " ".join(overrides), **settings.said()}
    return Report(command="env", figures=tuple(figures), machine=describe(), config=drained)


def _env_figures(play: RandomPlay, bare: tuple[str, Callable[[], float]] | None, plan: Plan) -> list[Figure]:
    works: dict[str, Callable[[], float]] = {"play": play.step}
    if bare is not None:
        works["bare"] = bare[1]
    rates = measure(works, plan, inside={"play": play.inside})
    at = {"matches": play.environment.num_matches}
    limit = Limit(value=rates["play inside"].median, of="the environment's step and reset alone")
    if bare is not None:
        limit = Limit(value=rates["bare"].median, of=f"{bare[0]} alone")
    share = play.decisions_per_tick
    return [
        figure_of("ticks_per_s", rates["play"], limit=limit, at=at),
        figure_of(
            "decisions_per_s",
            _scaled(rates["play"], share),
            limit=Limit(value=limit.value * share, of=limit.of),
            at=at,
        ),
    ]


# -- forward -------------------------------------------------------------------------------------------------------


def bench_forward(setup: Setup, *, rows: Sequence[int], settings: Settings) -> Report:
    """Measure the way from observations to actions at several batch sizes.

    On another device than the CPU the network alone is measured there, with the transfers to and fro.
    """
    figures = []
    with limit_threads(settings.threads):
        learned, plain = setup.learned(), setup.learned(plain=True)
        network = None if settings.device == "cpu" else setup.network()
        recorded = record(setup, max(rows))
        for count in rows:
            acting = Acting(learned=learned, batches=[rows_of(recorded, count)])
            if network is None:
                work, gemms = acting.work, evolve(acting, learned=plain).gemms()
            else:
                work = on_device(acting, network, settings.device)
                gemms = trace_gemms(work)
            rates = measure({"forward": work, **gemm_works(gemms, count, device=settings.device)}, settings.plan)
            figures.append(figure_of("decisions_per_s", rates["forward"], limit=gemm_limit(rates), at={"rows": count}))
    return Report(
        command="forward", figures=tuple(figures), machine=describe(), config={**said_of(setup), **settings.said()}
    )


def on_device(acting: Acting, network: Network, device: str) -> Callable[[], float]:
    """Return a work that runs a network alone on a device, from arrays to arrays."""
    module = network.module.to(device)

    def work() -> float:
        with torch.inference_mode():
            heads, _ = module(*acting.inputs(network.request, device))
            for head in heads.values():
                head.cpu()
        return float(acting.count)

    return work


def record(setup: Setup, decisions: int) -> list[SegmentBatch]:
    """Return segments of the first player with at least so many decisions, from the midst of matches."""
    with closing(setup.sampling(matches=min(setup.config.sampling.matches, max(8, decisions)))) as sampling:
        return sampling.record(decisions, after=decisions)


def said_of(setup: Setup) -> dict[str, Any]:
    """Return what was measured."""
    config = setup.config
    player = next(iter(config.players.values()))
    return {
        "env": config.environment.name,
        "algorithm": player.algorithm.name,
        "network": player.network.name if player.network else "",
    }


# -- update --------------------------------------------------------------------------------------------------------


def bench_update(setup: Setup, *, settings: Settings) -> Report:
    """Measure the trainer on recorded segments."""
    with limit_threads(settings.threads):
        learned = setup.learned(device=settings.device)
        recorded = record(setup, learned.trainer.batch_decisions)
        updating = Updating.of(learned, recorded)
        gemms = Updating.of(setup.learned(device=settings.device, plain=True), recorded).gemms()
        works = {"update": updating.work, **gemm_works(gemms, updating.decisions, device=settings.device)}
        rates = measure(works, settings.plan)
    passes = updating.samples_per_decision
    at = {"decisions": updating.decisions, "minibatch": updating.minibatch}
    samples = _scaled(rates["update"], passes)
    per_update = _scaled(rates["update"], 1 / updating.decisions)
    figures = (
        figure_of("samples_per_s", samples, limit=gemm_limit(rates, scale=passes), at=at),
        figure_of("updates_per_s", per_update, limit=gemm_limit(rates, scale=1 / updating.decisions), at=at),
    )
    values = {"passes": passes, "products": len(gemms)}
    return Report(
        command="update",
        figures=figures,
        machine=describe(),
        config={**said_of(setup), **settings.said()},
        values=values,
    )


# -- sampling ------------------------------------------------------------------------------------------------------


def bench_sampling(setup: Setup, *, matches: Sequence[int], settings: Settings) -> Report:
    """Measure a sampler whose segments nobody learns from, beside its environment and its policy alone."""
    figures: list[Figure] = []
    notes: list[str] = []
    with limit_threads(settings.threads):
        learned = setup.learned()
        for count in matches:
            with (
                closing(setup.sampling(matches=count)) as sampling,
                closing(EnvironmentAlone.of(setup, count, settings.plan.clock)) as alone,
            ):
                rows = alone.rows_at_once()
                acting = as_played(learned, sampling.record(rows, after=rows), rows)
                works = {"sampling": sampling.work, "env": alone.play.step, "forward": acting.work}
                rates = measure(works, settings.plan, inside={"env": alone.play.inside})
            env = rates["env inside"].median * alone.play.decisions_per_tick
            figures += _sampling_figures(rates, env, matches=count, rows=rows)
            notes.append(_split(rates, env, count))
    return Report(
        command="sampling",
        figures=tuple(figures),
        machine=describe(),
        config={**said_of(setup), **settings.said()},
        notes=tuple(notes),
    )


def _sampling_figures(rates: dict[str, Rate], env: float, *, matches: int, rows: int) -> list[Figure]:
    limit = Limit(value=harmonic(env, rates["forward"].median), of="1/(1/environment + 1/forward)")
    return [figure_of("decisions_per_s", rates["sampling"], limit=limit, at={"matches": matches, "rows": rows})]


def _split(rates: dict[str, Rate], env: float, matches: int) -> str:
    """Say where the time of a decision goes."""
    whole, inside, forward = (1e6 / rate for rate in (rates["sampling"].median, env, rates["forward"].median))
    rest = whole - inside - forward
    return (
        f"{matches} matches: {whole:.2f} µs per decision = {inside:.2f} environment + {forward:.2f} policy "
        f"+ {rest:.2f} engine, recording and messages"
    )
