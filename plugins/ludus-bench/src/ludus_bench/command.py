"""``ludus bench`` and its subcommands; what they measure with is imported when one of them runs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from ludus.cli_types import FiniteRange
from ludus.signals import interrupting

if TYPE_CHECKING:
    from ludus_bench._pieces import Setup
    from ludus_bench.report import Report
    from ludus_bench.single import Settings

__all__ = ["bench"]

F = TypeVar("F", bound=Callable[..., Any])


class _Numbers(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic in newer versions only
    """Numbers with commas between them; ``5e6`` is fine.

    Args:
        most: The largest one.
    """

    name = "N,N,…"

    def __init__(self, most: int = 10**10) -> None:
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(float(part)) for part in str(value).split(","))
        except (ValueError, OverflowError):
            numbers = ()
        if not numbers or min(numbers) < 1 or max(numbers) > self._most:
            span = f"from 1 to {self._most:g}"
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


def _tell(context: click.Context, _parameter: click.Parameter, as_json: bool) -> bool:
    """Show what is being measured to a person who waits at a terminal."""
    if not as_json and sys.stderr.isatty():
        log, handler = logging.getLogger("ludus_bench"), logging.StreamHandler()
        log.setLevel(logging.INFO)
        log.addHandler(handler)
        context.call_on_close(lambda: log.removeHandler(handler))
    return as_json


_json = click.option(
    "--json", "as_json", is_flag=True, callback=_tell, help="Print the result as JSON and nothing else."
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
    click.option("--repeats", type=click.IntRange(1, 10_000), default=5, help="Measurements of everything (5)."),
    click.option("--seconds", type=_POSITIVE, default=0.3, help="Duration of each measurement (0.3)."),
    click.option("--warmup", type=FiniteRange(min=0), default=0.3, help="Seconds before the first (0.3)."),
    click.option(
        "--clock",
        type=click.Choice(["wall", "cpu"]),
        default="wall",
        help="Count wall-clock time, or CPU time where other programs disturb.",
    ),
)
_threads = click.option("--threads", type=click.IntRange(1, 4096), default=1, help="Threads of numpy and torch (1).")
_device = click.option("--device", default="cpu", help="Torch device, for example cuda (cpu).")


@click.group()
@click.pass_context
def bench(context: click.Context) -> None:
    """Measure how fast every part is here, and how far from what the machine can do.

    Next to every figure stands the limit that the same run computed, and the ratio of the two.
    """
    context.with_resource(interrupting())  # processes and folders that were made for it go, however it is stopped


@bench.command()
@click.argument("name")
@_set
@click.option("--matches", type=_NUMBERS, default="64,256,1024", help="Matches at once (64,256,1024).")
@_plan
@_json
def env(name: str, overrides: tuple[str, ...], matches: tuple[int, ...], as_json: bool, **measuring: Any) -> None:
    """Environment NAME with random legal moves: ticks and decisions per second.

    The limit is the library behind an adapter, else the environment's own step and reset.
    """
    from ludus_bench.single import bench_env  # noqa: PLC0415 - help must be fast

    settings = _settings(**measuring)
    _show(bench_env(name, overrides=overrides, matches=matches, settings=settings), as_json=as_json)


@bench.command()
@_config
@click.option("--rows", type=_NUMBERS, default="1,64,256,1024", help="Batch sizes (1,64,256,1024).")
@_threads
@_device
@_plan
@_json
def forward(rows: tuple[int, ...], as_json: bool, **given: Any) -> None:
    """The acting path: from observations to actions.

    The limit is the time of the same matrix products alone.
    """
    from ludus_bench.single import bench_forward  # noqa: PLC0415 - help must be fast

    setup, measuring = _split(given)
    _show(bench_forward(setup, rows=rows, settings=_settings(**measuring)), as_json=as_json)


@bench.command()
@_config
@_threads
@_device
@_plan
@_json
def update(as_json: bool, **given: Any) -> None:
    """The learning path: updates on recorded segments.

    The limit is the time of the same matrix products alone, those of gradients included.
    """
    from ludus_bench.single import bench_update  # noqa: PLC0415 - help must be fast

    setup, measuring = _split(given)
    _show(bench_update(setup, settings=_settings(**measuring)), as_json=as_json)


@bench.command()
@_config
@click.option("--matches", type=_NUMBERS, default="256", help="Matches at once (256).")
@_threads
@_plan
@_json
def sampling(matches: tuple[int, ...], as_json: bool, **given: Any) -> None:
    """A sampler whose segments nobody learns from: decisions per second.

    The limit is 1/(1/environment + 1/forward), both measured in turns with it.
    """
    from ludus_bench.single import bench_sampling  # noqa: PLC0415 - help must be fast

    setup, measuring = _split(given)
    _show(bench_sampling(setup, matches=matches, settings=_settings(**measuring)), as_json=as_json)


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
    seconds: float, warmup: float, workers: int | None, matches: int | None, as_json: bool, **given: Any
) -> None:
    """A whole run in its real processes, in a temporary folder.

    Counted are decisions that learning seats played and that were trained. The limit is
    cores / (1/environment + 1/forward + 1/update), measured on one core at the same batch sizes, in turns with the run,
    which is stopped meanwhile, and with the players as they were in the middle of what was watched last.
    """
    from ludus_bench.selfplay import Shape, bench_selfplay  # noqa: PLC0415 - help must be fast
    from ludus_bench.timing import Plan  # noqa: PLC0415

    setup, _ = _split(given)
    short = Plan(seconds=min(0.5, seconds / 20), warmup_s=min(0.5, seconds / 20))
    shape = Shape(workers=workers, matches=matches)
    _show(bench_selfplay(setup, shape=shape, seconds=seconds, warmup_s=warmup, plan=short), as_json=as_json)


@bench.command()
@_config
@click.option("--minutes", type=_POSITIVE, default=5.0, help="How long to watch (5).")
@_window
@_workers
@_matches
@_json
def memory(
    minutes: float, warmup: float, workers: int | None, matches: int | None, as_json: bool, **given: Any
) -> None:
    """Resident memory of every process of a league run: start, end, slope.

    Without a file, players freeze a model every 200,000 decisions and play their history. The limit is a process
    that has only imported numpy and torch.
    """
    from ludus_bench.memory import bench_memory  # noqa: PLC0415 - help must be fast
    from ludus_bench.selfplay import Shape  # noqa: PLC0415

    setup, _ = _split(given, matchmaker="uniform-history", freeze_every=200_000)
    shape = Shape(workers=workers, matches=matches)
    _show(bench_memory(setup, shape=shape, minutes=minutes, warmup_s=warmup), as_json=as_json)


@bench.command()
@_config
@click.option("--count", type=_Numbers(10_000), default="1,64,500", help="Numbers of opponents (1,64,500).")
@click.option("--matches", type=click.IntRange(min=1), default=256, help="Matches at once (256).")
@click.option("--rows-per-fixture", type=click.IntRange(min=1), help="Matches against one of them (as configured).")
@_threads
@_plan
@_json
def opponents(count: tuple[int, ...], matches: int, rows_per_fixture: int | None, as_json: bool, **given: Any) -> None:
    """A sampler against many different frozen opponents, relative to one."""
    from ludus_bench.opponents import bench_opponents  # noqa: PLC0415 - help must be fast

    setup, measuring = _split(given)
    _show(
        bench_opponents(
            setup,
            counts=count,
            matches=matches,
            rows_per_fixture=rows_per_fixture or setup.config.sampling.rows_per_fixture,
            settings=_settings(**measuring),
        ),
        as_json=as_json,
    )


@bench.command()
@_config
@_plan
@_json
def transport(as_json: bool, **given: Any) -> None:
    """Blocks of segments from a sampler process to a learner process: shared memory and zmq frames.

    The limit is one copy of the same arrays within a process.
    """
    from ludus_bench.carrying import bench_transport  # noqa: PLC0415 - help must be fast

    setup, measuring = _split(given)
    _show(bench_transport(setup, plan=_settings(**measuring).plan), as_json=as_json)


@bench.command()
@click.option("--parameters", metavar="N", type=_NUMBERS, default="5e6", help="Numbers in the model (5e6).")
@click.option("--samplers", type=click.IntRange(1, 4096), default=8, help="Processes that take them (8).")
@_plan
@_json
def weights(parameters: tuple[int, ...], samplers: int, as_json: bool, **measuring: Any) -> None:
    """The time until all sampler processes have new weights.

    The limit is one copy of them for the learner and one for each sampler, on all cores at once.
    """
    from ludus_bench.carrying import bench_weights  # noqa: PLC0415 - help must be fast

    (size,) = parameters if len(parameters) == 1 else (0,)
    if not size:
        raise click.BadParameter("expected one number", param_hint="--parameters")
    _show(bench_weights(parameters=size, samplers=samplers, plan=_settings(**measuring).plan), as_json=as_json)


@bench.command()
@_config
@click.option("--seconds", type=_POSITIVE, default=120.0, help="About how long all of it may take (120).")
@_json
def tune(seconds: float, as_json: bool, **given: Any) -> None:
    """Matches, samplers, threads and minibatch that suit this machine, as lines of TOML."""
    from ludus_bench.timing import Plan  # noqa: PLC0415 - help must be fast
    from ludus_bench.tune import bench_tune  # noqa: PLC0415

    setup, _ = _split(given)
    each = min(0.5, seconds / 240)
    _show(bench_tune(setup, seconds=seconds, plan=Plan(repeats=3, seconds=each, warmup_s=each)), as_json=as_json)


def _split(given: dict[str, Any], **usual: Any) -> tuple[Setup, dict[str, Any]]:
    """Return the configuration that the options describe, and the options that describe something else."""
    from ludus_bench._pieces import Source, open_setup  # noqa: PLC0415 - help must be fast

    names = ("path", "environment", "algorithm", "network", "overrides")
    source = Source(**{name: given.pop(name) for name in names}, **usual)
    return open_setup(source), given


def _settings(
    *, repeats: int, seconds: float, warmup: float, clock: Any, threads: int = 1, device: str = "cpu"
) -> Settings:
    from ludus_bench.machine import to_device  # noqa: PLC0415 - help must be fast
    from ludus_bench.single import Settings  # noqa: PLC0415
    from ludus_bench.timing import Plan  # noqa: PLC0415

    plan = Plan(repeats=repeats, seconds=seconds, warmup_s=warmup, clock=clock)
    return Settings(plan=plan, threads=threads, device=to_device(device))


def _show(report: Report, *, as_json: bool) -> None:
    from ludus_bench.report import show  # noqa: PLC0415 - help must be fast

    show(report, as_json=as_json)
