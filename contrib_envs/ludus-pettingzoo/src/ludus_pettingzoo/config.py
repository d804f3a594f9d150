"""Options of the environment ``pettingzoo``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen
from ludus.option import Check, at_least, import_paths, name, one_of, option, optional, table, text, whole
from ludus.trust import Imports, modules_of
from ludus_copies_options import (
    channels_option,
    entities_option,
    frame_skip_option,
    max_frames_option,
    noop_max_option,
    sticky_actions_option,
)

#: Packages of games and wrappers for PettingZoo that any run file may name.
LIBRARIES = ("pettingzoo", "magent2", "mpe2", "supersuit")
_ID = Check(
    'an id such as "classic/connect_four_v3", "my_package.my_game_v0" or "my_package.my_module:make"',
    lambda value: isinstance(value, str) and re.fullmatch(r"[\w.-]+([/:][\w.-]+)?", value) is not None,
)
#: Rules by which rewards and lifetimes decide the outcome of a match.
REWARD_RULES = ("total", "last", "positive", "survival")
_OUTCOME = Check(
    f'one of {", ".join(REWARD_RULES)}, or "info:key", "method:name" or "my_package.my_module:function"',
    lambda value: isinstance(value, str) and (value in REWARD_RULES or _is_source(value)),
)
_TEAMS = Check(
    'a table of patterns by team, or "info:key" or "method:name"',
    lambda value: not isinstance(value, str) or re.fullmatch(r"info:.+|method:[^\W_]\w*", value) is not None,
)
_NUMBER = optional(Check("a number", at_least(float("-inf")).accepts))


def _is_source(text: str) -> bool:
    return re.fullmatch(r"info:.+|[\w.]+:[^\W_]\w*", text) is not None


def _id_modules(id: str) -> Iterable[str]:
    if "/" not in id:
        yield id.partition(":")[0]


def _outcome_modules(outcome: str) -> Iterable[str]:
    return (module for module in modules_of(outcome) if module not in ("info", "method"))


@frozen(kw_only=True)
class PettingZooConfig:
    """Options of the environment ``pettingzoo``."""

    id: str = option(
        "classic/connect_four_v3",
        _ID,
        help='an id of PettingZoo\'s registry ("family/name"), the module of an environment, or "module:function"; '
        "modules must be trusted",
        lasting=True,
        imports=Imports(modules=_id_modules, libraries=LIBRARIES),
    )
    options: Mapping[str, Any] = option(
        {},
        help="keyword arguments of the environment's constructor; files that they name must be below the current "
        "folder, unless the game's module is trusted",
        path="table",
    )
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
    wrappers: Sequence[str | Mapping[str, Any]] = option(
        (),
        import_paths(),
        help="wrappers around each copy, such as those of SuperSuit, with their arguments, innermost first",
        lasting=True,
        imports=Imports(modules=modules_of, libraries=LIBRARIES),
        path="table",
    )
    frame_skip: int = frame_skip_option()
    max_frames: int = max_frames_option()
    sticky_actions: float = sticky_actions_option()
    noop_max: int = noop_max_option()
    workers: int = option(0, whole(0, 1024), help="processes that share the matches; 0 plays them one after another")
    max_ticks: int = option(
        0, at_least(0), help="ticks after which to truncate matches; 0 leaves it to the environment"
    )
    time_limit: str = option(
        "truncates",
        one_of("truncates", "terminates"),
        help="whether time limits, of the game or by max_ticks, truncate a match or terminate it as a rule of the game",
    )
    roles: Mapping[str, Sequence[str]] = option(
        {},
        help='agents of each role, as names or patterns ("attacker_*"); empty: agents with equal spaces share a role',
        lasting=True,
    )
    teams: Mapping[str, Sequence[str]] | str = option(
        {},
        _TEAMS,
        help='agents of each team, as names or patterns ("adversary_*"); empty makes every agent its own team; '
        '"info:key" or "method:name" takes the teams from the game',
    )
    outcome: str = option(
        "total",
        _OUTCOME,
        help="winners: highest total reward of a match, highest reward of its last tick, every total above 0, or the "
        'team that survives longest; "info:key", "method:name" or "module:function" takes them from the game',
        imports=Imports(modules=_outcome_modules),
    )
    win_return: float | None = option(
        None,
        _NUMBER,
        help="in a game of one team: a match with at least this total reward is won; by default all are draws",
    )
    score: str = option(
        "auto",
        one_of("auto", "outcome", "return"),
        help="what measures participants: the outcomes or the returns of their matches; auto: returns in a game of one "
        "team without win_return, and in one whose teams have different roles and outcome = total",
    )
    mask_key: str = option(
        "action_mask", help="key of the action mask in the observation or the info of an agent", lasting=True
    )
    channels: str = channels_option()
    max_entities: int | Mapping[str, int] = entities_option()
    dead_agents: str = option(
        "end",
        one_of("end", "wait"),
        help="rewards of dead agents: end: the last decision gets those up to the death, later ones are not learned "
        "from; wait: it gets all rewards until the match ends",
    )
    state: str = option(
        "auto",
        one_of("auto", "always", "never"),
        help="whether critics read the game's state(), which policies never see; auto: if the game has one of at most "
        "4,096 numbers",
        lasting=True,
    )
    statistics: Mapping[str, str] = option(
        {}, table(name(), text()), help='statistics of an agent and their keys in its info: { kicks = "num_kicks" }'
    )
