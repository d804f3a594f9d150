"""An opponent that moves its paddle to where the ball is."""

from __future__ import annotations

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves

from ludus_pong2p.config import FollowerConfig
from ludus_pong2p.memory import BallTracker
from ludus_pong2p.sight import own_paddle_and_ball

__all__ = ["FollowerAgent"]

#: Delay in ticks, share of the paddle's speed and error in units.
_STRENGTHS: dict[str, tuple[int, float, float]] = {"easy": (2, 0.7, 4.5), "hard": (0, 1.0, 3.5)}
_CLOSE = 0.75  # it does not move for less


class FollowerAgent:
    """Follows the height of the ball, late, slowly and inexactly as its options say.

    Args:
        config: Its options.
        spec: The environment's; it does not matter which observation was chosen.
        role: The only one.
    """

    def __init__(self, config: FollowerConfig, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - one role
        delay, speed, error = _STRENGTHS[config.strength]
        self._delay = delay if config.delay is None else config.delay
        self._speed = speed if config.speed is None else config.speed
        self._error = error if config.error is None else config.error
        width = self._delay + 1
        self._memory = BallTracker(x=width, y=width, aim=1, coming=1, credit=1)

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
        fresh = self._memory.take(seat_ids)
        last_x, x = self._late("x", x, seat_ids, fresh)
        _, y = self._late("y", y, seat_ids, fresh)
        gap = y - self._aim(x < last_x, seat_ids, rng) - paddle
        moves = self._spend(np.abs(gap) > _CLOSE, seat_ids)
        return np.where(moves, np.where(gap < 0, 1, 2), 0)[:, None]

    def reset(self, seat_ids: np.ndarray) -> None:
        """Forget everything about these streams."""
        self._memory.forget(seat_ids)

    def _late(
        self, name: str, seen: np.ndarray, seat_ids: np.ndarray, fresh: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Remember ``seen [n]``, and return what was known of it one tick ago and what is known now."""
        past = self._memory[name][seat_ids]
        past[fresh] = seen[fresh, None]
        known = past[:, 0]
        past = np.concatenate([past[:, 1:], seen[:, None]], axis=1)
        self._memory[name][seat_ids] = past
        return known, past[:, 0]

    def _aim(self, coming: np.ndarray, seat_ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return how far below its middle it wants each ball ``[n]``; chosen anew as a ball turns to come."""
        aim, was_coming = self._memory["aim"], self._memory["coming"]
        drawn = rng.uniform(-self._error, self._error, len(seat_ids))  # for every row, so that rows do not interact
        now = np.where(coming & (was_coming[seat_ids, 0] == 0), drawn, aim[seat_ids, 0])
        aim[seat_ids, 0], was_coming[seat_ids, 0] = now, coming
        return now

    def _spend(self, wanted: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        """Return ``[n] bool``: it moves now, which it does in a share of the ticks in which it wants to."""
        credit = self._memory["credit"][seat_ids, 0] + self._speed * wanted
        moves: np.ndarray = wanted & (credit >= 1.0)
        self._memory["credit"][seat_ids, 0] = credit - moves
        return moves
