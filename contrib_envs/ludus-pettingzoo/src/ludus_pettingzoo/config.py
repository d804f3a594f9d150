"""Options of the environment ``pettingzoo``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from ludus.option import Check, at_least, one_of, option

__all__ = ["PettingZooConfig"]

_ID = Check(
    'an id such as "classic/connect_four_v3", "my_package.my_game_v0" or "my_package.my_module:make"',
    lambda value: isinstance(value, str) and re.fullmatch(r"[\w.-]+([/:][\w.-]+)?", value) is not None,
)


@frozen(kw_only=True)
class PettingZooConfig:
    """Which PettingZoo environment, and how it becomes a ludus environment."""

    id: str = option(
        "classic/connect_four_v3",
        _ID,
        help='an id of PettingZoo\'s registry ("family/name"), the module of an environment, or "module:function"',
        lasting=True,
    )
    options: Mapping[str, Any] = option({}, help="keyword arguments of the environment's constructor")
    api: str = option(
        "auto",
        one_of("auto", "aec", "parallel"),
        help="which of PettingZoo's two interfaces to play; auto prefers parallel where the environment offers it",
    )
    unwrap: bool = option(
        True,
        help="leave out PettingZoo's wrappers that check the order of calls and the legality of actions, which ludus "
        "guarantees anyway; they cost half of the time of a small game",
    )
    workers: int = option(0, at_least(0), help="processes to spread the matches over; 0 plays them one after another")
    max_ticks: int = option(0, at_least(0), help="truncate matches after so many ticks; 0 leaves it to the environment")
    teams: Mapping[str, Sequence[str]] = option(
        {}, help='agents of each team, as names or patterns ("adversary_*"); empty makes every agent its own team'
    )
    outcome: str = option(
        "total",
        one_of("total", "last", "positive"),
        help="who wins: the highest total reward of a match, the highest reward of its last tick, or a total above 0",
    )
