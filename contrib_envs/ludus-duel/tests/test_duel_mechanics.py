"""Every mechanic, tick by tick, against values computed by hand from the rules.

A tick is 100 ms; a strike with a startup of 500 ms that is begun now lands in the fifth step.
"""

from __future__ import annotations

import pytest

SIDES = ("left", "top", "right")


# -- strikes ---------------------------------------------------------------------------------------------------------


def test_a_light_attack_lands_in_its_fifth_tick(ring):
    """500 ms of startup, 10 damage, nothing before."""
    fight = ring().step("light-left").step(times=3)
    assert fight.health(1) == 120
    assert fight.step().health(1) == 110
    assert fight.step(times=10).health(1) == 110


def test_a_light_attack_binds_its_fighter_for_nine_ticks(ring):
    """5 until it lands, 4 of recovery;the target is bound for 5 from there on."""
    fight = ring().step("light-left")
    assert not fight.acting(0)
    assert fight.acting(1)
    fight.step(times=4)
    assert not fight.acting(1)
    assert fight.animation(1) == "hurt"
    fight.step(times=3)
    assert not fight.acting(0)
    assert fight.step().acting(0)
    assert not fight.acting(1)
    assert fight.step().acting(1)


def test_a_heavy_attack_lands_in_its_eighth_tick(ring):
    """800 ms of startup, 26 damage; bound for 8 + 1 + 5 ticks; the target for 7."""
    fight = ring().step("heavy-right").step(times=6)
    assert fight.health(1) == 120
    assert fight.step().health(1) == 94
    assert fight.until_free(0) == 6
    assert fight.until_free(1) == 1


def test_an_attack_lands_once(ring):
    """A heavy attack is active for two ticks and takes 26 in all."""
    assert ring().step("heavy-left").step(times=12).health(1) == 94


def test_attacks_miss_out_of_reach(ring):
    """A light attack glides 40 cm and reaches 220."""
    assert ring(distance=261).step("light-left").step(times=8).health(1) == 120
    assert ring(distance=260).step("light-left").step(times=8).health(1) == 110


def test_a_lunge_closes_the_distance(ring):
    """It glides 260 cm in 900 ms and reaches 220; 85 % of a heavy attack's damage."""
    fight = ring(distance=400).step("lunge-top").step(times=8)
    assert fight.distance() == 140
    assert fight.health(1) == pytest.approx(120 - 3.9, abs=0.01)  # stances start at the top: blocked
    assert ring(distance=400).step("lunge-left").step(times=8).health(1) == pytest.approx(120 - 22.1, abs=0.01)


def test_a_hit_interrupts_an_attack(ring):
    """A light attack that begins two ticks after a heavy one lands first."""
    fight = ring().step("heavy-left").step().step(second="light-right").step(times=12)
    assert (fight.health(0), fight.health(1)) == (110, 120)


def test_simultaneous_hits_trade(ring):
    """Both attack on the same tick and both are hit."""
    fight = ring().step("light-left", "light-right").step(times=4)
    assert (fight.health(0), fight.health(1)) == (110, 110)
    assert (fight.animation(0), fight.animation(1)) == ("hurt", "hurt")
    assert fight.until_free(0) == 5
    assert fight.acting(1)


def test_a_light_and_a_heavy_attack_that_land_together_trade(ring):
    """Both deal their damage."""
    fight = ring().step("heavy-left").step(times=2).step(second="light-right").step(times=4)
    assert (fight.health(0), fight.health(1)) == (110, 94)


# -- guard ---------------------------------------------------------------------------------------------------------


def test_the_stance_blocks_strikes_from_its_side(ring):
    """A blocked light attack does nothing; its fighter recoils for 4 ticks, the target is bound for 1."""
    fight = ring().step("light-top").step(times=4)
    assert fight.health(1) == 120
    assert (fight.animation(0), fight.animation(1)) == ("recoil", "guard")
    assert fight.until_free(1) == 1
    assert fight.until_free(0) == 3


@pytest.mark.parametrize("strike", SIDES)
@pytest.mark.parametrize("stance", SIDES)
def test_only_the_same_side_is_blocked(ring, stance, strike):
    """Nine combinations, three of which block."""
    fight = ring().step(second=f"stance-{stance}").step(times=2).step(f"light-{strike}").step(times=4)
    assert fight.health(1) == (120 if stance == strike else 110)


def test_a_blocked_heavy_attack_takes_a_little(ring):
    """15 % of 26, and the target is bound for 3 ticks."""
    fight = ring().step("heavy-top").step(times=7)
    assert fight.health(1) == pytest.approx(116.1)
    assert fight.until_free(1) == 3


@pytest.mark.parametrize(("waited", "health"), [(3, 120), (4, 110)])
def test_changing_the_stance_takes_two_ticks(ring, waited, health):
    """A change that begins two ticks before the strike lands blocks it; one tick before, it does not."""
    fight = ring().step("light-left")
    fight.step(times=waited - 1).step(second="stance-left").step(times=5 - waited)
    assert fight.health(1) == health


def test_there_is_no_guard_while_the_stance_changes(ring):
    """A strike from the old side hits."""
    assert ring().step("light-top").step(times=3).step(second="stance-left").health(1) == 110


def test_going_back_to_the_old_stance_is_free(ring):
    """A change back to the current stance takes no time."""
    fight = ring().step("light-top").step(times=2).step(second="stance-left").step(second="stance-top")
    assert fight.health(1) == 120


def test_repeating_a_stance_does_not_restart_the_change(ring):
    """The change takes two ticks however often the action is repeated."""
    fight = ring().step(second="stance-left").step(second="stance-left")
    assert fight.shows("own-turning", 1) == 0
    assert fight.shows("own-stance-left", 1) == 1


def test_a_strike_sets_the_stance(ring):
    """After an attack from the right, the stance is right at once."""
    assert ring().step("light-right").shows("own-stance-right", 0) == 1


# -- parry ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("waited", "works"), [(4, False), (5, True), (6, True), (7, False)])
def test_a_parry_works_in_a_window_of_two_ticks(ring, waited, works):
    """From 300 to 200 ms before the strike lands, as `parry-now` shows."""
    fight = ring().step("heavy-left").step(times=waited - 1)
    assert fight.shows("parry-now", 1) == works
    fight.step(second="parry-left").step(times=7 - waited)
    assert fight.health(1) == (120 if works else 94)


def test_a_parry_frees_at_once_and_binds_the_attacker(ring):
    """For 7 ticks and 20 stamina after a heavy attack: a light attack is certain, a heavy one is not."""
    fight = ring().step("heavy-left").step(times=4).step(second="parry-left").step(times=2)
    assert fight.acting(1)
    assert fight.animation(0) == "parried"
    assert fight.stamina(0) == 120 - 16 - 20
    fight.step(second="light-left").step(times=4)
    assert fight.health(0) == 110


def test_a_parried_light_attack_is_worse(ring):
    """9 ticks: a heavy attack is certain."""
    fight = ring().step("light-left").step(times=2).step(second="parry-left").step()
    assert fight.animation(0) == "parried"
    assert fight.step(second="heavy-left").step(times=7).health(0) == 94


@pytest.mark.parametrize("side", ["top", "right"])
def test_a_parry_on_the_wrong_side_is_hit(ring, side):
    """A parry works only on the side of the strike."""
    assert ring().step("heavy-left").step(times=4).step(second=f"parry-{side}").step(times=2).health(1) == 94


def test_a_missed_parry_binds(ring):
    """For 7 ticks, without a guard."""
    fight = ring().step(second="parry-top")
    assert fight.shows("own-guard", 1) == 0
    assert fight.until_free(1) == 6


# -- feint ---------------------------------------------------------------------------------------------------------


def test_a_heavy_attack_can_be_feinted_for_six_ticks(ring):
    """Its fighter acts in that window only, which ends 200 ms before it lands."""
    fight, free = ring().step("heavy-left"), []
    for _ in range(7):
        free.append(fight.acting(0))
        fight.step()
    assert free == [True] * 6 + [False]
    assert fight.health(1) == 94


def test_a_feint_costs_stamina_and_two_ticks(ring):
    """16 for the attack and 8 for the feint; nothing lands."""
    fight = ring().step("heavy-left").step(times=5).step("feint")
    assert fight.stamina(0) == 96
    assert fight.until_free(0) == 1
    assert fight.step(times=5).health(1) == 120


def test_a_light_attack_cannot_be_feinted(ring):
    """Its fighter does not act before the end."""
    assert not ring().step("light-left").acting(0)


def test_a_late_feint_punishes_a_parry(ring):
    """Both decide on the same tick; the guard break catches a fighter that cannot counter."""
    fight = ring(distance=150).step("heavy-left").step(times=5).step("feint-guard-break", "parry-left").step(times=3)
    assert fight.animation(1) == "broken"
    assert not fight.acting(1)
    fight.step().step("heavy-right").step(times=7)
    assert fight.health(1) == 94


def test_a_feint_into_a_light_attack_is_too_fast_to_block(ring):
    """It lands in its second tick; a stance change in reaction comes a tick late."""
    fight = ring(distance=150).step("heavy-left").step(times=3).step("feint-light-right")
    assert fight.step(second="stance-right").health(1) == 112


# -- guard break ---------------------------------------------------------------------------------------------------


def test_a_guard_break_holds_a_free_fighter(ring):
    """Whatever the stance, in its fourth tick; it takes no health."""
    fight = ring(distance=150).step("guard-break").step(times=3)
    assert fight.animation(1) == "held"
    assert fight.health(1) == 120
    assert fight.until_free(0) == 1


@pytest.mark.parametrize("waited", [0, 1])
def test_a_guard_break_can_be_countered(ring, waited):
    """On two ticks; then the holder recoils for 4 ticks and both stand 80 cm further apart."""
    fight = ring(distance=150).step("guard-break").step(times=3 + waited)
    assert fight.legal(1) == {"wait", "counter"}
    before = fight.distance()
    fight.step(second="counter")
    assert fight.animation(0) == "recoil"
    assert fight.distance() == before + 80
    assert fight.until_free(1) == 1
    assert fight.until_free(0) == 2


def test_a_counter_comes_too_late_after_two_ticks(ring):
    """The fighter is held for 10 ticks, in which a heavy attack is certain."""
    fight = ring(distance=150).step("guard-break").step(times=4).step("heavy-right")
    assert not fight.acting(1)
    assert fight.step(times=7).health(1) == 94


def test_a_counter_cancels_the_action_of_the_holder(ring):
    """Both decide on the second tick of the window."""
    fight = ring(distance=150).step("guard-break").step(times=4).step("heavy-right", "counter").step(times=10)
    assert fight.health(1) == 120


@pytest.mark.parametrize("defence", ["dodge-left", "dodge-back", "parry-top", "breathe"])
def test_a_guard_break_beats_dodges_and_parries(ring, defence):
    """A fighter caught in an animation cannot counter."""
    fight = ring(distance=100).step("guard-break", defence).step(times=3)
    assert fight.animation(1) == "broken"


def test_a_guard_break_loses_to_an_attack(ring):
    """The guard break bounces off, and the attack lands."""
    fight = ring(distance=150).step("guard-break", "light-left").step(times=3)
    assert fight.animation(0) == "recoil"
    assert fight.step().health(0) == 110


def test_guard_breaks_bounce_off_each_other(ring):
    """Both recoil."""
    fight = ring(distance=150).step("guard-break", "guard-break").step(times=3)
    assert (fight.animation(0), fight.animation(1)) == ("recoil", "recoil")


def test_a_held_fighter_cannot_be_held_again(ring):
    """A second guard break misses a held target."""
    fight = ring(distance=150).step("guard-break").step(times=4).step("guard-break").step(times=3)
    assert fight.animation(1) == "held"
    assert fight.until_free(1) == 5


# -- throws and walls ----------------------------------------------------------------------------------------------


def test_a_throw_pushes_a_held_target(ring):
    """4 damage and 250 cm; throws are legal only then."""
    fight = ring(distance=150)
    assert "throw-forward" not in fight.legal(0)
    fight.step("guard-break").step(times=4)
    assert {"throw-forward", "throw-back"} <= fight.legal(0)
    before = fight.distance()
    fight.step("throw-forward").step()
    assert (fight.health(1), fight.animation(1)) == (116, "thrown")
    assert fight.distance() == before + 250


def test_a_throw_against_the_wall_hurts(ring):
    """12 damage more, and the fighter falls for 11 ticks: a heavy attack is certain."""
    fight = ring(distance=150, scenario={"room_0": 750}).step("guard-break").step(times=4).step("throw-forward").step()
    assert (fight.health(1), fight.animation(1)) == (104, "fallen")
    assert fight.shows("own-room", 1) == 0
    assert fight.until_free(1) == 11


def test_a_throw_back_exchanges_the_sides(ring):
    """A fighter at the wall throws the opponent against it."""
    fight = ring(distance=150, scenario={"room_0": 80}).step("guard-break").step(times=4).step("throw-back").step()
    assert fight.animation(1) == "fallen"
    assert fight.shows("own-room", 0) == pytest.approx(0.77)
    assert fight.distance() == 230


def test_walls_stop_fighters(ring):
    """At the wall a retreat stops."""
    fight = ring(scenario={"room_0": 20}).step("retreat")
    assert fight.shows("own-room", 0) == pytest.approx(0.008)
    assert fight.step("retreat").shows("own-room", 0) == 0
    assert fight.shows("own-speed", 0) == pytest.approx(-8 / 60)


def test_fighters_stop_at_each_other(ring):
    """Two walking fighters share the space above 100 cm."""
    fight = ring(distance=110).step("advance", "advance")
    assert fight.distance() == 100
    assert fight.shows("own-speed", 0) == fight.shows("own-speed", 1) == pytest.approx(5 / 60)


def test_a_retreat_makes_room_for_an_advance(ring):
    """At the minimum distance, an advance of 20 cm against a retreat of 12 cm moves 12 cm."""
    fight = ring(distance=100).step("advance", "retreat")
    assert fight.distance() == 100
    assert fight.shows("own-speed", 0) == -fight.shows("own-speed", 1) == pytest.approx(12 / 60)


def test_walking_does_not_bind(ring):
    """20 cm forward and 12 back in a tick, and the guard stays up."""
    fight = ring(distance=300).step("advance", "retreat")
    assert fight.distance() == 292
    assert fight.acting(0)
    assert fight.shows("own-guard", 0) == 1


# -- dodges --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dodge", "strike", "evaded"),
    [
        ("left", "left", False),
        ("left", "top", True),
        ("left", "right", True),
        ("right", "left", True),
        ("right", "top", True),
        ("right", "right", False),
    ],
)
def test_a_side_dodge_evades_all_but_strikes_from_its_side(ring, dodge, strike, evaded):
    """The dodge begins two ticks before a light attack lands."""
    fight = ring().step(f"light-{strike}").step(times=2).step(second=f"dodge-{dodge}").step()
    assert fight.health(1) == (120 if evaded else 110)


@pytest.mark.parametrize(("waited", "evaded"), [(1, False), (2, True), (3, True), (4, True)])
def test_a_dodge_is_invulnerable_in_its_first_three_ticks(ring, waited, evaded):
    """A light attack lands in its fifth tick; a dodge that begins one tick after it is in its fourth then."""
    fight = ring().step("light-top").step(times=waited - 1).step(second="dodge-right").step(times=4 - waited)
    assert fight.health(1) == (120 if evaded else 110)


def test_a_heavy_attack_outlasts_an_early_dodge(ring):
    """It is active for two ticks: a dodge must cover both."""
    early = ring().step("heavy-left").step(times=4).step(second="dodge-right").step(times=4)
    assert early.health(1) == 94
    late = ring().step("heavy-left").step(times=5).step(second="dodge-right").step(times=4)
    assert late.health(1) == 120


def test_a_dodge_leads_to_a_strike(ring):
    """The fighter acts from the second to the fourth tick; the strike deals 14."""
    fight = ring().step("dodge-left")
    assert not fight.acting(0)
    fight.step()
    assert fight.legal(0) == {"wait", "strike-left"}
    assert fight.step("strike-left").step(times=3).health(1) == 106


def test_a_forward_dodge_leads_to_a_bash(ring):
    """It deals no damage, cannot be blocked, and makes a light attack certain."""
    fight = ring(distance=300).step("dodge-forward").step().step("bash").step(times=2)
    assert fight.animation(1) == "hurt"
    assert fight.health(1) == 120
    assert fight.until_free(0) == 2
    assert fight.step("light-top").step(times=4).health(1) == 110


def test_a_dodge_back_moves_away(ring):
    """It moves 180 cm."""
    assert ring(distance=200).step("dodge-back").step(times=5).distance() == 380


def test_a_sweep_catches_side_dodges(ring):
    """It cannot be evaded to the side, only blocked on the left."""
    assert ring().step("sweep").step(times=3).step(second="dodge-right").step().health(1) == 104
    blocked = ring().step(second="stance-left").step().step("sweep").step(times=5)
    assert blocked.health(1) == 120
    assert blocked.animation(0) == "parried"


# -- stamina -------------------------------------------------------------------------------------------------------


def test_stamina_returns_after_a_pause(ring):
    """None for 800 ms after it was spent, then 25 a second."""
    fight = ring().step("light-left")
    assert fight.stamina(0) == 110
    assert fight.step(times=7).stamina(0) == 110
    assert fight.step().stamina(0) == 112.5
    assert fight.step(times=10).stamina(0) == 120


def test_breathing_returns_stamina_faster(ring):
    """65 a second for 800 ms, without a pause, and no guard."""
    fight = ring(scenario={"stamina_0": 0.5}).step("breathe")
    assert fight.stamina(0) == 66.5
    assert fight.shows("own-guard", 0) == 0
    assert fight.until_free(0) == 7
    assert fight.stamina(0) == 112


def test_exhausted_fighters_have_fewer_actions(ring):
    """No feints, guard breaks, lunges, sweeps; attacks, parries and dodges remain."""
    fight = ring(scenario={"stamina_0": 0.0}, stamina_per_s=0.0)
    assert fight.shows("own-exhausted", 0) == 1
    gone = ring().legal(0) - fight.legal(0)
    assert gone == {"guard-break", "lunge-left", "lunge-top", "lunge-right", "sweep"}
    assert not fight.step("heavy-left").acting(0)


def test_exhausted_fighters_attack_slower(ring):
    """A light attack lands in its seventh tick and costs nothing."""
    fight = ring(scenario={"stamina_0": 0.0}, stamina_per_s=0.0).step("light-left").step(times=5)
    assert fight.health(1) == 120
    assert fight.step().health(1) == 110
    assert fight.stamina(0) == 0


def test_exhausted_fighters_parry_at_normal_speed(ring):
    """Only attacks are slower."""
    assert ring(scenario={"stamina_0": 0.0}).step("parry-left").until_free(0) == 6


def test_exhausted_fighters_cannot_counter(ring):
    """A guard break is certain."""
    fight = ring(distance=150, scenario={"stamina_1": 0.0}, stamina_per_s=0.0).step("guard-break")
    assert fight.step(times=3).animation(1) == "broken"


def test_exhaustion_ends_at_half(ring):
    """60 of 120: 24 ticks at 2.5 each."""
    fight = ring(scenario={"stamina_0": 0.0}).step(times=23)
    assert fight.shows("own-exhausted", 0) == 1
    assert fight.step().shows("own-exhausted", 0) == 0


def test_spending_all_stamina_exhausts(ring):
    """Three sweeps of 40 in a row."""
    fight = ring(distance=400, stamina_per_s=0.0)
    for _ in range(3):
        assert fight.shows("own-exhausted", 0) == 0
        fight.step("sweep").until_free(0)
    assert (fight.stamina(0), fight.shows("own-exhausted", 0)) == (0, 1)
