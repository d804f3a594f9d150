"""``ludus levels``: difficulty levels at equal distances in strength, made of the models of a run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from attrs import define, field
from ludus.cli_types import FiniteRange
from ludus.errors import ConfigError
from ludus.levels import Level, LevelSet
from ludus.runs import Run, check_folder, check_model, open_run, score, spread_evenly
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ludus_terminal.evaluate import SEED, Record, play_pair
from ludus_terminal.level_search import Candidate, LevelSearch, Measured
from ludus_terminal.output import NEAR, output_width, table

if TYPE_CHECKING:
    from ludus.agent import Agent
    from ludus.environment import Environment, EnvironmentSpec

__all__ = ["levels", "weakened"]

_MOST_MODELS = 6  # that a search starts from
_WEAKENINGS = ("delay", "noise", "temperature")
_HOTTEST = 1000.0  # temperature at which all choices are equally likely
_LONGEST_DELAY_MS = 1000.0


@click.command()
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--player", help="Player whose models are used; by default the first one.")
@click.option("--levels", "count", type=click.IntRange(2, 20), default=5, show_default=True, help="Number of levels.")
@click.option("--gap", type=FiniteRange(10, 1000), default=100.0, show_default=True, help="Elo points between levels.")
@click.option(
    "--weaken",
    type=click.Choice(_WEAKENINGS),
    default="temperature",
    show_default=True,
    help="What weakens a model: a higher temperature, random actions, or a delay of up to a second.",
)
@click.option(
    "--matches",
    type=click.IntRange(40, 10**6),
    default=1000,
    show_default=True,
    help="Matches of every pair of levels that verify the result.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of all matches.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write; by default RUN/levels.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def levels(
    run_dir: Path, player: str | None, weaken: str, seed: int, out: Path | None, *, as_json: bool, **options: Any
) -> None:
    """Make difficulty levels of the models of a run, and write them with their models into a folder.

    The strongest model is the last level. The others are older models, or models that are weakened as --weaken states,
    each --gap Elo points below the next, up to a quarter of that. New matches between all levels verify it. `ludus
    play`, `watch` and `eval` take a level as a participant, FOLDER/NUMBER, for example levels/3.
    """
    with open_run(run_dir) as run:
        models = _models(run, player)
        environment = run.make_environment(run.config.evaluation_matches)
        hashes = {model: run.models[model].hash for model in models}
    with closing(environment):
        spec = environment.spec
        _check_game(spec)
        arena = _Arena(environment, run_dir / "models", hashes, partial(weakened, spec, weaken))
        on_step = partial(click.echo, err=True)
        search = LevelSearch(play=arena.play, seed=seed, tolerance=options["gap"] / 4, on_step=on_step, **options)
        found = search.find(models)
    made = _level_set(found, arena, spec, matches=options["matches"])
    folder = out or run_dir / "levels"
    _write(made, run_dir / "models", folder, inside=None if out else run_dir)
    if as_json:
        click.echo(json.dumps(attrs.asdict(made) | {"folder": str(folder)}))
        return
    console = Console(highlight=False, width=output_width())
    console.print(_table(made, found))
    console.print(
        f"written to {escape(str(folder))}; ludus play {escape(str(run_dir))} --opponent {escape(str(folder))}/1"
    )


def _models(run: Run, player: str | None) -> list[str]:
    """Return models of a player, oldest first, spread evenly, with the newest one.

    Raises:
        ConfigError: There is no such player, or it has no model to use.
    """
    players = run.league.players
    name = next(iter(players), "") if player is None else player
    if name not in players:
        raise ConfigError(f"--player: expected one of {', '.join(players)}, got {name!r}")
    usable = [m for m in players[name].models if m not in run.retired and m not in run.quarantined]
    if not usable:
        raise ConfigError(f"{name} has no frozen model to make levels of; train on")
    return [usable[i] for i in spread_evenly(len(usable), _MOST_MODELS)]


def _check_game(spec: EnvironmentSpec) -> None:
    """Check that two models of a player can meet.

    Raises:
        ConfigError: They cannot, or matches have no outcome.
    """
    if spec.num_teams != 2 or len(spec.roles) != 1 or spec.score == "return":
        raise ConfigError(
            f"levels are measured by matches between them, which needs two teams with one role that win or lose; "
            f"{spec.name} has {spec.num_teams} teams, the roles {', '.join(role.name for role in spec.roles)}, and the "
            f"score {spec.score}"
        )


def weakened(spec: EnvironmentSpec, weaken: str, model: str, digest: str, weakness: float) -> Level:
    """Return a model that is weakened by a share from 0 to 1.

    Raises:
        ConfigError: The environment's ticks have no duration, which a delay needs.
    """
    if not weakness:
        return Level(model=model, hash=digest)
    if weaken == "noise":
        return Level(model=model, hash=digest, noise=weakness)
    if weaken == "temperature":
        return Level(model=model, hash=digest, temperature=min(1 / max(1 - weakness, 1e-9), _HOTTEST))
    if not spec.tick_s:
        raise ConfigError(f"--weaken delay: {spec.name} has no duration of a tick; use noise or temperature")
    delay_ms = round(weakness * _LONGEST_DELAY_MS, 1)
    options = {
        "name": "delay",
        "tick_ms": 1000.0 * spec.tick_s,
        "max_ms": delay_ms,
        "fixed_ms": delay_ms,
        "actions": -1,
    }
    return Level(model=model, hash=digest, interfaces=(options,))


@define(eq=False)
class _Arena:
    """Plays matches between candidates.

    Args:
        environment: Batch of the environment.
        folder: Folder of the models' files.
        hashes: Hash by model.
        weaken: Returns the level of a model, its hash and a weakness.
    """

    environment: Environment
    folder: Path
    hashes: Mapping[str, str]
    weaken: Any
    _agents: dict[Candidate, Agent] = field(init=False, factory=dict)

    def level(self, candidate: Candidate) -> Level:
        """Return the level of a candidate, which is not measured yet."""
        made: Level = self.weaken(candidate.model, self.hashes[candidate.model], candidate.weakness)
        return made

    def play(self, a: Candidate, b: Candidate, matches: int, seed: int) -> Record:
        """Play matches and return the record of the first candidate."""
        role = self.environment.spec.roles[0].name
        sides = [{role: self._agent(candidate, role)} for candidate in (a, b)]
        return play_pair(self.environment, sides, matches=matches, seed=seed)

    def _agent(self, candidate: Candidate, role: str) -> Agent:
        if candidate not in self._agents:
            level = self.level(candidate)
            self._agents[candidate] = level.agent(self.folder, role, spec=self.environment.spec)
        return self._agents[candidate]


def _level_set(found: Measured, arena: _Arena, spec: EnvironmentSpec, *, matches: int) -> LevelSet:
    """Return the measured levels, weakest first."""
    last, made = len(found.candidates) - 1, []
    for index in reversed(range(last + 1)):
        mean, deviation = found.strengths.difference(index, last)
        level = arena.level(found.candidates[index])
        made.append(attrs.evolve(level, elo=mean, low=mean - NEAR * deviation, high=mean + NEAR * deviation))
    return LevelSet(environment=spec.name, role=spec.roles[0].name, matches=matches, levels=tuple(made))


def _write(made: LevelSet, models: Path, folder: Path, *, inside: Path | None) -> None:
    """Write a folder of levels: the description, and the files of the models.

    Raises:
        DamagedFileError: The file of a model is damaged.
        RunError: The folder is inside of a run folder in which links lead out of it.
    """
    if inside is not None:
        check_folder(inside)
    folder.mkdir(parents=True, exist_ok=True)
    for digest in sorted({level.hash for level in made.levels}):
        check_model(models, digest)
        for suffix in ("safetensors", "json"):
            shutil.copyfile(models / f"{digest}.{suffix}", folder / f"{digest}.{suffix}")
    made.save(folder)


def _table(made: LevelSet, found: Measured) -> Table:
    """Return a table of the levels, the strongest first."""
    columns = (">Elo [95 %]", ">above the next [95 %]", ">score against it [95 %]")
    shown = table("Levels", ">level", "model", "weakened by", *columns)
    for index, level in enumerate(reversed(made.levels)):
        number = len(made.levels) - index
        texts = [f"{level.elo:.0f} [{level.low:.0f}, {level.high:.0f}]"]
        if number > 1:
            record = found.next[index]
            counted = score(record.wins, record.draws, record.losses)
            texts.append(_interval(*found.strengths.difference(index, index + 1)))
            texts.append(f"{counted.score:.3f} [{counted.low:.3f}, {counted.high:.3f}]")
        shown.add_row(str(number), escape(level.model), escape(level.settings()), *texts)
    return shown


def _interval(mean: float, deviation: float) -> str:
    low, high = mean - NEAR * deviation, mean + NEAR * deviation
    return f"{mean:.0f} [{low:.0f}, {high:.0f}]"
