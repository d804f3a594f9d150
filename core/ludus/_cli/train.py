"""The commands ``ludus train`` and ``ludus resume``."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ludus._plugins.manager import Plugins, load_plugins
from ludus.cli_types import FiniteRange
from ludus.errors import RunError

if TYPE_CHECKING:
    from ludus._run.session import RunResult

# Set before NumPy is imported: the products of a coordinator are small, and further threads would wait on cores that
# its workers need. Workers set their own number of threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_DISPLAY = "terminal"  # metric sink that displays a run, if it is installed
_REPORT = "report"  # command that prints a report at the end, if it is installed


def _common_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of both commands."""
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
@_common_options
def train(context: click.Context, *, path: str, run_dir: str | None, as_json: bool, **options: Any) -> None:
    """Train the players of a TOML file.

    Ctrl-C stops cleanly; `ludus resume DIR` goes on.
    """
    from ludus._config.run_config import load_config  # noqa: PLC0415 - --help must be fast
    from ludus._run import runner  # noqa: PLC0415

    plugins = _load_plugins()
    config = load_config(path, overrides=_overrides(**options), plugins=plugins)
    folder = Path(run_dir) if run_dir else _default_folder(path)
    result = runner.train(config, plugins=plugins, run_dir=folder, **_output(plugins, as_json=as_json))
    _finish(context, plugins, result, folder, as_json=as_json)


@click.command()
@click.argument("run_dir", metavar="DIR")
@_common_options
def resume(context: click.Context, *, run_dir: str, as_json: bool, **options: Any) -> None:
    """Go on with a run from its last committed state.

    Weights, optimizer, pools, payoffs, ratings, counters and random state are restored. Limits count from the first
    start; raise them to train further: --minutes 60.
    """
    from ludus._run import runner  # noqa: PLC0415 - --help must be fast

    _reject_file(run_dir)
    plugins, folder = _load_plugins(), Path(run_dir)
    overrides = _overrides(**options)
    result = runner.resume(folder, plugins=plugins, overrides=overrides, **_output(plugins, as_json=as_json))
    _finish(context, plugins, result, folder, as_json=as_json)


def _default_folder(path: str) -> Path:
    return Path("runs") / Path(path).stem


def _reject_file(path: str) -> None:
    """Check that a path is not a file.

    Raises:
        RunError: It is a file; the message names the folder of its run, if there is one.
    """
    from ludus._store.database import DATABASE  # noqa: PLC0415 - --help must be fast

    if Path(path).is_file():
        folders = [folder for folder in (Path(path).parent, _default_folder(path)) if (folder / DATABASE).exists()]
        folder = shlex.quote(str(folders[0])) if folders else "DIR"
        start = f"`ludus train {shlex.quote(path)}` starts a run of it"
        raise RunError(f"{path} is a file: {start}, `ludus resume {folder}` goes on with the one in a folder")


def _load_plugins() -> Plugins:
    """Load the plugins, and print a warning for every allowed or blocked name that no plugin has."""
    plugins = load_plugins()
    for line in plugins.unmatched_names():
        click.echo(f"warning: {line}", err=True)
    return plugins


def _overrides(*, overrides: tuple[str, ...], minutes: float | None, workers: int | None) -> tuple[str, ...]:
    options = {"run.minutes": minutes, "run.workers": workers}
    return (*overrides, *(f"{key}={value}" for key, value in options.items() if value is not None))


def _output(plugins: Plugins, *, as_json: bool) -> dict[str, Any]:
    """Return the keyword arguments of the runner that control what is printed during the run."""
    from ludus._config.run_config import select_components  # noqa: PLC0415 - --help must be fast

    if as_json:
        return {"print_line": lambda _: None}
    if _DISPLAY not in plugins.components("metric-sink"):
        return {"print_line": click.echo}
    return {"print_line": click.echo, "displays": select_components(plugins, [("metric-sink", _DISPLAY)])}


def _finish(context: click.Context, plugins: Plugins, result: RunResult, folder: Path, *, as_json: bool) -> None:
    if as_json:
        problem = {"problem": result.problem} if result.problem else {}
        click.echo(json.dumps({"run": str(folder), "reason": result.reason, **problem, **result.summary}, indent=2))
    else:
        if _REPORT in plugins.components("command"):
            report: click.Command = plugins.get("command", _REPORT).load_factory()  # type: ignore[assignment]
            report.main(["--", str(folder)], standalone_mode=False)
        click.echo(f"stopped: {result.reason}")
        for line in _next_steps(plugins, result, folder):
            click.echo(line)
    if result.problem:
        click.echo(f"error: {result.problem}", err=True)
    context.exit(130 if result.interrupted else 1 if result.problem else 0)


def _next_steps(plugins: Plugins, result: RunResult, folder: Path) -> Iterator[str]:
    """Yield the commands that go on with a run, and those that show what it has learned."""
    path = shlex.quote(f"./{folder}" if str(folder).startswith("-") else str(folder))  # or it would be an option
    limit = " --set run.decisions=MORE" if result.reason.endswith("decisions are learned") else " --minutes MORE"
    yield f"go on with: ludus resume {path}{'' if result.interrupted else limit}"
    commands = plugins.components("command")
    if not any(player["models"] for player in result.summary["players"].values()):
        return
    if result.playable and {"watch", "play"} <= commands.keys():
        yield f"watch it: ludus watch {path}; play against it: ludus play {path}"
    if "league" in commands:
        yield f"players and ratings: ludus league {path}; curves: ludus league plot {path}"
