"""The game as it looks through interfaces [Arena §2.4.2].

Nothing here reads the spaces of an environment before somebody asks for its `spec` or resets it, and a reset of the
game comes before its spec is read. An environment that knows its spaces only after its first `reset` can therefore be
wrapped like any other; only do not ask for `spec` before.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from attrs import define, field
from ludus.environment import Environment, EnvironmentSpec, Playable, Role, RoleTick, Tick
from ludus.errors import ContractError
from ludus.interface import Interface, SeatView, bind_role, require_distinct
from ludus.spaces import action_dtype, action_width, label_sizes, leaf_spaces

from ludus_interfaces.wrapping import Wrapper

__all__ = ["on_environment"]


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
    pending_parts: dict[str, np.ndarray] = field(factory=dict)  # likewise the reward's parts

    @classmethod
    def make(cls, raw: Role, interface: Interface, matches: int) -> _Seen:
        role = bind_role(raw, interface)
        shape = (matches, raw.num_seats)
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
        )

    def seat_ids(self, rows: np.ndarray, seats: np.ndarray) -> np.ndarray:
        return np.asarray(rows * self.raw.num_seats + seats)

    def start(self, tick: RoleTick, rows: np.ndarray) -> None:
        """New matches start in `rows`: everybody sees the start, and those who do not act yet forget it again."""
        everybody = np.zeros_like(tick.acting)
        everybody[rows] = True
        self.interface.reset(self.seat_ids(*np.nonzero(everybody)))
        for pending in (self.pending, *self.pending_parts.values()):
            pending[rows] = 0
        self._look(tick, everybody)
        self.tick.reward[rows] = 0
        self.interface.reset(self.seat_ids(*np.nonzero(everybody & ~tick.acting)))

    def advance(self, tick: RoleTick, ended: np.ndarray) -> None:
        self.pending += tick.reward
        for name, values in tick.reward_parts.items():
            self.pending_parts[name] = self.pending_parts.get(name, 0) + values
        self.tick.reward[:] = 0
        self._look(tick, tick.acting | ended[:, None])

    def _look(self, tick: RoleTick, chosen: np.ndarray) -> None:
        rows, seats = np.nonzero(chosen)
        mine, mask = self.tick, tick.action_mask
        mine.acting, mine.privileged = tick.acting, tick.privileged
        if not rows.size:
            return
        view = SeatView(
            observation={name: leaf[rows, seats] for name, leaf in tick.observation.items()},
            action_mask=None if mask is None else mask[rows, seats],
            reward=self.pending[rows, seats],
            reward_parts={name: values[rows, seats] for name, values in self.pending_parts.items()},
        )
        seen = self.interface.observe(view, self.seat_ids(rows, seats))
        for name, leaf in seen.observation.items():
            mine.observation[name][rows, seats] = leaf
        mine.reward[rows, seats] = seen.reward
        for pending in (self.pending, *self.pending_parts.values()):
            pending[rows, seats] = 0
        if seen.action_mask is not None:
            if mine.action_mask is None:
                mine.action_mask = np.ones((*chosen.shape, seen.action_mask.shape[1]), bool)
            mine.action_mask[rows, seats] = seen.action_mask

    def to_raw(self, chosen: np.ndarray) -> np.ndarray:
        """Return the raw actions ``[B, S, L']`` of the acting seats; the others are ignored by the game."""
        rows, seats = np.nonzero(self.tick.acting)
        if rows.size:
            self.actions[rows, seats] = self.interface.act(chosen[rows, seats], self.seat_ids(rows, seats))
        return self.actions


@define
class _EnvironmentThrough(Wrapper):
    interfaces: Mapping[str, Interface]
    _seen: dict[str, _Seen] = field(init=False, factory=dict)

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

    def _start(self, tick: Tick, rows: np.ndarray) -> None:
        for name, seen in self._seen.items():
            seen.start(tick.roles[name], rows)

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        raw = {n: self._seen[n].to_raw(chosen) if n in self._seen else chosen for n, chosen in actions.items()}
        tick = self.environment.step(raw)
        ended = tick.terminated | tick.truncated
        for name, seen in self._seen.items():
            seen.advance(tick.roles[name], ended)
        return self._show(tick)

    def _show(self, tick: Tick) -> Tick:
        roles = {n: self._seen[n].tick if n in self._seen else role for n, role in tick.roles.items()}
        return Tick(roles=roles, terminated=tick.terminated, truncated=tick.truncated, outcome=tick.outcome)


#: Actions that an interface changes are matched with what a person typed by trying them all, up to so many.
_TYPEABLE_ACTIONS = 10_000


class _PlayableThrough(_EnvironmentThrough):
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
        if seen.role.action_space == seen.raw.action_space:
            kept = seen.interface.act(wanted[None], np.zeros(1, np.int64))[0]
            if np.array_equal(kept, wanted):  # most interfaces leave actions as they are
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
