"""Options of the environment ``hok``."""

from __future__ import annotations

from attrs import frozen
from ludus.option import between, each, finite, one_of, option, whole

from ludus_hok.hok_api import HEROES


@frozen(kw_only=True)
class HokConfig:
    """Options of the environment ``hok``; the rewards have the defaults of hok_env."""

    heroes: tuple[str, ...] = option(
        ("luban", "houyi", "direnjie", "gongsunli", "makeboluo"),
        each(one_of(*HEROES)),
        help="heroes of both camps; a match has one of their pairs, drawn by its seed, or that of its scenario",
    )
    frame_interval: int = option(3, whole(1, 60), help="frames of the game for which an action holds; 1 to 60")
    max_frames: int = option(
        20_000, whole(60, 1_000_000), help="frames after which a match is truncated, as a draw; 60 to 1,000,000"
    )
    money: float = option(0.006, finite(), help="reward of a coin")
    exp: float = option(0.006, finite(), help="reward of a point of experience")
    hp_point: float = option(2.0, finite(), help="reward of the hero's hit points, as hok_env measures them")
    ep_rate: float = option(0.75, finite(), help="reward of the share of mana")
    kill: float = option(-0.6, finite(), help="reward of a kill")
    dead: float = option(-1.0, finite(), help="reward of a death")
    tower_hp_point: float = option(5.0, finite(), help="reward of the hit points of turrets")
    last_hit: float = option(0.5, finite(), help="reward of the last hit at a soldier")
    action_timeout_s: float = option(
        30.0, between(1.0, 3600.0), help="time that the game waits for an action; [1, 3600]"
    )
    start_timeout_s: float = option(
        120.0,
        between(1.0, 3600.0),
        help="time in which a match must start, the end of the last one included; [1, 3600]",
    )
    step_timeout_s: float = option(
        60.0, between(1.0, 3600.0), help="time in which the game must reply to an action; [1, 3600]"
    )
    workers: int = option(0, whole(0, 1024), help="processes that share the matches; 0 plays them one after another")
