"""Options of the components in this distribution."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import frozen
from ludus.option import Check, between, finite, one_of, option, whole

from ludus_sc2.names import LABELS, RACES

_MAP = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ()'._-]{0,63}")


def _is_map(value: object) -> bool:
    return isinstance(value, str) and _MAP.fullmatch(value) is not None


def _are_some_labels(value: object) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return set(value) < set(LABELS) and len(set(value)) == len(value)


@frozen(kw_only=True)
class Sc2Config:
    """Options of the environment ``sc2``."""

    map: str = option(
        "Simple64",
        Check("the name of a map of two players, as its file in the folder Maps without .SC2Map", _is_map),
        help="name of the map: its file in the folder Maps of the game, without .SC2Map",
    )
    step_loops: int = option(
        32, whole(1, 1000), help="game loops for which an action holds, of which the game counts 22.4 per second"
    )
    max_loops: int = option(
        24_000, whole(100, 1_000_000), help="game loops after which a match is truncated, as a draw; 100 to 1,000,000"
    )
    bot_race: str = option("zerg", one_of(*RACES), help="race of the built-in bots; terran, zerg, protoss or random")
    max_units: int = option(400, whole(16, 2000), lasting=True, help="units of each side that are observed; 16 to 2000")
    win: float = option(1.0, finite(), help="reward of a win, and penalty of a loss")
    killed: float = option(
        0.0, finite(), help="reward for destroyed units and buildings worth 1000 minerals and gas; guidance"
    )
    start_timeout_s: float = option(
        180.0, between(1.0, 3600.0), help="time in which the processes of the game and a match must start; [1, 3600]"
    )
    step_timeout_s: float = option(60.0, between(1.0, 3600.0), help="time in which the game must reply; [1, 3600]")
    workers: int = option(0, whole(0, 1024), help="processes that share the matches; 0 plays them one after another")


@frozen(kw_only=True)
class LearnerConfig:
    """Options of the interface ``zerg-sc2-learner-obs``."""

    cells: int = option(32, whole(4, 128), help="rows and columns of the image; 4 to 128")


@frozen(kw_only=True)
class DataConfig:
    """Options of the interface ``zerg-data``."""

    rules: tuple[str, ...] = option(
        (),
        Check(f"a list of some, not all, of {', '.join(LABELS)}", _are_some_labels),
        help="managers that the rules of ludus-sc2 play, not the player: production, resource, combat",
    )
