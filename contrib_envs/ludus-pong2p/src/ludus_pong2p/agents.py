"""A random agent, and an agent that follows the ball with its paddle."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.agent import grow_states
from ludus.environment import EnvironmentSpec, Leaves

from ludus_pong2p.config import FollowerConfig, RandomConfig
from ludus_pong2p.court import SIDE

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
        self._states = np.zeros(0, [("known", np.bool_), ("action", np.int64)])

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - the agent ignores observations
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - every action is legal
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        self._states = grow_states(self._states, seat_ids)
        states = self._states[seat_ids]  # a copy
        redraw = ~states["known"] | (rng.random(len(seat_ids)) < self._renew)
        drawn = rng.integers(self._actions, size=len(seat_ids))
        states["known"], states["action"] = True, np.where(redraw, drawn, states["action"])
        self._states[seat_ids] = states
        return np.asarray(states["action"][:, None])

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the state of these seats."""
        self._states = grow_states(self._states, seat_ids)
        self._states[seat_ids] = 0


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
        balls = [(name, np.float64, (width,)) for name in ("x", "y")]
        self._states = np.zeros(
            0, [*balls, ("known", np.bool_), ("aim", np.float64), ("coming", np.bool_), ("credit", np.float64)]
        )

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
        self._states = grow_states(self._states, seat_ids)
        states = self._states[seat_ids]  # a copy
        last_x, x = _delay_ball(states, "x", x)
        _, y = _delay_ball(states, "y", y)
        gap = y - self._aim(states, x < last_x, rng) - paddle
        moves = self._spend_move_credit(states, np.abs(gap) > _CLOSE)
        states["known"] = True
        self._states[seat_ids] = states
        return np.where(moves, np.where(gap < 0, 1, 2), 0)[:, None]

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the state of these seats."""
        self._states = grow_states(self._states, seat_ids)
        self._states[seat_ids] = 0

    def _aim(self, states: np.ndarray, coming: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the target offset of each ball from the paddle's middle, ``[n]``; drawn again for every approach."""
        drawn = rng.uniform(-self._error, self._error, len(states))  # for every row, so that rows do not interact
        aim = np.where(coming & ~states["coming"], drawn, states["aim"])
        states["aim"], states["coming"] = aim, coming
        return aim

    def _spend_move_credit(self, states: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return ``[n] bool``: it moves on this tick, which it does in a share `speed` of the ticks with a gap."""
        credit = states["credit"] + self._speed * wanted
        moves: np.ndarray = wanted & (credit >= 1.0)
        states["credit"] = credit - moves
        return moves


def _delay_ball(states: np.ndarray, name: str, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Store ``seen [n]``, and return the delayed values of the previous tick and of this one."""
    past = np.where(states["known"][:, None], states[name], seen[:, None])
    states[name] = np.concatenate([past[:, 1:], seen[:, None]], axis=1)
    return past[:, 0], states[name][:, 0]
