"""``ludus train`` and ``ludus resume``: run a league."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ludus._plugins import load_plugins

if TYPE_CHECKING:
    from ludus._report import Reporter
    from ludus._runner import Outcome

__all__ = ["resume", "train"]

_overrides = click.option(
    "--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Replace one value of the file; may be repeated."
)
_minutes = click.option("--minutes", type=float, help="Stop after so many minutes of training (run.minutes).")
_workers = click.option("--workers", type=int, help="Sampler processes; 0: everything in one process (run.workers).")
_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else.")


@click.command()
@click.argument("path", metavar="RUN.TOML")
@click.option("--run", "run_dir", metavar="DIR", help="Folder of the run; default: runs/<name of the file>.")
@_overrides
@_minutes
@_workers
@_json
@click.pass_context
def train(
    context: click.Context,
    path: str,
    run_dir: str | None,
    overrides: tuple[str, ...],
    minutes: float | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Train the players of a TOML file.

    Ctrl-C stops cleanly; `ludus resume DIR` goes on.
    """
    from ludus._config import load_config  # noqa: PLC0415 - only here: help must be fast
    from ludus._runner import train as run  # noqa: PLC0415

    plugins = load_plugins()
    config = load_config(path, overrides=(*overrides, *_as_overrides(minutes, workers)), plugins=plugins)
    folder = Path(run_dir) if run_dir else Path("runs") / Path(path).stem
    outcome = run(config, plugins=plugins, run_dir=folder, reporter=_reporter(as_json))
    _finish(context, outcome, folder, as_json=as_json)


@click.command()
@click.argument("run_dir", metavar="DIR")
@_overrides
@_minutes
@_workers
@_json
@click.pass_context
def resume(
    context: click.Context,
    run_dir: str,
    overrides: tuple[str, ...],
    minutes: float | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Go on with a run: weights, optimiser, pools, payoffs, ratings, counters and random state are as they were.

    Limits count from the first start; raise them to train further: --minutes 60.
    """
    from ludus._runner import resume as run  # noqa: PLC0415 - only here: help must be fast

    folder = Path(run_dir)
    outcome = run(
        folder,
        plugins=load_plugins(),
        reporter=_reporter(as_json),
        overrides=(*overrides, *_as_overrides(minutes, workers)),
    )
    _finish(context, outcome, folder, as_json=as_json)


def _as_overrides(minutes: float | None, workers: int | None) -> tuple[str, ...]:
    given = {"run.minutes": minutes, "run.workers": workers}
    return tuple(f"{key}={value}" for key, value in given.items() if value is not None)


def _reporter(as_json: bool) -> Reporter:
    from rich.console import Console  # noqa: PLC0415 - only here: help must be fast

    from ludus._report import ConsoleReporter, QuietReporter  # noqa: PLC0415

    # what is said must stay one line in a log, while the live table of a terminal wants to be fitted in
    return QuietReporter() if as_json else ConsoleReporter(Console(soft_wrap=not Console().is_terminal))


def _finish(context: click.Context, outcome: Outcome, folder: Path, *, as_json: bool) -> None:
    from ludus._report import summary, summary_json  # noqa: PLC0415 - only here: help must be fast

    if as_json:
        click.echo(
            json.dumps({"run": str(folder), "reason": outcome.reason, **summary_json(outcome.snapshot)}, indent=2)
        )
    else:
        from rich.console import Console  # noqa: PLC0415 - as above

        Console().print(summary(outcome.snapshot))
        click.echo(f"stopped: {outcome.reason}")
        more = "" if outcome.interrupted else " --minutes MORE"
        click.echo(f"go on with: ludus resume {shlex.quote(str(folder))}{more}")
    context.exit(130 if outcome.interrupted else 0)
