"""The command ``ludus exploitability``."""

from __future__ import annotations

import json
from typing import Any

import click
import numpy as np
from ludus.runs import open_run

from ludus_openspiel.participants import ParticipantPolicies
from ludus_openspiel.tree import Exploitability


@click.command("exploitability")
@click.argument("run_dir", metavar="RUN")
@click.argument("name", metavar="[PLAYER]", default="")
@click.option("--average", is_flag=True, help="Measure the average of all frozen models of the player.")
@click.option("--history", is_flag=True, help="Measure every frozen model of the player, and the average up to it.")
@click.option(
    "--weighting",
    type=click.Choice(["uniform", "linear"]),
    default="uniform",
    show_default=True,
    help="How often an average draws a model: all alike, or the n-th n times as often as the first.",
)
@click.option(
    "--samples",
    default=4096,
    show_default=True,
    type=click.IntRange(1),
    help="Decisions per information state to estimate probabilities from, where they cannot be read.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def exploitability(
    run_dir: str, name: str, average: bool, history: bool, weighting: str, samples: int, as_json: bool
) -> None:
    """Measure how much perfect opponents gain against a player of a run, in a small OpenSpiel game.

    RUN is a run folder. PLAYER is a player (its latest model), a model (main_agent@7), an anchor of the run or an
    installed agent (random); by default the run's first player. OpenSpiel computes the best responses: NashConv is what
    they gain in all seats together, exploitability the mean per seat, in utilities of the game. Games in which players
    move simultaneously are converted: the players move in turn and do not see each other's moves.

    The average is that of fictitious play: a model is drawn at the start of a match and kept until its end.
    """
    with open_run(run_dir) as run:
        chosen = name or next(iter(run.league.players))
        policies = ParticipantPolicies.load(run, chosen, all_models=average or history, samples=samples)
    result = (
        _average_result(policies, len(policies.names), weighting)
        if average or history
        else _participant_result(policies, 0)
    )
    lines = []
    for count in range(1, 1 + len(policies.names) * history):
        so_far = _average_result(policies, count, weighting)["exploitability"]
        lines.append(_participant_result(policies, count - 1) | {"average": so_far})
    if as_json:
        click.echo(json.dumps(result | ({"history": lines} if history else {})))
        return
    for line in lines:
        click.echo(f"{line['participant']}: {line['exploitability']:.4f}, average so far {line['average']:.4f}")
    click.echo(
        f"{result['participant']} at {policies.spec.game}: exploitability {result['exploitability']:.4f}, NashConv "
        f"{result['nash_conv']:.4f}{f' (estimated from {policies.samples} decisions each)' if policies.samples else ''}"
    )


def _participant_result(policies: ParticipantPolicies, index: int) -> dict[str, Any]:
    """Return the result of one participant."""
    learned = {} if policies.decisions[index] is None else {"decisions": policies.decisions[index]}
    return {"participant": policies.names[index], **learned, **_shared_values(policies, policies.measure(index))}


def _average_result(policies: ParticipantPolicies, count: int, weighting: str) -> dict[str, Any]:
    """Return the result of the average of the first `count` models."""
    weights = np.arange(1.0, count + 1) if weighting == "linear" else None
    about = f"average of {count} models of {policies.names[0].partition('@')[0]}"
    found = policies.measure_average(count, weights=weights)
    return {"participant": about, "models": count, "weighting": weighting, **_shared_values(policies, found)}


def _shared_values(policies: ParticipantPolicies, found: Exploitability) -> dict[str, Any]:
    return {
        "game": policies.spec.game,
        "exploitability": found.exploitability,
        "nash_conv": found.nash_conv,
        "improvements": list(found.improvements),
        "samples": policies.samples,
    }
