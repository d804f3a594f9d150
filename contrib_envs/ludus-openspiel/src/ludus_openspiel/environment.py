"""The factory of the environment ``openspiel``."""

from __future__ import annotations

import attrs
from ludus_copies import Copies

from ludus_openspiel.config import OpenSpielConfig

__all__ = ["make_environment"]


def make_environment(config: OpenSpielConfig, *, num_matches: int) -> Copies:
    """Make `num_matches` matches of an OpenSpiel game.

    Raises:
        PluginError: OpenSpiel is not installed.
        ConfigError: The game cannot be made, or does not offer the observation.
        WorkerError: A worker process could not make it.
    """
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers"))
    return Copies("ludus_openspiel.match:make_match", options, num_matches=num_matches, workers=config.workers)
