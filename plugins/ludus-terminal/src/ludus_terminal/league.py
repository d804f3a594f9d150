"""``ludus league``: look at the league of a run, also while it goes on, compare its models, and promote them.

Everything but the commands themselves is imported when it is used, so that help is quick.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from itertools import pairwise
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeAlias

import click

__all__ = ["league"]

Data: TypeAlias = Any  # JSON values

_OVERVIEW = "overview"
_METHODS = ["bradley-terry", "elo", "openskill", "nash", "alpha-rank"]

_run = click.argument("run", type=click.Path(path_type=Path))
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, complete and unrounded.")


class _LeagueGroup(click.Group):
    """A group whose command may stand before the run or behind it; without one it is the overview."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; anything that is none is a run, which stands for its overview."""
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, _OVERVIEW)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take the first word that names a command, and is not the value of an option, out of the words."""
        known = [parameter for command in self.commands.values() for parameter in command.params]
        valued = {flag for one in known if isinstance(one, click.Option) and not one.is_flag for flag in one.opts}
        free = [word in self.commands and before not in valued for before, word in pairwise(["", *args])]
        place = free.index(True) if any(free) else -1
        if place < 0:
            words = [word for word in args if not word.startswith("-")]
            if len(words) > 1:
                ctx.fail(f"expected one of {', '.join(self.commands)}, got {words[-1]!r}")
            return _OVERVIEW, self.get_command(ctx, _OVERVIEW), args
        return args[place], self.get_command(ctx, args[place]), args[:place] + args[place + 1 :]


@click.group(
    cls=_LeagueGroup,
    subcommand_metavar="[COMMAND] RUN [ARGS]…",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def league() -> None:
    """Show the league of the run folder RUN: without a command players, records against anchors, and ratings.

    The command may stand before the run or behind it. A folder that is called like a command is meant by ./NAME.
    """


def _print(target: str, run: Path, *, as_json: bool, **options: object) -> Data:
    """Show a view of a run and return its data.

    Args:
        target: Where the view is defined, as ``module:VIEW``.
        run: The run folder.
        as_json: Print the data instead.
        options: Of the view.
    """
    from ludus.runs import open_run  # noqa: PLC0415 - help does without

    from ludus_terminal.views import printable  # noqa: PLC0415 - as above

    module, _, name = target.partition(":")
    view = getattr(importlib.import_module(f"ludus_terminal.{module}"), name)
    with open_run(run) as opened:
        data = view.data(opened, **options)
    if as_json:
        click.echo(json.dumps(data, indent=2, default=methodcaller("json")))
        return data
    from rich.console import Console  # noqa: PLC0415 - as above

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    for part in view.show(printable(data)):
        console.print(part)
    return data


def _add(name: str, target: str, help: str) -> None:
    """Add a view without options."""

    def show(run: Path, *, as_json: bool) -> None:
        _print(target, run, as_json=as_json)

    callback: Callable[..., Any] = _run(_json(show))
    league.command(name, help=help)(callback)


_add(_OVERVIEW, "views:OVERVIEW", "Players, records against anchors, and ratings; what is shown without a command.")
_add("payoffs", "views:PAYOFFS", "Everybody's score against everybody.")
_add("pools", "views:POOLS", "Pools and their members.")
_add("lineage", "views:LINEAGE", "Which model grew from which, generations, and why players started anew.")
_add("mix", "mix:MIX", "Whom players asked for and why, against whom they played, and their shares of the matches.")


@league.command()
@_run
@click.option("--last", type=click.IntRange(1, 10**9), default=20, show_default=True, help="How many matches to list.")
@_json
def matches(run: Path, *, last: int, as_json: bool) -> None:
    """List the last matches, with the reason behind each pairing."""
    _print("views:MATCHES", run, as_json=as_json, last=last)


@league.command()
@_run
@_json
@click.pass_context
def verify(context: click.Context, run: Path, *, as_json: bool) -> None:
    """Recompute everything from the match log and the files; exits with 1 if something differs."""
    data = _print("views:VERIFY", run, as_json=as_json)
    context.exit(0 if data["ok"] else 1)


@league.command()
@_run
@click.option("--method", type=click.Choice(_METHODS), default=_METHODS[0], show_default=True, help="How to rate.")
@_json
def ratings(run: Path, *, method: str, as_json: bool) -> None:
    """Rate frozen models and anchors from the evaluation matches in the log.

    bradley-terry: the most likely ratings, which matchmakers use. elo: moved match by match. openskill: for teams of
    any size. nash: against the most even equilibrium of the results. alpha-rank: who survives among the others.
    """
    _print("rating_views:RATINGS", run, as_json=as_json, method=method)


@league.command()
@_run
@click.argument("a")
@click.argument("b")
@_json
def compare(run: Path, a: str, b: str, *, as_json: bool) -> None:
    """Say whether B is better than A, with 95 % confidence, or how many more matches would decide it.

    A and B are frozen models or anchors. What counts are evaluation matches: theirs against each other, on paired
    seeds with exchanged seats, and those of both against others.
    """
    _print("rating_views:COMPARISON", run, as_json=as_json, a=a, b=b)


@league.command()
@_run
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for PNG files; those of an earlier plot are replaced.",
)
@_json
def plot(run: Path, *, out: Path, as_json: bool) -> None:
    """Draw payoffs, ratings, lineage, pools, opponents and shares as PNG files (needs matplotlib)."""
    _print("plots:PLOTS", run, as_json=as_json, out=out)


@league.command()
@_run
@click.argument("model", required=False)
@click.argument("pool", required=False)
@click.option("--from", "source", default="", metavar="POOL", help="Show candidates of this pool only.")
@click.option("--top", type=click.IntRange(1), default=3, show_default=True, help="How many candidates to show.")
@_json
def promote(run: Path, model: str | None, pool: str | None, *, source: str, top: int, as_json: bool) -> None:
    """Put MODEL into POOL by your own judgement; without them show the candidates and how they behave.

    The run must be stopped; when it is resumed the model is in the pool.
    """
    if model is None:
        _print("promotion:CANDIDATES", run, as_json=as_json, source=source, top=top)
        return
    if pool is None:
        raise click.UsageError(f"name the pool that {model} shall enter: ludus league promote {run} {model} POOL")
    from ludus_terminal.promotion import enter  # noqa: PLC0415 - help does without

    promoted = enter(run, model, pool)
    _print("promotion:PROMOTED", run, as_json=as_json, promoted=promoted)
