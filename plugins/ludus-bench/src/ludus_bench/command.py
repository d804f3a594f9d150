"""``ludus bench`` and its subcommands; the modules that measure are imported when one of them runs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from ludus.cli_types import FiniteRange

if TYPE_CHECKING:
    from ludus_bench._setup import Setup
    from ludus_bench.measurements import Settings
    from ludus_bench.report import Report


F = TypeVar("F", bound=Callable[..., Any])


class _Numbers(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic in newer versions only
    """Positive whole numbers with commas between them, for example ``64,1e3``."""

    name = "N,N,…"
    maximum = 10**10

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(float(part)) for part in str(value).split(","))
        except (ValueError, OverflowError):
            numbers = ()
        if not numbers or min(numbers) < 1 or max(numbers) > self.maximum:
            span = f"from 1 to {self.maximum:g}"
            self.fail(f"expected whole numbers {span} with commas between them, got {value!r}", param, ctx)
        return numbers


_NUMBERS = _Numbers()
_POSITIVE = FiniteRange(min=0, min_open=True)


def _options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _enable_log(context: click.Context, _parameter: click.Parameter, as_json: bool) -> bool:
    """Log each step to standard error, if it is a terminal."""
    if not as_json and sys.stderr.isatty():
        log, handler = logging.getLogger("ludus_bench"), logging.StreamHandler()
        log.setLevel(logging.INFO)
        log.addHandler(handler)
        context.call_on_close(lambda: log.removeHandler(handler))
    return as_json


_json = click.option(
    "--json", "as_json", is_flag=True, callback=_enable_log, help="Print the result as JSON and nothing else."
)
_set = click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Replace one value; repeatable.")
_config = _options(
    click.argument("path", metavar="[RUN.TOML]", default=""),
    click.option("--env", "environment", metavar="NAME", default="", help="Without a file: the environment."),
    click.option("--algorithm", metavar="NAME", default="", help="Without a file: the algorithm (ppo)."),
    click.option("--network", metavar="NAME", default="", help="Without a file: the network (mlp)."),
    _set,
)
_plan = _options(
    click.option("--repeats", type=click.IntRange(1, 10_000), default=5, help="Repeats of each measurement (5)."),
    click.option("--seconds", type=_POSITIVE, default=0.3, help="Seconds of each measurement (0.3)."),
    click.option("--warmup", type=FiniteRange(min=0), default=0.3, help="Seconds before the first measurement (0.3)."),
    click.option(
        "--clock",
        type=click.Choice(["wall", "cpu"]),
        default="wall",
        help="Wall-clock time, or CPU time for machines under other load.",
    ),
)
_threads = click.option("--threads", type=click.IntRange(1, 4096), default=1, help="Threads of NumPy and torch (1).")
_device = click.option("--device", default="cpu", help="Torch device, for example cuda (cpu).")


@click.group()
def bench() -> None:
    """Measure the speed of every part of ludus on this machine.

    `env`, `sampling` and `selfplay` show the limit that was measured in the same run, and the ratio to it.
    """


@bench.command()
@click.argument("name")
@_set
@click.option("--matches", type=_NUMBERS, default="64,256,1024", help="Matches at once (64,256,1024).")
@_plan
@_json
def env(name: str, overrides: tuple[str, ...], matches: tuple[int, ...], as_json: bool, **plan_options: Any) -> None:
    """Measure environment NAME with random legal actions: ticks and decisions per second.

    The limit is the environment's own step and reset. For adapters, `adapter_ticks_per_s` is the rate of these, and its
    limit that of the library without ludus: one match with the same interface, options, wrappers and kind of actions.
    """
    from ludus_bench.measurements import bench_env  # noqa: PLC0415 - help must be fast

    settings = _settings(**plan_options)
    _print(bench_env(name, overrides=overrides, matches=matches, settings=settings), as_json=as_json)


@bench.command()
@_config
@click.option("--rows", type=_NUMBERS, default="1,64,256,1024", help="Batch sizes (1,64,256,1024).")
@_threads
@_device
@_plan
@_json
def forward(rows: tuple[int, ...], as_json: bool, **options: Any) -> None:
    """Measure the policy, from observations to actions; on a GPU the network alone."""
    from ludus_bench.measurements import bench_forward  # noqa: PLC0415 - help must be fast

    setup, plan_options = _split(options)
    _print(bench_forward(setup, rows=rows, settings=_settings(**plan_options)), as_json=as_json)


@bench.command()
@_config
@_threads
@_device
@_plan
@_json
def update(as_json: bool, **options: Any) -> None:
    """Measure the trainer on recorded segments."""
    from ludus_bench.measurements import bench_update  # noqa: PLC0415 - help must be fast

    setup, plan_options = _split(options)
    _print(bench_update(setup, settings=_settings(**plan_options)), as_json=as_json)


@bench.command()
@_config
@click.option("--matches", type=_NUMBERS, default="256", help="Matches at once (256).")
@_threads
@_plan
@_json
def sampling(matches: tuple[int, ...], as_json: bool, **options: Any) -> None:
    """Measure a sampler without learners: decisions per second.

    The limit is 1/(1/environment + 1/forward), both measured in turns with the sampler.
    """
    from ludus_bench.measurements import bench_sampling  # noqa: PLC0415 - help must be fast

    setup, plan_options = _split(options)
    _print(bench_sampling(setup, matches=matches, settings=_settings(**plan_options)), as_json=as_json)


_workers = click.option("--workers", type=click.IntRange(min=0), help="Sampler processes; 0: one process for all.")
_matches = click.option("--matches", type=click.IntRange(min=1), help="Matches of each sampler.")
_window = click.option("--warmup", type=FiniteRange(min=0), default=3.0, help="Seconds before the window (3).")


@bench.command()
@_config
@click.option("--seconds", type=_POSITIVE, default=20.0, help="Length of the measured window (20).")
@_window
@_workers
@_matches
@_json
def selfplay(
    seconds: float, warmup: float, workers: int | None, matches: int | None, as_json: bool, **options: Any
) -> None:
    """Measure a whole run in its real processes, in a temporary folder.

    The rate counts trained decisions. The limit is cores / (1/environment + 1/forward + 1/update), each measured on one
    core at the batch sizes of the run, before the run.
    """
    from ludus_bench.selfplay import Shape, bench_selfplay  # noqa: PLC0415 - help must be fast
    from ludus_bench.timing import Plan  # noqa: PLC0415

    setup, _ = _split(options)
    short = Plan(seconds=min(0.5, seconds / 20), warmup_s=min(0.5, seconds / 20))
    shape = Shape(workers=workers, matches=matches)
    _print(bench_selfplay(setup, shape=shape, seconds=seconds, warmup_s=warmup, plan=short), as_json=as_json)


@bench.command()
@_config
@click.option("--seconds", type=_POSITIVE, default=120.0, help="Approximate duration (120).")
@_json
def tune(seconds: float, as_json: bool, **options: Any) -> None:
    """Find matches, samplers, threads and minibatch for this machine, printed as TOML."""
    from ludus_bench.timing import Plan  # noqa: PLC0415 - help must be fast
    from ludus_bench.tune import bench_tune  # noqa: PLC0415

    setup, _ = _split(options)
    each = min(0.5, seconds / 240)
    _print(bench_tune(setup, seconds=seconds, plan=Plan(repeats=3, seconds=each, warmup_s=each)), as_json=as_json)


def _split(options: dict[str, Any]) -> tuple[Setup, dict[str, Any]]:
    """Return the configuration that the options describe, and the remaining options."""
    from ludus_bench._setup import open_setup  # noqa: PLC0415 - help must be fast

    names = ("path", "environment", "algorithm", "network", "overrides")
    return open_setup(**{name: options.pop(name) for name in names}), options


def _settings(
    *, repeats: int, seconds: float, warmup: float, clock: Any, threads: int = 1, device: str = "cpu"
) -> Settings:
    from ludus_bench.machine import check_device  # noqa: PLC0415 - help must be fast
    from ludus_bench.measurements import Settings  # noqa: PLC0415
    from ludus_bench.timing import Plan  # noqa: PLC0415

    plan = Plan(repeats=repeats, seconds=seconds, warmup_s=warmup, clock=clock)
    return Settings(plan=plan, threads=threads, device=check_device(device))


def _print(report: Report, *, as_json: bool) -> None:
    from ludus_bench.report import print_report  # noqa: PLC0415 - help must be fast

    print_report(report, as_json=as_json)
