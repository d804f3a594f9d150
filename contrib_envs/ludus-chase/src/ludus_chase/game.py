"""The state that the rules of the game read and change: options in ticks and cells per tick, and events of a tick."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

from ludus_chase.config import ChaseConfig
from ludus_chase.house import FloorPlan, House
from ludus_chase.world import AGENTS, World


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


_TIMES = (
    *("swing", "fright", "down", "struggle", "rocket", "ability", "trap", "trap_hold", "bomb_fuse", "bomb_stun"),
    *("plate_stun", "preparation", "push", "escape"),
)
_FIXED_TIMES_S = {"late_throw": 1.0, "sprint": 3.0, "boots": 5.0, "stumble": 1.0}


def make_rates(config: ChaseConfig) -> Rates:
    """Convert the options of an environment."""
    second = config.tick_ms / 1000
    times_s = {name: getattr(config, f"{name}_s") for name in _TIMES} | _FIXED_TIMES_S
    return Rates(
        cat_speed=config.cat_speed * second,
        mouse_speed=config.mouse_speed * second,
        scout_speed=config.scout_speed * second,
        regeneration=config.regeneration * second,
        rescue=1 / ticks_of(config.rescue_s, config),
        cheese=1 / ticks_of(config.cheese_s, config),
        crack=1 / ticks_of(config.crack_s, config),
        **{name: ticks_of(seconds, config) for name, seconds in times_s.items()},
    )


_BY_AGENT = (
    *("lifted", "caught", "eliminated", "rescued", "threw_late", "disarmed_trap", "disarmed_glove", "pushed"),
    *("cracked", "wrecked", "cake"),
)
_BY_MATCH = ("filled", "opened", "laid", "tied", "found_rocket", "found_hole", "first_damage", "crack")


class Events:
    """Counts, shares and flags of one tick as ``float32``, 0 where nothing happened.

    Args:
        matches: B.

    Attributes:
        lifted: ``[B, 5]``, as all up to `cake`: the mouse lifted a cheese for the first time.
        caught: The cat caught the mouse; likewise `eliminated`.
        rescued: The mouse freed another one.
        threw_late: The mouse threw a bomb shortly before its explosion.
        disarmed_trap: The mouse disarmed a trap at a key location; likewise `disarmed_glove`.
        pushed: Share of a cheese's way, divided by the number of mice that pushed it.
        cracked: Share of the crack that the mouse broke.
        wrecked: The cat destroyed the scout.
        cake: 1 for a mouse that took a cake, -1 for one that lost it.
        filled: ``[B]``, as all of the following: number of cheeses pushed through holes.
        opened: The crack was opened.
        laid: The cat placed a trap.
        tied: The cat tied a mouse.
        found_rocket: The cat found its first rocket; likewise `found_hole`, `first_damage`.
        crack: Change of the crack's share.
    """

    lifted: np.ndarray
    caught: np.ndarray
    eliminated: np.ndarray
    rescued: np.ndarray
    threw_late: np.ndarray
    disarmed_trap: np.ndarray
    disarmed_glove: np.ndarray
    pushed: np.ndarray
    cracked: np.ndarray
    wrecked: np.ndarray
    cake: np.ndarray
    filled: np.ndarray
    opened: np.ndarray
    laid: np.ndarray
    tied: np.ndarray
    found_rocket: np.ndarray
    found_hole: np.ndarray
    first_damage: np.ndarray
    crack: np.ndarray

    def __init__(self, matches: int) -> None:
        self._agents = np.zeros((len(_BY_AGENT), matches, AGENTS), np.float32)
        self._matches = np.zeros((len(_BY_MATCH), matches), np.float32)
        for names, arrays in ((_BY_AGENT, self._agents), (_BY_MATCH, self._matches)):
            for name, array in zip(names, arrays, strict=True):
                setattr(self, name, array)

    def clear(self) -> None:
        """Set all events to 0."""
        self._agents.fill(0.0)
        self._matches.fill(0.0)


@frozen(kw_only=True)
class Game:
    """Options and state of B matches.

    Args:
        config: Options of the game.
        rates: The options in ticks and cells per tick.
        plan: Rooms and walls that all houses share.
        house: Houses of the matches.
        world: Agents and things of the matches.
        events: Events of the current tick.
    """

    config: ChaseConfig
    rates: Rates
    plan: FloorPlan
    house: House
    world: World
    events: Events
