"""Items, traps, gloves and abilities of the chase against numbers computed by hand; a tick is 0.2 s."""

from __future__ import annotations

import pytest
from ludus_chase.world import Status, Thing

BOMB, PLATE, MILK, BOOTS = 1, 2, 3, 4


# -- items ---------------------------------------------------------------------------------------------------------


def holding(match, agent, kind, **fields):
    """Give an agent item 0 of a kind."""
    match.world.kinds[0, 0] = kind
    match.world.present[0, Thing.ITEMS.start] = False
    x, y = match.place(agent)
    return match.agent(agent, x, y, item=0, **fields).look()


def test_items_are_grabbed_and_dropped(scene):
    """One item per agent; the first of two mice gets it."""
    match = scene().things([Thing.ITEMS.start], 6.5, 8).agent(2, 7, 8).look().step(m1="grab", m2="grab")
    assert match.world.item[0].tolist() == [-1, 0, -1, -1, -1]
    assert "grab" not in match.legal(2)
    match.step(m1="drop")
    assert match.world.item[0, 1] == -1
    assert "grab" in match.legal(2)


def test_cheese_is_dropped_before_items(scene):
    """Each action drops one thing."""
    match = holding(scene().cheese_at(6, 8), 1, MILK).step(m1="lift").step(m1="drop")
    assert (match.world.hold[0, 1], match.world.item[0, 1]) == (-1, 0)


def test_milk_heals(scene):
    """50 health for a mouse; the cat's ability and weapons are ready."""
    match = holding(scene().agent(1, 6, 8, health=30), 1, MILK).step(m1="use")
    assert match.world.health[0, 1] == pytest.approx(80.1, abs=1e-3)
    assert match.world.item[0, 1] == -1
    match = holding(scene().agent(0, 60, 40, cooldown=50), 0, MILK)
    match.world.weapons[0] = 40
    match.step(cat="use")
    assert match.world.cooldown[0, 0] == 0
    assert match.world.weapons[0].tolist() == [0, 0]


def test_boots_make_fast(scene):
    """For 25 ticks."""
    match = holding(scene().agent(1, 2, 8), 1, BOOTS).step(m1="use").step(m1="east")
    assert match.place(1) == (3.5, 8.0)
    match.step(times=23)
    assert match.world.fast[0, 1] == 1


def test_a_plate_stuns_the_cat(scene):
    """In its direction within 7 cells, for 6 ticks; a mouse that the cat carries is free, and rescued."""
    match = holding(scene().agent(2, 10, 8).captured(), 2, PLATE).step(m2="use:w")
    assert [match.step().acting(0) for _ in range(6)] == [False] * 5 + [True]
    assert match.world.status[0, 1] == Status.FREE


def test_a_plate_that_frees_a_mouse_is_a_rescue(scene):
    """0.5 for the thrower; nothing for a plate in the opposite direction."""
    match = holding(scene().agent(2, 10, 8).captured(), 2, PLATE).step(m2="use:w")
    assert match.part("mouse", "rescue") == [0, 0.5, 0, 0]
    match = holding(scene().agent(2, 10, 8).captured(), 2, PLATE).step(m2="use:e")
    assert match.world.status[0, 1] == Status.CARRIED


def test_the_plate_of_the_cat_damages_mice(scene):
    """20 damage; the mouse is bound and drops its cheese."""
    match = holding(scene().agent(1, 6, 8, hold=0).agent(0, 6, 11), 0, PLATE)
    match.world.cheese[0, 0] = 1
    match.step(cat="use:n")
    assert match.world.health[0, 1] == 80
    assert (match.world.hold[0, 1], match.acting(1)) == (-1, False)


def test_a_bomb_is_lit_thrown_and_explodes(scene):
    """15 ticks after it was lit, 8 cells away: the cat is stunned for 15, mice within 3.5 cells lose 30 health."""
    match = holding(scene().agent(0, 14, 9).agent(4, 15, 8), 1, BOMB).step(m1="use").step(times=9).step(m1="use:e")
    assert match.part("mouse", "throw_bomb") == [0.15, 0, 0, 0]
    thing = Thing.BOMBS.start + 1
    assert (match.world.thing_x[0, thing], match.world.present[0, thing]) == (14, True)
    match.step(times=3)
    assert match.acting(0)
    match.step()
    assert (match.acting(0), match.world.present[0, thing]) == (False, False)
    assert match.world.health[0].tolist() == [100, 100, 100, 70, 70]
    assert [match.step().acting(0) for _ in range(15)] == [False] * 14 + [True]


def test_an_early_throw_is_not_rewarded(scene):
    """More than 5 ticks before it explodes."""
    match = holding(scene(), 1, BOMB).step(m1="use").step(times=7).step(m1="use:e")
    assert match.part("mouse", "throw_bomb") == [0] * 4


def test_a_held_bomb_explodes(scene):
    """Its holder is hit."""
    match = holding(scene(), 1, BOMB).step(m1="use").step(times=14)
    assert match.world.health[0, 1] == 70
    assert match.world.item[0, 1] == -1


def test_safe_mice_take_no_damage(scene):
    """Not by bombs either."""
    match = holding(scene().agent(1, 6, 8, safe=20), 1, BOMB).step(m1="use").step(times=14)
    assert match.world.health[0, 1] == 100


def test_bombs_stay_in_their_room(scene):
    """They land at least 0.4 cells from a wall."""
    match = holding(scene().agent(1, 20, 8), 1, BOMB).step(m1="use").step(m1="use:e")
    assert match.world.thing_x[0, Thing.BOMBS.start + 1] == pytest.approx(23.6)


# -- traps and gloves ----------------------------------------------------------------------------------------------


def test_a_trap_holds_a_mouse(scene):
    """For 15 ticks, once; the next one can be placed after 50."""
    match = scene().agent(0, 12, 12).look().step(cat="trap")
    assert match.part("cat", "place_trap") == [0.025]
    assert "trap" not in match.legal(0)
    match.agent(1, 11, 11.5).look().step(m1="east")
    assert not match.acting(1)
    assert not match.world.present[0, Thing.TRAPS].any()
    assert [match.step().acting(1) for _ in range(15)] == [False] * 14 + [True]
    match.step(times=33)
    assert "trap" not in match.legal(0)
    match.step()
    assert "trap" in match.legal(0)


def test_a_glove_punches(scene):
    """Four cells away, for 20 health."""
    match = scene().agent(0, 12, 12).look().step(cat="glove").agent(1, 14, 12).step(m1="west")
    assert match.place(1) == (17.0, 12.0)
    assert match.world.health[0, 1] == 80
    assert not match.world.present[0, Thing.GLOVES].any()


def test_the_fourth_trap_replaces_the_first(scene):
    """There are at most three traps."""
    match = scene(trap_s=0.2)
    for x in (58, 60, 62, 64):
        match.agent(0, x, 40).look().step(cat="trap").step()
    assert match.world.thing_x[0, Thing.TRAPS].tolist() == [64, 60, 62]


@pytest.mark.parametrize(("weapon", "part"), [("trap", "disarm_trap"), ("glove", "disarm_glove")])
@pytest.mark.parametrize(("x", "reward"), [(15.0, 0.15), (17.5, 0.0)])
def test_disarming_at_key_locations_is_rewarded(scene, weapon, part, x, reward):
    """Key locations are within 5 cells of a hole, cheese or rocket."""
    match = scene().agent(0, 12, 12).things([Thing.HOLES.start], x, 12).look().step(cat=weapon)
    match.agent(1, 12, 10).look().step(m1="disarm")
    assert not match.world.present[0, Thing.TRAPS.start : Thing.GLOVES.stop].any()
    assert match.part("mouse", part) == [reward, 0, 0, 0]


# -- abilities -----------------------------------------------------------------------------------------------------


def test_the_cat_pounces(scene):
    """It leaps seven cells and hits a mouse in reach; the cooldown is 75 ticks."""
    match = scene().agent(0, 6, 15).agent(1, 6, 7).look().step(cat="ability:n")
    assert match.place(0) == (6.0, 8.0)
    assert match.world.health[0, 1] == 45
    match.step(times=73)
    assert "ability" not in match.legal(0)
    assert "ability" in match.step().step().legal(0)


def test_each_mouse_has_its_own_ability(scene):
    """Sprint, shield, healing, a leap of six cells."""
    match = scene().agent(1, 6, 12, health=50).agent(3, 8, 12, health=90).agent(4, 12, 2).agent(2, 20, 2, health=50)
    match.look().step(m1="ability", m2="ability", m3="ability", m4="ability:s")
    assert match.world.fast[0].tolist() == [0, 15, 0, 0, 0]
    assert match.world.safe[0].tolist() == [0, 0, 15, 0, 0]
    assert match.world.health[0, 1:].round(3).tolist() == pytest.approx([75.1, 50.1, 100, 100], abs=1e-3)
    assert match.place(4) == (12.0, 8.0)
    assert (match.world.cooldown[0, 1:] == 75).all()
