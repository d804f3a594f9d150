"""Rules of scripted heroes, from weak to strong. Later rules take precedence."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from ludus_moba import rules
from ludus_moba.actions import BUTTON
from ludus_moba.bot_view import Choice, Situation, nearest
from ludus_moba.heroes import HEROES, MARKSMAN, Aim, SkillTables

_HERO, _MINION, _STRUCTURE = 1, 2, 16  # choices of the target label: the hero, and the first of each group
_TURRET_REACH = rules.KINDS["outer"].reach + 1.5
_MARKSMAN = HEROES.index(MARKSMAN)
_ROLL = tuple(skill.name for skill in MARKSMAN.skills).index("roll")


@frozen(kw_only=True)
class Strength:
    """What a scripted hero does.

    Args:
        careful: It stays with its minions, retreats, and avoids turrets.
        casts: It uses skills at the enemy hero.
        kites: It steps back between attacks, and pursues a much weaker enemy hero.
        combines: It keeps the detonating skill for a mark.
        farms: It uses skills at groups of minions, takes health packs, and attacks
            structures first while the enemy hero is away.
        retreat: Share of health below which it retreats.
    """

    careful: bool = False
    casts: bool = False
    kites: bool = False
    combines: bool = False
    farms: bool = False
    retreat: float = 0.0


STRENGTHS = {
    2: Strength(),
    3: Strength(careful=True, casts=True, retreat=0.3),
    4: Strength(careful=True, casts=True, kites=True, combines=True, farms=True, retreat=0.3),
}


def decide(seen: Situation, choice: Choice, strength: Strength) -> None:
    """Write the actions of n rows into `choice`."""
    if not strength.careful:
        _push(seen, choice)
        return
    _walk_with_minions(seen, choice)
    _attack_units(seen, choice, strength)
    if strength.farms:
        _farm(seen, choice)
    _fight(seen, choice, strength)
    if strength.kites:
        _kite(seen, choice)
    if strength.casts:
        _cast(seen, choice, strength)
    _leave_turrets(seen, choice)
    _retreat(seen, choice, strength)


def _push(seen: Situation, choice: Choice) -> None:
    """Walk along the lane and attack whatever is in reach, structures first."""
    ahead = np.ones(len(seen.kind), bool)
    choice.move(ahead, np.full(len(ahead), 6.0), rules.LANE_Y - seen.y)
    for units, first in ((seen.enemy, _HERO), (seen.minions, _MINION), (seen.structures, _STRUCTURE)):
        found, unit = nearest(units, units.attackable & units.within((seen.reach + 1.0)[:, None]))
        choice.attack(found, first + unit)


def _escorted(seen: Situation) -> np.ndarray:
    """Return ``[n, 3] bool``: enemy structures that aim at one of at least two own minions in their reach."""
    dx = seen.structures.dx[:, :, None] - seen.own_minions.dx[:, None]
    dy = seen.structures.dy[:, :, None] - seen.own_minions.dy[:, None]
    close = (dx**2 + dy**2 <= rules.KINDS["outer"].reach ** 2) & seen.own_minions.present[:, None]
    return np.asarray(close.sum(axis=2) >= 2)


def _walk_with_minions(seen: Situation, choice: Choice) -> None:
    """Stay behind the foremost own minion, or beside the foremost own structure without one."""
    foremost = np.where(seen.own_minions.present, seen.own_minions.dx, -1e6).max(axis=1)
    structure = np.where(seen.own_structures.present, seen.own_structures.dx, -1e6).max(axis=1)
    gap = np.maximum(seen.reach * 0.6, 1.5)
    goal = np.where(foremost > structure, foremost - gap, structure + 1.0)
    away = np.abs(goal) > 1.0
    choice.move(away, goal, np.clip(rules.LANE_Y - seen.y, -2.0, 2.0) * (np.abs(goal) < 20))


def _attack_units(seen: Situation, choice: Choice, strength: Strength) -> None:
    """Attack structures behind own minions, minions in reach, and first of all minions that one attack destroys."""
    reach = (seen.reach + 0.5)[:, None]
    in_reach = seen.minions.attackable & seen.minions.within(reach)
    found, unit = nearest(seen.minions, in_reach)
    choice.attack(found, _MINION + unit)
    escorted = _escorted(seen) | (np.arange(3) == 2)
    targets = seen.structures.attackable & seen.structures.within(reach + 3.0) & escorted
    found, unit = nearest(seen.structures, targets)
    first = seen.enemy.far[:, 0] > 14.0 if strength.farms else np.zeros(len(found), bool)
    choice.attack(found & (first | ~in_reach.any(axis=1)), _STRUCTURE + unit)
    chance = in_reach & (seen.minions.health <= seen.attack[:, None])
    found, unit = nearest(seen.minions, chance)
    choice.attack(found, _MINION + unit)


def _farm(seen: Situation, choice: Choice) -> None:
    """Use lines and areas that no combination needs at groups of minions, and walk to a health pack near the lane."""
    pack_dx, pack_dy = rules.PACK_X - seen.x, rules.PACK_Y - seen.y
    wants = (seen.of_own("health") < 0.7) & (seen.of_common("own-pack") == 0) & (np.hypot(pack_dx, pack_dy) < 22)
    choice.move(wants, pack_dx, pack_dy)
    found, unit = nearest(seen.minions, seen.minions.attackable)
    rows, rich = np.arange(len(unit)), found & (seen.of_own("mana") > 0.45)
    dx, dy = seen.minions.dx[rows, unit], seen.minions.dy[rows, unit]
    far = np.maximum(np.hypot(dx, dy), 1e-6)
    beside = np.hypot(seen.minions.dx - dx[:, None], seen.minions.dy - dy[:, None])
    for skill in range(3):
        tables = (SkillTables.aim, SkillTables.reach, SkillTables.radius, SkillTables.detonation)
        aim, reach, radius, detonation = (table[seen.kind, skill] for table in tables)
        area = aim == Aim.AREA
        group = (seen.minions.present & (beside <= np.where(area, radius, 4.0)[:, None])).sum(axis=1) >= 3
        use = rich & group & (detonation == 0) & (area | (aim == Aim.DIRECTION))
        use &= far <= np.where(area, reach + 0.4 * radius, reach - 1.0)
        scale = np.where(area, np.maximum(reach, far), far)
        choice.cast(use, skill, dx / scale, dy / scale, 0)


def _advantage(seen: Situation) -> np.ndarray:
    """Return ``[n]`` in [0, 2]: own health and strength relative to the enemy hero's; 1 where it is not visible."""
    own = seen.of_own("health") * seen.of_own("health-size") * (seen.of_own("attack") + seen.of_own("power"))
    enemy = seen.of_enemy("health") * seen.of_enemy("health-size") * (seen.of_enemy("attack") + seen.of_enemy("power"))
    return np.asarray(np.where(seen.enemy.present[:, 0], 2 * own / np.maximum(own + enemy, 1e-6), 1.0))


def _fight(seen: Situation, choice: Choice, strength: Strength) -> None:
    """Attack the enemy hero in reach, and pursue it where the own hero is much stronger."""
    pursuit = np.where(_advantage(seen) > 1.25, 4.0, 0.3)
    pursuit = np.where((seen.of_enemy("health") < 0.4) & (_advantage(seen) > 1.1), 7.0, pursuit)
    if not strength.kites:
        pursuit = np.full(len(seen.kind), 0.3)
    near = seen.enemy.within((seen.reach + pursuit)[:, None])[:, 0]
    chance = seen.minions.attackable & seen.minions.within(seen.reach[:, None])
    chance &= seen.minions.health <= seen.attack[:, None]
    worse = _advantage(seen) < 0.8
    choice.attack(near & ~(chance.any(axis=1) & ~(seen.of_enemy("health") < 0.3)) & ~worse, _HERO)


def _kite(seen: Situation, choice: Choice) -> None:
    """Step away from an enemy hero of shorter reach while the own attack is not ready, and from a stronger one."""
    near = seen.enemy.within(seen.reach[:, None] - 0.5)[:, 0]
    longer = seen.reach > seen.of_enemy("reach") * 10.0 + 1.0
    waits = seen.of_own("wait") > 0.25
    weak = (_advantage(seen) < 0.7) & seen.enemy.within(9.0)[:, 0] & (seen.of_own("health") < 0.5)
    choice.move((near & longer & waits) | weak, -seen.enemy.dx[:, 0] - 1.0, -seen.enemy.dy[:, 0])


def _cast(seen: Situation, choice: Choice, strength: Strength) -> None:
    """Use skills at the enemy hero in their range; a skill that detonates waits for the mark if it can be set."""
    marked = seen.of_enemy("mark") > 0
    kind, dx, dy, far = seen.kind, seen.enemy.dx[:, 0], seen.enemy.dy[:, 0], seen.enemy.far[:, 0]
    marks = np.take_along_axis(SkillTables.marks[kind], SkillTables.marks[kind].argmax(axis=1)[:, None], axis=1)[:, 0]
    for skill in (1, 0, 2) if strength.combines else (2, 1, 0):
        aim, reach, radius = (table[kind, skill] for table in (SkillTables.aim, SkillTables.reach, SkillTables.radius))
        range_ = np.where(aim == Aim.SELF, seen.reach + 1.0, reach + radius * (aim >= Aim.AREA))
        use = (far <= range_ - 0.3) & ~((aim == Aim.DASH) & (radius == 0))
        use &= (aim != Aim.DASH) | (np.abs(far - reach) <= radius)
        if strength.combines:
            detonates = SkillTables.detonation[kind, skill] > 0
            use &= ~detonates | marked | ~marks | (seen.of_enemy("health") < 0.15)
            use &= (aim != Aim.SELF) | (seen.of_own("shield") == 0)
        scale = np.where(aim == Aim.AREA, np.maximum(reach, 1e-6), np.maximum(far, 1e-6))
        choice.cast(use, skill, np.clip(dx / scale, -1, 1), np.clip(dy / scale, -1, 1), _HERO)
    if strength.kites:
        flees = (far < 4.0) & (kind == _MARKSMAN)
        choice.cast(flees, _ROLL, -dx / np.maximum(far, 1e-6), -dy / np.maximum(far, 1e-6), _HERO)


def _leave_turrets(seen: Situation, choice: Choice) -> None:
    """Step back from turrets that aim at the own hero or have no minion to aim at."""
    turrets = seen.structures.present & (np.arange(3) < 2)
    threat = turrets & (seen.structures.far <= _TURRET_REACH) & (~_escorted(seen) | seen.structures.aims)
    choice.move(threat.any(axis=1), np.full(len(threat), -1.0), np.zeros(len(threat)))


def _retreat(seen: Situation, choice: Choice, strength: Strength) -> None:
    """Heal, walk home and recall with little health, and stay in the base until it is back."""
    health = seen.of_own("health")
    hurt = health < strength.retreat
    danger = seen.enemy.within(14.0)[:, 0] | seen.minions.within(9.0).any(axis=1)
    danger |= (seen.structures.aims & (seen.structures.far < _TURRET_REACH)).any(axis=1)
    base = seen.x <= rules.BASE_X
    choice.move(hurt & ~base, np.full(len(hurt), -6.0), np.clip(rules.LANE_Y - seen.y, -2.0, 2.0))
    choice.take(hurt & ~danger, BUTTON["recall"])
    choice.take((health < strength.retreat + 0.1) & danger, BUTTON["heal"])
    stays = (base & ((health < 0.95) | (seen.of_own("mana") < 0.8))) | ((seen.of_own("recall") > 0) & ~danger)
    choice.take(stays, BUTTON["none"])
