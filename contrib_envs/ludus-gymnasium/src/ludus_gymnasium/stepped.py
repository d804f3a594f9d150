"""Frame skip, largest values of frames, sticky actions and random no-op starts of a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import gymnasium
from gymnasium import Space
from ludus_copies import Stepping, SteppingOptions

_AGENT = "player"


class SteppedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose steps are decisions, each of several steps of the wrapped one.

    Args:
        env: The environment.
        options: What the steps of a decision are.
        id: Id of the environment, for error messages.

    Raises:
        ConfigError: The largest values of images are asked for, and the environment observes none.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], options: SteppingOptions, *, id: str) -> None:
        super().__init__(env)
        self._stepping = Stepping(_OneAgent(env), options, agents=[_AGENT], id=id)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:  # noqa: ARG002
        """Start a match."""
        answer = self._stepping.reset(seed=seed)
        return tuple(part[_AGENT] for part in answer) if _is_joint(answer) else answer

    def step(self, action: Any) -> Any:
        """Play the steps of a decision."""
        answer = self._stepping.step({_AGENT: action})
        return tuple(part[_AGENT] for part in answer) if _is_joint(answer) else answer


def _is_joint(answer: Any) -> bool:
    return isinstance(answer, tuple) and all(isinstance(part, Mapping) and _AGENT in part for part in answer)


class _OneAgent:
    """An environment as a game of one agent, see `ludus_copies.stepping.JointGame`."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env
        self.agents: list[Hashable] = []

    def reset(self, *, seed: int | None, **options: Any) -> Any:
        """Start a match."""
        answer: Any = self._env.reset(seed=seed, **options)
        self.agents = [_AGENT]
        if not isinstance(answer, tuple):
            return answer
        return tuple({_AGENT: part} for part in answer)

    def step(self, actions: Mapping[Hashable, Any]) -> Any:
        """Play a step."""
        answer: Any = self._env.step(actions[_AGENT])
        if not isinstance(answer, tuple) or len(answer) != 5:
            return answer
        self.agents = [] if answer[2] or answer[3] else [_AGENT]
        return tuple({_AGENT: part} for part in answer)

    def observation_space(self, agent: Hashable) -> Space[Any]:  # noqa: ARG002 - there is one
        """Return the observation space."""
        return self._env.observation_space

    def action_space(self, agent: Hashable) -> Space[Any]:  # noqa: ARG002 - there is one
        """Return the action space."""
        return self._env.action_space
