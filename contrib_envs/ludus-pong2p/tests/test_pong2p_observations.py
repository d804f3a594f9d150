"""What seats see: the numbers, and pictures against a slow drawing of the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus import Scenario
from ludus_pong2p.agents import own_paddle_and_ball
from ludus_pong2p.config import Pong2pConfig
from ludus_pong2p.environment import Pong2p
from ludus_pong2p.view import NAMES, SHAPE

NUMBER = {name: i for i, name in enumerate(NAMES)}


def make(matches: int = 1, **options) -> Pong2p:
    """Return the environment with these options."""
    return Pong2p(Pong2pConfig(**options), num_matches=matches)


def step(environment: Pong2p, left: object, right: object) -> dict:
    """Step and return the observation's leaves."""
    actions = np.zeros((environment.num_matches, 2, 1), np.int64)
    actions[:, 0, 0], actions[:, 1, 0] = left, right
    return environment.step({"player": actions}).roles["player"].observation


def start(environment: Pong2p, *, seed: int = 0, scenario: Scenario | None = None) -> dict:
    """Reset all matches and return the observation's leaves."""
    count = environment.num_matches
    seeds = np.arange(seed, seed + count, dtype=np.uint64)
    tick = environment.reset(seeds, scenarios=None if scenario is None else [scenario] * count)
    return tick.roles["player"].observation


# -- numbers -------------------------------------------------------------------------------------------------------


def test_each_seat_observes_itself_on_the_left():
    """Own and opponent's are exchanged, x is turned round, y is the same."""
    environment = make(points=5)
    scenario = Scenario(name="custom", parameters={"score_0": 1, "score_1": 3, "paddle_0": 2, "serve_to": 0})
    start(environment, scenario=scenario)
    left, right = step(environment, 2, 1)["obs"][0]
    expected = {
        "own_paddle_y": (1.5 / 20, -1.5 / 20),
        "opponent_paddle_y": (-1.5 / 20, 1.5 / 20),
        "own_paddle_length": (16 / 40, 8 / 40),
        "opponent_paddle_length": (8 / 40, 16 / 40),
        "own_score": (0.2, 0.6),
        "opponent_score": (0.6, 0.2),
    }
    for name, values in expected.items():
        assert (left[NUMBER[name]], right[NUMBER[name]]) == pytest.approx(values), name
    for name in ("ball_x", "ball_vx"):
        assert left[NUMBER[name]] == -right[NUMBER[name]]
        assert left[NUMBER[name]] < 0
    for name in ("ball_y", "ball_vy"):
        assert left[NUMBER[name]] == right[NUMBER[name]]


def test_velocity_is_the_movement_of_the_ball():
    """In shares of the highest speed, while the ball flies freely."""
    environment = make(ball_speed_max=5.0)
    before = start(environment)["obs"].copy()
    after = step(environment, 0, 0)["obs"]
    for place, velocity in (("ball_x", "ball_vx"), ("ball_y", "ball_vy")):
        moved = (after[..., NUMBER[place]] - before[..., NUMBER[place]]) * 20
        np.testing.assert_allclose(moved, before[..., NUMBER[velocity]] * 5.0, rtol=1e-5)


@pytest.mark.parametrize("fast", [False, True])
def test_all_numbers_stay_within_one(fast):
    """Whatever happens."""
    options = {"ball_speed": 38.0, "ball_speed_max": 38.0, "paddle_speed": 40.0} if fast else {}
    environment = make(64, **options)
    start(environment)
    rng = np.random.default_rng(0)
    for _ in range(200):
        obs = step(environment, *rng.integers(3, size=(2, 64)))["obs"]
        assert np.abs(obs).max() <= 1.0


def test_both_observations_are_those_of_either():
    """The leaves vector and image."""
    kinds = {kind: make(8, observation=kind, points=2) for kind in ("vector", "image", "both")}
    observed = {kind: start(environment) for kind, environment in kinds.items()}
    rng = np.random.default_rng(0)
    for _ in range(120):
        assert observed["both"].keys() == {"vector", "image"}
        for kind in ("vector", "image"):
            np.testing.assert_array_equal(observed["both"][kind], observed[kind]["obs"])
        actions = rng.integers(3, size=(2, 8))
        observed = {kind: step(environment, *actions) for kind, environment in kinds.items()}


# -- pictures ------------------------------------------------------------------------------------------------------


def overlap(low: float, high: float, cell: int) -> float:
    """Return how much of the cell [cell, cell + 1] lies within [low, high]."""
    return max(0.0, min(high, cell + 1) - max(low, cell))


def slow_picture(numbers: np.ndarray, *, scores: np.ndarray, points: int) -> np.ndarray:
    """Return one channel ``[42, 42] float64``, in [0, 255], from positions in units from the middle, pixel by pixel.

    Args:
        numbers: Own paddle's y, opponent's y, ball's x, ball's y, own paddle's length, the opponent's.
        scores: Own and opponent's.
        points: That win.
    """
    own, opponent, x, y, own_length, opponent_length = (float(number) for number in numbers)
    picture = np.zeros(SHAPE[:2])
    for row in range(40):
        for column in range(40):
            down, across = overlap(y + 19, y + 21, row), overlap(x + 19, x + 21, column)
            picture[2 + row, 1 + column] = down * across
        picture[2 + row, 0] = overlap(own + 20 - own_length / 2, own + 20 + own_length / 2, row)
        picture[2 + row, 41] = overlap(opponent + 20 - opponent_length / 2, opponent + 20 + opponent_length / 2, row)
    for pixel in range(20):
        picture[0, 1 + pixel] = overlap(0, 20 * scores[0] / points, pixel)
        picture[0, 40 - pixel] = overlap(0, 20 * scores[1] / points, pixel)
    return 255 * picture


def expected_pictures(environment: Pong2p, match: int) -> list[np.ndarray]:
    """Return the expected observations of both seats of a match."""
    court, scores = environment._court, environment._scores[:, match]
    places = []
    for seat, side in ((0, 1), (1, -1)):
        paddles, lengths = court.paddle[:, match], 2 * court.half[:, match]
        ball = (side * court.x[match], court.y[match])
        numbers = np.array([paddles[seat], paddles[1 - seat], *ball, lengths[seat], lengths[1 - seat]])
        both = np.array([scores[seat], scores[1 - seat]])
        places.append(slow_picture(numbers, scores=both, points=environment._config.points))
    return places


@pytest.mark.parametrize("paddle", [0.1, 1.0, 3.3])
def test_pictures_are_those_of_a_slow_drawing(paddle):
    """Balls, paddles and scores of this tick, pixel by pixel, over serves, bounces, points and ends of matches."""
    environment = make(3, observation="image", points=3, ball_speed=2.7, paddle_length=3.0, max_ticks=40)
    parameters = {"paddle_0": paddle, "paddle_1": 1.7, "score_0": 1}
    image = start(environment, scenario=Scenario(name="custom", parameters=parameters))["obs"]
    rng = np.random.default_rng(5)
    for _ in range(40):
        for match in range(3):
            for seat, picture in enumerate(expected_pictures(environment, match)):
                np.testing.assert_allclose(image[match, seat, :, :, 0], picture, rtol=0, atol=0.5 + 1e-9)
        image = step(environment, *rng.integers(3, size=(2, 3)))["obs"]


def test_the_second_channel_is_the_tick_before():
    """Balls and paddles; the scores are those of now."""
    environment = make(16, observation="image", points=20, ball_speed=3.0)
    image = start(environment)["obs"]
    np.testing.assert_array_equal(image[..., 1], image[..., 0])
    rng = np.random.default_rng(2)
    for _ in range(100):
        before = image.copy()
        image = step(environment, *rng.integers(3, size=(2, 16)))["obs"]
        np.testing.assert_array_equal(image[:, :, 1:, :, 1], before[:, :, 1:, :, 0])
        np.testing.assert_array_equal(image[:, :, 0, :, 1], image[:, :, 0, :, 0])
        assert (image[:, :, 1:, :, 0] != image[:, :, 1:, :, 1]).any(axis=(1, 2, 3)).all()


def test_a_reset_redraws_only_the_given_matches():
    """Nothing of the old match is left, in either channel."""
    environment, fresh = make(4, observation="image"), make(1, observation="image")
    start(environment)
    rng = np.random.default_rng(2)
    for _ in range(60):
        image = step(environment, *rng.integers(3, size=(2, 4)))["obs"]
    before = image.copy()
    after = environment.reset(np.array([9], np.uint64), indices=np.array([2])).roles["player"].observation["obs"]
    np.testing.assert_array_equal(after[[0, 1, 3]], before[[0, 1, 3]])
    np.testing.assert_array_equal(after[2], start(fresh, seed=9)["obs"][0])
    moved = step(environment, *np.zeros((2, 4), int))["obs"]
    np.testing.assert_array_equal(moved[2], step(fresh, 0, 0)["obs"][0])


# -- reading them --------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32), ticks=st.integers(0, 60))
def test_agents_read_the_same_from_any_observation(seed, ticks):
    """Own paddle and ball, from a picture to a twentieth of a unit."""
    kinds = [make(8, observation=kind) for kind in ("vector", "image", "both")]
    observed = [start(environment, seed=seed) for environment in kinds]
    rng = np.random.default_rng(seed)
    for _ in range(ticks):
        actions = rng.integers(3, size=(2, 8))
        observed = [step(environment, *actions) for environment in kinds]
    for seat in (0, 1):
        exact, drawn, both = (
            own_paddle_and_ball({name: leaf[:, seat] for name, leaf in leaves.items()}) for leaves in observed
        )
        court = kinds[0]._court
        side = 1 - 2 * seat
        np.testing.assert_allclose(exact, [court.paddle[seat], side * court.x, court.y], atol=1e-5)
        np.testing.assert_array_equal(both, exact)
        np.testing.assert_allclose(drawn, exact, atol=0.05)
