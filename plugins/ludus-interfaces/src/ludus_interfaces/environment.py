"""Environments behind interfaces [Arena §2.4.2].

The wrapper reads the spec of the wrapped environment on first use, and after a reset if that comes first. So it can
wrap an environment that determines its spaces during its first `reset`; do not read `spec` before that reset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from attrs import define, field
from ludus.agent import elapse
from ludus.controls import Controls, find_controls
from ludus.environment import Environment, EnvironmentSpec, Playable, Role, RoleTick, Scenario, Tick
from ludus.errors import ContractError
from ludus.interface import Interface, SeatView, bind_role, keeps_actions, require_distinct
from ludus.rendering import Frame, draw_match
from ludus.spaces import action_dtype, action_width, label_sizes, leaf_spaces, real_sizes


@define
class Wrapper(ABC):
    """Wraps an environment. Subclasses implement `_bind`, `_transform` and `step`.

    Args:
        environment: Environment that the wrapper owns.
    """

    environment: Environment
    _spec: EnvironmentSpec | None = field(init=False, default=None)

    @abstractmethod
    def _bind(self, raw: EnvironmentSpec) -> EnvironmentSpec:
        """Return the spec of the wrapper; called once, before the first tick is returned."""

    @abstractmethod
    def _transform(self, tick: Tick) -> Tick:
        """Return the transformed tick."""

    def _start_matches(self, tick: Tick, indices: np.ndarray) -> None:  # noqa: B027 - optional
        """Prepare for new matches at these match indices; called before `_transform`."""

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the spec of the wrapper. The spec of the wrapped environment must be readable."""
        if self._spec is None:
            self._spec = self._bind(self.environment.spec)
        return self._spec

    @property
    def num_matches(self) -> int:
        """Return B, the number of matches stepped at once."""
        return self.environment.num_matches

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches; see `ludus.environment.Environment.reset`."""
        tick = self.environment.reset(seeds, indices=indices, scenarios=scenarios)
        assert self.spec is not None  # calls `_bind`, after the reset: see the module `environment`
        self._start_matches(tick, np.arange(self.num_matches) if indices is None else indices)
        return self._transform(tick)

    def render_frame(self, match: int) -> Frame | None:
        """Return the frame of the wrapped environment, see `ludus.rendering.Renderable`."""
        return draw_match(self.environment, match)

    def controls(self, role: str, seat: int) -> Controls | None:
        """Return the controls of the wrapped environment, see `ludus.controls.Controllable`."""
        return find_controls(self.environment, role, seat)

    def close(self) -> None:
        """Close the wrapped environment."""
        self.environment.close()

    @property
    def _playable(self) -> Playable:
        """Return the wrapped environment, for wrappers of playable environments."""
        assert isinstance(self.environment, Playable)
        return self.environment


class PlayablePart(Wrapper):
    """The methods of a playable environment, for wrappers that change no actions."""

    def render(self, match: int) -> str:
        """Return the match as text."""
        return self._playable.render(match)

    def action_name(self, role: str, action: np.ndarray) -> str:
        """Return the name of an action."""
        return self._playable.action_name(role, action)

    def parse_action(self, role: str, text: str) -> np.ndarray:
        """Return the action that a text names."""
        return self._playable.parse_action(role, text)


def wrap_environment(environment: Environment, interfaces: Mapping[str, Interface]) -> Environment:
    """Return an environment whose roles are transformed by interfaces [Arena §2.4.2].

    * Roles without an interface do not change. Privileged observations are those of the environment. The result has no
      `reward_parts`, since they would not sum to the transformed reward.
    * A reward of a seat that does not act is passed to the interface when the seat acts again or ends, and when its
      match ends. Until then the seat keeps the observation of its last decision.
    * The spec does not claim properties that interfaces may break: `zero_sum`, `reward_range`, `perfect_information`.
    * The result is `Playable` if the environment is.

    Args:
        environment: Environment; the result owns it.
        interfaces: Interfaces by role.

    Raises:
        ContractError: On first use: a role is unknown, or an interface cannot work on its spaces.
    """
    require_distinct(tuple(interfaces.values()))
    kind = _PlayableWrappedEnvironment if isinstance(environment, Playable) else _WrappedEnvironment
    return kind(environment, dict(interfaces))


@define
class _WrappedRole:
    """One role behind its interface, with its own arrays.

    Attributes:
        interface: The interface.
        raw: Role of the wrapped environment.
        role: Transformed role.
        tick: Transformed tick.
        pending: ``[B, S] float32``, raw rewards since the seat's last view.
        actions: ``[B, S, L']`` raw actions.
        elapsed: ``[B, S] int32``, ticks since the seat's last view.
        pending_parts: Parts of `pending`.
    """

    interface: Interface
    raw: Role
    role: Role
    tick: RoleTick
    pending: np.ndarray
    actions: np.ndarray
    elapsed: np.ndarray
    pending_parts: dict[str, np.ndarray] = field(factory=dict)

    @classmethod
    def make(cls, raw: Role, interface: Interface, num_matches: int) -> _WrappedRole:
        role = bind_role(raw, interface)
        shape = (num_matches, raw.num_seats)
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
            np.zeros((*shape, action_width(raw.action_space)), action_dtype(raw.action_space)),
            np.zeros(shape, np.int32),
        )

    def seat_ids(self, matches: np.ndarray, seats: np.ndarray) -> np.ndarray:
        return np.asarray(matches * self.raw.num_seats + seats)

    def start_matches(self, tick: RoleTick, indices: np.ndarray) -> None:
        """Transform the first tick of new matches for all seats, then reset the interface for seats that wait."""
        new = np.zeros_like(tick.acting)
        new[indices] = True
        self.interface.reset(self.seat_ids(*np.nonzero(new)))
        for pending in (self.pending, self.elapsed, *self.pending_parts.values()):
            pending[indices] = 0
        self._observe(tick, new)
        self.tick.reward[indices] = 0
        self.interface.reset(self.seat_ids(*np.nonzero(new & ~tick.acting)))

    def add_tick(self, tick: RoleTick, ended: np.ndarray) -> None:
        """Add the rewards of a tick, and transform it for seats that act or end, or whose matches ended."""
        self.elapsed += 1
        self.pending += tick.reward
        for name, values in tick.reward_parts.items():
            self.pending_parts[name] = self.pending_parts.get(name, 0) + values
        self.tick.reward[:] = 0
        chosen = tick.acting | ended[:, None]
        if tick.terminated is not None and tick.truncated is not None:
            chosen |= tick.terminated | tick.truncated
        self._observe(tick, chosen)

    def _observe(self, tick: RoleTick, chosen: np.ndarray) -> None:
        matches, seats = np.nonzero(chosen)
        own, mask = self.tick, tick.action_mask
        own.acting, own.privileged = tick.acting, tick.privileged
        own.terminated, own.truncated, own.statistics = tick.terminated, tick.truncated, tick.statistics
        own.dropped = tick.dropped
        if not matches.size:
            return
        view = SeatView(
            observation={name: leaf[matches, seats] for name, leaf in tick.observation.items()},
            action_mask=None if mask is None else mask[matches, seats],
            reward=self.pending[matches, seats],
            reward_parts={name: values[matches, seats] for name, values in self.pending_parts.items()},
        )
        seat_ids = self.seat_ids(matches, seats)
        elapse(self.interface, self.elapsed[matches, seats], seat_ids)
        view = self.interface.observe(view, seat_ids)
        for name, leaf in view.observation.items():
            own.observation[name][matches, seats] = leaf
        own.reward[matches, seats] = view.reward
        for pending in (self.pending, self.elapsed, *self.pending_parts.values()):
            pending[matches, seats] = 0
        if view.action_mask is not None:
            if own.action_mask is None:
                own.action_mask = np.ones((*chosen.shape, view.action_mask.shape[1]), bool)
            own.action_mask[matches, seats] = view.action_mask

    def raw_actions(self, actions: np.ndarray) -> np.ndarray:
        """Return raw actions ``[B, S, L']``; entries of seats that do not act are undefined."""
        matches, seats = np.nonzero(self.tick.acting)
        if matches.size:
            self.actions[matches, seats] = self.interface.act(actions[matches, seats], self.seat_ids(matches, seats))
        return self.actions


@define
class _WrappedEnvironment(Wrapper):
    interfaces: Mapping[str, Interface]
    _roles: dict[str, _WrappedRole] = field(init=False, factory=dict)

    def _bind(self, raw: EnvironmentSpec) -> EnvironmentSpec:
        unknown = sorted(set(self.interfaces) - {role.name for role in raw.roles})
        if unknown:
            names = ", ".join(role.name for role in raw.roles)
            raise ContractError(
                f"{raw.name} has no role {', '.join(map(repr, unknown))} for an interface; it has {names}"
            )
        if not self.interfaces:
            return raw
        num_matches = self.environment.num_matches
        self._roles = {
            name: _WrappedRole.make(raw.role(name), interface, num_matches)
            for name, interface in self.interfaces.items()
        }
        roles = tuple(self._roles[role.name].role if role.name in self._roles else role for role in raw.roles)
        return attrs.evolve(raw, roles=roles, zero_sum=False, reward_range=None, perfect_information=False)

    def _start_matches(self, tick: Tick, indices: np.ndarray) -> None:
        for name, role in self._roles.items():
            role.start_matches(tick.roles[name], indices)

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        raw = {
            name: self._roles[name].raw_actions(chosen) if name in self._roles else chosen
            for name, chosen in actions.items()
        }
        tick = self.environment.step(raw)
        ended = tick.terminated | tick.truncated
        for name, role in self._roles.items():
            role.add_tick(tick.roles[name], ended)
        return self._transform(tick)

    def _transform(self, tick: Tick) -> Tick:
        roles = {name: self._roles[name].tick if name in self._roles else role for name, role in tick.roles.items()}
        return attrs.evolve(tick, roles=roles)


# Typed actions are found among the transformed ones by a search over all of them, up to this number.
_MAX_SEARCHED_ACTIONS = 10_000


class _PlayableWrappedEnvironment(_WrappedEnvironment):
    def render(self, match: int) -> str:
        return self._playable.render(match)

    def action_name(self, role: str, action: np.ndarray) -> str:
        wrapped = self._wrapped_role(role)
        if wrapped is not None and not keeps_actions(wrapped.interface):  # `act` would delay actions that are kept
            action = wrapped.interface.act(action[None], np.zeros(1, np.int64))[0]
        return self._playable.action_name(role, action)

    def parse_action(self, role: str, text: str) -> np.ndarray:
        raw, wrapped = self._playable.parse_action(role, text), self._wrapped_role(role)
        if wrapped is None:
            return raw
        if wrapped.role.action_space == wrapped.raw.action_space:
            if keeps_actions(wrapped.interface):
                return raw
            kept = wrapped.interface.act(raw[None], np.zeros(1, np.int64))[0]
            if np.array_equal(kept, raw):  # most interfaces do not change actions
                return raw
        sizes = label_sizes(wrapped.role.action_space)
        if real_sizes(wrapped.role.action_space) or np.prod(sizes) > _MAX_SEARCHED_ACTIONS:
            raise ValueError(
                f"actions of {role} cannot be typed through this interface; play the environment without it"
            )
        actions = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
        raw_actions = wrapped.interface.act(actions, np.zeros(len(actions), np.int64))
        found = np.flatnonzero((raw_actions == raw).all(axis=1))
        if not found.size:
            raise ValueError(f"{text!r} is not possible through this interface")
        return np.asarray(actions[found[0]])

    def _wrapped_role(self, role: str) -> _WrappedRole | None:
        assert self.spec is not None  # calls `_bind`
        return self._roles.get(role)
