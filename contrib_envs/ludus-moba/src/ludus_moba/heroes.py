"""The heroes and their skills, as records and as arrays that are indexed by hero and skill."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from attrs import frozen

from ludus_moba.rules import ticks_of

#: Time within which a second skill finds the mark that the first one left.
MARK_S = 1.0


class Aim(IntEnum):
    """What a skill needs: a direction, a unit, a point, or nothing; a dash moves the hero in a direction."""

    DIRECTION = 0
    TARGET = 1
    AREA = 2
    DASH = 3
    SELF = 4


@frozen(kw_only=True)
class Skill:
    """One skill of a hero.

    Args:
        name: For people.
        aim: What it needs.
        reach: Greatest distance of its unit, point, line or dash.
        radius: Half the width of a line, or the radius around the point or the end of a dash.
        damage: At level 1.
        damage_per_level: Added per further level.
        ratio: Added damage per power of the hero.
        wait_s: Cooldown.
        mana: Cost.
        stun_s: Stun of heroes hit.
        slow_s: Slow of heroes hit.
        shield: Damage that the own shield absorbs, per damage_per_level too.
        heal: Share of health that returns to the own hero.
        marks: A hero hit carries a mark for `MARK_S`.
        detonation: Added damage to a hero with a mark, which is used up, and stunned for `detonation_stun_s`.
        detonation_stun_s: See `detonation`.
        leaps: The hero lands beside the unit.
    """

    name: str
    aim: Aim
    reach: float = 0.0
    radius: float = 0.0
    damage: float = 0.0
    damage_per_level: float = 0.0
    ratio: float = 0.0
    wait_s: float
    mana: float
    stun_s: float = 0.0
    slow_s: float = 0.0
    shield: float = 0.0
    heal: float = 0.0
    marks: bool = False
    detonation: float = 0.0
    detonation_stun_s: float = 0.0
    leaps: bool = False


@frozen(kw_only=True)
class Hero:
    """Strengths of a hero at level 1, growth per level and per item, and skills; see `ludus_moba.rules.UnitRules`."""

    name: str
    health: tuple[float, float, float]
    mana: float
    attack: tuple[float, float, float]
    power: tuple[float, float, float]
    armour: tuple[float, float, float]
    attack_s: float
    reach: float
    speed: float
    skills: tuple[Skill, Skill, Skill]


MAGE = Hero(
    name="mage",
    health=(1150.0, 95.0, 90.0),
    mana=620.0,
    attack=(52.0, 4.0, 4.0),
    power=(60.0, 14.0, 34.0),
    armour=(20.0, 3.0, 4.0),
    attack_s=1.1,
    reach=6.5,
    speed=3.8,
    skills=(
        Skill(name="spark", aim=Aim.DIRECTION, reach=10.0, radius=0.9, damage=90, damage_per_level=12, ratio=0.5,
              wait_s=4.0, mana=45, marks=True),
        Skill(name="frost field", aim=Aim.AREA, reach=8.0, radius=2.8, damage=80, damage_per_level=12, ratio=0.45,
              wait_s=8.0, mana=70, slow_s=1.8),
        Skill(name="collapse", aim=Aim.TARGET, reach=8.0, damage=180, damage_per_level=20, ratio=0.8, wait_s=22.0,
              mana=110, detonation=160, detonation_stun_s=1.0),
    ),
)  # fmt: skip
MARKSMAN = Hero(
    name="marksman",
    health=(1120.0, 92.0, 85.0),
    mana=440.0,
    attack=(68.0, 7.0, 24.0),
    power=(30.0, 6.0, 8.0),
    armour=(20.0, 3.0, 4.0),
    attack_s=0.9,
    reach=7.5,
    speed=3.8,
    skills=(
        Skill(name="tracer", aim=Aim.TARGET, reach=9.0, damage=60, damage_per_level=9, ratio=0.6, wait_s=6.0, mana=40,
              slow_s=0.8, marks=True),
        Skill(name="roll", aim=Aim.DASH, reach=5.0, wait_s=7.0, mana=40, shield=90),
        Skill(name="volley", aim=Aim.DIRECTION, reach=13.0, radius=1.0, damage=190, damage_per_level=22, ratio=1.0,
              wait_s=24.0, mana=100, detonation=140, detonation_stun_s=0.6),
    ),
)  # fmt: skip
WARRIOR = Hero(
    name="warrior",
    health=(1480.0, 135.0, 190.0),
    mana=420.0,
    attack=(70.0, 6.0, 13.0),
    power=(40.0, 8.0, 12.0),
    armour=(38.0, 5.0, 10.0),
    attack_s=1.0,
    reach=2.4,
    speed=4.1,
    skills=(
        Skill(name="charge", aim=Aim.DASH, reach=6.0, radius=2.0, damage=80, damage_per_level=11, ratio=0.5,
              wait_s=8.0, mana=45, stun_s=0.4, marks=True),
        Skill(name="iron skin", aim=Aim.SELF, wait_s=10.0, mana=50, shield=190),
        Skill(name="cleave", aim=Aim.AREA, reach=1.5, radius=3.2, damage=170, damage_per_level=20, ratio=0.7,
              wait_s=20.0, mana=90, heal=0.12, detonation=130, slow_s=1.0),
    ),
)  # fmt: skip
ASSASSIN = Hero(
    name="assassin",
    health=(1460.0, 128.0, 160.0),
    mana=460.0,
    attack=(82.0, 8.0, 22.0),
    power=(55.0, 11.0, 18.0),
    armour=(40.0, 5.0, 9.0),
    attack_s=0.9,
    reach=2.2,
    speed=4.3,
    skills=(
        Skill(name="dagger", aim=Aim.DIRECTION, reach=8.0, radius=0.8, damage=75, damage_per_level=11, ratio=0.5,
              wait_s=5.0, mana=35, slow_s=0.8, marks=True),
        Skill(name="pounce", aim=Aim.TARGET, reach=6.0, damage=110, damage_per_level=14, ratio=0.6, wait_s=7.0, mana=40,
              detonation=150, leaps=True),
        Skill(name="blade dance", aim=Aim.AREA, reach=0.0, radius=3.0, damage=190, damage_per_level=24, ratio=0.7,
              wait_s=22.0, mana=90, heal=0.08),
    ),
)  # fmt: skip
HEROES = (MAGE, MARKSMAN, WARRIOR, ASSASSIN)


def _of_skills(name: str) -> np.ndarray:
    return np.array([[getattr(skill, name) for skill in hero.skills] for hero in HEROES], np.float32)


def _of_heroes(name: str) -> np.ndarray:
    return np.array([getattr(hero, name) for hero in HEROES], np.float32)


class SkillTables:
    """Fields of `Skill` by hero and skill, ``[4, 3]`` each; times are in ticks."""

    aim = np.array([[int(skill.aim) for skill in hero.skills] for hero in HEROES])
    reach, radius = _of_skills("reach"), _of_skills("radius")
    damage, damage_per_level, ratio = _of_skills("damage"), _of_skills("damage_per_level"), _of_skills("ratio")
    mana, shield, heal, detonation = (
        _of_skills("mana"),
        _of_skills("shield"),
        _of_skills("heal"),
        _of_skills("detonation"),
    )
    marks, leaps = _of_skills("marks") > 0, _of_skills("leaps") > 0
    wait, stun, slow, detonation_stun = (
        np.vectorize(ticks_of)(_of_skills(name)) for name in ("wait_s", "stun_s", "slow_s", "detonation_stun_s")
    )


class HeroTables:
    """Fields of `Hero`, ``[4]`` or ``[4, 3]`` (at level 1, per level, per item) each."""

    health, attack, power, armour = (_of_heroes(name) for name in ("health", "attack", "power", "armour"))
    mana, reach, speed = _of_heroes("mana"), _of_heroes("reach"), _of_heroes("speed")
    attack_wait = np.vectorize(ticks_of)(_of_heroes("attack_s"))
