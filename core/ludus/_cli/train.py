"""``ludus train`` and ``ludus resume``: run a league."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ludus._plugins.manager import Plugins, load_plugins
from ludus.cli_types import FiniteRange
from ludus.errors import RunError

if TYPE_CHECKING:
    from ludus._run.runner import Outcome

# Before NumPy is imported: what a coordinator multiplies is small, and more threads would wait for each other on cores
# that its workers need. Workers are told numbers of their own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_DISPLAY = "terminal"  # the metric sink that shows a run, where it is installed
_REPORT = "report"  # likewise the command that shows what it has come to


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that both commands have."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else."),
        click.option("--workers", type=click.IntRange(0), help="Sampler processes; 0: all in one (run.workers)."),
        click.option("--minutes", type=FiniteRange(0), help="Stop after so many minutes (run.minutes)."),
        click.option(
            "--set",
            "overrides",
            metavar="KEY=VALUE",
            multiple=True,
            help="Replace one value of the file; may be repeated.",
        ),
    ):
        command = option(command)
    return click.pass_context(command)


@click.command()
@click.argument("path", metavar="RUN.TOML")
@click.option("--run", "run_dir", metavar="DIR", help="Folder of the run; default: runs/<name of the file>.")
@_common
def train(context: click.Context, *, path: str, run_dir: str | None, as_json: bool, **given: Any) -> None:
    """Train the players of a TOML file.

    Ctrl-C stops cleanly; `ludus resume DIR` goes on.
    """
    from ludus._config.run_config import load_config  # noqa: PLC0415 - only here: help must be fast
    from ludus._run.runner import train as run  # noqa: PLC0415

    plugins = _plugins()
    config = load_config(path, overrides=_overrides(**given), plugins=plugins)
    folder = Path(run_dir) if run_dir else _usual_folder(path)
    outcome = run(config, plugins=plugins, run_dir=folder, **_shown(plugins, as_json=as_json))
    _finish(context, plugins, outcome, folder, as_json=as_json)


@click.command()
@click.argument("run_dir", metavar="DIR")
@_common
def resume(context: click.Context, *, run_dir: str, as_json: bool, **given: Any) -> None:
    """Go on with a run: weights, optimiser, pools, payoffs, ratings, counters and random state are as they were.

    Limits count from the first start; raise them to train further: --minutes 60.
    """
    from ludus._run.runner import resume as run  # noqa: PLC0415 - only here: help must be fast

    _refuse_file(run_dir)
    plugins, folder = _plugins(), Path(run_dir)
    outcome = run(folder, plugins=plugins, overrides=_overrides(**given), **_shown(plugins, as_json=as_json))
    _finish(context, plugins, outcome, folder, as_json=as_json)


def _usual_folder(path: str) -> Path:
    return Path("runs") / Path(path).stem


def _refuse_file(path: str) -> None:
    """Tell who names a file what goes on with its run.

    Raises:
        RunError: It is a file.
    """
    from ludus._store.database import DATABASE  # noqa: PLC0415 - only here: help must be fast

    if Path(path).is_file():
        known = [folder for folder in (Path(path).parent, _usual_folder(path)) if (folder / DATABASE).exists()]
        folder = shlex.quote(str(known[0])) if known else "DIR"
        start = f"`ludus train {shlex.quote(path)}` starts a run of it"
        raise RunError(f"{path} is a file: {start}, `ludus resume {folder}` goes on with the one in a folder")


def _plugins() -> Plugins:
    """Load the plugins; a name to allow or block that none of them has is told."""
    plugins = load_plugins()
    for line in plugins.misnamed():
        click.echo(f"warning: {line}", err=True)
    return plugins


def _overrides(*, overrides: tuple[str, ...], minutes: float | None, workers: int | None) -> tuple[str, ...]:
    given = {"run.minutes": minutes, "run.workers": workers}
    return (*overrides, *(f"{key}={value}" for key, value in given.items() if value is not None))


def _shown(plugins: Plugins, *, as_json: bool) -> dict[str, Any]:
    """Return who shows the run, as arguments of the runner."""
    from ludus._config.run_config import choose_components  # noqa: PLC0415 - only here: help must be fast

    if as_json:
        return {"print_line": lambda _: None}
    shown = _DISPLAY in plugins.components("metric-sink")
    return {
        "print_line": click.echo,
        "displays": choose_components(plugins, [("metric-sink", _DISPLAY)]) if shown else [],
    }


def _finish(context: click.Context, plugins: Plugins, outcome: Outcome, folder: Path, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"run": str(folder), "reason": outcome.reason, **outcome.summary}, indent=2))
    else:
        limit = " --set run.decisions=MORE" if outcome.reason.endswith("decisions are learned") else " --minutes MORE"
        more = "" if outcome.interrupted else limit
        if _REPORT in plugins.components("command"):
            report: click.Command = plugins.get("command", _REPORT).load_factory()  # type: ignore[assignment]
            report.main(["--", str(folder)], standalone_mode=False)
        click.echo(f"stopped: {outcome.reason}")
        name = f"./{folder}" if str(folder).startswith("-") else str(folder)  # not to be taken for an option
        click.echo(f"go on with: ludus resume {shlex.quote(name)}{more}")
    context.exit(130 if outcome.interrupted else 0)
