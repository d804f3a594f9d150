"""The environment ``gymnasium``: matches (episodes) of a Gymnasium environment, in copies or in one vectorized call.

Gymnasium's vectorized implementations start new matches by themselves, from one random generator. They can be used only
if the state of a match can be set: the scalar environment draws the start state from the match's seed, and the state is
copied. `_TRANSPLANTS` lists the supported implementations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import gymnasium
import numpy as np
from gymnasium.wrappers import NormalizeObservation, NormalizeReward, TimeLimit
from ludus.environment import Environment, EnvironmentSpec, Scenario, Tick, allocate_tick, checked_scenarios
from ludus.errors import ConfigError, ContractError
from ludus.rendering import Frame, is_rendering_enabled
from ludus.spaces import label_sizes
from ludus_copies import (
    Copies,
    MatchArrays,
    SteppingOptions,
    action_reader,
    fold_seed,
    make_with_rendering,
    mask_writer,
    missing_modules,
    observation_writer,
    read_frame,
    reward_value,
    statistics_writer,
    wrap,
)

from ludus_gymnasium.config import GymnasiumConfig
from ludus_gymnasium.spec import ROLE, make_spec, mask_in_observation, outcome_points, winning_return, without_mask
from ludus_gymnasium.stepped import SteppedEnv

_OLD = "the game follows an API before Gymnasium 0.26; adapt it, or wrap it"

_NORMALIZE = "choose a network that normalizes, such as modular, or the interface scale-observation"
_SCALE_REWARD = "choose the interface scale-reward"


def make_game(**options: Any) -> GymnasiumGame:
    """Make a scalar game of one Gymnasium environment; arguments as in `GymnasiumConfig`.

    Raises:
        ConfigError: The environment or a wrapper cannot be found or made, or a wrapper updates running statistics.
        ContractError: The environment does not keep the API of Gymnasium.
    """
    config = GymnasiumConfig(**options)
    env, stepping = make_wrapped(config)
    _reject_running_statistics(env)
    game = GymnasiumGame(env, config)
    if stepping.changed:
        stepping.reject_masks(game.masked_roles, game=config.id)
    return game


def make_wrapped(config: GymnasiumConfig) -> tuple[Any, SteppingOptions]:
    """Make an environment in its wrappers, and return how its steps become decisions; `max_ticks` counts decisions.

    Raises:
        ConfigError: The environment or a wrapper cannot be found or made, or the environment observes no images where
            these are needed.
    """
    stepping = SteppingOptions.of(config)
    if not stepping.changed:
        env: Any = make_env(config.id, config.options, max_ticks=config.max_ticks)
    else:
        limit = 0 if config.max_ticks == 0 else config.max_ticks * stepping.frame_skip + stepping.noop_max + 1
        env = SteppedEnv(make_env(config.id, config.options, max_ticks=limit), stepping, id=config.id)
        env = TimeLimit(env, config.max_ticks) if config.max_ticks else env
    return wrap(env, config.wrappers, id=config.id, kinds=(gymnasium.Env,)), stepping


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
        make = functools.partial(gymnasium.make, id, max_episode_steps=max_ticks or None, disable_env_checker=True)
        env: gymnasium.Env[Any, Any] = make_with_rendering(lambda given: make(**given), options)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        missing = ", ".join(missing_modules(error))
        if missing:
            raise ConfigError(
                f"id: {id!r} cannot be imported: no module named {missing}; install it, or add its folder to PYTHONPATH"
            ) from error
        raise ConfigError(f"id: cannot make Gymnasium environment {id!r} with {dict(options)}: {error}") from error
    return env


class GymnasiumGame:
    """One match.

    Args:
        env: The environment with its wrappers.
        config: Options of the environment.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], config: GymnasiumConfig) -> None:
        self._env = env
        self._id = config.id
        self._mask_key = config.mask_key
        self._channels = config.channels
        self._mask_in_observation = mask_in_observation(env.observation_space, config.mask_key)
        self._spec = make_spec(env, config)
        self._statistics = config.statistics
        self._terminates = config.time_limit == "terminates"
        self._winning_return = winning_return(env, config.win_return)
        self._return = 0.0

    def _reset(self, seed: int) -> tuple[Any, Mapping[str, Any]]:
        """Reset the game and return the first observation and its info.

        Raises:
            ContractError: The game does not keep the API of Gymnasium.
        """
        try:
            answer: Any = self._env.reset(seed=seed)
        except TypeError as error:
            if "seed" not in str(error):
                raise
            raise ContractError(f"game {self._id!r}: reset takes no seed: {_OLD}") from error
        if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[1], Mapping):
            got = f"{len(answer)} values" if isinstance(answer, tuple) else f"a {type(answer).__name__}"
            raise ContractError(f"game {self._id!r}: reset returned {got}; expected (observation, info): {_OLD}")
        return answer

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the spec of the environment."""
        return self._spec

    @property
    def masked_roles(self) -> frozenset[str]:
        """Return the roles that have action masks, which Gymnasium returns in observations or in infos."""
        has_mask = self._mask_in_observation or self._mask_key in self._reset(0)[1]  # a reset may take seconds
        return frozenset({ROLE} if has_mask else ())

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        role, seat = arrays.tick.roles[ROLE], (0, ...)
        self._tick = arrays.tick
        self._read_action = action_reader(self._env.action_space, arrays.actions[ROLE][seat])
        self._write = observation_writer(
            without_mask(self._env.observation_space, self._mask_key),
            {name: leaf[seat] for name, leaf in role.observation.items()},
            channels=self._channels,
        )
        self._acting, self._reward = role.acting[seat], role.reward[seat]
        self._write_mask = mask_writer(
            None if role.action_mask is None else role.action_mask[seat], self._env.action_space
        )
        self._write_statistics = statistics_writer(
            self._statistics, {name: values[seat] for name, values in role.statistics.items()}
        )

    def reset(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002  there is only the default
        """Start a match."""
        observation, info = self._reset(fold_seed(seed))
        self._return = 0.0
        self._observe(observation, info)
        self._acting[...] = True

    def step(self) -> None:
        """Apply the action of the seat."""
        try:
            observation, reward, terminated, truncated, info = self._env.step(self._read_action())
        except ValueError as error:
            if "to unpack" not in str(error):
                raise
            expected = "expected (observation, reward, terminated, truncated, info)"
            raise ContractError(
                f"game {self._id!r}: step returned too few or many values; {expected}: {_OLD}"
            ) from error
        info = info or {}
        self._observe(observation, info)
        self._add_reward(reward)
        if terminated or truncated:
            terminated = terminated or self._terminates
            self._tick.terminated[...] = terminated
            self._tick.truncated[...] = truncated and not terminated
            self._tick.outcome[...] = outcome_points(self._return, self._winning_return)
        else:
            self._acting[...] = True

    def _add_reward(self, reward: Any) -> None:
        try:
            value = reward_value(reward)
        except ContractError as error:
            raise ContractError(f"game {self._id!r}: {error}") from error
        self._reward[...] = value
        self._return += value

    def _observe(self, observation: Any, info: Mapping[str, Any]) -> None:
        try:
            self._write(observation)
            self._write_mask((observation if self._mask_in_observation else info).get(self._mask_key))
            if self._statistics:
                self._write_statistics(info)
        except ContractError as error:
            raise ContractError(f"game {self._id!r}: {error}") from error

    def render_frame(self) -> Frame | None:
        """Return what the game renders as an image or as text."""
        return read_frame(self._env, game=self._id)

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
        config: Options of the environment, with an id for which `has_native` returns True.
        num_matches: B.
    """

    def __init__(self, config: GymnasiumConfig, *, num_matches: int) -> None:
        limit: dict[str, Any] = {"max_episode_steps": config.max_ticks} if config.max_ticks else {}
        self._scalar = make_env(config.id, config.options, max_ticks=config.max_ticks)
        self._vector: Any = gymnasium.make_vec(
            config.id, num_matches, vectorization_mode="vector_entry_point", **limit, **config.options
        )
        self._vector.reset(seed=0)
        self._transplant = _TRANSPLANTS[str(gymnasium.spec(config.id).vector_entry_point)]
        self.spec = make_spec(self._scalar, config)
        (self._choices,) = label_sizes(self._scalar.action_space)
        self._winning_return = winning_return(self._scalar, config.win_return)
        self._terminates = config.time_limit == "terminates"
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
        if self._terminates:
            tick.terminated |= tick.truncated
            tick.truncated[:] = False
        self._return += role.reward[:, 0]
        ended = tick.terminated | tick.truncated
        if ended.any():
            running &= ~ended
            self._all_running = False
            tick.outcome[ended, 0] = [
                outcome_points(total, self._winning_return) for total in self._return[ended].tolist()
            ]
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
    per_match = config.wrappers or config.workers or config.statistics or SteppingOptions.of(config).changed
    can_be_native = not per_match and has_native(config.id)
    if config.vectorized == "native" and not can_be_native:
        raise ConfigError(
            f'vectorized: {config.id!r} cannot be "native" here: that needs an implementation that starts single '
            f'matches from their seeds, no wrappers, statistics or held actions, and workers = 0; choose "auto"'
        )
    if can_be_native and config.vectorized != "series" and not is_rendering_enabled():  # it draws single matches only
        return NativeEnvironment(config, num_matches=num_matches)
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers", "vectorized"))
    return Copies("ludus_gymnasium.environment:make_game", options, num_matches=num_matches, workers=config.workers)
