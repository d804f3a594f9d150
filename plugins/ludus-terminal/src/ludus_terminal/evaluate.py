"""``ludus eval``: play participants of a run against each other and count the results."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import click
import numpy as np
from attrs import frozen
from ludus.agent import Agent
from ludus.environment import Environment, EnvironmentSpec, Scenario
from ludus.errors import ConfigError
from ludus.levels import WeakenedSource
from ludus.lineup import Lineup, make_agents, make_lineups, team_rotations
from ludus.runs import ReturnOutcome, open_run, play_matches, score
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ludus_terminal.output import NEAR, output_width, table

__all__ = ["SCENARIO", "SEED", "Record", "evaluate", "play_pair", "team_lead"]

#: Type of seeds, as for `run.seed`.
SEED = click.IntRange(0, 2**63 - 1)


def _scenario(_context: click.Context, _parameter: click.Parameter, name: str) -> Scenario:
    try:
        return Scenario(name=name)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _variation(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, list[str]] | None:
    if text is None:
        return None
    key, separator, values = text.partition("=")
    if not (key and separator and values):
        raise click.BadParameter(f"expected KEY=VALUE,VALUE,…, got {text!r}")
    return key, values.split(",")


#: The option of the scenario to play.
SCENARIO = click.option(
    "--scenario", default="default", show_default=True, callback=_scenario, help="Scenario to play."
)


@click.command("eval")
@click.argument("run_dir", metavar="RUN")
@click.argument("participants", nargs=-1, required=True)
@click.option(
    "--matches",
    default=200,
    show_default=True,
    type=click.IntRange(1, 10**9),
    help="Total number of matches, rounded up to a multiple of the exchanges of teams.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of matches and sampling.")
@click.option("--deterministic", is_flag=True, help="Models take their most likely action instead of sampling.")
@SCENARIO
@click.option(
    "--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Replace one value of the run; may be repeated."
)
@click.option(
    "--vary",
    "variation",
    metavar="KEY=VALUE,VALUE,…",
    callback=_variation,
    help="Play all matches once for each of these values of the run, on the same seeds, and print a table.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def evaluate(
    run_dir: str,
    participants: tuple[str, ...],
    overrides: tuple[str, ...],
    variation: tuple[str, list[str]] | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Play participants of a run against each other; print the results and the score of the first one.

    RUN is a run folder. PARTICIPANTS are models (main_agent@latest, main_agent@7), anchors of the run, or installed
    agents (random), in any order: models take seats of their role, others the teams that remain. ROLE=NAME and
    SEAT=NAME choose seats. Seats that are not named get the other participants, or the newest model of their role, or
    an anchor. Teams with the same roles are exchanged, on the same seeds. Participants of one role that cannot play in
    one match play against the same others, and are compared. Nothing is written to the run.
    """
    if variation is None:
        lineups, results = _play(run_dir, participants, overrides, **options)
        click.echo(json.dumps(_json(lineups, results)) if as_json else _text(lineups, results))
        return
    key, values = variation
    try:
        played = {value: _play(run_dir, participants, (*overrides, f"{key}={value}"), **options) for value in values}
    except ConfigError as error:
        raise ConfigError(*(line.replace(f"--set {key}", f"--vary {key}", 1) for line in error.problems)) from None
    if as_json:
        click.echo(json.dumps({"key": key, "values": {value: _json(*found) for value, found in played.items()}}))
    else:
        Console(highlight=False, width=output_width()).print(_variation_table(key, played))


def _play(
    run_dir: str,
    participants: Sequence[str],
    overrides: Sequence[str],
    *,
    matches: int,
    seed: int,
    deterministic: bool,
    scenario: Scenario,
) -> tuple[list[Lineup], list[_Results]]:
    """Return the lineups that the participants play in, and the results of the first participant of each."""
    with ExitStack() as stack:
        with open_run(
            run_dir, overrides=overrides
        ) as run:  # closed early: a snapshot keeps the database from shrinking
            environment = run.make_environment(min(matches, run.config.evaluation_matches))
            stack.callback(environment.close)
            source = WeakenedSource(run, run.folder)
            lineups = make_lineups(environment.spec, participants, source)
            rotated = [rotation for lineup in lineups for rotation in lineup.rotations()]
            agents = make_agents(rotated, source, environment, deterministic=deterministic)
            by_return = run.return_outcome
        num_rotations = len(rotated) // len(lineups)
        per_seating = -(-matches // num_rotations)
        played = play_matches(environment, agents, matches=per_seating, seed=seed, scenario=scenario)
    results = [
        _own_results(_with_outcomes(arrays, by_return), lineup.seats_of(0), lineup.teams_of(0)[0])
        for arrays, lineup in zip(played, rotated, strict=True)
    ]
    return lineups, [_Results.join(results[i : i + num_rotations]) for i in range(0, len(results), num_rotations)]


def _text(lineups: Sequence[Lineup], results: Sequence[_Results]) -> str:
    filled = lineups[0].describe_filled()
    lines = [filled] if filled else []
    lines += [
        f"{lineup.describe()}: {_result_text(own, lineup.spec)}" for lineup, own in zip(lineups, results, strict=True)
    ]
    lines += [
        f"{lineups[0].names[0]} minus {lineup.names[0]}: {_difference_text(results[0], own)}"
        for lineup, own in zip(lineups[1:], results[1:], strict=True)
    ]
    return "\n".join(lines)


def _variation_table(key: str, played: Mapping[str, tuple[Sequence[Lineup], Sequence[_Results]]]) -> Table:
    """Return a table with a row for every value and lineup."""
    columns = (">wins", ">draws", ">losses", ">score [95 %]", ">return [95 %]", ">ticks")
    shown = table(f"Results by {escape(key)}", "value", "participants", *columns)
    for value, (lineups, results) in played.items():
        for lineup, own in zip(lineups, results, strict=True):
            record, (mean, low, high) = own.record(), _mean_interval(own.returns)
            counted = score(record.wins, record.draws, record.losses)
            shown.add_row(
                escape(value),
                escape(lineup.describe()),
                *map(str, (counted.wins, counted.draws, counted.losses)),
                f"{counted.score:.3f} [{counted.low:.3f}, {counted.high:.3f}]",
                f"{mean:.2f} [{low:.2f}, {high:.2f}]",
                f"{record.mean_ticks:.1f}",
            )
    return shown


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


@frozen(kw_only=True, eq=False)
class _Results:
    """The results of one participant by match, in an order that depends on rotation and seed only.

    Attributes:
        lead: ``[n]`` outcome of its team minus the best outcome of other teams, or minus ½ without other teams.
        returns: ``[n]`` mean return of its seats.
        ticks: ``[n]`` length of the match.
    """

    lead: np.ndarray
    returns: np.ndarray
    ticks: np.ndarray

    @classmethod
    def join(cls, results: Sequence[_Results]) -> _Results:
        """Return the results of several seatings one after another."""
        return cls(
            lead=np.concatenate([part.lead for part in results]),
            returns=np.concatenate([part.returns for part in results]),
            ticks=np.concatenate([part.ticks for part in results]),
        )

    @property
    def points(self) -> np.ndarray:
        """Return ``[n]`` 1 for a win, ½ for a draw, 0 for a loss."""
        return np.asarray((np.sign(self.lead) + 1) / 2)

    def record(self) -> Record:
        """Return the sums and means over all matches."""
        return Record(
            wins=int(np.count_nonzero(self.lead > 0)),
            draws=int(np.count_nonzero(self.lead == 0)),
            losses=int(np.count_nonzero(self.lead < 0)),
            mean_return=float(self.returns.mean()),
            mean_ticks=float(self.ticks.mean()),
        )


def _with_outcomes(arrays: Mapping[str, np.ndarray], by_return: ReturnOutcome | None) -> Mapping[str, np.ndarray]:
    """Return results with the outcomes that follow from returns, where these decide the matches of a run."""
    return arrays if by_return is None else {**arrays, "outcome": by_return.points(arrays["returns"])}


def _own_results(arrays: Mapping[str, np.ndarray], own_seats: Sequence[int], team: int) -> _Results:
    order = arrays["number"].argsort()
    return _Results(
        lead=team_lead(arrays["outcome"][order], team),
        returns=arrays["returns"][order][:, list(own_seats)].mean(axis=1),
        ticks=arrays["ticks"][order],
    )


def team_lead(outcome: np.ndarray, team: int) -> np.ndarray:
    """Return ``[n]``: the outcome of a team minus the best outcome of other teams, or minus ½ without other teams."""
    others = np.delete(outcome, team, axis=1) if outcome.shape[1] > 1 else np.full_like(outcome, 0.5)
    return np.asarray(outcome[:, team] - others.max(axis=1))


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
        sides: For every team a mapping from role name to the agent that fills the seats of that role. Teams with the
            same roles are exchanged.
        matches: Total number, divided evenly among the exchanges and rounded up.
        seed: Seed of matches and sampling.
        scenario: Scenario of all matches; None for the default one.

    Returns:
        The record of ``sides[0]``.
    """
    seats, rotations = environment.spec.seats, team_rotations(environment.spec)
    seatings = [[sides[teams[seat.team]][seat.role] for seat in seats] for teams in rotations]
    played = play_matches(environment, seatings, matches=-(-matches // len(rotations)), seed=seed, scenario=scenario)
    results = []
    for teams, arrays in zip(rotations, played, strict=True):
        own_team = teams.index(0)
        results.append(_own_results(arrays, [i for i, seat in enumerate(seats) if seat.team == own_team], own_team))
    return _Results.join(results).record()


def _json(lineups: Sequence[Lineup], results: Sequence[_Results]) -> dict[str, Any]:
    """Return the results of one lineup, or of all contenders and the differences between the first and the others."""
    values = [_result_json(lineup, own) for lineup, own in zip(lineups, results, strict=True)]
    if len(lineups) == 1:
        return values[0]
    named = [{"participant": lineup.names[0], **value} for lineup, value in zip(lineups, values, strict=True)]
    differences = [
        {
            "of": [lineups[0].names[0], lineup.names[0]],
            "score": _score_difference(results[0], own),
            "return": _mean_interval(results[0].returns - own.returns),
        }
        for lineup, own in zip(lineups[1:], results[1:], strict=True)
    ]
    return {"contenders": named, "differences": differences}


def _result_json(lineup: Lineup, own: _Results) -> dict[str, Any]:
    record = own.record()
    counted = score(record.wins, record.draws, record.losses)
    _, *interval = _mean_interval(own.returns)
    means = {"mean_return": record.mean_return, "return_interval": interval, "mean_ticks": record.mean_ticks}
    return {**counted.json(), **means, "participants": list(lineup.participants)}


def _result_text(own: _Results, spec: EnvironmentSpec) -> str:
    """Return the result as text: the return with its interval where that is the score, else the points."""
    record = own.record()
    if spec.score == "return":
        mean, low, high = _mean_interval(own.returns)
        wins = f"; {record.wins} wins, {record.draws} draws, {record.losses} losses" if spec.num_teams > 1 else ""
        return (
            f"return {mean:.2f} [{low:.2f}, {high:.2f}] in {own.returns.size} matches{wins}, "
            f"{record.mean_ticks:.1f} ticks per match"
        )
    result = score(record.wins, record.draws, record.losses)
    return (
        f"{result.wins} wins, {result.draws} draws, {result.losses} losses; score {result.score:.3f} "
        f"[{result.low:.3f}, {result.high:.3f}], return {record.mean_return:.2f}, "
        f"{record.mean_ticks:.1f} ticks per match"
    )


def _difference_text(own: _Results, other: _Results) -> str:
    points, returns = _score_difference(own, other), _mean_interval(own.returns - other.returns)
    texts = [
        f"{name} {mean:+.3f} [{low:+.3f}, {high:+.3f}]"
        for name, (mean, low, high) in (("score", points), ("return", returns))
    ]
    return f"{', '.join(texts)} on the same seeds"


def _score_difference(own: _Results, other: _Results) -> tuple[float, float, float]:
    mean, low, high = _mean_interval(own.points - other.points)
    return mean, max(low, -1.0), min(high, 1.0)


def _mean_interval(differences: np.ndarray) -> tuple[float, float, float]:
    """Return the mean of values or paired differences ``[n]`` and the ends of its 95 % interval."""
    mean, half = float(differences.mean()), 0.0
    if differences.size > 1:
        half = NEAR * float(differences.std(ddof=1)) / math.sqrt(differences.size)
    return mean, mean - half, mean + half
