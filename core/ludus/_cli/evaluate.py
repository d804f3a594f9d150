"""``ludus eval``: play two participants against each other and count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ludus._plugins import load_plugins

if TYPE_CHECKING:
    from ludus._config import RunConfig
    from ludus._league import League
    from ludus._plugins import Plugins
    from ludus.agent import Agent
    from ludus.environment import EnvironmentSpec

__all__ = ["evaluate"]


@click.command("eval")
@click.argument("run_dir", metavar="RUN")
@click.argument("participants", nargs=-1, required=True)
@click.option("--matches", default=200, show_default=True, type=click.IntRange(1), help="Matches in total.")
@click.option("--seed", default=0, show_default=True, help="Seed of matches and sampling.")
@click.option("--deterministic", is_flag=True, help="Models take their most likely action instead of sampling.")
@click.option("--scenario", default="default", show_default=True, help="Scenario to play.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def evaluate(
    run_dir: str,
    participants: tuple[str, ...],
    matches: int,
    seed: int,
    deterministic: bool,
    scenario: str,
    as_json: bool,
) -> None:
    """Play participants of a run against each other: the first one's wins, draws, losses, score and 95 % interval.

    RUN is a run folder. PARTICIPANTS are one per team: models (main_agent@latest, main_agent@7), anchors of the run,
    or any installed agent (random). Half of the matches are played with exchanged seats, on the same seeds.
    Nothing is written to the run.
    """
    from ludus._build import make_environment  # noqa: PLC0415 - only here: help must be fast
    from ludus._config import load_config  # noqa: PLC0415
    from ludus._evaluation import play_pair  # noqa: PLC0415
    from ludus._league import League  # noqa: PLC0415
    from ludus._statistics import score  # noqa: PLC0415
    from ludus._store import Store  # noqa: PLC0415
    from ludus.environment import Scenario  # noqa: PLC0415

    plugins, folder = load_plugins(), Path(run_dir)
    with Store.read(folder) as store:
        league = League.of(store)
        config = load_config(folder / "run.toml", plugins=plugins)
        environment = make_environment(config.environment, min(matches, 256))
        try:
            spec = environment.spec
            if len(participants) != spec.num_teams:
                raise click.UsageError(f"{spec.name} has {spec.num_teams} teams: name one participant for each")
            sides = [
                _agents(name, team, config, league, spec, plugins, folder, environment.num_matches, deterministic)
                for team, name in enumerate(participants)
            ]
            record = play_pair(environment, sides, matches=matches, seed=seed, scenario=Scenario(name=scenario))
        finally:
            environment.close()
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


def _agents(
    name: str,
    team: int,
    config: RunConfig,
    league: League,
    spec: EnvironmentSpec,
    plugins: Plugins,
    folder: Path,
    rows: int,
    deterministic: bool,
) -> dict[str, Agent]:
    """Return the agent of a participant for every role it may sit in."""
    from ludus._assembly import load_participant  # noqa: PLC0415 - as above

    known = name.partition("@")[0] in league.players or name in league.anchors
    roles = sorted({seat.role for seat in spec.seats if seat.team == team or len(spec.roles) == 1})
    agents = {}
    for role in roles:
        if known or name not in plugins.components("agent"):
            participant = league.resolve(name)
            if participant.endswith("+"):
                raise click.UsageError(f"{name} is no frozen model; name one, for example {name.partition('@')[0]}@1")
            model = league.models.get(participant)
            agents[role] = load_participant(
                config,
                spec,
                run_dir=folder,
                participant=participant,
                digest=model.hash if model else "",
                role=role,
                rows=rows,
                deterministic=deterministic,
            )
        else:
            agents[role] = _installed(name, spec, role, plugins)
    return agents


def _installed(name: str, spec: EnvironmentSpec, role: str, plugins: Plugins) -> Agent:
    from ludus._build import make_agent  # noqa: PLC0415 - as above
    from ludus._config import Chosen  # noqa: PLC0415

    component = plugins.get("agent", name)
    config = component.load_config()
    return make_agent(Chosen(kind="agent", name=name, config=config and config(), component=component), spec, role)
