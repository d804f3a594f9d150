"""The rules, by scripted situations. Places are in the frame of seat 0, on a field of 24 by 24."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_skirmish import kinds
from ludus_skirmish.actions import DIRECTIONS
from ludus_skirmish.kinds import KINDS

FAR = ("brute", 23.0, 23.0)


# -- movement


@pytest.mark.parametrize("name", DIRECTIONS)
def test_units_move_in_eight_directions(field, name):
    """By their speed times the tick, whatever the direction."""
    match = field([("archer", 12, 12)], [FAR]).step(f"move:{name}")
    x, y = match.place()
    expected = {"e": (1, None), "w": (-1, None), "n": (None, -1), "s": (None, 1)}
    assert np.hypot(x - 12, y - 12) == pytest.approx(3.2 * 0.25, abs=1e-5)
    for letter in name:
        axis = 0 if letter in "ew" else 1
        assert np.sign((x - 12, y - 12)[axis]) == expected[letter][axis]


def test_directions_are_those_of_the_side(field):
    """East is towards the enemy, for seat 1 to the left of the picture."""
    match = field([("archer", 5, 12)], [("archer", 20, 12)]).step("stop", "move:e")
    assert match.place(1) == (pytest.approx(20 - 0.8), 12)


def test_units_stop(field):
    """Without a move or an attack, also next to an enemy."""
    match = field([("archer", 12, 12)], [("archer", 14, 12)]).step(times=3)
    assert match.place() == (12, 12)
    assert match.lost(1) == 0


@pytest.mark.parametrize(("kind", "speed"), [("runner", 4.6), ("walker", 3.0), ("flyer", 4.4)])
def test_kinds_differ_in_speed(field, kind, speed):
    """In units per second."""
    match = field([(kind, 6, 12)], [FAR]).step("move:e", times=4)
    assert match.place()[0] == pytest.approx(6 + speed, abs=1e-4)


def test_units_stay_on_the_field(field):
    """Their bodies end at its edges."""
    match = field([("archer", 0.6, 0.6)], [FAR]).step("move:nw", times=3)
    assert match.place() == (0.5, 0.5)


def test_destroyed_units_do_not_move(field):
    """A unit that is destroyed on a tick stays where it was."""
    match = field([("runner", 12, 12), ("archer", 3, 3)], [("archer", 14, 12)]).put(0, health=5)
    match.step("move:w", "attack:0")
    assert match.place() == (12, 12)


# -- collision


def test_ground_units_push_each_other_apart(field):
    """Both move by half of the overlap."""
    match = field([("archer", 12, 12), ("archer", 12.5, 12)], [FAR]).step()
    assert [match.place(0, slot)[0] for slot in (0, 1)] == pytest.approx([11.75, 12.75])


def test_enemies_collide_too(field):
    """A unit cannot walk through an enemy in front of it."""
    match = field([("walker", 10, 12)], [("walker", 12, 12)]).step("move:e", times=8)
    assert match.place(1)[0] - match.place()[0] == pytest.approx(1.6, abs=0.4)
    assert match.place(1)[0] > 12.5


def test_air_units_do_not_collide(field):
    """Neither with each other nor with units on the ground."""
    match = field([("flyer", 12, 12), ("flyer", 12.2, 12), ("archer", 12.1, 12)], [FAR]).step()
    assert match.place(0, 0) == (12, 12)
    assert match.place(0, 1)[0] == pytest.approx(12.2)
    assert match.place(0, 2)[0] == pytest.approx(12.1)


def test_destroyed_units_do_not_collide(field):
    """Their bodies are gone."""
    match = field([("archer", 12, 12), ("archer", 12.2, 12)], [FAR]).put(0, 1, health=0).step()
    assert match.place() == (12, 12)


# -- attacks


def test_an_attack_takes_health(field):
    """By its damage, on the tick of the order."""
    match = field([("archer", 12, 12)], [("archer", 16, 12)]).step("attack:0")
    assert match.lost(1) == 13


def test_attacks_need_time(field):
    """The next one follows after the period of the kind."""
    match = field([("archer", 12, 12)], [("brute", 16, 12)])
    lost = [match.step("attack:0").lost(1) for _ in range(7)]
    assert lost == [12, 12, 12, 24, 24, 24, 36]


def test_units_may_move_while_they_wait(field):
    """And attack again as soon as the period is over."""
    match = field([("archer", 12, 12)], [("brute", 15, 12)]).step("attack:0").step("move:w").step("move:e")
    assert match.place()[0] == pytest.approx(12)
    assert match.step("attack:0").lost(1) == 24


def test_reach_is_measured_between_bodies(field):
    """An archer reaches 5 units beyond both radii."""
    assert field([("archer", 10, 12)], [("archer", 15.99, 12)]).step("attack:0").lost(1) == 13
    assert field([("archer", 10, 12)], [("archer", 16.01, 12)]).step("attack:0").lost(1) == 0


def test_a_unit_walks_to_a_target_out_of_reach(field):
    """And attacks it there."""
    match = field([("archer", 4, 12)], [("brute", 14, 12)]).step("attack:0")
    assert match.place()[0] == pytest.approx(4.8)
    match.step("attack:0", times=6)
    assert match.lost(1) == 12
    assert match.place()[0] == pytest.approx(8.0, abs=0.02)


def test_a_unit_stops_at_its_reach(field):
    """It walks no further than needed."""
    match = field([("archer", 9.5, 12)], [("archer", 16, 12)]).step("attack:0")
    assert match.place()[0] == pytest.approx(10.0, abs=0.02)
    assert match.step("attack:0").lost(1) == 13


def test_melee_units_attack_what_they_touch(field):
    """A runner reaches 0.3 units beyond the bodies."""
    match = field([("runner", 12, 12)], [("archer", 13.1, 12)]).step("attack:0")
    assert match.lost(1) == 6


def test_attacks_on_a_tick_add_up(field):
    """Three archers take 39 points."""
    match = field([("archer", 12, 11), ("archer", 12, 12), ("archer", 12, 13)], [("archer", 15, 12)])
    assert match.step("attack:0 attack:0 attack:0").lost(1) == 39


def test_both_sides_attack_at_once(field):
    """Two units can destroy each other."""
    match = field([("archer", 12, 12)], [("archer", 15, 12)]).put(0, health=5).put(1, health=5)
    match.step("attack:0", "attack:0")
    assert match.alive(0) == match.alive(1) == []
    assert match.tick.outcome[0].tolist() == [0.5, 0.5]


# -- damage


def test_armour_reduces_each_attack(field):
    """A brute has an armour of 1."""
    assert field([("runner", 12, 12)], [("brute", 13, 12)]).step("attack:0").lost(1) == 5


def test_bonus_damage_against_plating(field):
    """A walker deals 22 points, and 18 more to heavy units, less an armour of 1."""
    assert field([("walker", 10, 12)], [("walker", 14, 12)]).step("attack:0").lost(1) == 39
    assert field([("walker", 10, 12)], [("blade", 14, 12)]).step("attack:0").lost(1) == 21
    assert field([("walker", 10, 12)], [("archer", 14, 12)]).step("attack:0").lost(1) == 22


def test_shields_absorb_damage_first(field):
    """Health suffers what the shield cannot absorb."""
    match = field([("walker", 10, 12)], [("walker", 14, 12)]).put(1, shield=10.0).step("attack:0")
    assert (match.of("shield", 1), match.of("health", 1)) == (0, 220 - 29)


def test_shields_return(field):
    """After five seconds without damage, by 4 points a second."""
    match = field([("walker", 2, 2)], [("brute", 23, 23)]).put(0, shield=50.0, calm=0).step(times=19)
    assert match.of("shield") == 50
    assert match.step(times=4).of("shield") == pytest.approx(54.0)


def test_damage_stops_the_return(field):
    """For another five seconds."""
    match = field([("walker", 12, 12)], [("archer", 15, 12)]).put(0, shield=50.0, calm=100)
    match.step("stop", "attack:0").step(times=19)
    assert match.of("shield") == 50 - 12


def test_shields_have_a_limit(field):
    """That of the kind; units without shield get none."""
    match = field([("walker", 2, 2), ("archer", 5, 5)], [FAR]).put(0, shield=109.5, calm=50).put(0, 1, calm=50)
    match.step(times=2)
    assert (match.of("shield"), match.of("shield", 0, 1)) == (110, 0)


def test_health_does_not_return(field):
    """Only shields do."""
    match = field([("walker", 2, 2)], [FAR]).put(0, health=40.0, calm=100).step(times=10)
    assert match.of("health") == 40


# -- the air


def test_ground_units_cannot_attack_the_air(field):
    """Those without an air reach have no such choice."""
    match = field([("brute", 12, 12), ("archer", 12, 14)], [("flyer", 13, 12)])
    assert match.legal(0, 0) == {"stop", *(f"move:{name}" for name in DIRECTIONS)}
    assert "attack:0" in match.legal(0, 1)


def test_archers_hit_flyers(field):
    """From their air reach."""
    assert field([("archer", 12, 12)], [("flyer", 16, 12)]).step("attack:0").lost(1) == 13


def test_flyers_attack_both(field):
    """The ground and the air."""
    match = field([("flyer", 12, 12)], [("flyer", 14, 12), ("runner", 14, 13)])
    assert {"attack:0", "attack:1"} <= match.legal()
    assert match.step("attack:1").lost(1, 1) == 10


def test_an_attack_may_prefer_the_ground(field):
    """The nearest enemy on the ground, though a flyer is nearer."""
    match = field([("archer", 12, 12)], [("flyer", 13, 12), ("brute", 15, 12)]).step("attack:ground")
    assert (match.lost(1, 0), match.lost(1, 1)) == (0, 12)


def test_an_attack_may_prefer_the_air(field):
    """The nearest flyer, though a brute is nearer."""
    match = field([("archer", 12, 12)], [("brute", 13.5, 12), ("flyer", 15, 12)]).step("attack:air")
    assert (match.lost(1, 0), match.lost(1, 1)) == (0, 13)


def test_a_preference_without_such_enemies(field):
    """It means the nearest enemy."""
    assert field([("archer", 12, 12)], [("brute", 15, 12)]).step("attack:air").lost(1) == 12


def test_the_nearest_enemy_is_attacked(field):
    """Whatever its kind."""
    match = field([("archer", 12, 12)], [("flyer", 16, 12), ("brute", 15, 12)]).step("attack")
    assert (match.lost(1, 0), match.lost(1, 1)) == (0, 12)


def test_the_nearest_enemy_is_one_that_can_be_attacked(field):
    """A brute ignores flyers."""
    match = field([("brute", 12, 12)], [("flyer", 13, 12), ("runner", 15, 12)]).step("attack")
    assert (match.lost(1, 0), match.lost(1, 1)) == (0, 17)


# -- bombers


def test_bombers_explode(field):
    """The blast hits all enemies on the ground around it, and destroys the bomber."""
    right = [("runner", 13, 12), ("archer", 13.5, 13), ("brute", 17, 12), ("flyer", 12.5, 12)]
    match = field([("bomber", 12.2, 12), ("archer", 2, 2)], right).step("attack:0")
    assert match.alive(0) == [1]
    assert [match.lost(1, slot) for slot in range(4)] == [34, 34, 0, 0]


def test_a_blast_spares_its_own_side(field):
    """Friends next to the bomber lose nothing."""
    match = field([("bomber", 12, 12), ("archer", 12, 13)], [("brute", 13, 12)]).step("attack:0")
    assert match.lost(0, 1) == 0


def test_a_bomber_walks_to_its_target(field):
    """It explodes only in reach."""
    match = field([("bomber", 8, 12)], [("brute", 12, 12)]).step("attack:0", times=2)
    assert match.alive(0) == [0]
    assert match.step("attack:0", times=2).alive(0) == []


def test_an_explosion_is_a_loss_but_no_kill(field):
    """Unless the enemy destroys the bomber on the same tick."""
    match = field([("bomber", 12, 12), ("archer", 2, 2)], [("brute", 13, 12)]).step("attack:0")
    assert (match.tally("losses", 0), match.tally("kills", 1)) == (1, 0)
    match = field([("bomber", 12, 12), ("archer", 2, 2)], [("walker", 13, 12)]).put(0, health=3)
    match.step("attack:0", "attack:0")
    assert (match.tally("losses", 0), match.tally("kills", 1)) == (1, 1)


# -- masks and sight


def test_absent_units_can_only_stop(field):
    """Slots without a unit, and destroyed units."""
    match = field([("archer", 12, 12)], [("archer", 15, 12)])
    assert match.legal(0, 3) == {"stop"}
    assert match.put(0, health=0.0).legal() == {"stop"}


def test_destroyed_enemies_are_no_targets(field):
    """Their slots are illegal."""
    match = field([("archer", 12, 12)], [("archer", 15, 12), ("archer", 16, 12)]).put(1, health=0.0)
    assert {name for name in match.legal() if name[-1].isdigit()} == {"attack:1"}


def test_sight_hides_what_is_far(field):
    """Hidden enemies are neither observed nor legal targets."""
    match = field([("archer", 4, 12)], [("archer", 9, 12), ("archer", 20, 12)], sight=8.0)
    assert match.seen.observation["enemy_present"][0, 0, :2].tolist() == [1, 0]
    assert not match.seen.observation["enemy"][0, 0, 1].any()
    assert "attack:1" not in match.legal()


def test_sight_is_shared(field):
    """What one unit sees, all can attack."""
    match = field([("archer", 4, 12), ("runner", 14, 12)], [("archer", 20, 12)], sight=8.0)
    assert "attack:0" in match.legal(0, 0)


def test_critics_see_hidden_enemies(field):
    """In the privileged leaf."""
    match = field([("archer", 4, 12)], [("archer", 20, 12)], sight=8.0)
    hidden = match.seen.privileged["hidden"][0, 0].reshape(25, 5)
    assert hidden[0] == pytest.approx([20 / 24, 0.5, 0.85, 0, 0])


# -- ends of matches and rewards


def test_the_last_army_wins(field):
    """On the tick on which the other one is destroyed."""
    match = field([("archer", 12, 12)], [("runner", 15, 12)]).put(1, health=10.0).step("attack:0")
    assert match.tick.terminated[0]
    assert match.tick.outcome[0].tolist() == [1, 0]
    assert match.part("win") == [1, -1]


def test_value_decides_at_the_time_limit(field):
    """A brute at half of its health is worth as much as a runner, so a little more wins."""
    match = field([("brute", 2, 2)], [("runner", 22, 22)], time_limit_s=2.0).put(0, health=76.0).step(times=8)
    assert match.tick.terminated[0]
    assert match.tick.outcome[0].tolist() == [1, 0]


def test_equal_values_are_a_draw(field):
    """At the time limit."""
    match = field([("archer", 2, 2)], [("archer", 22, 22)], time_limit_s=1.0).step(times=4)
    assert match.tick.terminated[0]
    assert match.tick.outcome[0].tolist() == [0.5, 0.5]
    assert match.part("win") == [0, 0]


def test_damage_is_rewarded_by_its_share(field):
    """Of the mean strength of both armies, once as dealt and once as taken."""
    match = field([("archer", 12, 12)], [("archer", 15, 12)]).step("attack:0")
    assert match.part("dealt") == [round(13 / 85, 4), 0]
    assert match.part("taken") == [0, round(-13 / 85, 4)]


def test_damage_beyond_the_last_health_does_not_count(field):
    """Only what the unit had."""
    match = field([("archer", 12, 12)], [("runner", 15, 12), FAR]).put(1, health=4.0).step("attack:0")
    assert match.tally("dealt") == 4


def test_kills_and_losses_are_rewarded(field):
    """With their own parts; the parts sum to the reward."""
    match = field([("archer", 12, 12)], [("runner", 15, 12), FAR]).put(1, health=4.0).step("attack:0")
    assert match.part("kill") == [0.1, 0]
    assert match.part("loss") == [0, -0.1]
    total = sum(match.seen.reward_parts[name][0, 0] for name in match.seen.reward_parts)
    assert match.seen.reward[0, 0] == pytest.approx(total)


def test_rewards_are_of_one_tick(field):
    """They do not add up."""
    match = field([("archer", 12, 12)], [("archer", 15, 12)]).step("attack:0").step()
    assert match.part("dealt") == [0, 0]


def test_statistics_describe_the_army(field):
    """Kills, damage, and what is left."""
    match = field([("archer", 12, 12)], [("runner", 15, 12), FAR]).put(1, health=4.0).step("attack:0")
    found = {name: values[0].tolist() for name, values in match.seen.statistics.items()}
    assert found == {
        "kills": [1, 0], "losses": [0, 1], "damage_dealt": [4, 0], "damage_taken": [0, 4], "units_left": [1, 1],
        "duration_s": [0.25, 0.25],
    }  # fmt: skip


# -- kinds


def test_ranged_units_outreach_melee_units():
    """And units in the air are hit only by those with an air reach."""
    index = {name: number for number, name in enumerate(KINDS)}
    assert kinds.REACH[index["walker"], index["blade"]] > kinds.REACH[index["blade"], index["walker"]]
    hits_air = {name for name in KINDS if kinds.REACH[index[name], index["flyer"]] > 0}
    assert hits_air == {"flyer", "archer"}
