"""The environment: contract, scoring, seats that mirror each other, endings, scenarios."""

from __future__ import annotations

import numpy as np
import pytest
from ludus import ContractError, EnvironmentSpec, Scenario
from ludus.testing import check_environment
from ludus_pong2p.config import Pong2pConfig
from ludus_pong2p.environment import Pong2p
from ludus_pong2p.plugin import ludus_register_environments

STAY, UP, DOWN = 0, 1, 2
FAST = {"ball_speed": 19.0, "ball_speed_max": 19.0, "paddle_length": 1.0}  # the ball is at a goal line in 1 to 2 frames


def make(matches: int = 1, **options) -> Pong2p:
    """Return the environment with these options."""
    return Pong2p(Pong2pConfig(**options), num_matches=matches)


def seeds(matches: int) -> np.ndarray:
    """Return different seeds."""
    return np.arange(matches, dtype=np.uint64) * np.uint64(977)


def act(environment: Pong2p, left: object = STAY, right: object = STAY):
    """Step with the actions of both seats, each one number or one per match."""
    actions = np.zeros((environment.num_matches, 2, 1), np.int64)
    actions[:, 0, 0], actions[:, 1, 0] = left, right
    return environment.step({"player": actions})


def ended(tick) -> np.ndarray:
    """Return ``[B] bool``: which matches ended on this tick."""
    return tick.terminated | tick.truncated


def custom(**parameters: float) -> list[Scenario]:
    """Return the scenario ``custom`` for one match."""
    return [Scenario(name="custom", parameters=parameters)]


# -- contract ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"observation": "image", "points": 2},
        {"observation": "both", "frame_skip": 4, "hit": 0.1, "points": 3},
        {"max_ticks": 37},
        {"ball_speed": 38.0, "ball_speed_max": 38.0, "frame_skip": 32, "hit": 1.0},
    ],
    ids=str,
)
def test_the_environment_keeps_its_contract(options):
    """The kit finds nothing wrong, in this process and another."""
    (component,) = ludus_register_environments()
    check_environment(component, steps=200, options=options)


def test_the_spec_describes_the_game():
    """Two seats of one role, three actions, and promises that hold."""
    spec = make(max_ticks=70, frame_skip=3).spec
    assert isinstance(spec, EnvironmentSpec)
    assert (spec.turn, spec.max_ticks, spec.tick_s) == ("simultaneous", 70, pytest.approx(0.1))
    assert spec.role("player").teams == (0, 1)
    assert spec.role("player").action_space.n == 3
    assert (spec.zero_sum, spec.constant_sum, spec.perfect_information) == (True, True, True)
    assert spec.reward_range == (-3.0, 3.0)


def test_a_picture_does_not_tell_everything():
    """The speed of a ball that has just been hit can be seen a tick later only."""
    assert not make(observation="image").spec.perfect_information
    assert make(observation="both").spec.perfect_information


def test_a_reward_for_hits_ends_the_zero_sum():
    """And widens the range of rewards."""
    spec = make(hit=0.25, frame_skip=2, points=1).spec
    assert not spec.zero_sum
    assert spec.reward_range == (-1.0, 1.5)


# -- scoring -------------------------------------------------------------------------------------------------------


def until_a_point(environment: Pong2p, seed: int = 0, *, receiver: int) -> tuple:
    """Start a match whose ball flies to the receiver; return the tick of the first point and its number."""
    environment.reset(np.array([seed], np.uint64), scenarios=custom(serve_to=receiver))
    for number in range(1, 100):
        tick = act(environment, UP, UP)
        if tick.roles["player"].reward.any():
            return tick, number
    raise AssertionError("no point")


@pytest.mark.parametrize("receiver", [0, 1])
def test_a_point_pays_one_to_one_seat_and_costs_the_other_one(receiver):
    """Who lets the ball pass loses a point, which is shown in the tick in which it passes."""
    environment = make(**FAST)
    tick, number = until_a_point(environment, receiver=receiver)
    player = tick.roles["player"]
    assert number <= 2
    assert player.reward[0, receiver] == -1.0
    assert player.reward[0, 1 - receiver] == 1.0
    np.testing.assert_array_equal(player.reward_parts["point"], player.reward)
    assert not act(environment).roles["player"].reward.any()


@pytest.mark.parametrize("receiver", [0, 1])
def test_the_next_ball_is_served_to_the_seat_that_conceded(receiver):
    """From the middle line, at the speed of serves."""
    environment = make(ball_speed_max=4.0, paddle_length=1.0, ball_speed=2.0)
    tick, _ = until_a_point(environment, receiver=receiver)
    obs = tick.roles["player"].observation["obs"][0, receiver]
    assert obs[2] == 0.0
    assert obs[4] < 0.0  # towards this seat
    assert np.hypot(obs[4], obs[5]) == pytest.approx(0.5)


def test_the_first_to_reach_the_points_wins():
    """Points add up over the match; its end is a termination, and shows the ball where it was lost."""
    environment = make(points=3, **FAST)
    tick = environment.reset(seeds(1))
    total = np.zeros(2)
    while not ended(tick).any():
        tick = act(environment, UP, UP)
        total += tick.roles["player"].reward[0]
    winner = int(total[1] > total[0])
    scores = tick.roles["player"].observation["obs"][0, winner, 8:]
    assert tick.terminated[0]
    assert not tick.truncated[0]
    assert scores[0] == 1.0
    assert scores[1] < 1.0
    assert total[winner] == pytest.approx(3 * (scores[0] - scores[1]))
    assert tick.outcome[0, winner] == 1.0
    assert tick.outcome[0, 1 - winner] == 0.0
    assert abs(tick.roles["player"].observation["obs"][0, 0, 2]) == pytest.approx(19 / 20)
    assert not tick.roles["player"].acting.any()


@pytest.mark.parametrize(("scores", "outcome"), [((0, 0), [0.5, 0.5]), ((2, 1), [1.0, 0.0]), ((0, 1), [0.0, 1.0])])
def test_a_match_is_cut_off_after_max_ticks(scores, outcome):
    """Who has more points then has won; equal points are a draw."""
    environment = make(max_ticks=4)
    environment.reset(seeds(1), scenarios=custom(score_0=scores[0], score_1=scores[1]))
    for _ in range(3):
        assert not ended(act(environment)).any()
    tick = act(environment)
    assert tick.truncated[0]
    assert not tick.terminated[0]
    assert tick.outcome[0].tolist() == outcome
    assert not ended(act(environment)).any()


def test_a_match_won_on_its_last_tick_is_not_cut_off():
    """It ended by its rules."""
    environment = make(points=1, **FAST)
    _, number = until_a_point(environment, receiver=0)
    tick, _ = until_a_point(make(points=1, max_ticks=number, **FAST), receiver=0)
    assert tick.terminated[0]
    assert not tick.truncated[0]


def test_hits_pay_the_seat_that_hits():
    """The part "hit" goes to one seat only and adds to the reward."""
    environment = make(64, hit=0.25)
    environment.reset(seeds(64))
    paid = np.zeros(2)
    for _ in range(60):
        player = act(environment).roles["player"]
        parts = player.reward_parts
        assert set(np.unique(parts["hit"])) <= {0.0, 0.25}
        np.testing.assert_array_equal(parts["hit"] + parts["point"], player.reward)
        returned = (player.observation["obs"][:, :, 2] < -0.5) & (parts["hit"] > 0)
        np.testing.assert_array_equal(returned, parts["hit"] > 0)  # the ball is at the end of who hit it
        paid += parts["hit"].sum(axis=0)
    assert (paid > 0).all()


def test_without_a_reward_for_hits_there_is_no_such_part():
    """The names of parts are those that can be other than 0."""
    assert set(make().reset(seeds(1)).roles["player"].reward_parts) == {"point"}


def test_unknown_actions_raise():
    """The message names seat, match and choices, and no match has advanced."""
    environment = make(2)
    tick = environment.reset(seeds(2))
    before = tick.roles["player"].observation["obs"].copy()
    for wrong in (-1, 3):
        with pytest.raises(ContractError, match=rf"seat 1 .* match 1 chose the action {wrong}; expected 0 \(stay\)"):
            act(environment, 0, [0, wrong])
    np.testing.assert_array_equal(environment._player.observation["obs"], before)


# -- both sides ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"frame_skip": 3}, {"observation": "image"}], ids=str)
def test_exchanged_seats_and_the_paired_seed_give_the_mirrored_match(options):
    """Observations and rewards of one seat are bit-identical to those of the other one with the paired seed."""
    matches = 32
    one, other = make(matches, points=2, **options), make(matches, points=2, **options)
    one.reset(seeds(matches))
    other.reset(seeds(matches) ^ np.uint64(1))
    rng, scored = np.random.default_rng(3), 0
    for _ in range(150):
        actions = rng.integers(3, size=(2, matches))
        tick, mirrored = act(one, *actions), act(other, *actions[::-1])
        observed, same = tick.roles["player"], mirrored.roles["player"]
        np.testing.assert_array_equal(observed.observation["obs"], same.observation["obs"][:, ::-1])
        np.testing.assert_array_equal(observed.reward, same.reward[:, ::-1])
        np.testing.assert_array_equal(tick.terminated, mirrored.terminated)
        np.testing.assert_array_equal(tick.outcome, mirrored.outcome[:, ::-1])
        scored += int(np.count_nonzero(observed.reward))
    assert scored > matches


def test_half_of_the_seeds_serve_to_each_seat():
    """So that neither is favoured."""
    tick = make(1000).reset(np.random.default_rng(0).integers(2**63, size=1000).astype(np.uint64))
    flying_left = tick.roles["player"].observation["obs"][:, 0, 4] < 0
    assert 450 < flying_left.sum() < 550


# -- time ----------------------------------------------------------------------------------------------------------


def test_a_tick_with_skipped_frames_is_as_many_ticks_without():
    """Decisions hold for all of its frames; rewards add up."""
    skipping, plain = make(16, frame_skip=4, hit=0.125), make(16, hit=0.125)
    skipping.reset(seeds(16))
    plain.reset(seeds(16))
    rng = np.random.default_rng(1)
    points = 0
    for _ in range(40):
        actions = rng.integers(3, size=(2, 16))
        total = np.zeros((16, 2), np.float32)
        for _ in range(4):
            observed = act(plain, *actions).roles["player"]
            total += observed.reward
        jumped = act(skipping, *actions).roles["player"]
        np.testing.assert_array_equal(jumped.observation["obs"], observed.observation["obs"])
        np.testing.assert_allclose(jumped.reward, total, atol=1e-6)
        points += int(np.count_nonzero(jumped.reward_parts["point"]))
    assert points > 0


def test_a_match_that_ends_within_a_tick_stands_still_for_the_rest_of_it():
    """No further point is counted."""
    environment = make(points=1, frame_skip=32, **FAST)
    environment.reset(seeds(1))
    tick = act(environment, UP, UP)
    assert tick.terminated[0]
    assert np.abs(tick.roles["player"].reward).tolist() == [[1.0, 1.0]]


def test_several_points_in_one_tick_add_up():
    """With many frames in a tick."""
    environment = make(points=50, frame_skip=32, **FAST)
    environment.reset(seeds(1))
    assert np.abs(act(environment, UP, UP).roles["player"].reward).max() > 1


# -- scenarios -----------------------------------------------------------------------------------------------------


def first_ball(scenario: Scenario | None, **options) -> np.ndarray:
    """Return the first observation of seat 0."""
    tick = make(**options).reset(seeds(1), scenarios=None if scenario is None else [scenario])
    return tick.roles["player"].observation["obs"][0].copy()


def test_serve_fast_multiplies_the_speed_of_serves():
    """By 2, or by the parameter."""
    plain = first_ball(None)
    for parameters, factor in (({}, 2.0), ({"ball_speed": 0.5}, 0.5)):
        fast = first_ball(Scenario(name="serve-fast", parameters=parameters))
        np.testing.assert_allclose(fast[:, 4:6], factor * plain[:, 4:6], rtol=1e-6)


def test_long_paddle_gives_each_seat_its_length():
    """The paddle of seat 0 has twice its length, or that of the parameters, up to the size of the field."""
    for parameters, lengths in (
        ({}, [0.4, 0.2]),
        ({"paddle_0": 1, "paddle_1": 0.5}, [0.2, 0.1]),
        ({"paddle_1": 10}, [0.4, 1.0]),
    ):
        observed = first_ball(Scenario(name="long-paddle", parameters=parameters))
        np.testing.assert_allclose(observed[0, 6:8], lengths, rtol=1e-6)
        np.testing.assert_allclose(observed[1, 6:8], lengths[::-1], rtol=1e-6)


def test_custom_sets_scores_and_receiver():
    """For matches that start late, and drills of one side."""
    observed = first_ball(*custom(score_0=4, score_1=1, serve_to=1))
    np.testing.assert_allclose(observed[0, 8:10], [0.8, 0.2], rtol=1e-6)
    assert observed[0, 4] > 0
    assert first_ball(*custom(serve_to=0))[0, 4] < 0


def test_each_match_has_its_own_scenario():
    """The next match at the same index does not inherit it."""
    environment = make(2)
    scenarios = [Scenario(name="long-paddle"), Scenario()]
    tick = environment.reset(seeds(2), scenarios=scenarios)
    np.testing.assert_allclose(tick.roles["player"].observation["obs"][:, 0, 6], [0.4, 0.2])
    tick = environment.reset(seeds(1), indices=np.array([0]))
    np.testing.assert_allclose(tick.roles["player"].observation["obs"][:, 0, 6], [0.2, 0.2])


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (
            Scenario(name="huge-ball"),
            "unknown scenario 'huge-ball'; there are default, serve-fast, long-paddle, custom",
        ),
        (Scenario(parameters={"paddle_0": 1}), "default takes no parameters; got 'paddle_0'"),
        (Scenario(name="serve-fast", parameters={"paddle_0": 1}), "takes the parameters ball_speed; got 'paddle_0'"),
        (Scenario(name="serve-fast", parameters={"ball_speed": 0}), "a factor from 0.1 to 10 for ball_speed, got 0"),
        (Scenario(name="custom", parameters={"score_1": 5}), "a whole number from 0 to 4 for score_1, got 5"),
        (Scenario(name="custom", parameters={"score_0": 0.5}), "a whole number from 0 to 4 for score_0, got 0.5"),
        (Scenario(name="custom", parameters={"serve_to": 2}), r"0, 1 or -1 \(by the seed\) for serve_to, got 2"),
    ],
    ids=lambda value: value.name if isinstance(value, Scenario) else "",
)
def test_invalid_scenarios_raise(scenario, message):
    """The message names the known scenarios and the expected values."""
    with pytest.raises(ContractError, match=message):
        make().reset(seeds(1), scenarios=[scenario])


def test_one_scenario_per_match_is_required():
    """Any other number raises."""
    with pytest.raises(ContractError, match="expected one scenario for each of 2 matches, got 1"):
        make(2).reset(seeds(2), scenarios=[Scenario()])
