"""Gold, experience, levels and items."""

from __future__ import annotations

import numpy as np

from ludus_moba import rules
from ludus_moba.heroes import HeroTables
from ludus_moba.rules import HERO, LEVELS, TICK_S
from ludus_moba.world import COLUMN, World

_GOLD, _EXPERIENCE = rules.by_slot("gold"), rules.by_slot("experience")
_GOLD[HERO], _EXPERIENCE[HERO] = rules.KILL_GOLD, rules.KILL_EXPERIENCE
_GOLD_PER_TICK = np.float32(rules.GOLD_PER_S * TICK_S)
_RADIUS2 = rules.EXPERIENCE_RADIUS**2


def update_strengths(world: World) -> None:
    """Compute the strengths of heroes from level and items; health and mana grow with their maximum."""
    kind, level, items = world.kind, (world.level - 1).astype(np.float32), world.items.astype(np.float32)

    def value(table: np.ndarray) -> np.ndarray:
        return np.asarray(table[kind, 0] + table[kind, 1] * level + table[kind, 2] * items)

    health, mana = value(HeroTables.health), HeroTables.mana[kind] * (1.0 + 0.06 * level).astype(np.float32)
    world.health[:, :, HERO] += (health - world.max_health[:, :, HERO]) * world.alive
    world.mana += mana - world.max_mana
    world.max_health[:, :, HERO], world.max_mana[:] = health, mana
    world.attack[:, :, HERO] = value(HeroTables.attack)
    world.armour[:, :, HERO] = value(HeroTables.armour)
    world.power[:] = value(HeroTables.power)
    world.reach[:, :, HERO] = HeroTables.reach[kind]


def reward_deaths(world: World, died: np.ndarray, finished: np.ndarray) -> None:
    """Give gold to heroes that finished targets, and experience to heroes near those that died.

    Args:
        world: State to change.
        died: ``[B, 2, 19] bool``: targets of each side that died on this tick.
        finished: ``[B, 2, 19] bool``: those whose last health the side's hero took. The death of a hero always counts,
            and that of a structure too.
    """
    near = died & (world.distance2[:, :, HERO] <= _RADIUS2) & world.alive[:, :, None]
    near[:, :, rules.MONSTER] = finished[:, :, rules.MONSTER]
    paid = finished.copy()
    paid[:, :, HERO] = died[:, :, HERO]
    paid[:, :, rules.STRUCTURES] = died[:, :, rules.STRUCTURES]
    near[:, :, rules.STRUCTURES] = died[:, :, rules.STRUCTURES]
    gold = (paid * _GOLD).sum(axis=2, dtype=np.float32)
    experience = (near * _EXPERIENCE).sum(axis=2, dtype=np.float32)
    _earn(world, gold, experience)


def _earn(world: World, gold: np.ndarray, experience: np.ndarray) -> None:
    world.gold += gold
    world.experience += experience
    world.tally[:, :, COLUMN["gold"]] += gold
    world.tally[:, :, COLUMN["experience"]] += experience


def earn_and_buy(world: World) -> None:
    """Earn gold by time, reach levels, and buy the next item in the base or while dead, one per tick."""
    _earn(world, np.full(world.gold.shape, _GOLD_PER_TICK), np.zeros_like(world.experience))
    rises = (world.level < LEVELS) & (world.experience >= rules.LEVEL_EXPERIENCE[np.minimum(world.level, LEVELS - 1)])
    world.level += rises
    price = rules.ITEM_PRICES[world.items]
    shops = (world.x[:, :, HERO] <= rules.BASE_X) | ~world.alive
    buys = shops & (world.gold >= price)
    world.gold -= np.where(buys, price, np.float32(0.0))
    world.items += buys
    if rises.any() or buys.any():
        update_strengths(world)
