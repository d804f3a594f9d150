"""Rows of scalar games: the arrays of a batch of matches and the games that play in them, see `ludus_copies`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import define
from ludus.environment import EnvironmentSpec, RoleTick, Scenario, Tick, allocate_tick
from ludus.spaces import action_dtype, action_width

__all__ = ["Arrays", "GameSlice", "Row", "ScalarGame", "Start", "allocate", "make_game"]

_ALIGNMENT_BYTES = 64


@define(kw_only=True)
class Row:
    """One match's part of the arrays, without the axis of matches.

    Attributes:
        actions: Per role ``[S, L] int64`` or ``[S, D] float32``: what the seats do, to be read by `step`.
        tick: The match's tick: observation leaves ``[S, …]``, ``acting [S]``, ``action_mask [S, A]``, ``reward [S]``,
            ``terminated []``, ``truncated []``, ``outcome [teams]``.
    """

    actions: dict[str, np.ndarray]
    tick: Tick


class ScalarGame(Protocol):
    """A game that plays one match at a time.

    Before every `step` the row's `acting`, `reward`, `terminated` and `truncated` are cleared, before every `reset`
    everything: the game writes what is not zero. The actions of acting seats are legal. Who is acting on the tick that
    ends a match does not matter.
    """

    @property
    def spec(self) -> EnvironmentSpec:
        """Return what is known before a match starts; the same for every copy."""

    @property
    def masked_roles(self) -> frozenset[str]:
        """Return the roles that have action masks."""

    def bind(self, row: Row) -> None:
        """Keep the arrays to read actions from and to write ticks into. Called once, before the first `reset`."""

    def reset(self, seed: int, scenario: Scenario) -> None:
        """Start a match, whatever state the last one is in. The seed is in [0, 2⁶⁴)."""

    def step(self) -> None:
        """Advance the running match by one tick with the actions in the row."""

    def close(self) -> None:
        """Free what the game holds; closing twice is harmless."""


@define(kw_only=True)
class Arrays:
    """The arrays of a batch of matches.

    Attributes:
        actions: Per role ``[B, S, L] int64`` or ``[B, S, D] float32``.
        tick: The tick of all matches.
        num_bytes: How much memory the whole batch needs in one buffer.
        layout: Dtypes and shapes of all arrays in their order: equal where two processes agree on every byte.
    """

    actions: dict[str, np.ndarray]
    tick: Tick
    num_bytes: int
    layout: str

    def rows(self, low: int, high: int) -> Arrays:
        """Return views of the rows ``low : high``."""
        part = functools.partial(_index, key=slice(low, high))
        return Arrays(
            actions={name: part(array) for name, array in self.actions.items()},
            tick=_map_tick(part, self.tick),
            num_bytes=self.num_bytes,
            layout=self.layout,
        )

    def row(self, index: int) -> Row:
        """Return views of one row."""
        part = functools.partial(_index, key=(index, ...))
        return Row(
            actions={name: part(array) for name, array in self.actions.items()},
            tick=_map_tick(part, self.tick),
        )


def _index(array: np.ndarray, *, key: Any) -> np.ndarray:
    view: np.ndarray = array[key]
    return view


def _map_tick(part: Callable[[np.ndarray], np.ndarray], tick: Tick) -> Tick:
    """Return a tick made of `part` of every array of `tick`; copies have neither reward parts nor privileged leaves."""
    roles = {
        name: RoleTick(
            observation={leaf: part(array) for leaf, array in role.observation.items()},
            acting=part(role.acting),
            action_mask=None if role.action_mask is None else part(role.action_mask),
            reward=part(role.reward),
        )
        for name, role in tick.roles.items()
    }
    return Tick(
        roles=roles, terminated=part(tick.terminated), truncated=part(tick.truncated), outcome=part(tick.outcome)
    )


def allocate(spec: EnvironmentSpec, masked_roles: frozenset[str], *, num_matches: int, buffer: Any = None) -> Arrays:
    """Lay out zeroed arrays, one after another in `buffer` where one is given (it must be zeroed)."""
    used, layout = 0, []

    def take(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        nonlocal used
        layout.append(f"{np.dtype(dtype)}{list(shape)}")
        size, offset = int(np.prod(shape)), used
        used += -(-size * np.dtype(dtype).itemsize // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        if buffer is None:
            return np.zeros(shape, dtype)
        return np.frombuffer(buffer, dtype, size, offset).reshape(shape)

    actions = {
        role.name: take((num_matches, role.num_seats, action_width(role.action_space)), action_dtype(role.action_space))
        for role in spec.roles
    }
    tick = allocate_tick(spec, num_matches, masked_roles=masked_roles, allocate=take)
    return Arrays(actions=actions, tick=tick, num_bytes=used, layout=" ".join(layout))


@define
class Start:
    """A match to start."""

    row: int
    seed: int
    scenario: Scenario


class GameSlice:
    """Games stepped one after another, each in its row of the same arrays.

    Args:
        games: One per row, in order.
        arrays: Arrays of as many rows.
    """

    def __init__(self, games: Sequence[ScalarGame], arrays: Arrays) -> None:
        tick, roles = arrays.tick, arrays.tick.roles.values()
        self._games = games
        self._tick = tick
        self._running = np.zeros(len(games), np.bool_)
        self._acting = [role.acting for role in roles]
        self._of_step = [*self._acting, *(role.reward for role in roles), tick.terminated, tick.truncated]
        self._of_match = [
            tick.outcome,
            *(leaf for role in roles for leaf in role.observation.values()),
            *(role.action_mask for role in roles if role.action_mask is not None),
        ]
        for index, game in enumerate(games):
            game.bind(arrays.row(index))

    def reset(self, starts: Iterable[Start]) -> None:
        """Start matches in some rows and leave the others as they are."""
        for start in starts:
            for array in (*self._of_step, *self._of_match):
                array[start.row] = 0
            self._games[start.row].reset(start.seed, start.scenario)
            self._running[start.row] = True

    def step(self) -> None:
        """Advance the running matches by one tick."""
        for array in self._of_step:
            array[...] = 0
        for row in self._running.nonzero()[0].tolist():
            self._games[row].step()
        ended = self._tick.terminated | self._tick.truncated
        if ended.any():
            self._running &= ~ended
            for acting in self._acting:
                acting[ended] = False

    def close(self) -> None:
        """Close all games."""
        for game in self._games:
            game.close()


def make_game(factory: str, options: Mapping[str, Any]) -> ScalarGame:
    """Import ``"package.module:callable"`` and call it with the options as keyword arguments."""
    module, _, attribute = factory.partition(":")
    game: ScalarGame = getattr(importlib.import_module(module), attribute)(**options)
    return game
