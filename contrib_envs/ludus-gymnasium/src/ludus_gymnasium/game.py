"""One match (episode) of a Gymnasium environment."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.wrappers import NormalizeObservation, NormalizeReward
from ludus.environment import EnvironmentSpec, Role, Scenario
from ludus.errors import ConfigError
from ludus_copies import (
    MatchArrays,
    action_reader,
    fold_seed,
    mask_writer,
    observation_writer,
    plain_action_space,
    plain_observation_space,
)

__all__ = ["ROLE", "GymnasiumGame", "make_env", "make_game", "make_spec", "winning_return"]

#: The one role, with one seat.
ROLE = "player"

_NORMALIZE = "choose a network that normalises, such as modular, or the interface scale-observation"
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
