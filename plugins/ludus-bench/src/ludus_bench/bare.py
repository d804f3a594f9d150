"""The bare libraries behind adapters: how fast they step without ludus around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["bare_library"]


def bare_library(name: str, config: Any, matches: int) -> tuple[str, Callable[[], float]] | None:
    """Return what the library is called and a work that steps it, None where the environment is no known adapter.

    Args:
        name: The environment's name.
        config: Its options.
        matches: Matches at once, for libraries that step several in one call.
    """
    make = _LIBRARIES.get(name)
    return None if make is None else make(config, matches)


def _gymnasium(config: Any, matches: int) -> tuple[str, Callable[[], float]]:
    import gymnasium  # noqa: PLC0415 - only where the adapter is measured

    modes = gymnasium.spec(config.id)
    if modes.vector_entry_point and config.vectorized != "series" and not config.wrappers:
        several = gymnasium.make_vec(config.id, matches, vectorization_mode="vector_entry_point", **config.options)
        several.reset(seed=0)
        many = [several.action_space.sample() for _ in range(64)]
        return f"gymnasium.make_vec({config.id!r})", _vector_work(several, many, matches)
    single = gymnasium.make(config.id, **config.options)
    single.reset(seed=0)
    moves = [single.action_space.sample() for _ in range(64)]

    def work() -> float:
        for move in moves:
            _, _, terminated, truncated, _ = single.step(move)
            if terminated or truncated:
                single.reset()
        return float(len(moves))

    return f"gymnasium.make({config.id!r})", work


def _vector_work(environment: Any, moves: list[Any], matches: int) -> Callable[[], float]:
    def work() -> float:
        for move in moves:
            environment.step(move)
        return float(len(moves) * matches)

    return work


def _pettingzoo(config: Any, matches: int) -> tuple[str, Callable[[], float]]:  # noqa: ARG001 - one match at a time
    from ludus_pettingzoo.making import make_pettingzoo  # noqa: PLC0415 - only where the adapter is measured

    aec = config.api != "parallel"
    environment = make_pettingzoo(config.id, config.options, api="aec" if aec else "parallel")
    environment.reset(seed=0)
    rng = np.random.default_rng(0)
    return f"PettingZoo's {config.id}", _aec_work(environment, rng) if aec else _parallel_work(environment)


def _aec_work(environment: Any, rng: np.random.Generator) -> Callable[[], float]:
    def work() -> float:
        for _ in range(64):
            if not environment.agents:
                environment.reset()
            observation, _, terminated, truncated, info = environment.last()
            agent = environment.agent_selection
            move = None if terminated or truncated else _legal(environment, agent, observation, info, rng)
            environment.step(move)
        return 64.0

    return work


def _legal(environment: Any, agent: str, observation: Any, info: Any, rng: np.random.Generator) -> Any:
    mask = observation.get("action_mask") if isinstance(observation, dict) else None
    mask = info.get("action_mask") if mask is None else mask
    if mask is None:
        return environment.action_space(agent).sample()
    legal = np.flatnonzero(mask)
    return legal[int(rng.random() * legal.size)]


def _parallel_work(environment: Any) -> Callable[[], float]:
    def work() -> float:
        for _ in range(64):
            if not environment.agents:
                environment.reset()
            environment.step({agent: environment.action_space(agent).sample() for agent in environment.agents})
        return 64.0

    return work


_LIBRARIES: dict[str, Callable[[Any, int], tuple[str, Callable[[], float]]]] = {
    "gymnasium": _gymnasium,
    "pettingzoo": _pettingzoo,
}
