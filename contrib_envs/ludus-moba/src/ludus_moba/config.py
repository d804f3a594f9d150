"""Options of the components in this distribution."""

from __future__ import annotations

from attrs import frozen
from ludus.option import between, each, finite, one_of, option, whole

from ludus_moba.names import NAMES


@frozen(kw_only=True)
class MobaConfig:
    """Options of the environment ``moba``: heroes, time limit, and the weights of reward parts."""

    heroes: tuple[str, ...] = option(
        NAMES, each(one_of(*NAMES)), help="heroes that the seed draws for both seats: mage, marksman, warrior, assassin"
    )
    time_limit_s: float = option(
        600.0, between(1.0, 3600.0), help="time limit, after which more health of structures wins; (1, 3600)"
    )
    map: bool = option(True, lasting=True, help="whether observations hold the map around the hero")
    health: float = option(2.0, finite(), help="reward for the fourth root of the share of health of the own hero")
    mana: float = option(0.2, finite(), help="reward for the share of mana of the own hero")
    gold: float = option(0.006, finite(), help="reward for each gold earned")
    experience: float = option(0.004, finite(), help="reward for each point of experience")
    last_hit: float = option(0.2, finite(), help="reward for each minion destroyed by the own hero")
    kill: float = option(1.0, finite(), help="reward for each death of the enemy hero")
    death: float = option(-1.0, finite(), help="reward for each death of the own hero; negative")
    tower: float = option(5.0, finite(), help="reward for the share of health of each own structure")
    win: float = option(5.0, finite(), help="reward for a win, and penalty for a loss")


@frozen(kw_only=True)
class BotConfig:
    """Options of the agent ``moba-bot``."""

    strength: int = option(
        3, whole(1, 4), help="1 walks and attacks at random, 2 pushes, 3 fights with care, 4 kites and combines skills"
    )
