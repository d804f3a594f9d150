"""Options of the environment ``pettingzoo``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from ludus.option import Check, at_least, one_of, option

_ID = Check(
    'an id such as "classic/connect_four_v3", "my_package.my_game_v0" or "my_package.my_module:make"',
    lambda value: isinstance(value, str) and re.fullmatch(r"[\w.-]+([/:][\w.-]+)?", value) is not None,
)


@frozen(kw_only=True)
class PettingZooConfig:
    """Options of the environment ``pettingzoo``."""

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
        help="PettingZoo interface to use; auto prefers parallel where the environment has it",
    )
    unwrap: bool = option(
        True,
        help="remove PettingZoo's wrappers that check the order of calls and the legality of actions, which ludus "
        "guarantees; they take half of the time of a small game",
    )
    workers: int = option(0, at_least(0), help="processes that share the matches; 0 plays them one after another")
    max_ticks: int = option(
        0, at_least(0), help="ticks after which to truncate matches; 0 leaves it to the environment"
    )
    teams: Mapping[str, Sequence[str]] = option(
        {}, help='agents of each team, as names or patterns ("adversary_*"); empty makes every agent its own team'
    )
    outcome: str = option(
        "total",
        one_of("total", "last", "positive"),
        help="winners: highest total reward of a match, highest reward of its last tick, or every total above 0",
    )
    dead_agents: str = option(
        "end",
        one_of("end", "wait"),
        help="rewards of dead agents: end: the last decision gets those up to the death, later ones are not learned "
        "from; wait: it gets all rewards until the match ends",
    )
