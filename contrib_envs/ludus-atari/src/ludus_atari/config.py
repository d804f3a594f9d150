"""Options of the environment ``atari``."""

from __future__ import annotations

import re
from typing import ClassVar

from attrs import frozen
from ludus.option import Check, Presets, at_least, between, one_of, option, whole

_GAME = Check(
    'a name such as "boxing", "pong" or "tennis"', lambda value: bool(re.fullmatch(r"[a-z0-9_]+", str(value)))
)


@frozen(kw_only=True)
class AtariConfig:
    """Options of the environment ``atari``."""

    PRESETS: ClassVar[Presets] = {  # [Minimax §5.2]
        "minimax": {"game": "boxing", "observation": "ram", "points": 10},
    }

    game: str = option("boxing", _GAME, help="a two-player game of PettingZoo's Atari family", lasting=True)
    observation: str = option(
        "ram",
        one_of("ram", "image"),
        help="the 128 bytes of the console's memory, or the screen in grey; both with the side of the seat",
        lasting=True,
    )
    side: int = option(84, whole(16, 210), help="height and width of the image; 16 to 210", lasting=True)
    stack: int = option(4, whole(1, 16), help="images of the last decisions, as channels; 1 to 16", lasting=True)
    points: int = option(
        10, whole(0, 1000), help="points with which a player wins; 0: the player with more points when the game is over"
    )
    frame_skip: int = option(4, whole(1, 60), help="frames of 1/60 s for which an action is held; 1 to 60")
    sticky: float = option(
        0.0, between(0.0, 0.99), help="probability, per frame and player, that the last action is held on; [0, 0.99]"
    )
    random_start: int = option(
        32,
        whole(0, 600),
        help="a match starts after up to so many frames of random actions, drawn by its seed; 0 makes all "
        "matches of two deterministic players equal",
    )
    max_ticks: int = option(
        5000,
        whole(0, 10_000_000),
        help="decisions after which a match is truncated; 0: never",
    )
    result: float = option(1.0, at_least(0.0), help="reward of a victory, and penalty of a defeat; ≥ 0")
    point_won: float = option(
        0.0, at_least(0.0), help="reward of each own point; ≥ 0; 1 with result = 0 is the dense reward"
    )
    point_lost: float = option(0.0, at_least(0.0), help="penalty of each point of the opponent; ≥ 0")
    workers: int = option(0, whole(0, 1024), help="processes that share the matches; 0 plays them one after another")
