"""The arrays of a batch of matches, and scalar games that play in them; see `ludus_copies`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import define, frozen
from ludus.activity import MAKING_GAMES, STARTING_MATCHES, track
from ludus.environment import EnvironmentSpec, RoleTick, Scenario, Tick, allocate_tick
from ludus.rendering import Frame
from ludus.spaces import action_dtype, action_width

_ALIGNMENT_BYTES = 64


@define(kw_only=True)
class MatchArrays:
    """Views of the arrays of one match, without the axis of matches.

    Attributes:
        actions: Per role ``[S, L] int64`` or ``[S, D] float32``: actions of the seats, which `step` reads.
        tick: Tick of the match: observation leaves ``[S, …]``, ``acting [S]``, ``action_mask [S, A]``, ``reward [S]``,
            ``terminated []``, ``truncated []``, ``outcome [teams]``; with `Role.seat_endings` also ``terminated [S]``
            and ``truncated [S]`` of the seats; ``statistics [S]``; privileged leaves ``[S, …]``; reward parts ``[S]``.
    """

    actions: dict[str, np.ndarray]
    tick: Tick


class ScalarGame(Protocol):
    """A game that plays one match at a time.

    Before every `step`, the arrays `acting`, `reward`, those of reward parts, and `terminated` and `truncated` of match
    and seats are set to 0, and before every `reset` all arrays: games write nonzero values. The actions of acting seats
    are legal. The values of `acting` on the tick that ends a match are ignored.

    A game whose rewards have parts also has an attribute `reward_parts`: names of the parts by role. A game that can
    draw its match has a method ``render_frame() -> Frame | None``, see `ludus.rendering`. A game that takes long to
    start a match may have a method ``prepare(seed, scenario)``, which begins to start it and returns at once: it is
    called for all matches that start together, before the first `reset` of them.
    """

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the spec, which is the same for every copy."""

    @property
    def masked_roles(self) -> frozenset[str]:
        """Return the roles that have action masks."""

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of actions to read and of ticks to write. Called once, before the first `reset`."""

    def reset(self, seed: int, scenario: Scenario) -> None:
        """Start a match, also while one is running. The seed is in [0, 2⁶⁴)."""

    def step(self) -> None:
        """Advance the running match by one tick with the actions in the arrays."""

    def close(self) -> None:
        """Release the resources of the game; closing twice is harmless."""


@define(kw_only=True)
class BatchArrays:
    """The arrays of a batch of matches.

    Attributes:
        actions: Per role ``[B, S, L] int64`` or ``[B, S, D] float32``.
        tick: Tick of all matches.
        num_bytes: Size of one buffer that holds the whole batch.
        layout: Dtypes and shapes of all arrays in order, which must be equal in two processes that share a buffer.
    """

    actions: dict[str, np.ndarray]
    tick: Tick
    num_bytes: int
    layout: str

    def slice(self, low: int, high: int) -> BatchArrays:
        """Return views of the matches ``low : high``."""
        part = functools.partial(_index, key=np.s_[low:high])
        return BatchArrays(
            actions={name: part(array) for name, array in self.actions.items()},
            tick=_map_tick(part, self.tick),
            num_bytes=self.num_bytes,
            layout=self.layout,
        )

    def match(self, index: int) -> MatchArrays:
        """Return views of one match."""
        part = functools.partial(_index, key=(index, ...))
        return MatchArrays(
            actions={name: part(array) for name, array in self.actions.items()}, tick=_map_tick(part, self.tick)
        )


def _index(array: np.ndarray, *, key: Any) -> np.ndarray:
    view: np.ndarray = array[key]
    return view


def _map_tick(part: Callable[[np.ndarray], np.ndarray], tick: Tick) -> Tick:
    """Apply `part` to every array of a tick."""
    roles = {
        name: RoleTick(
            observation={leaf: part(array) for leaf, array in role.observation.items()},
            acting=part(role.acting),
            action_mask=None if role.action_mask is None else part(role.action_mask),
            reward=part(role.reward),
            reward_parts={name: part(array) for name, array in role.reward_parts.items()},
            privileged={leaf: part(array) for leaf, array in role.privileged.items()},
            terminated=None if role.terminated is None else part(role.terminated),
            truncated=None if role.truncated is None else part(role.truncated),
            statistics={name: part(array) for name, array in role.statistics.items()},
        )
        for name, role in tick.roles.items()
    }
    return Tick(
        roles=roles, terminated=part(tick.terminated), truncated=part(tick.truncated), outcome=part(tick.outcome)
    )


@frozen(kw_only=True)
class ArrayPlan:
    """Which arrays the matches of a game need.

    Args:
        spec: Spec of the game.
        masked_roles: Roles that have action masks.
        reward_parts: Names of the reward parts by role.
    """

    spec: EnvironmentSpec
    masked_roles: frozenset[str]
    reward_parts: Mapping[str, Collection[str]]

    @classmethod
    def of(cls, game: ScalarGame) -> ArrayPlan:
        """Return the plan of a game."""
        parts = getattr(game, "reward_parts", {})  # an optional attribute, see `ScalarGame`
        return cls(spec=game.spec, masked_roles=game.masked_roles, reward_parts=parts)


def allocate(plan: ArrayPlan, *, num_matches: int, buffer: Any = None) -> BatchArrays:
    """Allocate zeroed arrays, one after another in the zeroed `buffer` if one is given."""
    used, layout = 0, []

    def allocate_array(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        nonlocal used
        layout.append(f"{np.dtype(dtype)}{list(shape)}")
        size, offset = int(np.prod(shape)), used
        used += -(-size * np.dtype(dtype).itemsize // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        if buffer is None:
            return np.zeros(shape, dtype)
        return np.frombuffer(buffer, dtype, size, offset).reshape(shape)

    actions = {
        role.name: allocate_array(
            (num_matches, role.num_seats, action_width(role.action_space)), action_dtype(role.action_space)
        )
        for role in plan.spec.roles
    }
    tick = allocate_tick(
        plan.spec,
        num_matches,
        masked_roles=plan.masked_roles,
        reward_parts=plan.reward_parts,
        allocate=allocate_array,
    )
    return BatchArrays(actions=actions, tick=tick, num_bytes=used, layout=" ".join(layout))


@define
class MatchStart:
    """A match to start at a match index."""

    index: int
    seed: int
    scenario: Scenario


class GameBatch:
    """Games that are stepped one after another, each in its part of the same arrays.

    Args:
        games: One per match, in order.
        arrays: Arrays of as many matches.
    """

    def __init__(self, games: Sequence[ScalarGame], arrays: BatchArrays) -> None:
        tick, roles = arrays.tick, arrays.tick.roles.values()
        self._games = games
        self._tick = tick
        self._running = np.zeros(len(games), np.bool_)
        self._acting = [role.acting for role in roles]
        self._cleared_by_step = [*self._acting, tick.terminated, tick.truncated]
        self._cleared_by_reset = [tick.outcome]
        for role in roles:
            results = (role.reward, *role.reward_parts.values(), role.terminated, role.truncated)
            self._cleared_by_step += [array for array in results if array is not None]
            self._cleared_by_reset += [*role.observation.values(), *role.privileged.values()]
            self._cleared_by_reset += role.statistics.values()
            if role.action_mask is not None:
                self._cleared_by_reset.append(role.action_mask)
        for index, game in enumerate(games):
            game.bind(arrays.match(index))

    def reset(self, starts: Sequence[MatchStart]) -> None:
        """Start some matches and leave the others as they are."""
        for start in starts:
            prepare: Callable[[int, Scenario], None] | None = getattr(self._games[start.index], "prepare", None)
            if prepare is not None:
                prepare(start.seed, start.scenario)
        for start in track(STARTING_MATCHES, starts):
            for array in (*self._cleared_by_step, *self._cleared_by_reset):
                array[start.index] = 0
            self._games[start.index].reset(start.seed, start.scenario)
            self._running[start.index] = True

    def step(self) -> None:
        """Advance the running matches by one tick."""
        for array in self._cleared_by_step:
            array[...] = 0
        for index in self._running.nonzero()[0].tolist():
            self._games[index].step()
        ended = self._tick.terminated | self._tick.truncated
        if ended.any():
            self._running &= ~ended
            for acting in self._acting:
                acting[ended] = False

    def render_frame(self, match: int) -> Frame | None:
        """Return the frame of a match; None if the game does not draw itself."""
        render: Callable[[], Frame | None] | None = getattr(self._games[match], "render_frame", None)
        return None if render is None else render()

    def close(self) -> None:
        """Close all games."""
        for game in self._games:
            game.close()


def make_games(factory: str, options: Mapping[str, Any], count: int) -> list[ScalarGame]:
    """Make several games one after another; if one fails, the others are closed."""
    games: list[ScalarGame] = []
    try:
        games.extend(make_game(factory, options) for _ in track(MAKING_GAMES, range(count)))
    except BaseException:
        for game in games:
            game.close()
        raise
    return games


def make_game(factory: str, options: Mapping[str, Any]) -> ScalarGame:
    """Import ``"package.module:callable"`` and call it with the options as keyword arguments."""
    module, _, attribute = factory.partition(":")
    game: ScalarGame = getattr(importlib.import_module(module), attribute)(**options)
    return game
