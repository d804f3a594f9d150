"""The numbers of the game that do not depend on a hero: field, unit slots, and strengths of units.

Every side sees the field in its own frame: x runs from its own base at 0 to the enemy's base at `LENGTH`, y is common.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

#: Duration of a tick in seconds, on each of which both heroes decide [HoK §3].
TICK_S = 0.133


def ticks_of(seconds: float) -> int:
    """Return a duration in ticks, rounded to the nearest number."""
    return round(seconds / TICK_S)


LENGTH, WIDTH, LANE_Y = 120.0, 30.0, 15.0

# Slots of the units of a side.
HERO = 0
MELEE, RANGED, SIEGE, MINIONS = slice(1, 7), slice(7, 13), slice(13, 15), slice(1, 15)
OUTER, INNER, CRYSTAL = 15, 16, 17
STRUCTURES = slice(15, 18)
UNITS = 18
#: Units that aim by themselves: minions and turrets.
ATTACKERS = slice(1, 17)
#: What a side can attack: the units of the other side in their slots, then the monster.
MONSTER = 18
TARGETS = 19


@frozen(kw_only=True)
class UnitRules:
    """Strengths of one kind of unit.

    Args:
        health: At the start of a match, or of the first wave.
        attack: Damage of one attack, before armour.
        armour: A attack deals 100 / (100 + armour) of its damage.
        attack_s: Time between attacks.
        reach: Greatest distance of an attack.
        gold: Earned by the hero that destroys it.
        experience: Earned by an enemy hero near enough.
    """

    health: float
    attack: float
    armour: float
    attack_s: float
    reach: float
    gold: float
    experience: float


KINDS = {
    "melee": UnitRules(health=420, attack=20, armour=0, attack_s=1.0, reach=1.8, gold=36, experience=48),
    "ranged": UnitRules(health=280, attack=28, armour=0, attack_s=1.2, reach=6.0, gold=28, experience=34),
    "siege": UnitRules(health=800, attack=50, armour=10, attack_s=1.6, reach=7.0, gold=60, experience=80),
    "outer": UnitRules(health=2600, attack=170, armour=40, attack_s=1.0, reach=8.0, gold=200, experience=120),
    "inner": UnitRules(health=3200, attack=190, armour=50, attack_s=1.0, reach=8.0, gold=250, experience=150),
    "crystal": UnitRules(health=3600, attack=0, armour=50, attack_s=1.0, reach=0.0, gold=0, experience=0),
    "monster": UnitRules(health=1300, attack=60, armour=20, attack_s=1.0, reach=3.5, gold=110, experience=140),
}
#: The kind of every target but the hero, by slot.
SLOT_KINDS = ("melee",) * 6 + ("ranged",) * 6 + ("siege",) * 2 + ("outer", "inner", "crystal", "monster")


def by_slot(name: str) -> np.ndarray:
    """Return ``[19] float32``: one field of `UnitRules` of every target, 0 for the hero."""
    return np.array([0.0, *(getattr(KINDS[kind], name) for kind in SLOT_KINDS)], np.float32)


STRUCTURE_X = np.array([38.0, 22.0, 8.0], np.float32)
#: Distance at which a minion aims at an enemy; turrets aim within their reach.
ACQUISITION = 7.0
MINION_SPEED = 3.2
#: Damage of siege minions to structures is multiplied by this.
SIEGE_FACTOR = 2.0
#: A wave comes on this period; each third one has a siege minion. Strength grows by this share per minute.
WAVE_PERIOD_S, FIRST_WAVE_S, WAVE_SIZE, SIEGE_PERIOD, GROWTH_PER_MINUTE = 30.0, 3.0, 3, 3, 0.08
#: Where minions appear, in the own frame.
WAVE_X = 10.0
#: Distance in y of a minion from the middle of the lane, by slot: 3 columns per wave.
MINION_Y = np.array([-2.0, 0.0, 2.0] * 2 + [-3.0, -1.0, 3.0] * 2 + [1.0, 2.5], np.float32)
#: Turrets attack a hero that attacks a hero beside them, for this time.
TURRET_ANGER_S = 2.0

BASE_X, START_X = 6.0, 4.0
#: Share of health and mana that returns per second in the base, and elsewhere.
BASE_RECOVERY_PER_S, FIELD_HEALTH_PER_S, FIELD_MANA_PER_S = 0.12, 0.004, 0.012
RECALL_S = 6.0
HEAL_SHARE, HEAL_WAIT_S = 0.22, 50.0
RESPAWN_S, RESPAWN_PER_LEVEL_S = 5.0, 1.2
PACK_X, PACK_Y, PACK_RADIUS, PACK_SHARE, PACK_S = 43.0, 26.0, 1.5, 0.2, 40.0
MONSTER_Y, MONSTER_FIRST_S, MONSTER_S, MONSTER_ANGER_S = 4.0, 30.0, 60.0, 3.0

GOLD_PER_S = 2.0
KILL_GOLD, KILL_EXPERIENCE = 220.0, 160.0
#: Distance to an enemy unit that dies within which a hero earns experience.
EXPERIENCE_RADIUS = 14.0
LEVELS = 15
#: Experience at which each level is reached, from level 1.
LEVEL_EXPERIENCE = np.concatenate([[0.0], np.cumsum(90.0 + 32.0 * np.arange(1, LEVELS))]).astype(np.float32)
#: Prices of the items, bought in this order.
ITEM_PRICES = np.array([300, 450, 600, 750, 900, 1100, np.inf], np.float32)
#: The level at which each skill is learned.
SKILL_LEVELS = np.array([1, 2, 4])

HERO_SIGHT, MINION_SIGHT, STRUCTURE_SIGHT = 13.0, 10.0, 12.0
SIGHT = np.array([HERO_SIGHT] + [MINION_SIGHT] * 14 + [STRUCTURE_SIGHT] * 3, np.float32)
#: A unit in brush is visible from this distance only, or from the same brush.
BRUSH_SIGHT = 3.0
#: Brush areas as (left, right, low y, high y); they mirror each other, so both frames have the same ones.
BRUSHES = ((48.0, 56.0, 3.0, 8.0), (64.0, 72.0, 3.0, 8.0), (46.0, 54.0, 22.0, 27.0), (66.0, 74.0, 22.0, 27.0))
