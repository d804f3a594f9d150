"""Rules of units, structures, vision and economy, from scripted situations."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_moba import rules
from ludus_moba.heroes import HEROES
from ludus_moba.rules import CRYSTAL, HERO, INNER, OUTER, UNITS


def test_ticks_last_133_ms():
    """Ten minutes are 4511 ticks."""
    assert rules.ticks_of(600.0) == 4511


def test_slots_cover_all_units():
    """A hero, 14 minions and 3 structures per side, and the monster."""
    assert 1 + len(rules.SLOT_KINDS) == rules.TARGETS
    assert rules.SLOT_KINDS[OUTER - 1 : CRYSTAL] == ("outer", "inner", "crystal")


# -- movement ---------------------------------------------------------------------------------------------------------


def test_a_hero_walks_at_its_speed(arena):
    """A mage walks 3.8 units per second towards the enemy."""
    match = arena().hero(0, 20.0, 15.0).step("move:to=14,7", times=10)
    assert match.of("x") == pytest.approx(20.0 + 10 * 3.8 * 0.133, abs=1e-3)
    assert match.of("y") == 15.0


def test_diagonals_are_not_faster(arena):
    """The length of a step does not depend on its direction."""
    match = arena().hero(0, 20.0, 15.0).step("move:to=14,14")
    step = np.hypot(match.of("x") - 20.0, match.of("y") - 15.0)
    assert step == pytest.approx(3.8 * 0.133, abs=1e-3)


def test_both_sides_walk_to_the_right_in_their_frames(arena):
    """The same action moves both heroes towards each other."""
    match = arena().hero(0, 20.0).hero(1, 20.0).step("move:to=14,7", "move:to=14,7")
    assert match.of("x", 0) == match.of("x", 1) > 20.0


def test_the_field_has_edges(arena):
    """A hero cannot leave the field."""
    match = arena().hero(0, 0.1, 0.1).step("move:to=0,0", times=3)
    assert (match.of("x"), match.of("y")) == (0.0, 0.0)


def test_slowed_heroes_walk_at_55_percent(arena):
    """For as long as the slow lasts."""
    match = arena().hero(0, 20.0, slow=3).step("move:to=14,7")
    assert match.of("x") == pytest.approx(20.0 + 0.55 * 3.8 * 0.133, abs=1e-3)


def test_stunned_heroes_can_only_wait(arena):
    """No button but none is legal until the stun is over."""
    match = arena().hero(0, 20.0, stun=3)
    assert match.legal() == {"none"}
    assert "move" in match.step(times=3).legal()


# -- waves ------------------------------------------------------------------------------------------------------------


def alive(match, side, slots):
    """Return how many units of a side live."""
    return int((match.world.health[0, side, slots] > 0).sum())


def test_the_first_wave_comes_after_three_seconds(arena):
    """Three melee and three ranged minions on both sides, without a siege minion."""
    match = arena().step(times=22)
    assert alive(match, 0, rules.MINIONS) == 0
    match.step()
    for side in (0, 1):
        assert [alive(match, side, group) for group in (rules.MELEE, rules.RANGED, rules.SIEGE)] == [3, 3, 0]


def test_every_third_wave_has_a_siege_minion(arena):
    """On tick 23 + 2 · 226."""
    match = arena()
    match.world.ticks[0] = 23 + 2 * 226 - 1
    assert alive(match.step(), 0, rules.SIEGE) == 1


def test_waves_grow(arena):
    """By 8 % per minute."""
    match = arena(scenario={"time_s": 60.0})
    match.world.ticks[0] = 23 + 2 * 226 - 1
    match.step()
    growth = 1 + 0.08 * (23 + 2 * 226) * 0.133 / 60
    assert match.world.health[0, 0, 1] == pytest.approx(420 * growth, rel=1e-4)


def test_a_wave_does_not_replace_living_minions(arena):
    """Only free slots are filled."""
    match = arena()
    for slot in range(1, 5):
        match.unit(0, slot, 30.0, health=100.0)
    match.world.ticks[0] = 22
    match.step()
    assert alive(match, 0, rules.MELEE) == 6
    assert (match.world.health[0, 0, 1:5] == 100).all()


def test_minions_walk_along_the_lane(arena):
    """At 3.2 units per second."""
    match = arena().unit(0, 1, 30.0, 13.0).step(times=5)
    assert match.world.x[0, 0, 1] == pytest.approx(30.0 + 5 * 3.2 * 0.133, abs=1e-2)


# -- attacks of units -------------------------------------------------------------------------------------------------


def test_minions_attack_what_is_nearest(arena):
    """A melee minion deals 20 to a minion in reach, once per second."""
    match = arena().unit(0, 1, 59.5, attack=20.0).unit(1, 1, 59.5, attack=0.0).step()
    assert match.world.health[0, 1, 1] == 380.0
    assert match.step(times=7).world.health[0, 1, 1] == 380.0
    assert match.step().world.health[0, 1, 1] == 360.0


def test_armour_reduces_damage(arena):
    """With an armour of 100 half of the damage remains."""
    match = arena().unit(0, 1, 59.5, attack=20.0).unit(1, 1, 59.5, attack=0.0, armour=100.0).step()
    assert match.world.health[0, 1, 1] == pytest.approx(390.0)


def test_siege_minions_deal_double_damage_to_structures(arena):
    """A siege minion beside the outer turret, whose armour is 40."""
    match = arena().unit(0, 13, 78.0, attack=50.0, reach=7.0).step()
    expected = 2600.0 - 2 * 50.0 * 100 / 140
    assert match.world.health[0, 1, OUTER] == pytest.approx(expected, abs=1e-2)


def test_turrets_attack_minions_first(arena):
    """With a hero nearer than the minion."""
    match = arena().hero(0, 78.0, 15.0).unit(0, 1, 76.0, attack=0.0, health=1000.0).step()
    assert match.world.health[0, 0, 1] == pytest.approx(1000.0 - 170.0)
    assert match.lost(0) == 0


def test_turrets_attack_heroes_without_minions(arena):
    """A mage with 20 armour loses 170 · 100 / 120."""
    match = arena(scenario={"health_0": 0.9}).hero(0, 78.0, 15.0)
    before = match.of("health")
    assert before - match.step().of("health") == pytest.approx(170 * 100 / 120, abs=1.5)


def test_turrets_defend_their_hero(arena):
    """A hero that hurts the enemy hero beside the turret draws its next shots away from minions."""
    match = arena().hero(0, 78.0, 15.0).hero(1, 39.0, 15.0).unit(0, 1, 76.0, attack=0.0, health=1000.0)
    match.step("attack:at=hero")
    assert match.lost(0) == 0
    assert match.of("anger", 1) > 0
    match.step(times=8)
    assert match.lost(0) > 100


def test_turrets_do_not_reach_far(arena):
    """Nothing happens beyond 8 units."""
    match = arena().hero(0, 73.5, 15.0).step(times=5)
    assert match.lost(0) == 0


@pytest.mark.parametrize(("slot", "behind"), [(OUTER, INNER), (INNER, CRYSTAL)])
def test_structures_protect_those_behind_them(arena, slot, behind):
    """A structure can be attacked once the one in front of it has fallen."""
    match = arena()
    names = {OUTER: "outer", INNER: "inner", CRYSTAL: "crystal"}
    for front in range(OUTER, slot):
        match.world.health[0, 1, front] = 0
    assert names[behind] not in match.look().targets()
    match.world.health[0, 1, slot] = 0
    assert names[behind] in match.look().targets()


def test_minions_do_not_attack_protected_structures(arena):
    """A minion beside the inner turret leaves it alone while the outer one stands."""
    match = arena().unit(0, 1, 97.0, attack=20.0, health=5000.0).step(times=3)
    assert match.world.health[0, 1, INNER] == 3200.0


# -- the end ----------------------------------------------------------------------------------------------------------


def fall(match, side):
    """Let a minion of the other side destroy the crystal of a side."""
    match.world.health[0, side, [OUTER, INNER]] = 0
    match.world.health[0, side, CRYSTAL] = 1.0
    return match.unit(1 - side, 1, 111.0, attack=20.0).step()


@pytest.mark.parametrize("winner", [0, 1])
def test_a_match_ends_with_a_crystal(arena, winner):
    """The other side wins."""
    match = fall(arena(), 1 - winner)
    assert match.tick.terminated[0]
    assert match.tick.outcome[0, winner] == 1
    assert match.part("win")[winner] == 5.0
    assert not match.seen.acting.any()


def test_an_ended_match_is_idle(arena):
    """It does not end again, and earns nothing."""
    match = fall(arena(), 0).step()
    assert not match.tick.terminated[0]
    assert not match.seen.reward.any()


def test_more_structures_win_at_the_time_limit(arena):
    """The side with more health of structures wins."""
    match = arena(time_limit_s=1.33)
    match.world.health[0, 0, OUTER] -= 100
    match.step(times=10)
    assert match.tick.terminated[0]
    assert match.tick.outcome[0].tolist() == [0.0, 1.0]


def test_equal_structures_are_a_draw(arena):
    """At the time limit."""
    match = arena(time_limit_s=1.33).step(times=10)
    assert match.tick.terminated[0]
    assert match.tick.outcome[0].tolist() == [0.5, 0.5]


# -- vision -----------------------------------------------------------------------------------------------------------


def sees(match, seat=0):
    """Return whether a seat sees the enemy hero."""
    return bool(match.seen.observation["enemy_hero_present"][0, seat, 0])


def test_heroes_see_13_units_far(arena):
    """Both see each other, or neither does."""
    assert sees(arena().face(12.5))
    assert not sees(arena().face(13.5))


def test_minions_see_for_their_hero(arena):
    """A minion near the enemy hero shows it."""
    match = arena().face(30.0)
    assert not sees(match)
    assert sees(match.unit(0, 1, 85.0))


def test_brush_hides_heroes(arena):
    """From 5 units, but not from 2."""
    match = arena().hero(1, 120.0 - 50.0, 5.0).hero(0, 45.0, 5.0)
    assert not sees(match)
    assert "hero" not in match.targets()
    assert sees(match.hero(0, 48.0 - 0.5, 5.0).hero(1, 120.0 - 49.0, 5.0))


def test_heroes_in_the_same_brush_see_each_other(arena):
    """Also farther away than 3 units."""
    assert sees(arena().hero(1, 120.0 - 55.0, 5.0).hero(0, 49.0, 5.0))


def test_brush_does_not_blind(arena):
    """A hero in brush sees out of it."""
    assert sees(arena().hero(0, 50.0, 5.0).hero(1, 120.0 - 45.0, 5.0))


def test_the_privileged_leaf_shows_hidden_heroes(arena):
    """Its place in the frame of the seat."""
    match = arena().face(40.0)
    hidden = match.seen.privileged["hidden"][0, 0]
    assert hidden[0] == pytest.approx((60.0 + 40.0) / 120.0)
    assert hidden[-1] == 0


# -- economy ----------------------------------------------------------------------------------------------------------


def test_gold_comes_with_time(arena):
    """Two per second."""
    assert arena().step(times=15).tally("gold") == pytest.approx(2 * 15 * 0.133, abs=1e-3)


def test_last_hits_earn_gold(arena):
    """36 for a melee minion, and experience."""
    match = arena().hero(0, 58.0, 15.0).unit(1, 1, 59.0, health=20.0, attack=0.0).step("attack:at=melee1")
    assert match.tally("last_hits") == 1
    assert match.tally("gold") == pytest.approx(36 + 0.266, abs=1e-3)
    assert match.tally("experience") == 48
    assert match.part("last_hit") == [0.2, -0.2]


def test_minions_take_last_hits_away(arena):
    """Damage of units applies first; the hero still gains experience."""
    match = arena().hero(0, 58.0, 15.0).unit(0, 1, 60.0, attack=30.0).unit(1, 1, 59.0, health=20.0, attack=0.0)
    match.step("attack:at=melee1")
    assert match.tally("last_hits") == 0
    assert match.tally("experience") == 48


def test_distant_heroes_gain_no_experience(arena):
    """Beyond 14 units."""
    match = arena().hero(0, 40.0, 15.0).unit(0, 1, 60.0, attack=30.0).unit(1, 1, 59.0, health=20.0).step()
    assert match.tally("experience") == 0


def test_levels_follow_experience(arena):
    """Level 2 at 122; health grows with it."""
    match = arena().hero(0, experience=122.0)
    before = match.of("max_health")
    match.step()
    assert match.of("level") == 2
    assert match.of("max_health") == before + HEROES[0].health[1]


def test_items_are_bought_in_the_base(arena):
    """The first one costs 300; elsewhere gold is kept."""
    assert arena().hero(0, 30.0, gold=300.0).step().of("items") == 0
    match = arena().hero(0, 4.0, gold=300.0).step()
    assert match.of("items") == 1
    assert match.of("gold") < 1.0
    assert match.of("power") == HEROES[0].power[0] + HEROES[0].power[2]


def test_there_are_six_items(arena):
    """More gold buys no more."""
    assert arena().hero(0, 4.0, gold=9999.0).step(times=9).of("items") == 6


# -- recovery ---------------------------------------------------------------------------------------------------------


def test_the_base_returns_health(arena):
    """12 % per second."""
    match = arena(scenario={"health_0": 0.5}).step()
    assert match.of("health") / match.of("max_health") == pytest.approx(0.5 + 0.12 * 0.133, abs=1e-4)


def test_recall_takes_six_seconds(arena):
    """The hero is in its base afterwards."""
    match = arena().hero(0, 50.0).step("recall").step(times=44)
    assert match.of("x") == 50.0
    assert match.step().of("x") == rules.START_X


@pytest.mark.parametrize("button", ["move:to=14,7", "attack", "heal"])
def test_other_buttons_stop_a_recall(arena, button):
    """It starts again from the beginning."""
    match = arena().hero(0, 50.0).step("recall").step(times=5)
    assert match.of("recall") > 0
    assert match.step(button).of("recall") == 0


def test_damage_stops_a_recall(arena):
    """Of a minion."""
    match = arena().hero(0, 50.0, 15.0).step("recall").unit(1, 1, 69.5, attack=10.0).step()
    assert match.lost(0) > 0
    assert match.of("recall") == 0


def test_the_base_needs_no_recall(arena):
    """The button is illegal there."""
    assert "recall" not in arena().legal()


def test_heal_returns_22_percent(arena):
    """And waits for 50 s."""
    match = arena(scenario={"health_0": 0.5}).hero(0, 30.0).step("heal")
    assert match.of("health") / match.of("max_health") == pytest.approx(0.72 + 0.004 * 0.133, abs=1e-4)
    assert "heal" not in match.legal()
    assert match.of("heal_wait") == rules.ticks_of(50.0)


def test_health_packs(arena):
    """A pack returns 20 % and is away for 40 s."""
    match = arena(scenario={"health_0": 0.5}).hero(0, rules.PACK_X, rules.PACK_Y).step()
    assert match.of("health") / match.of("max_health") == pytest.approx(0.7 + 0.004 * 0.133, abs=1e-4)
    assert match.of("pack_wait", 0) == rules.ticks_of(40.0)
    assert match.of("pack_wait", 1) == 0
    assert match.step().of("health") / match.of("max_health") < 0.71


def test_packs_of_the_enemy(arena):
    """Can be taken too."""
    match = arena(scenario={"health_0": 0.5}).hero(0, 120.0 - rules.PACK_X, rules.PACK_Y).step()
    assert match.of("health") / match.of("max_health") > 0.69
    assert match.of("pack_wait", 1) > 0


# -- monster ----------------------------------------------------------------------------------------------------------


def with_monster(match):
    """Place the monster at once, and seat 0 beside it."""
    match.world.monster_wait[0] = 0
    match.world.monster_health[0] = 1300.0
    return match.hero(0, 58.0, rules.MONSTER_Y)


def test_the_monster_appears(arena):
    """After 30 s."""
    match = arena()
    match.world.monster_wait[0] = 2
    assert match.step().world.monster_health[0] == 0
    assert match.step().world.monster_health[0] == 1300


def test_the_monster_attacks_only_who_provokes_it(arena):
    """A hero beside it is safe until it attacks."""
    match = with_monster(arena()).step(times=3)
    assert match.lost(0) == 0
    match.step("attack:at=monster").step(times=2)
    assert match.lost(0) == pytest.approx(60 * 100 / 120, abs=2)


def test_the_monster_forgets(arena):
    """Its health is full again 3 s after the last attack."""
    match = with_monster(arena()).step("attack:at=monster")
    assert match.world.monster_health[0] < 1300
    match.hero(0, 30.0).step(times=25)
    assert match.world.monster_health[0] == 1300


def test_the_monster_pays(arena):
    """110 gold and 140 experience to the hero that finishes it, which returns after a minute."""
    match = with_monster(arena())
    match.world.monster_health[0] = 10.0
    match.world.provoked[0, 0] = 5
    match.step("attack:at=monster")
    assert match.tally("gold") == pytest.approx(110 + 0.266, abs=1e-3)
    assert match.tally("experience") == 140
    assert match.world.monster_wait[0] == rules.ticks_of(60.0)


# -- rewards ----------------------------------------------------------------------------------------------------------


def test_every_part_sums_to_zero(arena):
    """In a fight of both heroes with minions."""
    match = arena("warrior", "mage").face(2.0).unit(0, 1, 61.0, attack=20.0).unit(1, 1, 60.0, attack=20.0)
    for _ in range(20):
        match.step("attack", "attack")
        for part in match.seen.reward_parts.values():
            assert part[0, 0] == -part[0, 1]


def test_tower_rewards_follow_health(arena):
    """5 per share of the health of a structure."""
    match = arena().unit(0, 13, 78.0, attack=50.0, reach=7.0).step()
    lost = 2 * 50.0 * 100 / 140 / 2600
    assert match.part("tower") == [pytest.approx(5 * lost, abs=1e-3), pytest.approx(-5 * lost, abs=1e-3)]


def test_weights_are_options(arena):
    """A weight of 0 removes a part."""
    match = arena(tower=0.0).unit(0, 13, 78.0, attack=50.0, reach=7.0).step()
    assert match.part("tower") == [0.0, 0.0]


def test_units_have_one_entry_per_slot(arena):
    """Present entities are those that live."""
    match = arena().unit(0, 4, 30.0)
    seen = match.seen.observation
    assert seen["own_minions_present"][0, 0].tolist() == [0, 0, 0, 1] + [0] * 10
    assert seen["enemy_structures_present"][0, 0].tolist() == [1, 1, 1]
    assert match.world.health.shape == (1, 2, UNITS)
    assert match.world.health[0, 0, HERO] > 0
