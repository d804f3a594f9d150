"""The environment ``gymnasium``: matches (episodes) of a Gymnasium environment, in copies or in one vectorized call.

Gymnasium's vectorized implementations start new matches by themselves, from one random generator. They can be used only
if the state of a match can be set: the scalar environment draws the start state from the match's seed, and the state is
copied. `_TRANSPLANTS` lists the supported implementations.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import gymnasium
import numpy as np
from gymnasium.wrappers import NormalizeObservation, NormalizeReward
from ludus.environment import Environment, EnvironmentSpec, Role, Scenario, Tick, allocate_tick, checked_scenarios
from ludus.errors import ConfigError, ContractError
from ludus.spaces import label_sizes
from ludus_copies import (
    Copies,
    MatchArrays,
    action_reader,
    fold_seed,
    mask_writer,
    observation_writer,
    plain_action_space,
    plain_observation_space,
)

from ludus_gymnasium.config import GymnasiumConfig

#: The one role, with one seat.
ROLE = "player"

_NORMALIZE = "choose a network that normalizes, such as modular, or the interface scale-observation"
_SCALE_REWARD = "choose the interface scale-reward"


def make_game(
    *, id: str, options: Mapping[str, Any], wrappers: Sequence[str], max_ticks: int, win_return: float | None
) -> GymnasiumGame:
    """Make a scalar game of one Gymnasium environment; arguments as in `GymnasiumConfig`.

    Raises:
        ConfigError: The environment or a wrapper cannot be found or made, or a wrapper updates running statistics.
    """
    env = make_env(id, options, max_ticks=max_ticks)
    for path in wrappers:
        module, _, name = path.partition(":")
        try:
            env = getattr(importlib.import_module(module), name)(env)
        except (ImportError, AttributeError, TypeError) as error:
            raise ConfigError(f"wrappers: cannot wrap {id!r} in {path!r}: {error}") from error
    _reject_running_statistics(env)
    return GymnasiumGame(env, win_return=win_return)


def _reject_running_statistics(env: gymnasium.Env[Any, Any]) -> None:
    """Raise `ConfigError` if a match would depend on earlier ones."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, NormalizeObservation | NormalizeReward) and env.update_running_mean:
            instead = _SCALE_REWARD if isinstance(env, NormalizeReward) else _NORMALIZE
            raise ConfigError(
                f"wrappers: {type(env).__name__} updates its statistics across matches, so that matches would not be "
                f"reproducible and frozen models would get other inputs than in training; {instead}"
            )
        env = env.env


def make_env(id: str, options: Mapping[str, Any], *, max_ticks: int) -> gymnasium.Env[Any, Any]:
    """Make one Gymnasium environment; arguments as in `GymnasiumConfig`.

    Raises:
        ConfigError: The environment cannot be found or made.
    """
    try:
        # The checker would repeat its warnings for every copy.
        return gymnasium.make(id, max_episode_steps=max_ticks or None, disable_env_checker=True, **options)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise ConfigError(f"id: cannot make Gymnasium environment {id!r} with {dict(options)}: {error}") from error


def winning_return(env: gymnasium.Env[Any, Any], win_return: float | None) -> float | None:
    """Return the least return of a win, None if it is not defined."""
    if win_return is None and env.spec is not None:
        return env.spec.reward_threshold
    return win_return


def make_spec(env: gymnasium.Env[Any, Any]) -> EnvironmentSpec:
    """Return the spec of an environment."""
    role = Role(
        name=ROLE,
        observation_space=plain_observation_space(env.observation_space),
        action_space=plain_action_space(env.action_space),
        teams=(0,),
    )
    max_ticks = None if env.spec is None else env.spec.max_episode_steps
    return EnvironmentSpec(name="gymnasium", roles=(role,), turn="simultaneous", max_ticks=max_ticks)


class GymnasiumGame:
    """One match.

    Args:
        env: The environment with its wrappers.
        win_return: See `GymnasiumConfig`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], *, win_return: float | None) -> None:
        _, info = env.reset(seed=0)
        self._env = env
        self._has_mask = "action_mask" in info
        self._winning_return = winning_return(env, win_return)
        self._return = 0.0

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the spec of the environment."""
        return make_spec(self._env)

    @property
    def masked_roles(self) -> frozenset[str]:
        """Return the roles that have action masks, which Gymnasium returns in infos."""
        return frozenset({ROLE} if self._has_mask else ())

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        role, seat = arrays.tick.roles[ROLE], (0, ...)
        self._tick = arrays.tick
        self._read_action = action_reader(self._env.action_space, arrays.actions[ROLE][seat])
        self._write = observation_writer(
            self._env.observation_space, {name: leaf[seat] for name, leaf in role.observation.items()}
        )
        self._acting, self._reward = role.acting[seat], role.reward[seat]
        self._write_mask = mask_writer(None if role.action_mask is None else role.action_mask[seat])

    def reset(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002  there is only the default
        """Start a match."""
        observation, info = self._env.reset(seed=fold_seed(seed))
        self._return = 0.0
        self._observe(observation, info)
        self._acting[...] = True

    def step(self) -> None:
        """Apply the action of the seat."""
        observation, reward, terminated, truncated, info = self._env.step(self._read_action())
        self._observe(observation, info)
        self._reward[...] = reward
        self._return += float(reward)
        if terminated or truncated:
            self._tick.terminated[...] = terminated
            self._tick.truncated[...] = truncated and not terminated
            self._tick.outcome[...] = 0.5 if self._winning_return is None else self._return >= self._winning_return
        else:
            self._acting[...] = True

    def _observe(self, observation: Any, info: Mapping[str, Any]) -> None:
        self._write(observation)
        self._write_mask(info.get("action_mask"))

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


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
    """Return whether the environment has a vectorized implementation that plays the same matches."""
    try:
        return gymnasium.spec(id).vector_entry_point in _TRANSPLANTS
    except gymnasium.error.Error:
        return False


class NativeEnvironment:
    """A batch of matches in one vectorized Gymnasium environment with a plain observation and a Discrete action.

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
            # The vectorized environment starts a new match by itself after an ended one; it is hidden.
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


def make_environment(config: GymnasiumConfig, *, num_matches: int) -> Environment:
    """Make `num_matches` copies of a Gymnasium environment.

    Raises:
        ConfigError: The environment cannot be found or made, or is to be native and cannot.
        WorkerError: A worker process could not make it.
    """
    can_be_native = not config.wrappers and not config.workers and has_native(config.id)
    if config.vectorized == "native" and not can_be_native:
        raise ConfigError(
            f'vectorized: {config.id!r} cannot be "native" here: that needs an implementation that starts single '
            f'matches from their seeds, no wrappers, and workers = 0; choose "auto"'
        )
    if can_be_native and config.vectorized != "series":
        return NativeEnvironment(
            config.id, config.options, num_matches=num_matches, max_ticks=config.max_ticks, win_return=config.win_return
        )
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers", "vectorized"))
    return Copies("ludus_gymnasium.environment:make_game", options, num_matches=num_matches, workers=config.workers)
