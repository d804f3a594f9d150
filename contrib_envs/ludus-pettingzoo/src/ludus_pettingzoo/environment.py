"""The factory of the environment ``pettingzoo``."""

from __future__ import annotations

import attrs
from ludus_copies import Copies

from ludus_pettingzoo.config import PettingZooConfig

__all__ = ["make_environment"]


def make_environment(config: PettingZooConfig, *, num_matches: int) -> Copies:
    """Make `num_matches` copies of a PettingZoo environment.

    Raises:
        ConfigError: The environment cannot be imported or made, or the teams do not fit its agents.
        WorkerError: A worker process could not make it.
    """
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers"))
    return Copies("ludus_pettingzoo.games:make_game", options, num_matches=num_matches, workers=config.workers)
