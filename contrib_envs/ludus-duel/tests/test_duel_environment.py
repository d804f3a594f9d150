"""The environment around the fight: contract, observations, rewards, endings, scenarios."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus.environment import Playable, Scenario
from ludus.errors import ContractError
from ludus.rendering import Box, Circle, Label, Line
from ludus.testing import check_environment
from ludus_duel.actions import ACTIONS, NUMBER, parse_action
from ludus_duel.config import DuelConfig
from ludus_duel.environment import SCENARIOS, Duel
from ludus_duel.moves import WINDOWS, legal_actions
from ludus_duel.plugin import ludus_register_environments
from ludus_duel.view import INDEX, SIZE, layout, table

NOTHING = np.zeros((1, 2, 1), np.int64)


def random_play(environment, *, seed, steps, scenarios=None):
    """Yield every tick of matches with random legal actions, without resets."""
    rng = np.random.default_rng(seed)
    rows = environment.num_matches
    tick = environment.reset(np.arange(rows, dtype=np.uint64) + np.uint64(seed), scenarios=scenarios)
    yield tick
    for _ in range(steps):
        keys = rng.random((rows, 2, len(ACTIONS))) * tick.roles["fighter"].action_mask
        tick = environment.step({"fighter": keys.argmax(axis=2)[..., None]})
        yield tick


# -- contract ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "steps"),
    [({}, 620), ({"tick_ms": 50}, 200), ({"tick_ms": 200, "time_limit_s": 10.0, "hit_given": 0.1}, 120)],
)
def test_the_environment_keeps_the_contract(options, steps):
    """With default options up to the end of matches, and with other options."""
    check_environment(ludus_register_environments()[0], steps=steps, options=options)


def test_the_spec_describes_the_game():
    """Two seats, 36 actions, 160 numbers, 600 ticks of 100 ms."""
    spec = Duel(DuelConfig(), num_matches=1).spec
    fighter = spec.role("fighter")
    assert (fighter.teams, fighter.action_space.n, fighter.observation_space.shape) == ((0, 1), 36, (160,))
    assert (spec.turn, spec.tick_s, spec.max_ticks) == ("asynchronous", 0.1, 600)
    assert spec.symmetric


def test_float_options_accept_integers():
    """Integer options give the same match as floats."""
    for whole in ({"health": 20}, {"stamina": 100}):
        configs = DuelConfig(**whole), DuelConfig(**{name: float(value) for name, value in whole.items()})
        plays = (random_play(Duel(config, num_matches=2), seed=3, steps=80) for config in configs)
        for one, other in zip(*plays, strict=True):
            fighters = one.roles["fighter"], other.roles["fighter"]
            assert np.array_equal(*(fighter.observation["obs"] for fighter in fighters))
            assert np.array_equal(*(fighter.reward for fighter in fighters))


@pytest.mark.parametrize(("given", "taken", "zero_sum"), [(0.0, 0.0, True), (0.1, 0.1, True), (0.1, 0.0, False)])
def test_zero_sum_is_declared_where_it_is_true(given, taken, zero_sum):
    """Equal rewards for hits given and taken cancel out."""
    spec = Duel(DuelConfig(hit_given=given, hit_taken=taken), num_matches=1).spec
    assert spec.zero_sum == zero_sum
    assert spec.reward_range == (-1 - taken, 1 + given)


def test_the_seed_decides_the_distance():
    """Between 350 and 450 cm, in whole centimetres, the middle of the arena between them."""
    environment = Duel(DuelConfig(), num_matches=200)
    seen = environment.reset(np.arange(200, dtype=np.uint64)).roles["fighter"].observation["obs"][:, 0]
    distances = seen[:, INDEX["distance"]] * 1000
    assert 350 <= distances.min() < 360
    assert 440 < distances.max() <= 450
    assert np.allclose(distances, distances.round(), atol=1e-3)
    assert np.array_equal(seen[:, INDEX["own-room"]], seen[:, INDEX["opponent-room"]])


# -- acting seats -------------------------------------------------------------------------------------------------


def test_actions_of_a_bound_fighter_are_ignored(ring):
    """Any action of a seat that does not act has no effect; when both are bound, no seat acts."""
    fight, other = ring(), ring()
    for each in (fight, other):
        each.step("light-left", "wait")
    assert (fight.acting(0), fight.acting(1)) == (False, True)
    fight.step()
    other.tick = other.environment.step({"fighter": np.array([[[NUMBER["dodge-back"]], [0]]])})
    assert np.array_equal(fight.seen.observation["obs"], other.seen.observation["obs"])
    fight.step(second="light-top")
    assert not fight.acting(0)
    assert not fight.acting(1)


def test_an_illegal_action_is_named(ring):
    """The message names seat, match and legal actions, and no match has advanced."""
    fight = ring()
    before = fight.seen.observation["obs"].copy()
    wrong = NOTHING.copy()
    wrong[0, 1] = NUMBER["throw-back"]
    problem = r"seat 1 of role 'fighter' in match 0 chose 34; expected one of 0 \(wait\)"
    with pytest.raises(ContractError, match=problem):
        fight.environment.step({"fighter": wrong})
    assert np.array_equal(before, fight.seen.observation["obs"])


@pytest.mark.parametrize("action", [-1, 36, 10**9])
def test_an_unknown_action_is_refused(ring, action):
    """Numbers outside of 0 to 35."""
    with pytest.raises(ContractError):
        ring().environment.step({"fighter": np.full((1, 2, 1), action)})


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    name=st.sampled_from(["default", *SCENARIOS]),
    tick_ms=st.sampled_from([50, 100, 150, 200]),
)
def test_invariants_of_every_tick(seed, name, tick_ms):
    """Health never increases, distances are in bounds, acting seats have a choice, observations are in range."""
    environment = Duel(DuelConfig(tick_ms=tick_ms), num_matches=4)
    health = np.full((4, 2), 2.0)
    for tick in random_play(environment, seed=seed, steps=150, scenarios=[Scenario(name=name)] * 4):
        fighter = tick.roles["fighter"]
        seen = fighter.observation["obs"]
        assert np.abs(seen).max() <= 1.0
        assert (seen[..., INDEX["own-health"]] <= health).all()
        health = seen[..., INDEX["own-health"]].copy()
        rooms = seen[..., INDEX["own-room"]]
        assert (rooms >= 0).all()
        assert (seen[..., INDEX["distance"]] >= 0.1 - 1e-6).all()
        assert np.allclose(rooms.sum(axis=1) + seen[:, 0, INDEX["distance"]], 1.0, atol=1e-5)
        running = ~(health == 0).any(axis=1, keepdims=True)
        assert np.array_equal(fighter.acting & running, (fighter.action_mask.sum(axis=2) > 1) & running)
        assert (fighter.action_mask[fighter.acting][:, 0]).all()
        assert np.array_equal(tick.roles["fighter"].reward.sum(axis=1), np.zeros(4))


def test_every_action_is_legal_somewhere():
    """Random matches offer all actions."""
    offered = np.zeros(len(ACTIONS), bool)
    for tick in random_play(Duel(DuelConfig(), num_matches=64), seed=0, steps=400):
        fighter = tick.roles["fighter"]
        offered |= fighter.action_mask[fighter.acting].any(axis=0)
    assert offered.all()


@pytest.mark.parametrize("window", WINDOWS)
def test_waiting_is_legal_wherever_anything_is(window):
    """Exhaustion only removes legal actions."""
    fresh, tired = (legal_actions(window, exhausted=exhausted) for exhausted in (False, True))
    assert fresh[0] == any(fresh)
    assert all(one or not other for one, other in zip(fresh, tired, strict=True))


def test_exchanging_the_seats_exchanges_everything():
    """Mirrored starts and actions give bit-identical matches with the seats exchanged."""
    parameters = {"health_0": 0.4, "stamina_0": 0.2, "stamina_1": 0.9, "distance": 210.0, "room_0": 100.0}
    mirrored = {"health_1": 0.4, "stamina_1": 0.2, "stamina_0": 0.9, "distance": 210.0, "room_0": 690.0}
    environment = Duel(DuelConfig(), num_matches=2)
    starts = [Scenario(name="custom", parameters=p) for p in (parameters, mirrored)]
    tick = environment.reset(np.zeros(2, np.uint64), scenarios=starts)
    rng = np.random.default_rng(5)
    for _ in range(300):
        fighter = tick.roles["fighter"]
        assert np.array_equal(fighter.observation["obs"][0], fighter.observation["obs"][1, ::-1])
        assert np.array_equal(fighter.acting[0], fighter.acting[1, ::-1])
        assert np.array_equal(tick.outcome[0], tick.outcome[1, ::-1])
        chosen = (rng.random((2, len(ACTIONS))) * fighter.action_mask[0]).argmax(axis=1)
        tick = environment.step({"fighter": np.stack([chosen, chosen[::-1]])[..., None]})
    assert tick.roles["fighter"].observation["obs"][0, :, INDEX["own-health"]].min() < 0.4


# -- observations --------------------------------------------------------------------------------------------------


def test_the_layout_has_160_names():
    """The names are unique."""
    assert len(layout()) == len(set(layout())) == SIZE == 160


def test_the_layout_is_printed():
    """The module prints one line per number, in order."""
    printed = subprocess.run(
        [sys.executable, "-m", "ludus_duel.view"], capture_output=True, text=True, check=True
    ).stdout
    assert printed == f"{table()}\n"
    assert [line.split() for line in printed.splitlines()] == [[str(n), name] for n, name in enumerate(layout())]


def test_numbers_about_the_opponent_equal_its_own():
    """Every number ``opponent-x`` of a seat is ``own-x`` of the other seat."""
    own = [number for name, number in INDEX.items() if name.startswith("own-") and name != "own-room"]
    other = [INDEX[name.replace("own-", "opponent-", 1)] for name in layout() if INDEX[name] in own]
    for tick in random_play(Duel(DuelConfig(), num_matches=8), seed=3, steps=60):
        seen = tick.roles["fighter"].observation["obs"]
        assert np.array_equal(seen[:, 0][:, own], seen[:, 1][:, other])
        assert np.array_equal(seen[:, 1][:, own], seen[:, 0][:, other])


def test_the_mask_is_part_of_the_observation():
    """The last 36 numbers."""
    for tick in random_play(Duel(DuelConfig(), num_matches=8), seed=4, steps=60):
        fighter = tick.roles["fighter"]
        assert np.array_equal(fighter.observation["obs"][..., -36:] > 0, fighter.action_mask)


def test_an_animation_is_shown_with_its_times(ring):
    """The third tick of a heavy attack: 5 ticks until it lands, 11 until it ends, in units of 2 s."""
    fight = ring().step("heavy-right").step(times=2)
    names = ("animation-heavy", "side-right", "phase-startup", "may-feint", "stance-right")
    assert [fight.shows(f"own-{name}") for name in names] == [1] * 5
    times = {
        name: round(fight.shows(f"opponent-{name}", 1) * 2, 3) for name in ("elapsed", "remaining", "until-landing")
    }
    assert times == {"elapsed": 0.3, "remaining": 1.1, "until-landing": 0.5}
    assert fight.shows("own-progress") == pytest.approx(3 / 14)
    assert fight.shows("threatened", 1) == 1
    assert fight.shows("threatened", 0) == 0


def test_missed_strikes_are_no_threat(ring):
    """`threatened` is 0 after a strike has missed, and out of its reach."""
    assert ring(distance=400).step("light-left").shows("threatened", 1) == 0
    fight = ring(distance=275).step("light-left").step(times=3)
    assert fight.shows("threatened", 1) == 1
    assert fight.step().shows("threatened", 1) == 0


def test_times_since_events_are_shown(ring):
    """Times since the last hit suffered and since the last animation ended, in units of 2 s."""
    fight = ring().step("light-left").step(times=4)
    assert (fight.shows("own-unhurt", 1), fight.shows("own-free-for", 1)) == (0, 0)
    fight.step(times=7)
    assert [fight.shows(f"opponent-{name}") for name in ("unhurt", "free-for")] == pytest.approx([0.35, 0.1])
    assert fight.shows("own-unhurt", 0) == 1


def test_strikes_that_the_stance_blocks_are_shown(ring):
    """`covered` depends on the current stance."""
    fight = ring().step("light-top")
    assert fight.shows("covered", 1) == 1
    assert fight.step(second="stance-left").shows("covered", 1) == 0


def test_reach_and_lead_are_shown(ring):
    """At 200 cm a light and a heavy attack reach and a guard break does not."""
    fight = ring(scenario={"health_1": 0.5})
    shown = [fight.shows(name) for name in ("in-light-reach", "in-heavy-reach", "in-grab-reach", "both-free", "lead")]
    assert shown == [1, 1, 0, 1, 0.5]


def test_time_runs_out(ring):
    """`time-left` falls from 1 to 0."""
    fight = ring(time_limit_s=1.0)
    assert fight.shows("time-left") == 1
    assert fight.step(times=4).shows("time-left") == pytest.approx(0.6)


# -- rewards and endings -------------------------------------------------------------------------------------------


def test_a_fighter_without_health_loses(ring):
    """Rewards are ±1, the match is terminated and no seat acts."""
    fight = ring(scenario={"health_1": 0.05}).step("light-left").step(times=4)
    assert fight.tick.terminated.tolist() == [True]
    assert fight.seen.reward.tolist() == [[1, -1]]
    assert fight.tick.outcome.tolist() == [[1, 0]]
    assert fight.shows("own-health", 1) == 0
    assert not fight.seen.acting.any()
    fight.step()
    assert not fight.tick.terminated.any()
    assert not fight.seen.reward.any()


def test_simultaneous_knockouts_are_a_draw(ring):
    """Both strikes land on the same tick."""
    fight = ring(scenario={"health_0": 0.05, "health_1": 0.05}).step("light-left", "light-left").step(times=4)
    assert fight.tick.terminated.tolist() == [True]
    assert fight.tick.outcome.tolist() == [[0.5, 0.5]]
    assert not fight.seen.reward.any()


def test_the_damage_beyond_zero_does_not_count(ring):
    """A light and a heavy attack land together on fighters with 6 health each: a draw."""
    fight = ring(scenario={"health_0": 0.05, "health_1": 0.05})
    fight.step("heavy-left").step(times=2).step(second="light-right").step(times=4)
    assert fight.tick.terminated.tolist() == [True]
    assert fight.tick.outcome.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(("margin", "outcome"), [(0.0, [1, 0]), (9.0, [1, 0]), (10.0, [0.5, 0.5])])
def test_when_time_is_over_more_health_wins(ring, margin, outcome):
    """The time limit is a rule of the game: terminated, never truncated. A lead up to the margin is a draw."""
    fight = ring(time_limit_s=1.0, draw_margin=margin).step("light-left").step(times=8)
    assert not fight.tick.terminated.any()
    fight.step()
    assert fight.tick.terminated.tolist() == [True]
    assert not fight.tick.truncated.any()
    assert fight.tick.outcome.tolist() == [outcome]
    assert fight.seen.reward.tolist() == [[2 * points - 1 for points in outcome]]


def test_the_margin_is_for_time_limits_only(ring):
    """A knockout loses even within the margin."""
    fight = ring(draw_margin=100.0, scenario={"health_0": 0.05, "health_1": 0.05}).step("light-left").step(times=4)
    assert fight.tick.outcome.tolist() == [[1, 0]]


def test_rounding_decides_no_fight(ring):
    """Three hits of 0.1 and one of 0.3 are equal damage, and ten of 0.1 take a health of 1."""
    fight = ring(time_limit_s=1.0).step()
    health = fight.environment._fight.health
    health[:] = [1.0 - 0.1 - 0.1 - 0.1, 1.0 - 0.3]
    assert health[0] != health[1]
    fight.step(times=9)
    assert fight.tick.outcome.tolist() == [[0.5, 0.5]]
    fight = ring().step()
    fight.environment._fight.health[0] = 1.0 - sum([0.1] * 10)
    assert fight.environment._fight.health[0] > 0
    assert fight.step().tick.outcome.tolist() == [[0, 1]]


def test_hits_are_rewarded_by_option(ring):
    """Each hit rewards the attacker and costs the target, in reward parts of their own."""
    fight = ring(hit_given=0.25, hit_taken=0.5).step("light-left").step(times=4)
    parts = {name: part.tolist() for name, part in fight.seen.reward_parts.items()}
    assert parts == {"win": [[0, 0]], "hit_given": [[0.25, 0]], "hit_taken": [[0, -0.5]]}
    assert fight.seen.reward.tolist() == [[0.25, -0.5]]
    assert not fight.step().seen.reward.any()


def test_blocked_strikes_are_no_hits(ring):
    """Not even blocked heavy attacks, which take some health."""
    fight = ring(hit_given=0.25).step("heavy-top")
    assert all(not fight.step().seen.reward.any() for _ in range(10))
    assert fight.health(1) < 120


def test_throws_and_bashes_are_hits(ring):
    """Throws and bashes are rewarded like strikes."""
    thrown = ring(distance=150, hit_taken=0.5).step("guard-break").step(times=4).step("throw-forward").step()
    assert thrown.seen.reward.tolist() == [[0, -0.5]]
    bashed = ring(distance=300, hit_taken=0.5).step("dodge-forward").step().step("bash").step(times=2)
    assert bashed.seen.reward.tolist() == [[0, -0.5]]


def test_one_match_can_be_reset():
    """The other matches continue."""
    environment = Duel(DuelConfig(), num_matches=2)
    for tick in random_play(environment, seed=1, steps=30):
        before = tick.roles["fighter"].observation["obs"][0].copy()
    tick = environment.reset(np.array([9], np.uint64), indices=np.array([1]))
    assert np.array_equal(before, tick.roles["fighter"].observation["obs"][0])
    assert tick.roles["fighter"].observation["obs"][1, 0, INDEX["time-left"]] == 1


# -- scenarios -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters", "shown"),
    [
        ("low-health", {}, {"own-health": 0.25, "opponent-health": 0.25}),
        ("low-health", {"health_1": 0.5}, {"own-health": 0.25, "opponent-health": 0.5}),
        ("no-stamina", {}, {"own-stamina": 0.0, "own-exhausted": 1.0}),
        ("handicap", {"stamina_1": 0.5}, {"own-health": 0.5, "opponent-stamina": 0.5}),
        ("close", {}, {"distance": 0.15}),
        ("cornered", {}, {"own-room": 0.05, "distance": 0.2}),
    ],
)
def test_start_states_of_scenarios(name, parameters, shown):
    """Observations of seat 0."""
    environment = Duel(DuelConfig(), num_matches=1)
    tick = environment.reset(np.zeros(1, np.uint64), scenarios=[Scenario(name=name, parameters=parameters)])
    seen = tick.roles["fighter"].observation["obs"][0, 0]
    assert {each: round(float(seen[INDEX[each]]), 4) for each in shown} == shown


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (Scenario(name="rain"), "unknown scenario 'rain'"),
        (Scenario(parameters={"distance": 200}), "scenario default takes no parameters; got 'distance'"),
        (Scenario(name="close", parameters={"health_0": 1}), "scenario close takes the parameters distance"),
        (Scenario(name="low-health", parameters={"health_0": 0}), "a number from 0.01 to 1 for health_0, got 0"),
        (Scenario(name="cornered", parameters={"room_0": 850}), "together are more than the arena of 1000 cm"),
    ],
)
def test_invalid_scenarios_raise(scenario, message):
    """The message names what was expected."""
    environment = Duel(DuelConfig(), num_matches=1)
    with pytest.raises(ContractError, match=message):
        environment.reset(np.zeros(1, np.uint64), scenarios=[scenario])


def test_one_scenario_per_match_is_expected():
    """A wrong number of scenarios raises."""
    with pytest.raises(ContractError, match="one scenario for each of 2 matches, got 1"):
        Duel(DuelConfig(), num_matches=2).reset(np.zeros(2, np.uint64), scenarios=[Scenario()])


# -- terminal ------------------------------------------------------------------------------------------------------


def test_actions_have_names():
    """Names, unambiguous prefixes and numbers are parsed."""
    assert len(ACTIONS) == len(set(ACTIONS)) == 36
    assert [parse_action(name) for name in ACTIONS] == list(range(36))
    assert [parse_action(str(number)) for number in range(36)] == list(range(36))
    assert parse_action(" Sweep ") == parse_action("sw") == NUMBER["sweep"]
    assert parse_action("heavy left") == NUMBER["heavy-left"]


@pytest.mark.parametrize(
    ("text", "message"), [("light", "light-left, light-top, light-right"), ("36", "0 to 35"), ("", "wait")]
)
def test_unknown_texts_raise(text, message):
    """The message lists the candidates."""
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_action(text)


def test_a_match_is_rendered(ring):
    """The text shows bars, stances, animations and the distance."""
    fight = ring(scenario={"stamina_1": 0.0}).step("heavy-left", "stance-right")
    drawn = re.sub(r"\x1b\[\d+m", "", fight.environment.render(0))
    assert isinstance(fight.environment, Playable)
    lines = drawn.splitlines()
    assert lines[0].split() == ["59.9", "s", "left"]
    assert [line.split()[:2] for line in lines if "seat" in line] == [["seat", "0"], ["seat", "1"]]
    assert "heavy-left ●······!!·····" in drawn
    assert "▲ top → right" in drawn
    assert "exhausted" in drawn
    assert lines[-1].endswith("192 cm")
    assert lines[-1].index(">") < lines[-1].index("<")
    assert fight.environment.action_name("fighter", np.array([17])) == "feint"
    assert fight.environment.parse_action("fighter", "feint").tolist() == [17]


def test_rules_are_options(ring):
    """A faster light attack lands earlier, with the given damage."""
    fight = ring(light_startup_ms=300, light_damage=30.0).step("light-left").step()
    assert fight.health(1) == 120
    assert fight.step().health(1) == 90
    with pytest.raises(ValueError, match="a whole number from 400 to 1500"):
        DuelConfig(heavy_startup_ms=100)


@pytest.mark.parametrize(("tick_ms", "steps"), [(50, 10), (100, 5), (200, 3)])
def test_times_are_rounded_up_to_ticks(ring, tick_ms, steps):
    """A light attack of 500 ms."""
    fight = ring(tick_ms=tick_ms).step("light-left").step(times=steps - 2)
    assert fight.health(1) == 120
    assert fight.step().health(1) == 110


def test_a_match_is_drawn_as_a_scene(ring):
    """Fighters stand at their distance; bars have the shares of health; labels name stance and move."""
    fight = ring(scenario={"health_1": 0.4}).step("heavy-left", "stance-right")
    picture, state = fight.environment.render_frame(0), fight.environment._fight
    heads = [shape.x for shape in picture.shapes if isinstance(shape, Circle)]
    assert heads[1] - heads[0] == pytest.approx(state.gap()[0])
    bars = [shape for shape in picture.shapes if isinstance(shape, Box) and shape.y == 20]
    assert [bars[1].width / bars[0].width, bars[3].width / bars[2].width] == pytest.approx([1.0, 0.4])
    labels = [shape.text for shape in picture.shapes if isinstance(shape, Label)]
    assert labels == ["59.9", "left   heavy-left", "top → right   idle"]
    blades = [shape for shape in picture.shapes if isinstance(shape, Line)]
    assert blades[0].x2 > blades[0].x1
    assert blades[1].x2 < blades[1].x1


def test_a_landing_attack_points_forward(ring):
    """The blade turns red and level on the ticks on which the attack may land."""
    fight = ring(distance=150.0).step("light-left")
    found = []
    for _ in range(8):
        blade = next(shape for shape in fight.environment.render_frame(0).shapes if isinstance(shape, Line))
        found.append((blade.color == "#ff5040", blade.y1 == blade.y2))
        fight.step()
    assert set(found) == {(False, False), (True, True)}
