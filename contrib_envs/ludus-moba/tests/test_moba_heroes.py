"""Heroes: attacks, skills and their effects, death and return."""

from __future__ import annotations

import pytest
from ludus_moba import rules
from ludus_moba.heroes import HEROES, MARK_S, Aim
from ludus_moba.names import NAMES

_TWENTY = 100 / 120  # share of damage that an armour of 20 lets through


def skilled(arena, first, second="mage", *, distance=4.0):
    """Return a match of two heroes of level 4, who know all skills, in the middle of the field."""
    return arena(first, second, scenario={"level_0": 4, "level_1": 4}).face(distance)


def armoured(match, damage, seat=1):
    """Return the damage that the armour of a hero lets through, less its recovery of one tick."""
    recovery = 0.004 * 0.133 * match.of("max_health", seat)
    return pytest.approx(damage * 100 / (100 + match.of("armour", seat)) - recovery, abs=0.05)


def test_names_match_heroes():
    """In the same order; there are four, with three skills each."""
    assert tuple(hero.name for hero in HEROES) == NAMES
    assert [len(hero.skills) for hero in HEROES] == [3] * 4


def test_every_hero_has_a_combination():
    """One skill marks and another one detonates."""
    for hero in HEROES:
        marks = [skill.name for skill in hero.skills if skill.marks]
        detonates = [skill.name for skill in hero.skills if skill.detonation]
        assert len(marks) == len(detonates) == 1
        assert marks != detonates


# -- attacks ----------------------------------------------------------------------------------------------------------


def test_an_attack_deals_damage_once_per_interval(arena):
    """52 of a mage, every 1.1 s."""
    match = arena().face(6.0).step("attack:at=hero")
    assert match.lost(1) == armoured(match, 52.0)
    lost = match.lost(1)
    match.step("attack:at=hero", times=7)
    assert match.lost(1) < lost
    assert match.step("attack:at=hero").lost(1) > lost + 30


def test_a_hero_walks_to_a_target_out_of_reach(arena):
    """And attacks when it arrives."""
    match = arena().face(8.0).step("attack:at=hero")
    assert match.lost(1) == 0
    assert match.of("x") > 60.0
    assert match.step("attack:at=hero", times=4).lost(1) > 0


def test_an_attack_without_a_target_takes_the_nearest(arena):
    """A minion in front of the enemy hero."""
    match = arena().face(6.0).unit(1, 1, 58.0, attack=0.0).step("attack")
    assert match.world.health[0, 1, 1] == pytest.approx(400.0 - 52.0)
    assert match.lost(1) == 0


def test_simultaneous_attacks_both_land(arena):
    """Two equal heroes lose the same."""
    match = arena().face(6.0).step("attack:at=hero", "attack:at=hero")
    assert match.lost(0) == match.lost(1) > 0


def test_two_heroes_can_kill_each_other(arena):
    """On the same tick."""
    match = arena().face(6.0).hero(0, health=10.0).hero(1, health=10.0).step("attack:at=hero", "attack:at=hero")
    assert [match.tally("kills", seat) for seat in (0, 1)] == [1, 1]
    assert match.part("kill") == [0.0, 0.0]


# -- death ------------------------------------------------------------------------------------------------------------


def kill(arena):
    """Let seat 0 kill seat 1."""
    return arena().face(6.0).hero(1, health=10.0).step("attack:at=hero")


def test_a_kill_pays(arena):
    """220 gold, 160 experience, and the parts of both seats."""
    match = kill(arena)
    assert match.tally("gold") == pytest.approx(220.266, abs=1e-3)
    assert match.tally("experience") == 160
    assert (match.tally("kills"), match.tally("deaths", 1)) == (1, 1)
    assert match.part("kill") == [1.0, -1.0]
    assert match.part("death") == [1.0, -1.0]


def test_dead_heroes_wait(arena):
    """They can only do nothing, and are not visible."""
    match = kill(arena)
    assert match.legal(1) == {"none"}
    assert "hero" not in match.targets(0)


def test_dead_heroes_return(arena):
    """At level 1 after 6.2 s, in their base with full health."""
    match = kill(arena)
    match.step(times=round(6.2 / 0.133) - 1)
    assert match.of("health", 1) == 0
    match.step()
    assert match.of("health", 1) == match.of("max_health", 1)
    assert match.of("x", 1) == rules.START_X


# -- skills -----------------------------------------------------------------------------------------------------------


def test_skills_are_learned_by_level(arena):
    """At 1, 2 and 4."""
    known = {
        level: sum(f"skill{number}" in arena(scenario={"level_0": level}).face(4.0).legal() for number in (1, 2, 3))
        for level in (1, 2, 3, 4)
    }
    assert known == {1: 1, 2: 2, 3: 2, 4: 3}


def test_skills_cost_mana_and_wait(arena):
    """Spark costs 45 and returns after 4 s."""
    match = skilled(arena, "mage")
    mana = match.of("mana")
    match.step("skill1:aim=14,7")
    assert mana - match.of("mana") == pytest.approx(45.0, abs=2.0)
    assert "skill1" not in match.legal()
    assert "skill1" in match.step(times=rules.ticks_of(4.0)).legal()


def test_skills_need_mana(arena):
    """None is legal without."""
    assert not {"skill1", "skill2", "skill3"} & skilled(arena, "mage").hero(0, mana=0.0).legal()


@pytest.mark.parametrize(("aim", "hits"), [("14,7", True), ("0,7", False), ("7,14", False), ("7,7", True)])
def test_a_line_hits_what_is_on_it(arena, aim, hits):
    """Only in its direction; without one, towards the enemy."""
    assert (skilled(arena, "mage").step(f"skill1:aim={aim}").lost(1) > 0) == hits


def test_a_line_hits_everything_on_it(arena):
    """A minion and the hero behind it."""
    match = skilled(arena, "mage").unit(1, 1, 58.0, attack=0.0).step("skill1:aim=14,7")
    assert match.lost(1) > 0
    assert match.world.health[0, 1, 1] < 400


def test_a_line_ends(arena):
    """Spark reaches 10 units."""
    assert skilled(arena, "mage", distance=10.5).step("skill1:aim=14,7").lost(1) == 0


def test_the_damage_of_a_skill(arena):
    """Spark at level 4: 90 + 3 · 12 + half of a power of 60 + 3 · 14."""
    match = skilled(arena, "mage").step("skill1:aim=14,7")
    assert match.lost(1) == armoured(match, 90 + 36 + 0.5 * 102)


def test_an_area_hits_around_its_point(arena):
    """Frost field reaches a hero at 8 units only if it is placed there."""
    assert skilled(arena, "mage", distance=8.0).step("skill2:aim=14,7").lost(1) > 0
    assert skilled(arena, "mage", distance=8.0).step("skill2:aim=7,7").lost(1) == 0


def test_frost_field_slows(arena):
    """For 1.8 s."""
    match = skilled(arena, "mage").step("skill2:aim=10,7")
    assert match.of("slow", 1) == rules.ticks_of(1.8)


def test_a_unit_skill_out_of_reach_is_not_cast(arena):
    """The hero walks to the unit, and no mana is spent."""
    match = skilled(arena, "mage", distance=10.0)
    mana = match.of("mana")
    match.step("skill3:at=hero")
    assert match.of("x") > 60.0
    assert match.of("mana") >= mana


def test_structures_are_immune_to_skills(arena):
    """A line over the outer turret."""
    match = skilled(arena, "mage").hero(0, 73.0, 15.0).hero(1, 4.0, 15.0).step("skill1:aim=14,7")
    assert match.world.health[0, 1, rules.OUTER] == 2600


def test_a_combination_of_the_mage(arena):
    """Collapse after spark deals 160 more and stuns for 1 s."""
    alone = skilled(arena, "mage").step("skill3:at=hero")
    assert alone.of("stun", 1) == 0
    match = skilled(arena, "mage").step("skill1:aim=14,7")
    before = match.lost(1)
    match.step("skill3:at=hero")
    assert match.lost(1) - before == armoured(match, 180 + 60 + 0.8 * 102 + 160)
    assert match.of("stun", 1) == rules.ticks_of(1.0)
    assert match.of("mark", 1) == 0


def test_marks_fade(arena):
    """After a second, a detonating skill deals no more than usual."""
    match = skilled(arena, "mage").step("skill1:aim=14,7").step(times=rules.ticks_of(MARK_S))
    assert match.step("skill3:at=hero").of("stun", 1) == 0


def test_minions_carry_no_marks(arena):
    """Spark on a minion marks no hero."""
    match = skilled(arena, "mage", distance=30.0).unit(1, 1, 57.0).step("skill1:aim=14,7")
    assert match.of("mark", 1) == 0


def test_a_dash_moves_its_hero(arena):
    """Roll by 5 units, with a shield."""
    match = skilled(arena, "marksman", distance=12.0).step("skill2:aim=0,7")
    assert match.of("x") == pytest.approx(55.0)
    assert match.of("shield") == pytest.approx(90 * 1.24, abs=0.01)


def test_a_charge_stuns_at_its_end(arena):
    """A warrior charges 6 units and hits within 2 of the end."""
    match = skilled(arena, "warrior", distance=7.0).step("skill1:aim=14,7")
    assert match.of("x") == pytest.approx(66.0)
    assert match.of("stun", 1) == rules.ticks_of(0.4)
    assert skilled(arena, "warrior", distance=10.0).step("skill1:aim=14,7").of("stun", 1) == 0


def test_shields_absorb_damage(arena):
    """An attack on iron skin costs no health."""
    match = skilled(arena, "warrior", distance=4.0).step("skill2").step("none", "attack:at=hero")
    assert match.lost(0) == 0
    assert 0 < match.of("shield") < 190 * 1.24


def test_shields_decay(arena):
    """They are gone after some seconds."""
    assert skilled(arena, "warrior").hero(0, 30.0).step("skill2").step(times=140).of("shield") == 0


def test_cleave_heals_if_it_hits(arena):
    """12 % of health."""
    match = skilled(arena, "warrior", distance=3.0).hero(0, health=500.0).step("skill3:aim=14,7")
    assert match.of("health") == pytest.approx(500 + 0.12 * match.of("max_health"), abs=2)
    missed = skilled(arena, "warrior", distance=9.0).hero(0, health=500.0).step("skill3:aim=14,7")
    assert missed.of("health") < 503


def test_pounce_lands_beside_its_unit(arena):
    """One unit before it."""
    match = skilled(arena, "assassin", distance=5.0).step("skill2:at=hero")
    assert match.of("x") == pytest.approx(64.0, abs=1e-3)


def test_stunned_heroes_do_not_walk(arena):
    """The one that is stunned on this tick neither."""
    match = skilled(arena, "mage").hero(1, mark=5)
    before = match.of("x", 1)
    match.step("skill3:at=hero", "move:to=0,7")
    assert match.of("x", 1) == before


def test_aims_of_all_kinds_exist():
    """Every kind of aim is used by some skill."""
    assert {skill.aim for hero in HEROES for skill in hero.skills} == set(Aim)
