"""Interfaces [Arena §2.4]: reversible transforms of what a seat sees and does, and the ways to put them together.

One interface serves four places, always through the same row-wise calls::

    stack(first, second)              observations pass first, then second; actions second, then first
    on_environment(game, {role: i})   training sees the transformed game
    on_agent(agent, i)                the agent takes raw observations and returns raw actions
    bind, observe, act                a sampler around a learned policy (`bind_role` gives the role it learns)

`ludus.teams` adds side-by-side combination and teams.

When an interface looks. `observe` is called once for every decision of a seat, on the tick on which it decides, and
once more for every seat when its match ends. `View.reward` is what the seat received since the last of these calls. A
stateful interface thus counts in decisions, and sees the same whether it sits on the environment or on the agent.

When spaces are known. Nothing here reads the spaces of an environment before somebody asks for its `spec` or resets it,
and a reset of the game comes before its spec is read. An environment that knows its spaces only after its first `reset`
can therefore be wrapped like any other; only do not ask for `spec` before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np
from attrs import define, field, frozen

from ludus.environment import Environment, EnvironmentSpec, Leaves, Playable, Role, RoleTick, Scenario, Tick
from ludus.errors import ContractError
from ludus.spaces import action_width, is_continuous, label_sizes, leaf_spaces

if TYPE_CHECKING:
    from gymnasium import Space

    from ludus.agent import Agent

__all__ = ["Identity", "Interface", "Spaces", "View", "bind_role", "on_agent", "on_environment", "stack"]


@frozen
class Spaces:
    """The two spaces of a seat."""

    observation: Space[Any]
    action: Space[Any]


@define(kw_only=True)
class View:
    """What n seats see on one tick; privileged observations are no part of it and reach critics untouched.

    Attributes:
        observation: Leaves ``[n, …]``.
        action_mask: ``[n, A] bool`` or None.
        reward: ``[n] float32``: what each seat received since it was last observed.
    """

    observation: Leaves
    action_mask: np.ndarray | None
    reward: np.ndarray


class Interface(Protocol):
    """A transform of observations (raw → seen), masks, rewards and actions (chosen → raw).

    Stateless interfaces are pure functions of their arguments; stateful ones (frame stack) keep one entry
    per stream (see `ludus.streams`). What comes out for a row depends on that row and its stream alone.
    """

    def bind(self, raw: Spaces) -> Spaces:
        """Fix the raw spaces and return the transformed ones. Called before anything else; may be repeated.

        Raises:
            ContractError: The interface cannot work on these spaces.
        """

    def reset(self, streams: np.ndarray) -> None:
        """Forget everything about these streams (``[n] int64``): a new match starts there."""

    def observe(self, view: View, streams: np.ndarray) -> View:
        """Return what the seats see; must not modify `view`.

        Args:
            view: n rows.
            streams: ``[n] int64``: which (match row, seat) each row belongs to; no duplicates.
        """

    def act(self, action: np.ndarray, streams: np.ndarray) -> np.ndarray:
        """Return the raw action ``[n, L']`` for the chosen ``action [n, L]``."""


class Identity:
    """The interface that changes nothing. Subclass it and override what your interface changes."""

    def bind(self, raw: Spaces) -> Spaces:
        """Return the raw spaces."""
        return raw

    def reset(self, streams: np.ndarray) -> None:
        """Do nothing: there is no memory."""

    def observe(self, view: View, streams: np.ndarray) -> View:  # noqa: ARG002 - for subclasses with memory
        """Return the view itself."""
        return view

    def act(self, action: np.ndarray, streams: np.ndarray) -> np.ndarray:  # noqa: ARG002 - as above
        """Return the action itself."""
        return action


def stack(*interfaces: Interface) -> Interface:
    """Put interfaces on top of each other: the first is next to the game.

    Observations pass the first one first, actions pass it last: ``stack(I1, I2)`` is the paper's ``I2(I1(None))``
    [Arena §2.4.1]. Without interfaces it changes nothing.

    Raises:
        ContractError: The same object is given twice; its memory would be shared.
    """
    require_distinct(interfaces)
    return _Stack(interfaces)


def require_distinct(interfaces: Sequence[Interface]) -> None:
    """Check that no interface object is used twice.

    Raises:
        ContractError: One is.
    """
    if len({id(interface) for interface in interfaces}) < len(interfaces):
        raise ContractError("the same interface object is used twice; make one object for each place")


@frozen
class _Stack:
    interfaces: tuple[Interface, ...]

    def bind(self, raw: Spaces) -> Spaces:
        for interface in self.interfaces:
            raw = interface.bind(raw)
        return raw

    def reset(self, streams: np.ndarray) -> None:
        for interface in self.interfaces:
            interface.reset(streams)

    def observe(self, view: View, streams: np.ndarray) -> View:
        for interface in self.interfaces:
            view = interface.observe(view, streams)
        return view

    def act(self, action: np.ndarray, streams: np.ndarray) -> np.ndarray:
        for interface in reversed(self.interfaces):
            action = interface.act(action, streams)
        return action


def bind_role(role: Role, interface: Interface) -> Role:
    """Bind `interface` to a role's spaces and return the role as its player sees it.

    Raises:
        ContractError: The interface cannot work on this role; the message names both.
    """
    try:
        seen = interface.bind(Spaces(role.observation_space, role.action_space))
    except ContractError as error:
        raise ContractError(f"role {role.name!r}: {error}") from error
    return attrs.evolve(role, observation_space=seen.observation, action_space=seen.action)


# -- on an agent ---------------------------------------------------------------------------------------------------


def on_agent(agent: Agent, interface: Interface, *, raw: Spaces | None = None) -> Agent:
    """Return an agent for the raw game from one that plays in the transformed game [Arena §2.4.2].

    Agents made for different observation and action spaces can so meet in the same raw game. Agents see no rewards,
    so the interface is given zeros.

    Args:
        agent: Takes transformed observations, returns transformed actions.
        interface: Used by this agent alone.
        raw: The raw spaces to bind it to; None if it is bound already, or will be before the first decision.
    """
    if raw is not None:
        interface.bind(raw)
    return _AgentThrough(agent, interface)


@frozen
class _AgentThrough:
    agent: Agent
    interface: Interface

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        streams: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        view = View(observation=observation, action_mask=action_mask, reward=np.zeros(streams.size, np.float32))
        seen = self.interface.observe(view, streams)
        chosen = self.agent.act(seen.observation, action_mask=seen.action_mask, streams=streams, rng=rng)
        return self.interface.act(chosen, streams)

    def reset(self, streams: np.ndarray) -> None:
        self.interface.reset(streams)
        self.agent.reset(streams)


# -- on an environment ---------------------------------------------------------------------------------------------


def on_environment(environment: Environment, interfaces: Mapping[str, Interface]) -> Environment:
    """Return the game as it looks through interfaces, for training or for any other wrapper on top [Arena §2.4.2].

    * Roles without an interface stay as they are. Privileged observations stay the game's own; `reward_parts` are left
      out, as they would no longer add up to the reward.
    * A reward that arrives while a seat does not act is shown when the seat next acts or its match ends, because that
      is when the interface looks; until then the observation of that seat is the one it last decided on.
    * What an interface may break is no longer claimed by the spec: `zero_sum`, `reward_range`, `perfect_information`.
    * The result is `Playable` where the game is.

    Args:
        environment: The game; the result is its only user from now on.
        interfaces: One interface per role name.

    Raises:
        ContractError: (when first used) a role is unknown, or an interface cannot work on its spaces.
    """
    require_distinct(tuple(interfaces.values()))
    kind = _PlayableThrough if isinstance(environment, Playable) else _EnvironmentThrough
    return kind(environment, dict(interfaces))


@define
class _Seen:
    """One role as seen through its interface, in arrays of our own."""

    interface: Interface
    raw: Role
    role: Role
    tick: RoleTick
    pending: np.ndarray  # [B, S] float32: raw reward the interface has not been shown
    actions: np.ndarray  # [B, S, L'] raw actions

    @classmethod
    def make(cls, raw: Role, interface: Interface, matches: int) -> _Seen:
        role = bind_role(raw, interface)
        shape = (matches, raw.seats)
        dtype = np.float32 if is_continuous(raw.action_space) else np.int64
        leaves = leaf_spaces(role.observation_space)
        return cls(
            interface,
            raw,
            role,
            RoleTick(
                observation={name: np.zeros((*shape, *(s.shape or ())), s.dtype) for name, s in leaves.items()},
                acting=np.zeros(shape, bool),
                action_mask=None,
                reward=np.zeros(shape, np.float32),
            ),
            np.zeros(shape, np.float32),
            np.zeros((*shape, action_width(raw.action_space)), dtype),
        )

    def streams(self, rows: np.ndarray, seats: np.ndarray) -> np.ndarray:
        return np.asarray(rows * self.raw.seats + seats)

    def start(self, tick: RoleTick, rows: np.ndarray) -> None:
        """New matches start in `rows`: everybody sees the start, and those who do not act yet forget it again."""
        everybody = np.zeros_like(tick.acting)
        everybody[rows] = True
        self.interface.reset(self.streams(*np.nonzero(everybody)))
        self.pending[rows] = 0
        self._look(tick, everybody)
        self.tick.reward[rows] = 0
        self.interface.reset(self.streams(*np.nonzero(everybody & ~tick.acting)))

    def advance(self, tick: RoleTick, ended: np.ndarray) -> None:
        self.pending += tick.reward
        self.tick.reward[:] = 0
        self._look(tick, tick.acting | ended[:, None])

    def _look(self, tick: RoleTick, chosen: np.ndarray) -> None:
        rows, seats = np.nonzero(chosen)
        mine, mask = self.tick, tick.action_mask
        mine.acting, mine.privileged = tick.acting, tick.privileged
        if not rows.size:
            return
        view = View(
            observation={name: leaf[rows, seats] for name, leaf in tick.observation.items()},
            action_mask=None if mask is None else mask[rows, seats],
            reward=self.pending[rows, seats],
        )
        seen = self.interface.observe(view, self.streams(rows, seats))
        for name, leaf in seen.observation.items():
            mine.observation[name][rows, seats] = leaf
        mine.reward[rows, seats] = seen.reward
        self.pending[rows, seats] = 0
        if seen.action_mask is not None:
            if mine.action_mask is None:
                mine.action_mask = np.ones((*chosen.shape, seen.action_mask.shape[1]), bool)
            mine.action_mask[rows, seats] = seen.action_mask

    def to_raw(self, chosen: np.ndarray) -> np.ndarray:
        """Return the raw actions ``[B, S, L']`` of the acting seats; the others are ignored by the game."""
        rows, seats = np.nonzero(self.tick.acting)
        if rows.size:
            self.actions[rows, seats] = self.interface.act(chosen[rows, seats], self.streams(rows, seats))
        return self.actions


@define
class _EnvironmentThrough:
    environment: Environment
    interfaces: Mapping[str, Interface]
    _spec: EnvironmentSpec | None = field(init=False, default=None)
    _seen: dict[str, _Seen] = field(init=False, factory=dict)

    @property
    def spec(self) -> EnvironmentSpec:
        if self._spec is None:
            self._spec = self._bind(self.environment.spec)
        return self._spec

    def _bind(self, raw: EnvironmentSpec) -> EnvironmentSpec:
        unknown = sorted(set(self.interfaces) - {role.name for role in raw.roles})
        if unknown:
            names = ", ".join(role.name for role in raw.roles)
            raise ContractError(
                f"{raw.name} has no role {', '.join(map(repr, unknown))} for an interface; it has {names}"
            )
        if not self.interfaces:
            return raw
        matches = self.environment.num_matches
        self._seen = {n: _Seen.make(raw.role(n), interface, matches) for n, interface in self.interfaces.items()}
        roles = tuple(self._seen[role.name].role if role.name in self._seen else role for role in raw.roles)
        return attrs.evolve(raw, roles=roles, zero_sum=False, reward_range=None, perfect_information=False)

    @property
    def num_matches(self) -> int:
        return self.environment.num_matches

    def reset(
        self,
        seeds: np.ndarray,
        *,
        rows: np.ndarray | None = None,
        scenarios: Sequence[Scenario] | None = None,
    ) -> Tick:
        tick = self.environment.reset(seeds, rows=rows, scenarios=scenarios)
        assert self.spec is not None  # binds, now that a game which learns its spaces by starting knows them
        started = np.arange(self.num_matches) if rows is None else rows
        for name, seen in self._seen.items():
            seen.start(tick.roles[name], started)
        return self._through(tick)

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        raw = {n: self._seen[n].to_raw(chosen) if n in self._seen else chosen for n, chosen in actions.items()}
        tick = self.environment.step(raw)
        ended = tick.terminated | tick.truncated
        for name, seen in self._seen.items():
            seen.advance(tick.roles[name], ended)
        return self._through(tick)

    def _through(self, tick: Tick) -> Tick:
        roles = {n: self._seen[n].tick if n in self._seen else role for n, role in tick.roles.items()}
        return Tick(roles=roles, terminated=tick.terminated, truncated=tick.truncated, outcome=tick.outcome)

    def close(self) -> None:
        self.environment.close()


#: Actions are matched with what a person typed by trying them all, up to so many.
_TYPEABLE_ACTIONS = 10_000


class _PlayableThrough(_EnvironmentThrough):
    @property
    def _game(self) -> Playable:
        assert isinstance(self.environment, Playable)
        return self.environment

    def render(self, match: int) -> str:
        return self._game.render(match)

    def action_name(self, role: str, action: np.ndarray) -> str:
        seen = self._role(role)
        raw = action if seen is None else seen.interface.act(action[None], np.zeros(1, np.int64))[0]
        return self._game.action_name(role, raw)

    def parse_action(self, role: str, text: str) -> np.ndarray:
        wanted, seen = self._game.parse_action(role, text), self._role(role)
        if seen is None:
            return wanted
        sizes = label_sizes(seen.role.action_space)
        if not sizes or np.prod(sizes) > _TYPEABLE_ACTIONS:
            raise ValueError(f"the actions of {role} cannot be typed through this interface; play the game without it")
        every = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
        raw = seen.interface.act(every, np.zeros(len(every), np.int64))
        fitting = np.flatnonzero((raw == wanted).all(axis=1))
        if not fitting.size:
            raise ValueError(f"{text!r} cannot be done through this interface")
        return np.asarray(every[fitting[0]])

    def _role(self, role: str) -> _Seen | None:
        assert self.spec is not None  # binds
        return self._seen.get(role)
