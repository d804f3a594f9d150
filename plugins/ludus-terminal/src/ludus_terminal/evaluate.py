"""``ludus eval``: play participants of a run against each other and count the results."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import click
from ludus import Scenario
from ludus.runs import open_run, score

from ludus_terminal.pairs import play_pair

__all__ = ["SEED", "evaluate"]

#: Type of seeds, as for `run.seed`.
SEED = click.IntRange(0, 2**63 - 1)


def _scenario(_context: click.Context, _parameter: click.Parameter, name: str) -> Scenario:
    try:
        return Scenario(name=name)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("eval")
@click.argument("run_dir", metavar="RUN")
@click.argument("participants", nargs=-1, required=True)
@click.option(
    "--matches",
    default=200,
    show_default=True,
    type=click.IntRange(1, 10**9),
    help="Total number of matches; with exchanged seats rounded up to a multiple of the teams.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of matches and sampling.")
@click.option("--deterministic", is_flag=True, help="Models take their most likely action instead of sampling.")
@click.option("--scenario", default="default", show_default=True, callback=_scenario, help="Scenario to play.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def evaluate(
    run_dir: str,
    participants: tuple[str, ...],
    matches: int,
    seed: int,
    deterministic: bool,
    scenario: Scenario,
    as_json: bool,
) -> None:
    """Play participants of a run against each other; print the results and the score of the first one.

    RUN is a run folder. PARTICIPANTS are one per team: models (main_agent@latest, main_agent@7), anchors of the run,
    or installed agents (random). Half of the matches are played with exchanged seats, on the same seeds. Nothing is
    written to the run.
    """
    with ExitStack() as stack:
        with open_run(run_dir) as run:  # closed before the matches: an open snapshot keeps the database from shrinking
            environment = run.make_environment(min(matches, 256))
            stack.callback(environment.close)
            spec = environment.spec
            if len(participants) != spec.num_teams:
                raise click.UsageError(f"{spec.name} has {spec.num_teams} teams: name one participant for each")
            roles = [
                {seat.role for seat in spec.seats if seat.team == team or len(spec.roles) == 1}
                for team in range(spec.num_teams)
            ]
            sides = [
                {
                    role: run.agent(name, role, environment=environment, deterministic=deterministic)
                    for role in sorted(own_roles)
                }
                for name, own_roles in zip(participants, roles, strict=True)
            ]
        record = play_pair(environment, sides, matches=matches, seed=seed, scenario=scenario)
    result = score(record.wins, record.draws, record.losses)
    values: dict[str, Any] = {
        **result.json(),
        "mean_return": record.mean_return,
        "mean_ticks": record.mean_ticks,
    }
    if as_json:
        click.echo(json.dumps(values))
        return
    against = f" against {', '.join(participants[1:])}" if participants[1:] else ""
    click.echo(
        f"{participants[0]}{against}: {result.wins} wins, {result.draws} draws, {result.losses} losses; score "
        f"{result.score:.3f} [{result.low:.3f}, {result.high:.3f}], return {record.mean_return:.2f}, "
        f"{record.mean_ticks:.1f} ticks per match"
    )
