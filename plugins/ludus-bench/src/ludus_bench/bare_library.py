"""Step the libraries behind environment adapters without ludus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["bare_library"]


def bare_library(name: str, config: Any, matches: int) -> tuple[str, Callable[[], float]] | None:
    """Return the name of the library and a task that steps it; None if the environment is no known adapter.

    Args:
        name: Name of the environment.
        config: Options of the environment.
        matches: Number of matches, for libraries that step several in one call.
    """
    make_task = _LIBRARIES.get(name)
    return None if make_task is None else make_task(config, matches)


def _gymnasium(config: Any, matches: int) -> tuple[str, Callable[[], float]]:
    import gymnasium  # noqa: PLC0415 - only where the adapter is measured

    modes = gymnasium.spec(config.id)
    if modes.vector_entry_point and config.vectorized != "series" and not config.wrappers:
        vector = gymnasium.make_vec(config.id, matches, vectorization_mode="vector_entry_point", **config.options)
        vector.reset(seed=0)
        actions = [vector.action_space.sample() for _ in range(64)]
        return f"gymnasium.make_vec({config.id!r})", _vector_task(vector, actions, matches)
    single = gymnasium.make(config.id, **config.options)
    single.reset(seed=0)
    actions = [single.action_space.sample() for _ in range(64)]

    def step() -> float:
        for action in actions:
            _, _, terminated, truncated, _ = single.step(action)
            if terminated or truncated:
                single.reset()
        return float(len(actions))

    return f"gymnasium.make({config.id!r})", step


def _vector_task(environment: Any, actions: list[Any], matches: int) -> Callable[[], float]:
    def step() -> float:
        for action in actions:
            environment.step(action)
        return float(len(actions) * matches)

    return step


def _pettingzoo(config: Any, matches: int) -> tuple[str, Callable[[], float]]:  # noqa: ARG001 - one match at a time
    from ludus_pettingzoo.environment import make_pettingzoo  # noqa: PLC0415 - only where the adapter is measured

    aec = config.api != "parallel"
    environment = make_pettingzoo(config.id, config.options, api="aec" if aec else "parallel")
    environment.reset(seed=0)
    rng = np.random.default_rng(0)
    return f"PettingZoo's {config.id}", _aec_task(environment, rng) if aec else _parallel_task(environment)


def _aec_task(environment: Any, rng: np.random.Generator) -> Callable[[], float]:
    def step() -> float:
        for _ in range(64):
            if not environment.agents:
                environment.reset()
            observation, _, terminated, truncated, info = environment.last()
            agent = environment.agent_selection
            action = None if terminated or truncated else _legal_action(environment, agent, observation, info, rng)
            environment.step(action)
        return 64.0

    return step


def _legal_action(environment: Any, agent: str, observation: Any, info: Any, rng: np.random.Generator) -> Any:
    mask = observation.get("action_mask") if isinstance(observation, dict) else None
    mask = info.get("action_mask") if mask is None else mask
    if mask is None:
        return environment.action_space(agent).sample()
    legal = np.flatnonzero(mask)
    return legal[int(rng.random() * legal.size)]


def _parallel_task(environment: Any) -> Callable[[], float]:
    def step() -> float:
        for _ in range(64):
            if not environment.agents:
                environment.reset()
            environment.step({agent: environment.action_space(agent).sample() for agent in environment.agents})
        return 64.0

    return step


_LIBRARIES: dict[str, Callable[[Any, int], tuple[str, Callable[[], float]]]] = {
    "gymnasium": _gymnasium,
    "pettingzoo": _pettingzoo,
}
