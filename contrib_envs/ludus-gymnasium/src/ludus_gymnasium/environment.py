"""The factory of the environment ``gymnasium``."""

from __future__ import annotations

import attrs
from ludus.environment import Environment
from ludus.errors import ConfigError
from ludus_copies import Copies

from ludus_gymnasium.config import GymnasiumConfig
from ludus_gymnasium.native import NativeEnvironment, has_native

__all__ = ["make_environment"]


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
    return Copies("ludus_gymnasium.game:make_game", options, num_matches=num_matches, workers=config.workers)
