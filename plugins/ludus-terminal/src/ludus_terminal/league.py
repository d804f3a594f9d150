"""The command group ``ludus league``: views of the league of a run, and comparison and promotion of its models.

The views are imported on first use, so that ``--help`` is fast.
"""

from __future__ import annotations

import importlib
import json
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
    """A group whose command may precede or follow the run; the default command is the overview."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; any other name is a run, whose overview is shown."""
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, _OVERVIEW)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the first argument that names a command and is not the value of an option, and remove it."""
        options_with_value = self._options_with_value()
        for index, (previous, word) in enumerate(pairwise(["", *args])):
            if word in self.commands and previous not in options_with_value:
                return word, self.get_command(ctx, word), args[:index] + args[index + 1 :]
        words = [word for word in args if not word.startswith("-")]
        if len(words) > 1:
            ctx.fail(f"expected one of {', '.join(self.commands)}, got {words[-1]!r}")
        return _OVERVIEW, self.get_command(ctx, _OVERVIEW), args

    def _options_with_value(self) -> set[str]:
        """Return the flags of all options of the commands that take a value."""
        parameters = [parameter for command in self.commands.values() for parameter in command.params]
        options = [option for option in parameters if isinstance(option, click.Option) and not option.is_flag]
        return {flag for option in options for flag in option.opts}


@click.group(
    cls=_LeagueGroup,
    subcommand_metavar="[COMMAND] RUN [ARGS]…",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def league() -> None:
    """Show the league of the run folder RUN; without a command its players, scores against anchors, and ratings.

    The command may precede or follow the run. Write ./NAME for a folder that has the name of a command.
    """


def _print(target: str, run: Path, *, as_json: bool, **options: object) -> Data:
    """Print a view of a run and return its data.

    Args:
        target: Location of the view, ``module:VIEW``.
        run: The run folder.
        as_json: Print the data as JSON.
        options: Options of the view.
    """
    from ludus.runs import open_run  # noqa: PLC0415 - --help must be fast

    from ludus_terminal.output import output_width  # noqa: PLC0415 - as above
    from ludus_terminal.views import printable  # noqa: PLC0415 - as above

    module, _, name = target.partition(":")
    view = getattr(importlib.import_module(f"ludus_terminal.{module}"), name)
    with open_run(run) as opened:
        data = view.data(opened, **options)
    if as_json:
        click.echo(json.dumps(data, indent=2, default=methodcaller("json")))
        return data
    from rich.console import Console  # noqa: PLC0415 - as above

    console = Console(highlight=False, width=output_width())
    for part in view.show(printable(data)):
        console.print(part)
    return data


def _add(name: str, target: str, help: str) -> None:
    """Add a view without options."""

    def show(run: Path, *, as_json: bool) -> None:
        _print(target, run, as_json=as_json)

    callback: Callable[..., Any] = _run(_json(show))
    league.command(name, help=help)(callback)


_add(_OVERVIEW, "views:OVERVIEW", "Players, scores against anchors, and ratings; the default command.")
_add("payoffs", "views:PAYOFFS", "Scores of all participants against each other.")
_add("pools", "views:POOLS", "Pools and their members.")
_add("lineage", "views:LINEAGE", "Parents and generations of models, and reasons of player resets.")
_add("mix", "mix:MIX", "Scheduled and played opponents with reasons, and the players' shares of the matches.")


@league.command()
@_run
@click.option("--last", type=click.IntRange(1, 10**9), default=20, show_default=True, help="Number of matches to list.")
@_json
def matches(run: Path, *, last: int, as_json: bool) -> None:
    """List the last matches, with the reason behind each pairing."""
    _print("views:MATCHES", run, as_json=as_json, last=last)


@league.command()
@_run
@click.option("--last", type=click.IntRange(1), default=5, show_default=True, help="Newest models of every player.")
@click.option(
    "--players",
    "participants",
    metavar="A,B,…",
    default="",
    help="Show these instead of the newest models and the anchors: models, anchors, or players (their newest model).",
)
@click.option("--against", metavar="NAME", help="Play matches against this participant instead of reading the log.")
@click.option("--matches", type=click.IntRange(1), default=100, show_default=True, help="Matches of each to play.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Seed of these matches.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="PNG file for the normalised profiles.")
@_json
def behaviour(
    run: Path,
    *,
    last: int,
    participants: str,
    against: str | None,
    matches: int,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show what participants do in evaluation matches: means of the statistics that the environment emits.

    With --against, all play the same matches against one opponent, which makes them comparable; nothing is written to
    the run. Profiles (--plot) have every statistic on a scale from 0, the lowest mean that is shown, to 1, the highest.
    """
    from ludus_terminal.behaviour import PlayedAgainst  # noqa: PLC0415 - --help must be fast

    names = [name for name in participants.split(",") if name]
    played = PlayedAgainst(opponent=against, matches=matches, seed=seed) if against else None
    _print("behaviour:BEHAVIOUR", run, as_json=as_json, last=last, participants=names, played=played, plot=plot)


@league.command()
@_run
@click.option("--repair", is_flag=True, help="Restore damaged files first; the run must have stopped.")
@click.option(
    "--copy",
    "copies",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    help="Folder with files to restore models from, such as a copy of the run; may be repeated.",
)
@click.option(
    "--continue",
    "go_on",
    is_flag=True,
    help="Go on from the fixture that the last call with this option has reached, and record how far this one came.",
)
@_json
@click.pass_context
def verify(
    context: click.Context, run: Path, *, repair: bool, copies: tuple[Path, ...], go_on: bool, as_json: bool
) -> None:
    """Recompute everything from the match log and the files; the exit status is 1 if anything differs.

    Every row of the database is compared with a checksum, so that any changed bit is found.

    With --repair, models are restored from copies and from checkpoints of equal weights, and return to their pools. A
    model that cannot be restored is quarantined: it leaves its pools and plays no more. A damaged checkpoint is set
    aside; the player resumes from the one before, or from its newest model. Payoffs, behaviour and numbers of matches
    that do not agree with a sound match log are counted again.
    """
    if copies and not repair:
        raise click.UsageError("--copy needs --repair")
    from ludus.runs import repair_files  # noqa: PLC0415 - --help must be fast

    repairs = repair_files(run, copies) if repair else []
    data = _print("verify_view:VERIFY", run, as_json=as_json, repairs=repairs, go_on=go_on)
    context.exit(0 if data["ok"] else 1)


@league.command()
@_run
@click.option("--method", type=click.Choice(_METHODS), default=_METHODS[0], show_default=True, help="Rating method.")
@_json
def ratings(run: Path, *, method: str, as_json: bool) -> None:
    """Rate frozen models and anchors from the evaluation matches in the log.

    bradley-terry: maximum-likelihood ratings, which matchmakers use. elo: updated match by match. openskill: for teams
    of any size. nash: against the maximum-entropy equilibrium. alpha-rank: shares of an evolving population.
    """
    _print("rating_views:RATINGS", run, as_json=as_json, method=method)


@league.command()
@_run
@click.argument("a")
@click.argument("b")
@click.option(
    "--play", is_flag=True, help="Play matches until the test of ludus gate RUN B A decides, with its defaults."
)
@_json
@click.pass_context
def compare(context: click.Context, run: Path, a: str, b: str, *, play: bool, as_json: bool) -> None:
    """Test whether B is better than A at 95 % confidence, or estimate how many more matches would decide it.

    A and B are frozen models or anchors of one role; ROLE=NAME chooses the role of an anchor. The evidence are
    evaluation matches: between them, on paired seeds with exchanged seats, and of both against other participants.
    """
    if play:
        from ludus_terminal.gate import gate  # noqa: PLC0415 - --help must be fast

        with gate.make_context("gate", [str(run), b, a, *(["--json"] if as_json else [])], parent=context) as played:
            gate.invoke(played)
    _print("comparison:COMPARISON", run, as_json=as_json, a=a, b=b)


@league.command()
@_run
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for PNG files, whose existing plots are replaced; default: RUN/plots.",
)
@_json
def plot(run: Path, *, out: Path | None, as_json: bool) -> None:
    """Draw payoffs, ratings, lineage, pools, opponents, shares and behaviour as PNG files (needs matplotlib)."""
    if out is None:
        from ludus.runs import check_folder  # noqa: PLC0415 - only here: help must be fast

        check_folder(run)
        out = run / "plots"
    _print("plots:PLOTS", run, as_json=as_json, out=out)


@league.command()
@_run
@click.argument("model", required=False)
@click.argument("pool", required=False)
@click.option("--from", "source", default="", metavar="POOL", help="Show candidates of this pool only.")
@click.option("--top", type=click.IntRange(1), default=3, show_default=True, help="Number of candidates to show.")
@_json
def promote(run: Path, model: str | None, pool: str | None, *, source: str, top: int, as_json: bool) -> None:
    """Add MODEL to POOL by hand; without arguments show the candidates and their behaviour.

    A run that goes on makes the change at once; one that is stopped goes on with it when it is resumed.
    """
    if model is None:
        _print("promotion:CANDIDATES", run, as_json=as_json, source=source, top=top)
        return
    if pool is None:
        raise click.UsageError(f"name the pool for {model}: ludus league promote {run} {model} POOL")
    from ludus_terminal.promotion import add_to_pool  # noqa: PLC0415 - --help must be fast

    promoted = add_to_pool(run, model, pool)
    _print("promotion:PROMOTED", run, as_json=as_json, promoted=promoted)
