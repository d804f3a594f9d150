"""Options of the environment ``gymnasium``."""

from __future__ import annotations

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

_RETURN = optional(Check("a number", at_least(float("-inf")).accepts))
#: Packages of games and wrappers for Gymnasium that any run file may name.
LIBRARIES = ("gymnasium", "ale_py", "gymnasium_robotics", "highway_env", "minigrid", "mo_gymnasium", "vizdoom")
#: Environments that import any game of old Gym, by a path among their options.
_IMPORTERS = ("GymV21Environment", "GymV26Environment")


def _id_modules(id: str) -> Iterable[str]:
    yield from modules_of(id)
    if id.rpartition(":")[2].startswith(_IMPORTERS):
        yield "shimmy"


@frozen(kw_only=True)
class GymnasiumConfig:
    """Options of the environment ``gymnasium``."""

    id: str = option(
        "CartPole-v1",
        help='an id of Gymnasium\'s registry; "module:id" imports a module first, which must be trusted',
        lasting=True,
        imports=Imports(modules=_id_modules, libraries=LIBRARIES),
    )
    options: Mapping[str, Any] = option(
        {},
        help="keyword arguments of the environment's constructor; files that they name must be below the current "
        "folder, unless the game's module is trusted",
        path="table",
    )
    wrappers: Sequence[str | Mapping[str, Any]] = option(
        (),
        import_paths(),
        help="Gymnasium wrappers around each copy, with their arguments, innermost first; without running statistics",
        lasting=True,
        imports=Imports(modules=modules_of, libraries=LIBRARIES),
        path="table",
    )
    frame_skip: int = frame_skip_option()
    max_frames: int = max_frames_option()
    sticky_actions: float = sticky_actions_option()
    noop_max: int = noop_max_option()
    workers: int = option(0, whole(0, 1024), help="processes that share the matches; 0 plays them one after another")
    vectorized: str = option(
        "auto",
        one_of("auto", "series", "native"),
        help="native steps all matches in one call where the environment has such an implementation that plays the "
        "same matches; auto uses it where it can",
    )
    max_ticks: int = option(0, at_least(0), help="ticks after which to truncate matches; 0 takes the registry's limit")
    time_limit: str = option(
        "truncates",
        one_of("truncates", "terminates"),
        help="whether time limits, of the registry or by max_ticks, truncate a match or terminate it as a rule",
    )
    mask_key: str = option("action_mask", help="key of the action mask in the observation or in the info", lasting=True)
    channels: str = channels_option()
    max_entities: int | Mapping[str, int] = entities_option()
    win_return: float | None = option(
        None, _RETURN, help="a match with at least this return is won; by default the registry's reward threshold"
    )
    score: str = option(
        "auto",
        one_of("auto", "outcome", "return"),
        help="what measures participants: the outcomes or the returns of their matches; auto: returns in a game of one "
        "team without win_return",
    )
    statistics: Mapping[str, str] = option(
        {}, table(name(), text()), help='statistics of a match and their keys in the info: { falls = "num_falls" }'
    )
