"""A random agent, and an agent that follows the ball with its paddle."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves

from ludus_pong2p.config import FollowerConfig, RandomConfig
from ludus_pong2p.court import SIDE


class SeatState:
    """Named arrays over seat ids, which grow on demand and start as zeros.

    Args:
        widths: Number of float64 values per seat id of each array.
    """

    def __init__(self, **widths: int) -> None:
        self.fresh = np.ones(0, bool)
        self._arrays = {name: np.zeros((0, width)) for name, width in widths.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        """Return the array ``[seat ids, width]`` of a name."""
        return self._arrays[name]

    def take_new(self, seat_ids: np.ndarray) -> np.ndarray:
        """Return which seats ``[n] int64`` are new, ``[n] bool``, and mark them as not new."""
        self._grow(int(seat_ids.max(initial=-1)) + 1)
        fresh: np.ndarray = self.fresh[seat_ids]
        self.fresh[seat_ids] = False
        return fresh

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the values of seats ``[n] int64``, which are new again."""
        self._grow(int(seat_ids.max(initial=-1)) + 1)
        self.fresh[seat_ids] = True
        for array in self._arrays.values():
            array[seat_ids] = 0.0

    def _grow(self, count: int) -> None:
        missing = count - len(self.fresh)
        if missing > 0:
            self.fresh = np.concatenate([self.fresh, np.ones(missing, bool)])
            self._arrays = {n: np.concatenate([a, np.zeros((missing, a.shape[1]))]) for n, a in self._arrays.items()}


_CELLS = int(SIDE)
_MIDDLES = np.arange(_CELLS) + 0.5 - SIDE / 2  # of pixels, in units of the field


def own_paddle_and_ball(observation: Leaves) -> np.ndarray:
    """Return ``[3, n] float64``: height of the own paddle, and x and y of the ball, in units from the middle.

    Args:
        observation: Leaves ``[n, …]`` of the environment ``pong2p`` with any option `observation`.
    """
    vector = observation.get("vector", observation.get("obs"))
    if vector is not None and vector.ndim == 2:
        seen: np.ndarray = vector.T[[0, 2, 3]].astype(np.float64) * (SIDE / 2)
        return seen
    return _from_image(observation["obs"])


def _from_image(image: np.ndarray) -> np.ndarray:
    """Return the same from ``image [n, 42, 42, 2] uint8``: centroids of brightness, exact to a hundredth of a unit."""
    field = image[:, 2:, :, 0].astype(np.float64)
    paddle, ball = field[:, :, 0], field[:, :, 1:-1]
    weights = np.stack([paddle, ball.sum(axis=1), ball.sum(axis=2)])
    centres: np.ndarray = weights @ _MIDDLES / weights.sum(axis=2)
    return centres


class RandomAgent:
    """Draws an action uniformly and repeats it for a random time.

    Args:
        config: Options of the agent.
        spec: Spec of the environment.
        role: Role that the agent plays.
    """

    def __init__(self, config: RandomConfig, *, spec: EnvironmentSpec, role: str) -> None:
        space = spec.role(role).action_space
        assert isinstance(space, spaces.Discrete)
        self._actions = int(space.n)
        self._renew = 1.0 / config.hold
        self._memory = SeatState(action=1)

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - the agent ignores observations
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - every action is legal
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        redraw = self._memory.take_new(seat_ids) | (rng.random(len(seat_ids)) < self._renew)
        drawn = rng.integers(self._actions, size=len(seat_ids))
        action = np.where(redraw, drawn, self._memory["action"][seat_ids, 0]).astype(np.int64)
        self._memory["action"][seat_ids, 0] = action
        return action[:, None]

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the state of these seats."""
        self._memory.reset(seat_ids)


#: Delay in ticks, share of the paddle's speed and error in units.
_STRENGTHS: dict[str, tuple[int, float, float]] = {"easy": (2, 0.7, 4.5), "hard": (0, 1.0, 3.5)}
_CLOSE = 0.75  # units: it does not move for smaller gaps


class FollowerAgent:
    """Follows the height of the ball with a delay, limited speed and a random error.

    Args:
        config: Options of the agent.
        spec: Spec of the environment, with any option `observation`.
        role: Role that the agent plays.
    """

    def __init__(self, config: FollowerConfig, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - one role
        delay, speed, error = _STRENGTHS[config.strength]
        self._delay = delay if config.delay is None else config.delay
        self._speed = speed if config.speed is None else config.speed
        self._error = error if config.error is None else config.error
        width = self._delay + 1
        self._memory = SeatState(x=width, y=width, aim=1, coming=1, credit=1)

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - every action is legal
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        paddle, x, y = own_paddle_and_ball(observation)
        fresh = self._memory.take_new(seat_ids)
        last_x, x = self._delay_ball("x", x, seat_ids, fresh)
        _, y = self._delay_ball("y", y, seat_ids, fresh)
        gap = y - self._aim(x < last_x, seat_ids, rng) - paddle
        moves = self._spend_move_credit(np.abs(gap) > _CLOSE, seat_ids)
        return np.where(moves, np.where(gap < 0, 1, 2), 0)[:, None]

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the state of these seats."""
        self._memory.reset(seat_ids)

    def _delay_ball(
        self, name: str, seen: np.ndarray, seat_ids: np.ndarray, fresh: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Store ``seen [n]``, and return the delayed values of the previous tick and of this one."""
        past = self._memory[name][seat_ids]
        past[fresh] = seen[fresh, None]
        known = past[:, 0]
        past = np.concatenate([past[:, 1:], seen[:, None]], axis=1)
        self._memory[name][seat_ids] = past
        return known, past[:, 0]

    def _aim(self, coming: np.ndarray, seat_ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the target offset of each ball from the paddle's middle, ``[n]``; drawn again for every approach."""
        aim, was_coming = self._memory["aim"], self._memory["coming"]
        drawn = rng.uniform(
            -self._error, self._error, len(seat_ids)
        )  # drawn for every row, so that rows do not interact
        now = np.where(coming & (was_coming[seat_ids, 0] == 0), drawn, aim[seat_ids, 0])
        aim[seat_ids, 0], was_coming[seat_ids, 0] = now, coming
        return now

    def _spend_move_credit(self, wanted: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        """Return ``[n] bool``: it moves on this tick, which it does in a share `speed` of the ticks with a gap."""
        credit = self._memory["credit"][seat_ids, 0] + self._speed * wanted
        moves: np.ndarray = wanted & (credit >= 1.0)
        self._memory["credit"][seat_ids, 0] = credit - moves
        return moves
