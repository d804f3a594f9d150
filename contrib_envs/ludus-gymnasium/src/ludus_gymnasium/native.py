"""Environments that step all matches in one call, and still start each match from its own seed.

Gymnasium's vectorised implementations start new matches by themselves and from one stream of random numbers. One is
used here only where a match can be put into a row from outside: its start is drawn by the scalar environment from the
match's own seed and moved over. Which implementations allow that, and how, is written down in `_TRANSPLANTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from ludus.environment import Scenario, Tick, allocate_tick, checked_scenarios
from ludus.errors import ContractError
from ludus.spaces import label_sizes
from ludus_copies import fold_seed

from ludus_gymnasium.game import ROLE, make_env, make_spec, wins_from

__all__ = ["NativeEnvironment", "has_native"]


def _transplant_cart_pole(scalar: Any, vector: Any, *, rows: np.ndarray, seeds: Iterable[int]) -> np.ndarray:
    states = np.empty((rows.size, 4))
    for index, seed in enumerate(seeds):
        scalar.reset(seed=seed)
        states[index] = scalar.state
    vector.state[:, rows] = states.T
    vector.steps[rows] = 0
    vector.prev_done[rows] = False
    return states.astype(np.float32)


#: Vector entry point → function that starts a match per seed in the scalar environment, moves each into a row, and
#: returns what is seen there, ``[n, …]``.
_TRANSPLANTS: dict[str, Callable[..., np.ndarray]] = {
    "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv": _transplant_cart_pole,
}


def has_native(id: str) -> bool:
    """Return whether the environment has a vectorised implementation that plays the same matches."""
    try:
        return gymnasium.spec(id).vector_entry_point in _TRANSPLANTS
    except gymnasium.error.Error:
        return False


class NativeEnvironment:
    """A batch of matches in one vectorised Gymnasium environment with a plain observation and a Discrete action.

    Args:
        id: An id for which `has_native` holds.
        options: Keyword arguments of the constructor.
        num_matches: B.
        max_ticks: Truncate after so many ticks; 0 takes the registry's limit.
        win_return: See `GymnasiumConfig`.
    """

    def __init__(
        self, id: str, options: Mapping[str, Any], *, num_matches: int, max_ticks: int, win_return: float | None
    ) -> None:
        limit: dict[str, Any] = {"max_episode_steps": max_ticks} if max_ticks else {}
        self._scalar = make_env(id, options, max_ticks=max_ticks)
        self._vector: Any = gymnasium.make_vec(
            id, num_matches, vectorization_mode="vector_entry_point", **limit, **options
        )
        self._vector.reset(seed=0)
        self._transplant = _TRANSPLANTS[str(gymnasium.spec(id).vector_entry_point)]
        self.spec = make_spec(self._scalar)
        (self._choices,) = label_sizes(self._scalar.action_space)
        self._wins_from = wins_from(self._scalar, win_return)
        self.num_matches = num_matches
        self._running = np.zeros(num_matches, np.bool_)
        self._all_running = False
        self._return = np.zeros(num_matches)
        self._tick = allocate_tick(self.spec, num_matches)

    def reset(
        self,
        seeds: np.ndarray,
        *,
        indices: np.ndarray | None = None,
        scenarios: Sequence[Scenario] | None = None,
    ) -> Tick:
        """Start new matches in the given rows, see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: A scenario other than the default, or a parameter, is asked for.
        """
        checked_scenarios(scenarios, len(seeds), known={})
        numbers = np.arange(self.num_matches) if indices is None else indices
        tick, role = self._tick, self._tick.roles[ROLE]
        folded = map(fold_seed, seeds.tolist())
        role.observation["obs"][numbers, 0] = self._transplant(
            self._scalar.unwrapped, self._vector.unwrapped, rows=numbers, seeds=folded
        )
        tick.clear(numbers)
        self._return[numbers] = 0
        self._running[numbers] = True
        self._all_running = bool(self._running.all())
        role.acting[numbers] = True
        return tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick, see `ludus.environment.Environment.step`.

        Raises:
            ContractError: The action of a running match is out of range. No match has moved then.
        """
        tick, role, running = self._tick, self._tick.roles[ROLE], self._running
        chosen = actions[ROLE][:, 0, 0]
        if not self._all_running:
            # An ended row starts a match of its own inside the vectorised environment; nothing of it is shown.
            chosen = np.where(running, chosen, 0)
        if chosen.astype(np.uint64).max() >= self._choices:  # negative ones become huge
            (wrong, *_) = np.flatnonzero((chosen < 0) | (chosen >= self._choices))
            raise ContractError(f"illegal action [{chosen[wrong]}] of role {ROLE!r}, match {wrong}, seat 0")
        observation, reward, terminated, truncated, _ = self._vector.step(chosen)
        if self._all_running:
            role.observation["obs"][:, 0] = observation
            role.reward[:, 0] = reward
            tick.terminated[:] = terminated
        else:
            np.copyto(role.observation["obs"][:, 0], observation, where=running[:, None])
            np.multiply(reward, running, out=role.reward[:, 0])
            np.logical_and(terminated, running, out=tick.terminated)
            truncated = truncated & running
        np.greater(truncated, terminated, out=tick.truncated)  # by its rules wins over cut off
        self._return += role.reward[:, 0]
        ended = tick.terminated | tick.truncated
        if ended.any():
            running &= ~ended
            self._all_running = False
            tick.outcome[ended, 0] = 0.5 if self._wins_from is None else self._return[ended] >= self._wins_from
            role.acting[:, 0] = running
        return tick

    def close(self) -> None:
        """Close the environment; closing twice is harmless."""
        self._scalar.close()
        self._vector.close()
