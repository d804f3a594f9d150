"""``ludus eval``: play participants of a run against each other and count the results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import click
import numpy as np
from attrs import frozen
from ludus.agent import Agent
from ludus.environment import Environment, Scenario
from ludus.runs import open_run, play_matches, score

__all__ = ["SEED", "Record", "evaluate", "play_pair"]

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
    values: dict[str, Any] = {**result.json(), "mean_return": record.mean_return, "mean_ticks": record.mean_ticks}
    if as_json:
        click.echo(json.dumps(values))
        return
    against = f" against {', '.join(participants[1:])}" if participants[1:] else ""
    click.echo(
        f"{participants[0]}{against}: {result.wins} wins, {result.draws} draws, {result.losses} losses; score "
        f"{result.score:.3f} [{result.low:.3f}, {result.high:.3f}], return {record.mean_return:.2f}, "
        f"{record.mean_ticks:.1f} ticks per match"
    )


@frozen(kw_only=True)
class Record:
    """The results of the first of several sides.

    Attributes:
        wins: Matches in which its team had the highest outcome.
        draws: Matches in which another team had the same outcome.
        losses: All other matches.
        mean_return: Mean return of its seats per match.
        mean_ticks: Mean length of a match.
    """

    wins: int
    draws: int
    losses: int
    mean_return: float
    mean_ticks: float


def play_pair(
    environment: Environment,
    sides: Sequence[Mapping[str, Agent]],
    *,
    matches: int,
    seed: int,
    scenario: Scenario | None = None,
) -> Record:
    """Play sides against each other, one per team, on the same seeds from every team they can take.

    Args:
        environment: A new batch; the caller closes it.
        sides: For every team a mapping from role name to the agent that fills the seats of that role. Teams are
            exchanged if the game has a single role.
        matches: Total number, divided evenly among the exchanges and rounded up.
        seed: Seed of matches and sampling.
        scenario: Scenario of all matches; None for the default one.

    Returns:
        The record of ``sides[0]``.
    """
    spec = environment.spec
    shifts = len(sides) if len(spec.roles) == 1 else 1
    sides_by_seat = [[(seat.team + shift) % len(sides) for seat in spec.seats] for shift in range(shifts)]
    seatings = [[sides[i][seat.role] for i, seat in zip(row, spec.seats, strict=True)] for row in sides_by_seat]
    played = play_matches(environment, seatings, matches=-(-matches // shifts), seed=seed, scenario=scenario)
    leads, returns = [], []
    for seating, arrays in zip(sides_by_seat, played, strict=True):
        own_seats = [seat for seat, side in enumerate(seating) if side == 0]
        leads.append(_lead(arrays["outcome"], spec.seats[own_seats[0]].team))
        returns.append(arrays["returns"][:, own_seats].mean(axis=1))
    lead = np.concatenate(leads)
    return Record(
        wins=int(np.count_nonzero(lead > 0)),
        draws=int(np.count_nonzero(lead == 0)),
        losses=int(np.count_nonzero(lead < 0)),
        mean_return=float(np.concatenate(returns).mean()),
        mean_ticks=float(np.concatenate([arrays["ticks"] for arrays in played]).mean()),
    )


def _lead(outcome: np.ndarray, team: int) -> np.ndarray:
    """Return ``[n]``: the outcome of a team minus the best outcome of other teams, or minus ½ without other teams."""
    others = np.delete(outcome, team, axis=1) if outcome.shape[1] > 1 else np.full_like(outcome, 0.5)
    return np.asarray(outcome[:, team] - others.max(axis=1))
