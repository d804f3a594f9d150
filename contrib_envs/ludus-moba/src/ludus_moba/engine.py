"""One tick of all matches. Both sides act on the same state, so that neither seat has an advantage."""

from __future__ import annotations

import numpy as np

from ludus_moba import economy, orders, rules, units, upkeep
from ludus_moba.orders import Orders
from ludus_moba.rules import CRYSTAL, HERO, MINIONS, MONSTER, STRUCTURES, UNITS, ticks_of
from ludus_moba.vision import perceive
from ludus_moba.world import COLUMN, World, other, target_health

_ANGER, _PROVOKED = ticks_of(rules.TURRET_ANGER_S), ticks_of(rules.MONSTER_ANGER_S)
_RESPAWN, _RESPAWN_PER_LEVEL = rules.RESPAWN_S / rules.TICK_S, rules.RESPAWN_PER_LEVEL_S / rules.TICK_S
_MONSTER_ARMOUR = rules.KINDS["monster"].armour


def advance(world: World, action: np.ndarray) -> None:
    """Advance all running matches by one tick.

    Args:
        world: State to change.
        action: ``[B, 2, 6] int64``: legal actions.
    """
    world.ticks += world.running
    upkeep.count_down(world)
    target = units.choose_targets(world)
    unit_damage = units.attack(world, target)
    bitten = upkeep.monster_attack(world)
    given = orders.give_orders(world, action)
    _strike(world, given, unit_damage, bitten)
    orders.walk(world, given)
    units.walk(world, target)
    upkeep.recover(world)
    upkeep.revive(world)
    upkeep.send_waves(world)
    economy.earn_and_buy(world)
    perceive(world)


def _strike(world: World, given: Orders, unit_damage: np.ndarray, bitten: np.ndarray) -> None:
    """Apply the damage of units, then that of heroes; a last hit is a death by the hero's damage."""
    before = target_health(world)
    alive = before > 0
    by_heroes = _reduce_by_armour(world, given.damage) * alive
    by_units = np.zeros_like(by_heroes)
    by_units[:, :, :UNITS] = unit_damage
    by_units[:, :, HERO] += other(bitten)
    by_units[:, :, HERO], by_heroes[:, :, HERO] = _absorb(world, by_units[:, :, HERO], by_heroes[:, :, HERO])
    between = before - by_units
    after = between - by_heroes
    world.health[:] = np.maximum(other(after[:, :, :UNITS]), np.float32(0.0))
    died = alive & (after <= 0)
    finished = died & (between > 0)
    _strike_monster(world, by_heroes[:, :, MONSTER], died, finished)
    _record(world, by_units, by_heroes, died, finished)
    _provoke(world, by_heroes)
    economy.reward_deaths(world, died, finished)
    _bury(world, died)


def _reduce_by_armour(world: World, damage: np.ndarray) -> np.ndarray:
    armour = np.full(damage.shape, np.float32(_MONSTER_ARMOUR), np.float32)
    armour[:, :, :UNITS] = other(world.armour)
    reduced: np.ndarray = damage * (np.float32(100.0) / (np.float32(100.0) + armour))
    return reduced


def _absorb(world: World, by_units: np.ndarray, by_hero: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Let the shields of enemy heroes absorb damage ``[B, 2]``, first that of units, and return what is left."""
    shield = other(world.shield)
    first = np.minimum(by_units, shield)
    second = np.minimum(by_hero, shield - first)
    world.shield[:] = other(shield - first - second)
    return by_units - first, by_hero - second


def _strike_monster(world: World, damage: np.ndarray, died: np.ndarray, finished: np.ndarray) -> None:
    """Apply the damage ``[B, 2]`` of both heroes to the monster; both finish it if both hit on its last tick."""
    total = damage[:, 0] + damage[:, 1]
    alive = world.monster_health > 0
    world.monster_health -= np.where(alive, total, np.float32(0.0))
    dead = alive & (world.monster_health <= 0)
    died[:, :, MONSTER] = dead[:, None]
    finished[:, :, MONSTER] = dead[:, None] & (damage > 0)
    upkeep.start_monster_wait(world, dead)


def _record(world: World, by_units: np.ndarray, by_heroes: np.ndarray, died: np.ndarray, finished: np.ndarray) -> None:
    tally = world.tally
    tally[:, :, COLUMN["kills"]] += died[:, :, HERO]
    tally[:, :, COLUMN["deaths"]] += other(died)[:, :, HERO]
    tally[:, :, COLUMN["last_hits"]] += finished[:, :, MINIONS].sum(axis=2)
    tally[:, :, COLUMN["hero_damage"]] += by_heroes[:, :, HERO]
    tally[:, :, COLUMN["structure_damage"]] += by_heroes[:, :, STRUCTURES].sum(axis=2)
    tally[:, :, COLUMN["crystals"]] += died[:, :, CRYSTAL]
    hurt = other(by_units + by_heroes)[:, :, HERO] > 0
    world.recall[hurt] = 0


def _provoke(world: World, by_heroes: np.ndarray) -> None:
    """Draw the attention of turrets and of the monster."""
    world.anger[other(by_heroes)[:, :, HERO] > 0] = _ANGER
    world.provoked[by_heroes[:, :, MONSTER] > 0] = _PROVOKED


def _bury(world: World, died: np.ndarray) -> None:
    """Start the wait of dead heroes, and clear their state."""
    dead = other(died)[:, :, HERO]
    if dead.any():
        wait = np.rint(_RESPAWN + _RESPAWN_PER_LEVEL * world.level[dead]).astype(np.int64)
        world.respawn[dead] = wait + 1  # `revive` counts the tick of the death too
        for state in (world.stun, world.slow, world.shield, world.mark, world.recall, world.anger):
            state[dead] = 0


def is_over(world: World) -> np.ndarray:
    """Return ``[B, 2] bool``: whether the crystal of each side has fallen."""
    return np.asarray(world.health[:, :, CRYSTAL] <= 0)
