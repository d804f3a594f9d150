"""The environment ``sc2``: many matches of StarCraft II."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from ludus_copies import Copies

from ludus_sc2.config import Sc2Config
from ludus_sc2.game import Sc2Game
from ludus_sc2.installation import Installation, load_protocol

if TYPE_CHECKING:
    from ludus.environment import Environment


def make_environment(config: Sc2Config, *, num_matches: int) -> Environment:
    """Make `num_matches` matches. Their processes start with the first match.

    Raises:
        PluginError: A package or the game is not installed.
        ConfigError: There is no such map.
        WorkerError: A worker process could not make it.
    """
    load_protocol()
    Installation.find().find_map(config.map)
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers"))
    timeout_s = max(300.0, 2 * config.start_timeout_s)
    return Copies(
        "ludus_sc2.environment:make_game",
        options,
        num_matches=num_matches,
        workers=config.workers,
        timeout_s=timeout_s,
    )


def make_game(**options: Any) -> Sc2Game:
    """Make one match; arguments as in `Sc2Config`.

    Raises:
        PluginError: A package or the game is not installed.
        ConfigError: There is no such map.
    """
    load_protocol()
    return Sc2Game(Sc2Config(**options))
