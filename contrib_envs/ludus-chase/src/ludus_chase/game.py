"""The state that the rules of the game read and change."""

from __future__ import annotations

from attrs import frozen

from ludus_chase.config import ChaseConfig
from ludus_chase.events import Events
from ludus_chase.house import FloorPlan, House
from ludus_chase.rates import Rates
from ludus_chase.world import World

__all__ = ["Game"]


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
