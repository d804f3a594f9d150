"""The policies that an action server plays: by name, an agent for each role, replaced when a newer model exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attrs import define, field, frozen
from gymnasium import Space
from ludus.agent import BuiltinAgent
from ludus.environment import EnvironmentSpec, Role
from ludus.errors import ConfigError, LudusError
from ludus.lineup import Participant, Source
from ludus.spaces import label_sizes, leaf_spaces, real_box

from ludus_remote.config import RemoteConfig
from ludus_remote.payload import ProtocolError
from ludus_remote.schema import GameSchema
from ludus_remote.served_target import REMOTE, open_target

if TYPE_CHECKING:
    from ludus.agent import Agent
    from ludus.environment import Environment


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
        with open_target(self.path) as target:
            self.options = target.options
            self.texts = self.texts or target.defaults
            if not self.texts:
                raise ConfigError(f"{self.path}: has no frozen model yet; name a policy, or train on")
            if target.environment != REMOTE:
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
        with open_target(self.path) as target:
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
