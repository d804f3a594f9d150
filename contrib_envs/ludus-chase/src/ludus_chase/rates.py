"""Options converted to ticks and cells per tick."""

from __future__ import annotations

import math

from attrs import frozen

from ludus_chase.config import ChaseConfig

__all__ = ["Rates", "make_rates", "ticks_of"]


def ticks_of(seconds: float, config: ChaseConfig) -> int:
    """Convert a time to whole ticks, rounded up except for rounding errors."""
    return math.ceil(seconds * 1000 / config.tick_ms - 1e-9)


@frozen(kw_only=True)
class Rates:
    """Times in ticks, speeds in cells per tick, and shares per tick of a single agent at level 1."""

    cat_speed: float
    mouse_speed: float
    scout_speed: float
    regeneration: float
    rescue: float
    cheese: float
    crack: float
    swing: int
    fright: int
    down: int
    struggle: int
    rocket: int
    ability: int
    trap: int
    trap_hold: int
    bomb_fuse: int
    bomb_stun: int
    plate_stun: int
    late_throw: int
    sprint: int
    boots: int
    stumble: int
    preparation: int
    push: int
    escape: int


def make_rates(config: ChaseConfig) -> Rates:
    """Convert the options of an environment."""
    second = config.tick_ms / 1000

    def ticks(seconds: float) -> int:
        return ticks_of(seconds, config)

    return Rates(
        cat_speed=config.cat_speed * second,
        mouse_speed=config.mouse_speed * second,
        scout_speed=config.scout_speed * second,
        regeneration=config.regeneration * second,
        rescue=1 / ticks(config.rescue_s),
        cheese=1 / ticks(config.cheese_s),
        crack=1 / ticks(config.crack_s),
        swing=ticks(config.swing_s),
        fright=ticks(config.fright_s),
        down=ticks(config.down_s),
        struggle=ticks(config.struggle_s),
        rocket=ticks(config.rocket_s),
        ability=ticks(config.ability_s),
        trap=ticks(config.trap_s),
        trap_hold=ticks(config.trap_hold_s),
        bomb_fuse=ticks(config.bomb_fuse_s),
        bomb_stun=ticks(config.bomb_stun_s),
        plate_stun=ticks(config.plate_stun_s),
        late_throw=ticks(1.0),
        sprint=ticks(3.0),
        boots=ticks(5.0),
        stumble=ticks(1.0),
        preparation=ticks(config.preparation_s),
        push=ticks(config.push_s),
        escape=ticks(config.escape_s),
    )
