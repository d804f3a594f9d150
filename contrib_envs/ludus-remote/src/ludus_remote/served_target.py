"""What an action server takes its models from: a run, a folder of levels, or the file of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role
from ludus.errors import ConfigError
from ludus.installed import load_agent, open_game
from ludus.levels import LEVELS_FILE, WeakenedSource, read_levels
from ludus.lineup import Participant, Source
from ludus.runs import load_manifest, open_run

from ludus_remote.config import RemoteConfig

if TYPE_CHECKING:
    from ludus.agent import Agent
    from ludus.environment import Environment

REMOTE = "remote"  #: Name of the environment whose games connect.

_POOL = "pool:"


@frozen(kw_only=True)
class ServedTarget:
    """A run, a folder of levels or the file of a model.

    Args:
        source: Finds participants and makes their agents.
        environment: Name of the environment that the models learned.
        options: Options of the environment ``remote``, if the models learned it in a run.
        make_environment: Makes a batch of the environment.
        teams: Teams of the seats of each role, as far as they are known.
        defaults: Participants of the policies that are served by default, by name.
        pools: Pools of the run.
    """

    source: Source
    environment: str
    options: RemoteConfig = field(factory=RemoteConfig)
    make_environment: Callable[[int], Environment]
    teams: Mapping[str, Sequence[int]]
    defaults: Mapping[str, str]
    pools: Mapping[str, Sequence[str]] = field(factory=dict)

    def outline(self) -> EnvironmentSpec:
        """Return a specification without spaces, by which the names of participants can be checked."""
        empty, one = spaces.Dict({}), spaces.Discrete(1)
        roles = [
            Role(name=name, observation_space=empty, action_space=one, teams=tuple(teams))
            for name, teams in self.teams.items()
        ]
        return EnvironmentSpec(name=self.environment, roles=tuple(roles), turn="asynchronous")

    def participant(self, text: str, spec: EnvironmentSpec) -> Participant:
        """Return the participant of a text, which may be ``pool:NAME`` for the newest member of a pool.

        Raises:
            ConfigError: There is none.
        """
        if text.startswith(_POOL):
            pool, comma, settings = text.removeprefix(_POOL).partition(",")
            if not self.pools.get(pool):
                filled = ", ".join(sorted(name for name, members in self.pools.items() if members))
                raise ConfigError(f"{text}: the pool {pool} has no model; pools with models are {filled or 'none'}")
            text = f"{self.pools[pool][-1]}{comma}{settings}"
        return self.source.participant(text, spec)


@contextmanager
def open_target(path: Path) -> Iterator[ServedTarget]:
    """Open a target; a run is a snapshot of the moment.

    Raises:
        ConfigError: It is no target.
        RunError: It is damaged.
    """
    if (path / LEVELS_FILE).is_file() and not (path / "run.toml").is_file():
        levels = read_levels(path)
        game = open_game(levels.environment)
        names = [f"{path}/{number}" for number in range(1, len(levels.levels) + 1)]
        yield ServedTarget(
            source=WeakenedSource(game),
            environment=levels.environment,
            make_environment=game.make_environment,
            teams={levels.role: (0,)},
            defaults=dict(zip(names, names, strict=True)),
        )
    elif path.is_file():
        yield _open_file(path)
    else:
        with open_run(path) as run:
            environment = run.config.environment
            teams: dict[str, list[int]] = {}
            for seat in run.seats:
                teams.setdefault(seat.role, []).append(seat.team)
            yield ServedTarget(
                source=WeakenedSource(run, run.folder),
                environment=environment.name,
                options=environment.config if environment.name == REMOTE else RemoteConfig(),
                make_environment=run.make_environment,
                teams=teams,
                defaults={name: f"{name}@latest" for name, player in run.league.players.items() if player.models},
                pools=run.pools,
            )


def _open_file(path: Path) -> ServedTarget:
    manifest = load_manifest(path.parent, path.stem)
    player, role = str(manifest.get("player")), manifest.get("config", {}).get("role", "")
    game = open_game(str(manifest.get("environment")))
    return ServedTarget(
        source=WeakenedSource(_ModelFile(path, player, role)),
        environment=str(manifest.get("environment")),
        make_environment=game.make_environment,
        teams={role or "any": (0,)},
        defaults={player: player},
    )


@frozen
class _ModelFile:
    """A source whose only participant is the player of a file; see `ludus.lineup.Source`."""

    path: Path
    player: str
    role: str

    def participant(self, name: str, _spec: EnvironmentSpec) -> Participant:
        if name != self.player:
            raise ConfigError(f"{name}: expected {self.player}, the player of {self.path}")
        return Participant(name, self.role)

    def default_participants(self, _role: str, _spec: EnvironmentSpec) -> Iterator[str]:
        yield self.player

    def agent(self, _name: str, role: str, *, environment: Environment, deterministic: bool = False) -> Agent:
        return load_agent(self.path, role, spec=environment.spec, deterministic=deterministic)
