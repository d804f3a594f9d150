"""Options of the components in this distribution."""

from __future__ import annotations

from attrs import frozen
from ludus.option import at_least, between, finite, one_of, option, whole

from ludus_skirmish.names import BATTLES, SEATS


@frozen(kw_only=True)
class SkirmishConfig:
    """Options of the environment ``skirmish``: the battle, who decides, vision, time, and weights of reward parts."""

    battle: str = option(
        "5i",
        one_of(*BATTLES),
        lasting=True,
        help="5i: five walkers a side; 3i2z: three walkers, two blades; mab: one to five units of each of five kinds",
    )
    seats: str = option(
        "army",
        one_of(*SEATS),
        lasting=True,
        help="army: a seat decides for all units of a side, one label each; unit: every unit is a seat of its team",
    )
    sight: float = option(
        0.0, at_least(0.0), help="distance within which a side sees enemies from each of its units; 0: it sees all"
    )
    time_limit_s: float = option(
        60.0, between(1.0, 3600.0), help="time limit, after which more remaining value wins; (1, 3600)"
    )
    dealt: float = option(1.0, finite(), help="reward for damage dealt, as a share of the strength of an army")
    taken: float = option(
        -1.0, finite(), help="reward for damage taken, as a share of the strength of an army; negative"
    )
    kill: float = option(0.1, finite(), help="reward for each enemy unit destroyed")
    loss: float = option(-0.1, finite(), help="reward for each own unit destroyed; negative")
    win: float = option(1.0, finite(), help="reward for a win, and penalty for a defeat")


@frozen(kw_only=True)
class BotConfig:
    """Options of the agent ``skirmish-bot``."""

    strength: int = option(
        2, whole(1, 3), help="1 attacks the nearest enemy, 2 focuses fire, 3 also retreats between attacks"
    )


@frozen(kw_only=True)
class ActionMapConfig:
    """Options of the interfaces ``img-act`` and ``img-mab-act``."""

    map: bool = option(
        True, help="for seats of armies: whether the action is a map with a label per cell; else one label per unit"
    )
