"""Each rule of the chase against numbers computed by hand; a tick is 0.2 s, a mouse walks 1 cell per tick."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_chase.world import Cheese, Status, Thing

BOMB, PLATE, MILK, BOOTS = 1, 2, 3, 4

# -- walking -------------------------------------------------------------------------------------------------------


def test_agents_walk_in_eight_directions(scene):
    """A mouse walks 1 cell per tick, the cat 1.16, also diagonally."""
    match = scene().step(cat="west", m1="south-east", m2="north")
    assert match.place(0) == (58.84, 40.0)
    assert match.place(1) == (6.707, 8.707)
    assert match.place(2) == (10.0, 7.0)


def test_the_scenario_changes_speeds(scene):
    """By factors, and by 1 % per level."""
    match = scene(scenario={"cat_speed": 0.5, "mouse_speed": 2.0, "mouse_level": 11}).step(cat="west", m1="east")
    assert match.place(0) == (59.42, 40.0)
    assert match.place(1) == (8.2, 8.0)


def test_carrying_slows_agents(scene):
    """Factors of 0.7 and 0.85; boots give 1.5."""
    match = scene().agent(1, 6, 8, hold=0).agent(2, 10, 8, fast=9).agent(0, 60, 40, hold=3)
    match.world.cheese[0, 0] = 1
    match.step(cat="west", m1="east", m2="east")
    assert match.place(1) == (6.7, 8.0)
    assert match.place(2) == (11.5, 8.0)
    assert match.place(0) == (59.014, 40.0)


def test_walls_stop_agents_and_doors_do_not(scene):
    """The wall between the first two rooms is at x = 24; agents slide along it at a distance of 0.4."""
    match = scene()
    house = match.environment._house
    wall = 0
    house.open[0, wall], house.door_y[0, wall] = True, 12.0
    match.agent(1, 23.3, 5.0).agent(2, 23.3, 11.0).agent(3, 23.3, 14.5)
    match.step(m1="east", m2="east", m3="south-east")
    assert match.place(1) == (23.6, 5.0)
    assert match.place(2) == (24.3, 11.0)
    assert match.place(3)[0] == 23.6
    house.open[0, wall] = False
    assert match.agent(2, 23.3, 11.0).step(m2="east").place(2) == (23.6, 11.0)


# -- cheese --------------------------------------------------------------------------------------------------------


def stuck_at(match, x, y, progress=0.0):
    """Put cheese 0 into hole 0 somewhere."""
    match.world.cheese[0, 0], match.world.hole[0, 0] = Cheese.IN_HOLE, 0
    match.world.amount[0, Thing.HOLES.start] = progress
    return match.things([Thing.CHEESES.start, Thing.HOLES.start], x, y).look()


def test_cheese_is_lifted_from_near_and_carried(scene):
    """Cheese within 1.6 cells is lifted, and moves with its carrier."""
    match = scene().cheese_at(7.7, 8.0)
    assert "lift" not in match.legal(1)
    match = match.cheese_at(7.5, 8.0)
    assert "lift" in match.legal(1)
    match.step(m1="lift")
    assert match.part("mouse", "lift_cheese") == [0.05, 0, 0, 0]
    match.step(m1="south")
    assert (match.world.thing_x[0, 0], round(float(match.world.thing_y[0, 0]), 3)) == (6.0, 8.7)
    assert "lift" not in match.legal(1)


def test_one_cheese_has_one_carrier(scene):
    """If two mice lift at once, the one with the lower index gets it."""
    match = scene().agent(2, 7.0, 8.0).cheese_at(6.5, 8.0).step(m1="lift", m2="lift")
    assert match.world.hold[0, 1:].tolist() == [0, -1, -1, -1]


def test_dropped_cheese_stays_in_place(scene):
    """It can be lifted again, which is rewarded only for another mouse."""
    match = scene().cheese_at(6, 8).step(m1="lift").step(m1="east").step(m1="drop")
    assert match.world.hold[0, 1] == -1
    match.step(m1="lift")
    assert match.part("mouse", "lift_cheese") == [0] * 4
    match.step(m1="drop").agent(2, 7, 8).look().step(m2="lift")
    assert match.part("mouse", "lift_cheese") == [0, 0.05, 0, 0]


def test_a_mouse_pushes_a_cheese_through_in_ten_seconds(scene):
    """50 ticks; the tick that puts it into the hole counts."""
    match = scene().cheese_at(6, 8).things([Thing.HOLES.start], 8, 8).step(m1="lift").look()
    match.step(m1="push")
    assert match.world.cheese[0, 0] == Cheese.IN_HOLE
    assert match.part("mouse", "push") == [0.02, 0, 0, 0]
    match.step(m1="push", times=48)
    assert match.world.cheese[0, 0] == Cheese.IN_HOLE
    match.step(m1="push")
    assert match.world.cheese[0, 0] == Cheese.PUSHED
    assert match.part("mouse", "cheese_pushed") == [0.5] * 4
    assert match.part("cat", "cheese_pushed") == [-0.25]
    assert "push" not in match.legal(1)


@pytest.mark.parametrize(("mice", "ticks"), [(1, 50), (2, 17), (3, 9), (4, 5)])
def test_more_mice_push_faster(scene, mice, ticks):
    """Each is faster by ½ for each helper: n · (1 + (n - 1) / 2) times in all; 50, 16.7, 8.3, 5 ticks."""
    match = scene()
    for mouse in range(1, mice + 1):
        match.agent(mouse, 6, 8)
    match = stuck_at(match, 6, 8)
    pushes = {f"m{mouse}": "push" for mouse in range(1, mice + 1)}
    match.step(times=ticks - 1, **pushes)
    assert match.world.cheese[0, 0] == Cheese.IN_HOLE
    assert match.step(**pushes).world.cheese[0, 0] == Cheese.PUSHED


def test_the_reward_for_pushing_is_shared(scene):
    """Two make 3/50 of the way in a tick; each gets half of it."""
    match = stuck_at(scene().agent(2, 7, 8), 6, 8).step(m1="push", m2="push")
    assert match.part("mouse", "push") == [0.03, 0.03, 0, 0]


def test_a_hole_takes_one_cheese(scene):
    """A second mouse keeps its cheese."""
    match = scene().agent(1, 6, 8, hold=0).agent(2, 7, 8, hold=1).things([Thing.HOLES.start], 6, 8)
    match.world.cheese[0, :2] = 1
    match.look().step(m1="push", m2="push")
    assert match.world.hold[0, 1:3].tolist() == [-1, 1]
    assert "push" not in match.legal(2)


def test_cheese_speed_is_a_modifier(scene):
    """Twice as fast: 1/25 in a tick; carrying no longer slows, and never hastens."""
    match = stuck_at(scene(scenario={"cheese_speed": 2.0}), 6, 8).step(m1="push")
    assert match.part("mouse", "push") == [0.04, 0, 0, 0]
    match.agent(2, 10, 8, hold=1).step(m2="east")
    assert match.place(2) == (11.0, 8.0)


# -- capture -------------------------------------------------------------------------------------------------------


def test_a_hit_takes_55_health(scene):
    """It binds the cat for 4 ticks; the mouse flees fast and cannot be hurt for 7."""
    match = scene().beside().step(cat="hit")
    assert match.world.health[0, 1] == 45
    assert match.part("cat", "first_damage") == [0.15]
    assert match.part("mouse", "health") == [-0.165, 0, 0, 0]
    assert [match.acting(0) or match.step().acting(0) for _ in range(4)] == [False, False, False, True]
    match.step(cat="hit")
    assert match.world.health[0, 1] == pytest.approx(45 + 5 * 0.1, abs=1e-3)
    assert match.part("cat", "first_damage") == [0]


def test_hits_miss_out_of_reach_and_through_walls(scene):
    """2 cells, in the same room."""
    match = scene().agent(0, 8.1, 8).look().step(cat="hit")
    assert match.world.health[0, 1] == 100
    match = scene().agent(1, 23.5, 8).agent(0, 24.5, 8).look().step(cat="hit")
    assert match.world.health[0, 1] == 100


def test_a_second_hit_downs_a_mouse(scene):
    """A mouse that goes down drops its cheese and gets up after 50 ticks with 40 health."""
    match = scene().agent(1, 6, 8, health=50, hold=0).beside()
    match.world.cheese[0, 0] = 1
    match.step(cat="hit")
    assert match.world.status[0, 1] == Status.DOWN
    assert match.world.cheese[0, 0] == 0
    assert not match.acting(1)
    match.step(times=48)
    assert match.world.status[0, 1] == Status.DOWN
    match.step()
    assert (match.world.status[0, 1], match.world.health[0, 1]) == (Status.FREE, 40)


def test_power_and_levels_change_damage(scene):
    """55 · 0.5 · 1.10 for a cat of level 3, divided by 1.25 for a mouse of level 6."""
    match = scene(scenario={"hit_power": 0.5, "cat_level": 3, "mouse_level": 6}).beside().step(cat="hit")
    assert match.world.health[0, 1] == pytest.approx(100 - 30.25 / 1.25, abs=1e-3)


def test_a_boost_is_limited_in_time(scene):
    """Twice the power for two ticks."""
    match = stuck_at(scene(scenario={"mouse_boost": 2.0, "boost_s": 0.4}), 6, 8)
    shares = [match.step(m1="push").part("mouse", "push")[0] for _ in range(4)]
    assert shares == [0.04, 0.04, 0.02, 0.02]


def test_a_mouse_that_is_down_can_be_caught(scene):
    """It moves with the cat and breaks free after 100 ticks, which stuns the cat for 5."""
    match = scene().captured()
    assert match.part("cat", "catch") == [0.1]
    assert match.part("mouse", "caught") == [-0.2, 0, 0, 0]
    match.step(cat="south")
    assert match.place(1) == match.place(0) == (7.0, 8.986)
    assert {"hit", "trap", "ability"}.isdisjoint(match.legal(0))
    match.step(times=97)
    assert match.world.status[0, 1] == Status.CARRIED
    match.step()
    assert (match.world.status[0, 1], match.world.hold[0, 0], match.acting(0)) == (Status.FREE, -1, False)
    assert [match.step().acting(0) for _ in range(5)] == [False, False, False, False, True]


def test_a_dropped_mouse_is_down(scene):
    """With the full time to get up."""
    assert scene().captured().step(cat="drop").world.status[0, 1] == Status.DOWN


def tied(match):
    """Let the cat tie mouse 1 to a rocket."""
    return match.captured().things([Thing.ROCKETS.start], 8, 8).look().step(cat="tie")


def test_a_rocket_leaves_after_25_seconds(scene):
    """125 ticks; the mouse is eliminated, and the rocket can be used again."""
    match = tied(scene())
    assert match.part("cat", "tie") == [0.1]
    assert (match.world.status[0, 1], match.place(1)) == (Status.TIED, (8.0, 8.0))
    assert "tie" not in match.legal(0)
    match.step(times=123)
    assert match.world.status[0, 1] == Status.TIED
    match.step()
    assert match.world.status[0, 1] == Status.ELIMINATED
    assert match.part("cat", "eliminate") == [2]
    assert match.part("mouse", "eliminated") == [-2, 0, 0, 0]
    assert match.world.amount[0, Thing.ROCKETS.start] == 0


def test_rocket_time_is_a_modifier(scene):
    """A tenth: 12.5, rounded up to 13 ticks."""
    match = tied(scene(scenario={"rocket_time": 0.1})).step(times=11)
    assert match.world.status[0, 1] == Status.TIED
    assert match.step().world.status[0, 1] == Status.ELIMINATED


@pytest.mark.parametrize(("mice", "ticks"), [(1, 10), (2, 5)])
def test_teammates_rescue_a_mouse_in_two_seconds(scene, mice, ticks):
    """10 ticks for one mouse, 5 for two; it has at least 50 health, and the rescuer is rewarded."""
    match = tied(scene())
    rescuers = {f"m{mouse}": "rescue" for mouse in range(2, 2 + mice)}
    for mouse in range(2, 2 + mice):
        match.agent(mouse, 9, 8)
    match.look().step(times=ticks - 1, **rescuers)
    assert match.world.status[0, 1] == Status.TIED
    match.step(**rescuers)
    assert (match.world.status[0, 1], match.world.health[0, 1]) == (Status.FREE, 100)
    assert match.part("mouse", "rescue") == [0, *[0.5] * mice, *[0] * (3 - mice)]
    assert "tie" not in match.legal(0)


def test_the_cat_wins_by_three_eliminations(scene):
    """5 for the cat, -5 for each mouse."""
    match = scene(scenario={"eliminated": 2})
    assert match.world.status[0, 3:].tolist() == [Status.ELIMINATED, Status.ELIMINATED]
    match = tied(match).step(times=124)
    assert match.tick.terminated.tolist() == [True]
    assert match.tick.outcome.tolist() == [[1, 0]]
    assert match.part("cat", "win") == [5]
    assert match.part("mouse", "win") == [-5] * 4


# -- the way out ---------------------------------------------------------------------------------------------------


def breaking(match, share=1.0):
    """Put the crack beside mouse 1."""
    match.world.amount[0, Thing.CRACK] = share
    return match.things([Thing.CRACK], 6, 7).look()


def test_the_crack_appears_when_all_cheese_is_pushed(scene):
    """With a new time limit of 300 ticks; all agents know its position."""
    match = stuck_at(scene(scenario={"pushed": 4}), 6, 8)
    match.world.cheese[0], match.world.hole[0] = [Cheese.IN_HOLE, 3, 3, 3, 3], [0, 1, 2, 3, 4]
    match.world.amount[0, Thing.HOLES.start] = 0.99
    assert not match.world.present[0, Thing.CRACK]
    match.step(m1="push")
    assert (match.world.stage[0], match.world.left[0]) == (2, 300)
    assert match.world.present[0, Thing.CRACK]
    assert match.world.known[0, :, Thing.CRACK].all()


def test_a_mouse_breaks_the_crack_in_20_seconds(scene):
    """100 ticks; 2 in total for the mouse that breaks it, 1 for each mouse when it opens, and -1 for the cat."""
    match = breaking(scene(scenario={"pushed": 5}))
    match.step(m1="crack")
    assert match.part("mouse", "break_crack") == [0.02, 0, 0, 0]
    assert match.part("cat", "crack_health") == [-0.01]
    match.step(m1="crack", times=98)
    assert match.world.amount[0, Thing.CRACK] > 0
    match.step(m1="crack")
    assert match.part("mouse", "open_crack") == [1] * 4
    assert match.world.amount[0, Thing.CRACK] == 0


def test_two_escapes_win(scene):
    """All mice get 5."""
    match = breaking(scene(scenario={"pushed": 5}).agent(2, 7, 8), share=0.0).step(m1="crack")
    assert match.world.status[0, 1] == Status.ESCAPED
    assert not match.tick.terminated.any()
    assert not match.acting(1)
    match.step(m2="crack")
    assert match.tick.terminated.tolist() == [True]
    assert match.tick.outcome.tolist() == [[0, 1]]
    assert match.part("mouse", "win") == [5] * 4
    assert match.part("cat", "win") == [-5]
    assert not match.step().tick.terminated.any()
    assert not match.tick.roles["mouse"].reward.any()


@pytest.mark.parametrize(("rule", "outcome"), [("cat", [1, 0]), ("draw", [0.5, 0.5]), ("count", [0, 1])])
def test_outcomes_at_the_time_limit(scene, rule, outcome):
    """After 5 ticks, with 2 of 5 cheeses pushed (1/5 of the tasks of mice) and no capture."""
    match = scene(time_over=rule, push_s=1.0, scenario={"pushed": 2}).step(times=4)
    assert not match.tick.terminated.any()
    match.step()
    assert match.tick.terminated.tolist() == [True]
    assert not match.tick.truncated.any()
    assert match.tick.outcome.tolist() == [outcome]


@pytest.mark.parametrize(("pushed", "eliminated", "outcome"), [(0, 0, [0.5, 0.5]), (3, 1, [1, 0]), (4, 1, [0, 1])])
def test_the_count_compares_shares(scene, pushed, eliminated, outcome):
    """3 cheeses are 3/10 of the tasks of mice, 4 are 4/10; a capture is 1/3 of the task of the cat."""
    scenario = {"pushed": pushed, "eliminated": eliminated}
    match = scene(time_over="count", push_s=1.0, scenario=scenario).step(times=5)
    assert match.tick.outcome.tolist() == [outcome]


def test_time_is_a_modifier(scene):
    """Half of 750 ticks."""
    assert scene(scenario={"time": 0.5}).world.left[0] == 375


# -- preparation ---------------------------------------------------------------------------------------------------


def preparing(scene, **options):
    """Return a scene in its preparation."""
    match = scene(scenario={"preparation": 1}, **options)
    match.world.present[0, Thing.CAKES] = True
    return match.look()


def test_scouts_are_fast_and_take_cakes(scene):
    """1.4 cells per tick; 1 for the scout, -1 for the cat, and a level for every mouse afterwards."""
    match = preparing(scene).things([Thing.CAKES.start], 6, 8).look()
    assert match.legal(1) == {*MOVES, "grab"}
    assert match.legal(0) == {*MOVES, "hit"}
    match.step(m1="grab", m2="east")
    assert match.place(2) == (11.4, 8.0)
    assert match.step(m1="east").place(1) == (7.4, 8.0)
    match.step(times=47)
    assert match.world.stage[0] == 0
    match.step()
    assert (match.world.stage[0], match.world.left[0]) == (1, 750)
    assert match.world.level[0].tolist() == [1, 2, 2, 2, 2]
    assert match.place(2) == (round(float(match.world.start_x[0, 2]), 3), round(float(match.world.start_y[0, 2]), 3))
    assert not match.world.present[0, Thing.CAKES].any()


def test_all_agents_are_free_after_the_preparation(scene):
    """Even a cat that is bound by a hit."""
    match = preparing(scene, swing_s=5.0).step(times=48).step(cat="hit")
    assert not match.acting(0)
    assert match.step().acting(0)


def test_the_cat_destroys_scouts(scene):
    """0.5 and -0.5; the scout drops its cake; the cat gains a level, the mouse plays on."""
    match = preparing(scene).things([Thing.CAKES.start], 6, 8).look().step(m1="grab")
    assert match.part("mouse", "cakes") == [1, 0, 0, 0]
    assert match.part("cat", "cakes") == [-1]
    match.beside().step(cat="hit")
    assert match.world.status[0, 1] == Status.WRECKED
    assert match.part("cat", "wreck_scout") == [0.5]
    assert match.part("mouse", "scout_wrecked") == [-0.5, 0, 0, 0]
    assert match.part("cat", "cakes") == [1]
    assert match.part("mouse", "cakes") == [-1, 0, 0, 0]
    assert match.world.present[0, Thing.CAKES.start]
    match.step(times=48)
    assert match.world.level[0].tolist() == [2, 1, 1, 1, 1]
    assert match.acting(1)
    assert match.world.health[0, 1] == 100


# -- seats ---------------------------------------------------------------------------------------------------------


def test_absent_mice_take_no_part(scene):
    """They never act and get no reward; a cat that eliminates two of three mice has not won."""
    match = scene(scenario={"mice": 3})
    assert match.world.status[0, 4] == Status.ABSENT
    assert not match.acting(4)
    match = breaking(match.agent(2, 7, 8), share=0.0)
    match.world.stage[0] = 2
    match.world.present[0, Thing.CRACK] = True
    match.look().step(m1="crack", m2="crack")
    assert match.part("mouse", "win") == [5, 5, 5, 0]


def test_resets_leave_other_matches_alone(play):
    """A reset changes only the given matches."""
    from ludus_chase.config import ChaseConfig
    from ludus_chase.environment import Chase

    environment = Chase(ChaseConfig(), num_matches=2)
    for tick in play(environment, seed=1, steps=30):
        before = tick.roles["mouse"].observation["self"][0].copy()
    tick = environment.reset(np.array([9], np.uint64), indices=np.array([1]))
    assert np.array_equal(before, tick.roles["mouse"].observation["self"][0])
    assert environment._world.ticks.tolist() == [30, 0]


MOVES = {"stay", "east", "south-east", "south", "south-west", "west", "north-west", "north", "north-east"}
