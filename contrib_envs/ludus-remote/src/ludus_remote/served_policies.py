"""The policies that an action server plays: by name, an agent for each role, replaced when a newer model exists."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attrs import define, field, frozen
from gymnasium import Space, spaces
from ludus.agent import BuiltinAgent
from ludus.environment import EnvironmentSpec, Role
from ludus.errors import ConfigError, LudusError
from ludus.installed import load_agent, open_game
from ludus.levels import LEVELS_FILE, WeakenedSource, read_levels
from ludus.lineup import Participant, Source
from ludus.runs import load_manifest, open_run
from ludus.spaces import label_sizes, leaf_spaces, real_box

from ludus_remote.config import RemoteConfig
from ludus_remote.payload import ProtocolError
from ludus_remote.schema import GameSchema

if TYPE_CHECKING:
    from ludus.agent import Agent
    from ludus.environment import Environment

_POOL = "pool:"
_REMOTE = "remote"

_log = logging.getLogger(__name__)


@frozen(eq=False)
class ServedPolicy:
    """A policy with the participant that plays it now.

    Args:
        name: Name by which games request it.
        participant: The participant, for example ``"main_agent@12,temperature=2"``.
        agents: Its agents by role.
    """

    name: str
    participant: str
    agents: Mapping[str, Agent]


@frozen(eq=False)
class SeatPolicy:
    """What plays a seat of a match.

    Args:
        policy: Name of the policy; empty for a built-in bot that the game requested.
        participant: The participant, or the built-in bot.
        agent: Its agent.
    """

    policy: str
    participant: str
    agent: Agent

    @property
    def builtin(self) -> str:
        """Return the name of the built-in bot that plays the seat; empty if none does."""
        return self.agent.name if isinstance(self.agent, BuiltinAgent) else ""


@frozen(kw_only=True)
class _Target:
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
def _open_target(path: Path) -> Iterator[_Target]:
    """Open a target; a run is a snapshot of the moment.

    Raises:
        ConfigError: It is no target.
        RunError: It is damaged.
    """
    if (path / LEVELS_FILE).is_file() and not (path / "run.toml").is_file():
        levels = read_levels(path)
        game = open_game(levels.environment)
        names = [f"{path}/{number}" for number in range(1, len(levels.levels) + 1)]
        yield _Target(
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
            yield _Target(
                source=WeakenedSource(run, run.folder),
                environment=environment.name,
                options=environment.config if environment.name == _REMOTE else RemoteConfig(),
                make_environment=run.make_environment,
                teams=teams,
                defaults={name: f"{name}@latest" for name, player in run.league.players.items() if player.models},
                pools=run.pools,
            )


def _open_file(path: Path) -> _Target:
    manifest = load_manifest(path.parent, path.stem)
    player, role = str(manifest.get("player")), manifest.get("config", {}).get("role", "")
    game = open_game(str(manifest.get("environment")))
    return _Target(
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


@frozen
class _Seating:
    """What `ludus.lineup.Source.agent` reads of an environment; agents make room for seats when they are needed."""

    spec: EnvironmentSpec
    num_matches: int = 0


@define(eq=False, kw_only=True)
class ServedPolicies:
    """The policies by name. One thread replaces them, others read `current`.

    Args:
        path: A run, a folder of levels, or the file of a model.
        texts: Participant of each policy by its name, see `ludus.lineup`; ``pool:NAME`` is the newest member of a pool.
            Empty: those that the target has.
        deterministic: Models take their most likely actions instead of sampling.

    Attributes:
        current: The policies; empty before `bind`.
        options: Options of the environment ``remote`` with which the models were trained, or its defaults.

    Raises:
        ConfigError: A participant does not exist.
        RunError: The target cannot be read.
    """

    path: Path
    texts: Mapping[str, str]
    deterministic: bool = False
    current: Mapping[str, ServedPolicy] = field(init=False, factory=dict)
    options: RemoteConfig = field(init=False)
    _own_spec: EnvironmentSpec | None = field(init=False, default=None)  # of environments other than ``remote``
    _spec: EnvironmentSpec | None = field(init=False, default=None)
    _version: tuple[int, ...] = field(init=False, default=())

    def __attrs_post_init__(self) -> None:
        with _open_target(self.path) as target:
            self.options = target.options
            self.texts = self.texts or target.defaults
            if not self.texts:
                raise ConfigError(f"{self.path}: has no frozen model yet; name a policy, or train on")
            if target.environment != _REMOTE:
                with closing(target.make_environment(1)) as environment:
                    self._own_spec = environment.spec
            for text in self.texts.values():
                target.participant(text, self._own_spec or target.outline())

    def bind(self, schema: GameSchema) -> None:
        """Make all agents for the game of a schema.

        Raises:
            LudusError: The game has other spaces than a policy.
        """
        if self._own_spec is not None:
            check_spaces(self._own_spec, schema)
        spec = self._own_spec or schema.spec()
        self.current = self._load(spec, {})
        self._spec = spec

    def refresh(self) -> list[ServedPolicy]:
        """Replace policies whose participant is another one by now, for the matches that start later; return these.

        Raises:
            LudusError: A participant or its file is gone or damaged; no policy is replaced.
        """
        version = _version(self.path)
        if self._spec is None or version == self._version:
            return []
        before = self.current
        self.current = self._load(self._spec, before)
        self._version = version
        return [policy for name, policy in self.current.items() if before[name] is not policy]

    def _load(self, spec: EnvironmentSpec, known: Mapping[str, ServedPolicy]) -> dict[str, ServedPolicy]:
        """Return the policies; those whose participant has not changed are kept."""
        policies = {}
        with _open_target(self.path) as target:
            for name, text in self.texts.items():
                participant = target.participant(text, spec)
                kept = known.get(name)
                if kept is None or kept.participant != participant.name:
                    try:
                        agents = self._make_agents(target.source, participant, spec)
                    except LudusError as error:
                        raise ConfigError(f"{name}: {error}") from error
                    if kept is not None and agents.keys() != kept.agents.keys():
                        raise ConfigError(f"{name}: {participant.name} plays other roles than {kept.participant}")
                    kept = ServedPolicy(name, participant.name, agents)
                policies[name] = kept
        return policies

    def _make_agents(self, source: Source, participant: Participant, spec: EnvironmentSpec) -> dict[str, Agent]:
        """Make the agents of a participant for its role, or for all roles that it can play."""
        environment = cast("Environment", _Seating(spec))
        agents: dict[str, Agent] = {}
        problem: LudusError | None = None
        for role in [participant.role] if participant.role else [role.name for role in spec.roles]:
            try:
                agents[role] = source.agent(
                    participant.name, role, environment=environment, deterministic=self.deterministic
                )
            except LudusError as error:
                problem = error
        if problem is not None and not agents:
            raise problem
        return agents

    def lineup(self, schema: GameSchema, requested: Sequence[str]) -> list[SeatPolicy]:
        """Return what plays each seat.

        Args:
            schema: Schema of the game.
            requested: Name of a policy, or of a built-in bot of the role, for each seat; an empty name, or an empty
                list, for the first policy that plays the role.

        Raises:
            ProtocolError: A name is unknown, or no policy plays a role.
        """
        if len(requested) not in (0, len(schema.seats)):
            raise ProtocolError("policy", f"policies: expected a name for each of {len(schema.seats)} seats")
        current = self.current
        return [
            _choose(current, schema.seats[seat][0].name, schema.seats[seat][0].builtin, name)
            for seat, name in enumerate(requested or [""] * len(schema.seats))
        ]


def _choose(current: Mapping[str, ServedPolicy], role: str, builtin: Sequence[str], name: str) -> SeatPolicy:
    """Return what plays a seat, see `ServedPolicies.lineup`."""
    served = [own for own, policy in current.items() if role in policy.agents]
    chosen = name or next(iter(served), "")
    if chosen in served:
        policy = current[chosen]
        return SeatPolicy(chosen, policy.participant, policy.agents[role])
    if chosen in builtin:
        return SeatPolicy("", chosen, BuiltinAgent(chosen))
    names = ", ".join([*served, *builtin]) or "none"
    raise ProtocolError("policy", f"{name or 'any'!r} does not play the role {role!r}; policies that do are {names}")


def check_spaces(spec: EnvironmentSpec, schema: GameSchema) -> None:
    """Check that a game shows and accepts what models of another environment learned: shapes, types and actions.

    Raises:
        ConfigError: It does not.
    """
    own = {role.name: _describe(role) for role in spec.roles}
    for role in schema.roles:
        if role.name not in own:
            raise ConfigError(f"role {role.name!r}: the models learned {spec.name} with {', '.join(own)}")
        if (given := _describe(role.role())) != own[role.name]:
            raise ConfigError(f"role {role.name!r}: the models learned {own[role.name]}, the game has {given}")


def _describe(role: Role) -> str:
    leaves: dict[str, Space[Any]] = leaf_spaces(role.observation_space)
    shown = ", ".join(f"{name} {leaf.dtype}{list(leaf.shape or ())}" for name, leaf in sorted(leaves.items()))
    box = real_box(role.action_space)
    reals = [] if box is None else [[float(low), float(high)] for low, high in zip(box.low, box.high, strict=True)]
    return f"the leaves {shown}, labels {list(label_sizes(role.action_space))} and reals {reals}"


def _version(path: Path) -> tuple[int, ...]:
    """Return when the database of a run was last written; other targets do not change."""
    files = [path / f"league.sqlite{suffix}" for suffix in ("", "-wal")]
    return tuple(file.stat().st_mtime_ns for file in files if file.exists())
