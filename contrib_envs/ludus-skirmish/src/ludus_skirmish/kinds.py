"""Kinds of units, the battles that they fight, and tables of their numbers by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from attrs import frozen

from ludus_skirmish.names import KINDS as NAMES

#: Duration of a tick in seconds, on each of which all units decide.
TICK_S = 0.25


def ticks_of(seconds: float) -> int:
    """Return a duration in ticks, rounded to the nearest number."""
    return round(seconds / TICK_S)


#: Points of shield that return per second, once a unit has taken no damage for `CALM_S`.
SHIELD_PER_S, CALM_S = 4.0, 5.0
#: Least damage of an attack after armour.
LEAST_DAMAGE = 0.5


@frozen(kw_only=True)
class Kind:
    """Numbers of one kind of unit.

    Args:
        health: Points of health.
        shield: Points of shield, which absorbs damage first and returns.
        armour: Subtracted from the damage of each attack.
        plating: Type of armour, which decides bonus damage.
        air: Whether it flies: it does not collide, and only attacks with an air reach hit it.
        radius: Radius of the body in units of length.
        speed: Units of length per second.
        damage: Points of one attack.
        bonus: Additional points against the plating `bonus_against`.
        bonus_against: See `bonus`.
        period_s: Time between two attacks.
        reach: Distance from body to body of attacks on the ground; likewise `air_reach`, 0: none.
        air_reach: See `reach`.
        blast: Radius around the unit in which its attack hits all enemies on the ground; the unit is destroyed by it.
            0: an attack hits its target only.
        value: Worth of the unit at the time limit.
    """

    health: float
    shield: float = 0.0
    armour: float = 0.0
    plating: Literal["light", "heavy"] = "light"
    air: bool = False
    radius: float = 0.5
    speed: float
    damage: float
    bonus: float = 0.0
    bonus_against: Literal["light", "heavy"] = "heavy"
    period_s: float
    reach: float
    air_reach: float = 0.0
    blast: float = 0.0
    value: float


KINDS: Mapping[str, Kind] = {
    "walker": Kind(
        health=220, shield=110, armour=1, plating="heavy", radius=0.8, speed=3.0, damage=22, bonus=18, period_s=1.25,
        reach=5.5, value=4,
    ),
    "blade": Kind(
        health=130, shield=60, armour=1, speed=3.8, damage=18, period_s=0.75, reach=0.4, value=2,
    ),
    "flyer": Kind(health=110, air=True, speed=4.4, damage=10, period_s=1.25, reach=3.0, air_reach=3.0, value=3),
    "archer": Kind(health=85, speed=3.2, damage=13, period_s=0.75, reach=5.0, air_reach=5.0, value=2),
    "brute": Kind(
        health=150, armour=1, plating="heavy", speed=3.2, damage=17, period_s=1.25, reach=3.5, value=2,
    ),
    "runner": Kind(health=38, radius=0.375, speed=4.6, damage=6, period_s=0.5, reach=0.3, value=1),
    "bomber": Kind(
        health=32, radius=0.375, speed=4.0, damage=16, bonus=18, bonus_against="light", period_s=0.25, reach=0.3,
        blast=2.2, value=1,
    ),
}  # fmt: skip
assert tuple(KINDS) == NAMES


@frozen(kw_only=True)
class Battle:
    """The armies of a battle, equal on both sides, and its field.

    Args:
        counts: Least and greatest number of units by kind; the seed draws numbers between them.
        size: Side of the square field.
    """

    counts: Mapping[str, tuple[int, int]]
    size: float

    @property
    def slot_kinds(self) -> np.ndarray:
        """Return ``[N] int64``: the kind of every slot of an army."""
        return np.repeat([NAMES.index(kind) for kind in self.counts], [most for _, most in self.counts.values()])

    @property
    def slots(self) -> int:
        """Return N, the greatest number of units of an army."""
        return sum(most for _, most in self.counts.values())


BATTLES: Mapping[str, Battle] = {
    "5i": Battle(counts={"walker": (5, 5)}, size=16.0),
    "3i2z": Battle(counts={"walker": (3, 3), "blade": (2, 2)}, size=16.0),
    "mab": Battle(counts=dict.fromkeys(("flyer", "archer", "brute", "runner", "bomber"), (1, 5)), size=24.0),
}


def by_kind(name: str) -> np.ndarray:
    """Return ``[K] float32``: one field of `Kind` of every kind."""
    return np.array([getattr(kind, name) for kind in KINDS.values()], np.float32)


def _power() -> np.ndarray:
    bonus = [[a.bonus * (a.bonus_against == d.plating) - d.armour for d in KINDS.values()] for a in KINDS.values()]
    power = by_kind("damage")[:, None] + np.array(bonus, np.float32)
    return np.asarray(np.maximum(power, LEAST_DAMAGE), np.float32)


def _reach() -> np.ndarray:
    reach = np.where(by_kind("air") > 0, by_kind("air_reach")[:, None], by_kind("reach")[:, None])
    bodies = by_kind("radius")[:, None] + by_kind("radius")
    return np.where(reach > 0, reach + bodies, np.float32(-1.0)).astype(np.float32)


HEALTH, SHIELD, RADIUS, SPEED, BLAST, VALUE = map(
    by_kind, ("health", "shield", "radius", "speed", "blast", "value")
)  # fmt: skip
AIR = by_kind("air") > 0
PERIOD = np.array([ticks_of(kind.period_s) for kind in KINDS.values()])
#: Damage of an attack of a kind (first axis) on another, ``[K, K] float32``.
POWER = _power()
#: Distance between centres within which a kind (first axis) attacks another, ``[K, K] float32``; -1: it cannot.
REACH = _reach()
