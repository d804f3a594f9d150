"""Scripted agents: one that follows a list of priorities, and one that stands still."""

from __future__ import annotations

import numpy as np
from ludus.agent import grow_states
from ludus.environment import EnvironmentSpec, Leaves
from ludus.spaces import action_width, leaf_spaces

from ludus_pommerman.rules import DOWN, FOG, ITEMS, LAY, LEFT, RIGHT, STOP, UP, WOOD
from ludus_pommerman.sight import Sight, flood, look

_RECENT = 6
_STATE = np.dtype([("last", np.int64), ("recent", np.int64, (_RECENT,))])


class StopAgent:
    """Stands still.

    Args:
        config: None; there are no options.
        spec: Spec of the environment.
        role: Role that the agent plays.
    """

    def __init__(self, config: None, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - no options
        self._width = action_width(spec.role(role).action_space)

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - the agent ignores observations
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002
        seat_ids: np.ndarray,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        return np.zeros((seat_ids.size, self._width), np.int64)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""


class SimpleAgent:
    """Follows a list of priorities: leave lines of bombs, attack, take items, burn wood, walk about.

    The state of a seat is the direction of its last attack, and the cells of its last six aimless moves.

    Args:
        config: None; there are no options.
        spec: Spec of the environment.
        role: Role that the agent plays.
    """

    def __init__(self, config: None, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - no options
        own = spec.role(role)
        self._size = int(leaf_spaces(own.observation_space)["board"].shape[0])  # type: ignore[index]  # a Box
        self._width = action_width(own.action_space)
        self._states = np.zeros(0, _STATE)

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - the game has no masks
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        self._states = grow_states(self._states, seat_ids)
        action = np.zeros((seat_ids.size, self._width), np.int64)
        if seat_ids.size:
            states = self._states[seat_ids]
            action[:, 0] = decide(look(observation, self._size), states, rng)
            self._states[seat_ids] = states
        return action

    def reset(self, seat_ids: np.ndarray) -> None:
        """Forget the state of the seats."""
        self._states = grow_states(self._states, seat_ids)
        self._states[seat_ids] = 0


def decide(sight: Sight, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the action of each row, ``[n] int64``, by the first priority that applies.

    Args:
        sight: What the agents see.
        states: ``[n]`` states, which change.
        rng: Random numbers.
    """
    action = np.full(len(sight.me), -1)

    def choose(rows: np.ndarray, value: np.ndarray | int) -> None:
        """Set the action of `rows [n] bool` that have none."""
        open_rows = rows & (action < 0)
        action[open_rows] = np.broadcast_to(value, action.shape)[open_rows]

    ranges = bombs_in_line(sight)
    choose(ranges.max(axis=1) > 0, leave(sight, ranges, rng))
    is_safe = sight.is_bombing_safe()
    choose((sight.enemy & (sight.distance == 1)).any(axis=1) & is_safe, LAY)
    attack = sight.nearest(np.where(sight.enemy, sight.board, 0), 3, rng)
    attacks = (action < 0) & (attack > 0) & ((states["last"] != attack) | (rng.random(action.size) < 0.5))
    states["last"][attacks] = attack[attacks]
    choose(attacks, attack)
    item = sight.nearest(np.where(np.isin(sight.board, ITEMS), sight.board, 0), 2, rng)
    choose(item > 0, item)
    wood = sight.nearest(sight.board == WOOD, 2, rng)
    choose(((sight.board == WOOD) & (sight.distance == 1)).any(axis=1), np.where(is_safe, LAY, STOP))
    choose((wood > 0) & ~sight.is_in_line(sight.me + sight.tables.steps[wood]), wood)
    walks = action < 0
    choose(walks, walk(sight, states["recent"], rng))
    states["recent"][walks] = np.concatenate([states["recent"][walks, 1:], sight.me[walks, None]], axis=1)
    return action


def _pick(allowed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a random column ``[n] int64`` of those allowed, ``[n, k] bool``; 0 where there is none."""
    return np.asarray(((rng.random(allowed.shape) + 1.0) * allowed).argmax(axis=1))


def bombs_in_line(sight: Sight) -> np.ndarray:
    """Return the greatest strength of the bombs in each direction, ``[n, 4] int64``; 0: none that matters.

    Bombs matter whose strength is not less than the number of steps to them. A bomb under the agent is in all
    directions.
    """
    strength = np.where(sight.distance <= sight.strength, sight.strength, 0)
    side = sight.tables.side[sight.me]
    under = sight.take(strength, sight.me[:, None])[:, 0]
    ranges = [np.maximum((strength * (side == direction)).max(axis=1), under) for direction in (UP, DOWN, LEFT, RIGHT)]
    return np.stack(ranges, axis=1).astype(np.int64)


def leave(sight: Sight, ranges: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return actions that lead out of the lines of bombs, ``[n] int64``.

    Args:
        sight: What the agents see.
        ranges: From `bombs_in_line`.
        rng: Random numbers.
    """
    beside, is_danger = sight.neighbours(sight.me), ranges > 0
    seen = sight.take(sight.board, beside)
    safe = ~is_danger & (sight.take(sight.passable, beside) | (seen == FOG))
    allowed = np.where(safe.any(axis=1)[:, None], safe, is_danger & sight.tables.on_board[beside])
    action = np.where(allowed.any(axis=1), 1 + _pick(allowed, rng), STOP)
    surrounded = np.flatnonzero(is_danger.all(axis=1))
    if surrounded.size:
        action[surrounded] = _escape(sight, surrounded, ranges[surrounded])
    return action


def _escape(sight: Sight, rows: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Return the first direction with a way out, for agents with bombs in all directions, ``[m] int64``; 0: none.

    A way leads out where it leaves row and column of its first cell, or gets farther than the strength of the bombs.
    """
    me, table = sight.me[rows], sight.tables
    passable = sight.passable[rows]
    passable[np.arange(rows.size), me] = False
    first = (me[:, None] + table.steps[1:5]).ravel()
    passable = np.repeat(passable, 4, axis=0)
    starts = passable[np.arange(first.size), first]
    reached = flood(first, passable, int(table.steps[DOWN]))
    out = (table.line[first] > ranges.ravel()[:, None]) & (table.apart[first] > 0)
    is_way = (starts & (reached & out).any(axis=1)).reshape(-1, 4)
    # Directions come in the order in which bombs are found, row by row: those of other bombs first.
    near = (sight.distance[rows] <= sight.strength[rows]) & (sight.strength[rows] > 0)
    other = [(near & (table.side[me] == direction)).any(axis=1) for direction in (UP, LEFT)]
    order = np.stack(
        [np.where(other[0], 0, 4), np.full(rows.size, 5), np.where(other[1], 1, 3), np.full(rows.size, 2)], axis=1
    )
    best = np.where(is_way, order, 9).argmin(axis=1)
    return np.where(is_way.any(axis=1), 1 + best, STOP)


def walk(sight: Sight, recent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a random direction out of the lines of bombs, to a cell that was not visited recently, ``[n] int64``.

    Args:
        sight: What the agents see.
        recent: ``[n, 6] int64``: cells visited; 0: none.
        rng: Random numbers.
    """
    cells = np.concatenate([sight.me[:, None], sight.neighbours(sight.me)], axis=1)
    allowed = sight.take(sight.passable, cells)
    allowed &= ~np.stack([sight.is_in_line(cell) for cell in cells.T], axis=1)
    fresh = allowed & ~(cells[:, :, None] == recent[:, None]).any(axis=2)
    allowed = np.where(fresh.any(axis=1)[:, None], fresh, allowed)
    allowed[:, STOP] &= allowed.sum(axis=1) == 1
    return _pick(allowed, rng)
