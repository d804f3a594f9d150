"""Gymnasium environments that step all matches in one call, each match started from its own seed.

Gymnasium's vectorised implementations start new matches by themselves, from one random generator. They can be used only
if the state of a match can be set: the scalar environment draws the start state from the match's seed, and the state is
copied. `_TRANSPLANTS` lists the supported implementations.
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

from ludus_gymnasium.game import ROLE, make_env, make_spec, winning_return

__all__ = ["NativeEnvironment", "has_native"]


def _transplant_cart_pole(scalar: Any, vector: Any, *, indices: np.ndarray, seeds: Iterable[int]) -> np.ndarray:
    states = np.empty((indices.size, 4))
    for index, seed in enumerate(seeds):
        scalar.reset(seed=seed)
        states[index] = scalar.state
    vector.state[:, indices] = states.T
    vector.steps[indices] = 0
    vector.prev_done[indices] = False
    return states.astype(np.float32)


#: Vector entry point → function that starts a match per seed in the scalar environment, copies its state to a match
#: index, and returns the observations ``[n, …]``.
_TRANSPLANTS: dict[str, Callable[..., np.ndarray]] = {
    "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv": _transplant_cart_pole
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
        id: An id for which `has_native` returns True.
        options: Keyword arguments of the constructor.
        num_matches: B.
        max_ticks: Number of ticks after which to truncate; 0 takes the registry's limit.
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
        self._winning_return = winning_return(self._scalar, win_return)
        self.num_matches = num_matches
        self._running = np.zeros(num_matches, np.bool_)
        self._all_running = False
        self._return = np.zeros(num_matches)
        self._tick = allocate_tick(self.spec, num_matches)

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches, see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: A scenario other than the default, or a parameter, is asked for.
        """
        checked_scenarios(scenarios, len(seeds), known={})
        at = np.arange(self.num_matches) if indices is None else indices
        tick, role = self._tick, self._tick.roles[ROLE]
        folded = map(fold_seed, seeds.tolist())
        role.observation["obs"][at, 0] = self._transplant(
            self._scalar.unwrapped, self._vector.unwrapped, indices=at, seeds=folded
        )
        tick.clear(at)
        self._return[at] = 0
        self._running[at] = True
        self._all_running = bool(self._running.all())
        role.acting[at] = True
        return tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick, see `ludus.environment.Environment.step`.

        Raises:
            ContractError: The action of a running match is out of range. No match has advanced then.
        """
        tick, role, running = self._tick, self._tick.roles[ROLE], self._running
        chosen = actions[ROLE][:, 0, 0]
        if not self._all_running:
            # The vectorised environment starts a new match by itself after an ended one; it is hidden.
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
        np.greater(truncated, terminated, out=tick.truncated)  # terminated takes precedence
        self._return += role.reward[:, 0]
        ended = tick.terminated | tick.truncated
        if ended.any():
            running &= ~ended
            self._all_running = False
            tick.outcome[ended, 0] = (
                0.5 if self._winning_return is None else self._return[ended] >= self._winning_return
            )
            role.acting[:, 0] = running
        return tick

    def close(self) -> None:
        """Close the environment; closing twice is harmless."""
        self._scalar.close()
        self._vector.close()
