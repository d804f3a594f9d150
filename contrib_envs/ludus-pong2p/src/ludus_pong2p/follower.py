"""An opponent that follows the ball with its paddle."""

from __future__ import annotations

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves

from ludus_pong2p.config import FollowerConfig
from ludus_pong2p.observation import own_paddle_and_ball
from ludus_pong2p.seat_state import SeatState

__all__ = ["FollowerAgent"]

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
