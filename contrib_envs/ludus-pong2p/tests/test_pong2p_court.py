"""The physics: trajectories computed by hand, and what holds for every trajectory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus_pong2p.config import Pong2pConfig
from ludus_pong2p.court import LIMIT, Court, first_receiver, serve_heights_and_slopes

#: Balls neither gain speed nor get spin: with slope 3/4 a speed of 5 is the velocity (4, 3).
PLAIN = {"speed_up": 1.0, "spin": 0.0, "ball_speed_max": 38.0, "paddle_speed": 2.0}
ONE = np.ones(1)


def court_with(*, ball=(0.0, 0.0, 4.0, 3.0), paddles=(0.0, 0.0), **options) -> Court:
    """Return a court of one match with the ball at (x, y) flying at (vx, vy)."""
    court = Court(Pong2pConfig(**{**PLAIN, **options}), 1)
    rows = np.arange(1)
    court.prepare(rows, np.zeros(1, np.uint64), ball_speed=ONE, paddles=np.ones((2, 1)))
    court.x[0], court.y[0], court.vx[0], court.vy[0] = ball
    court.speed[0] = np.hypot(ball[2], ball[3])
    court.paddle[:, 0] = paddles
    return court


def advance(court: Court, *, frames: int = 1, moves: tuple = (0, 0)) -> Court:
    """Advance by some frames with both paddles moving in the given directions."""
    for _ in range(frames):
        court.advance(np.array(moves, float)[:, None], ONE)
    return court


def ball(court: Court) -> list[float]:
    """Return x, y, vx, vy."""
    return [float(a[0]) for a in (court.x, court.y, court.vx, court.vy)]


# -- by hand -------------------------------------------------------------------------------------------------------


def test_a_free_ball_flies_straight():
    """It moves by its velocity in every frame."""
    assert ball(advance(court_with(), frames=4)) == [16.0, 12.0, 4.0, 3.0]


@pytest.mark.parametrize("side", [1, -1], ids=["lower", "upper"])
def test_a_wall_reflects_the_ball_at_the_moment_it_is_met(side):
    """From y = 18 at 3 per frame the ball meets the wall at 19 after a third of the frame and ends at 17."""
    court = advance(court_with(ball=(0.0, side * 18.0, 4.0, side * 3.0)))
    assert ball(court) == [4.0, side * 17.0, 4.0, side * -3.0]


def test_a_ball_that_ends_on_a_wall_bounces_in_the_next_frame():
    """Exactly on the line is still inside."""
    court = advance(court_with(ball=(0.0, 16.0, 4.0, 3.0)))
    assert ball(court) == [4.0, 19.0, 4.0, 3.0]
    assert ball(advance(court)) == [8.0, 16.0, 4.0, -3.0]


@pytest.mark.parametrize("seat", [0, 1])
def test_a_paddle_returns_the_ball_within_the_frame(seat):
    """The goal line is met after 3/4 of the frame at y = 14.25, half way to the tip: slope 3/4, and back for 1/4."""
    side = 2 * seat - 1
    court = advance(court_with(ball=(side * 16.0, 12.0, side * 4.0, 3.0), paddles=(11.75, 11.75)))
    assert ball(court) == [side * 18.0, 15.0, side * -4.0, 3.0]
    assert court.hits[:, 0].tolist() == [seat == 0, seat == 1]
    assert not court.conceded.any()


@pytest.mark.parametrize(
    ("offset", "slope"), [(-5.0, -1.5), (-2.5, -0.75), (0.0, 0.0), (2.5, 0.75), (5.0, 1.5)], ids=str
)
def test_where_the_paddle_is_hit_decides_how_steeply_the_ball_returns(offset, slope):
    """From -1.5 at the upper tip to 1.5 at the lower, for any incoming slope."""
    court = advance(court_with(ball=(18.0, 0.0, 4.0, 0.0), paddles=(0.0, -offset)))
    assert court.vy[0] / -court.vx[0] == pytest.approx(slope, abs=1e-12)
    assert np.hypot(court.vx[0], court.vy[0]) == pytest.approx(4.0)


def test_a_ball_beyond_the_tip_is_lost_where_it_passes():
    """The ball stays on the goal line with the velocity it had, and the seat has conceded."""
    court = advance(court_with(ball=(-16.0, 0.0, -4.0, 3.0), paddles=(2.25 + 5.01, 0.0)))
    assert ball(court) == [-19.0, 2.25, -4.0, 3.0]
    assert court.conceded[:, 0].tolist() == [True, False]
    assert not court.hits.any()


def test_wall_and_paddle_are_both_met_within_one_frame():
    """At the wall after 1/3 (y: 18 to 19), on the goal line after 1/2 (y = 18.5), back with slope 3/4 into the wall."""
    court = advance(court_with(ball=(17.0, 18.0, 4.0, 3.0), paddles=(0.0, 16.0)))
    assert ball(court) == [17.0, 18.0, -4.0, -3.0]


@pytest.mark.parametrize(
    ("start", "move", "met"), [(0.0, 1, True), (-0.01, 1, False), (6.0, -1, False), (6.0, 0, True)], ids=str
)
def test_the_paddle_counts_where_it_is_at_that_moment(start, move, met):
    """It moves by 5 until, after half a frame, the ball is there at y = 10; it meets balls up to 5 from its centre."""
    court = court_with(ball=(17.0, 10.0, 4.0, 0.0), paddles=(0.0, start), paddle_speed=10.0)
    advance(court, moves=(0, move))
    assert court.hits[1, 0] == met
    assert court.conceded[1, 0] != met


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize(("move", "slope"), [(-1, -0.25), (0, 0.0), (1, 0.25)])
def test_a_moving_paddle_adds_spin(seat, move, slope):
    """The ball is hit with the middle of the paddle, which is at 1 · move half way through the frame."""
    side = 2 * seat - 1
    court = court_with(ball=(side * 17.0, move, side * 4.0, 0.0), spin=0.25)
    advance(court, moves=(move, move))
    assert court.vy[0] / abs(court.vx[0]) == pytest.approx(slope, abs=1e-12)


def test_spin_does_not_exceed_the_steepest_slope():
    """The lower tip of a paddle that moves down returns with 1.5, not more."""
    court = advance(court_with(ball=(17.0, 6.0, 4.0, 0.0), spin=0.25), moves=(0, 1))
    assert court.vy[0] / -court.vx[0] == pytest.approx(1.5)


def test_a_paddle_held_by_the_end_of_the_field_gives_no_spin():
    """It wants to move, but does not."""
    court = advance(court_with(ball=(17.0, 16.0, 4.0, 0.0), paddles=(0.0, 16.0), spin=0.25), moves=(0, 1))
    assert ball(court) == [17.0, 16.0, -4.0, 0.0]


def test_every_hit_makes_the_ball_faster_up_to_the_limit():
    """4, then 4 · 1.5 = 6, then the limit of 7."""
    court = court_with(ball=(18.0, 0.0, 4.0, 0.0), speed_up=1.5, ball_speed_max=7.0)
    assert advance(court).speed[0] == 6.0
    assert court.x[0] == pytest.approx(19 - 6 * 0.75)
    assert advance(court, frames=6).speed[0] == 7.0
    assert court.vx[0] == 7.0


def test_paddles_stop_at_the_ends_of_the_field():
    """A paddle of length 8 has its centre within 16 of the middle."""
    court = court_with(ball=(0.0, 0.0, 0.1, 0.0))
    assert advance(court, frames=3, moves=(-1, 1)).paddle[:, 0].tolist() == [-6.0, 6.0]
    assert advance(court, frames=20, moves=(-1, 1)).paddle[:, 0].tolist() == [-16.0, 16.0]


def test_a_match_that_stands_still_does_not_change():
    """Neither ball nor paddle moves, and nothing happens on a goal line."""
    court = court_with(ball=(19.0, 3.0, 4.0, 3.0))
    court.advance(np.zeros((2, 1)), np.zeros(1))
    assert ball(court) == [19.0, 3.0, 4.0, 3.0]
    assert not court.hits.any()
    assert not court.conceded.any()


# -- serving -------------------------------------------------------------------------------------------------------


def test_a_serve_starts_on_the_middle_line_at_the_speed_of_serves():
    """And flies to the receiver."""
    court = court_with(ball_speed=2.0)
    court.serve(np.arange(1), np.zeros(1, np.int64))
    assert court.x[0] == 0.0
    assert court.vx[0] < 0
    assert np.hypot(court.vx[0], court.vy[0]) == pytest.approx(2.0)
    assert court.speed[0] == 2.0


def test_no_two_serves_of_a_match_are_the_same():
    """They are numbered, from the start of each match."""
    court, one = court_with(), np.arange(1)
    observed = []
    for _ in range(4):
        court.serve(one, np.zeros(1, np.int64))
        observed.append(ball(court))
    assert len(np.unique(observed, axis=0)) == 4
    court.prepare(one, np.zeros(1, np.uint64), ball_speed=ONE, paddles=np.ones((2, 1)))
    court.serve(one, np.zeros(1, np.int64))
    assert ball(court) == observed[0]


def test_a_serve_is_never_faster_than_the_limit():
    """Where the factor of a scenario would make it so."""
    court = Court(Pong2pConfig(ball_speed=2.0, ball_speed_max=3.0), 1)
    court.prepare(np.arange(1), np.zeros(1, np.uint64), ball_speed=2 * ONE, paddles=np.ones((2, 1)))
    court.serve(np.arange(1), np.ones(1, np.int64))
    assert court.speed[0] == 3.0


def test_serves_vary_with_seed_and_number():
    """Heights are spread evenly over the middle half of the field, slopes over [-1, 1)."""
    seeds = np.arange(0, 4000, 2, dtype=np.uint64)
    for number in (0, 1):
        heights, slopes = serve_heights_and_slopes(seeds, np.full(len(seeds), number))
        for values, width in ((heights, 10.0), (slopes, 1.0)):
            assert -width <= values.min() < -0.99 * width
            assert 0.99 * width < values.max() < width
            assert abs(values.mean()) < 0.05 * width
            assert np.unique(values).size == values.size


def test_paired_seeds_differ_in_the_first_direction_only():
    """2k and 2k + 1."""
    seeds = np.array([8, 9], np.uint64)
    heights, slopes = serve_heights_and_slopes(seeds, np.zeros(2, np.int64))
    assert heights[0] == heights[1]
    assert slopes[0] == slopes[1]
    assert first_receiver(seeds).tolist() == [0, 1]


# -- whatever happens ----------------------------------------------------------------------------------------------

OPTIONS = st.fixed_dictionaries(
    {
        "paddle_length": st.floats(1.0, 40.0),
        "paddle_speed": st.floats(0.0, 40.0),
        "ball_speed": st.floats(0.1, 38.0),
        "ball_speed_max": st.floats(0.1, 38.0),
        "speed_up": st.floats(1.0, 2.0),
        "steepness": st.floats(0.0, 5.0),
        "spin": st.floats(0.0, 5.0),
    }
)


def served(options: dict, *, seed: int, matches: int = 16) -> tuple[Court, np.random.Generator]:
    """Return a court with balls served in random directions."""
    rng, rows = np.random.default_rng(seed), np.arange(matches)
    court = Court(Pong2pConfig(**options), matches)
    seeds = rng.integers(2**63, size=matches).astype(np.uint64)
    court.prepare(rows, seeds, ball_speed=np.ones(matches), paddles=rng.uniform(0.1, 2, (2, matches)))
    court.serve(rows, rng.integers(2, size=matches))
    return court, rng


def play(court: Court, rng: np.random.Generator, frames: int):
    """Play at random, serve again where a ball is lost, and yield after every frame."""
    ones = np.ones(court.x.size)
    for _ in range(frames):
        court.advance(rng.integers(-1, 2, size=court.paddle.shape).astype(float), ones)
        yield
        seats, rows = court.conceded.nonzero()
        court.serve(rows, seats)


@settings(deadline=None, max_examples=40)
@given(options=OPTIONS, seed=st.integers(0, 2**32))
def test_balls_and_paddles_stay_within_the_field(options, seed):
    """At any speed, length and slope."""
    court, rng = served(options, seed=seed)
    for _ in play(court, rng, 60):
        assert np.abs(court.x).max() <= LIMIT
        assert np.abs(court.y).max() <= LIMIT
        assert (np.abs(court.paddle) + court.half).max() <= 20 + 1e-12


@settings(deadline=None, max_examples=40)
@given(options=OPTIONS, seed=st.integers(0, 2**32))
def test_energy_changes_by_hits_alone(options, seed):
    """A hit multiplies the speed by `speed_up` up to the limit; walls and time leave it as it is."""
    court, rng = served(options, seed=seed)
    limit = options["ball_speed_max"]
    before = court.speed.copy()
    for _ in play(court, rng, 60):
        np.testing.assert_allclose(np.hypot(court.vx, court.vy), court.speed, rtol=1e-12)
        hit = court.hits.any(axis=0)
        served_again = before < 0
        expected = np.where(hit, np.minimum(before * options["speed_up"], limit), before)
        np.testing.assert_array_equal(court.speed[~served_again], expected[~served_again])
        before = np.where(court.conceded.any(axis=0), -1.0, court.speed)


@settings(deadline=None, max_examples=40)
@given(speed=st.floats(1.0, 38.0), seed=st.integers(0, 2**32))
def test_no_ball_tunnels_through_a_paddle_as_long_as_the_field(speed, seed):
    """At any speed no seat concedes, and the number of returns matches the length of the ball's path."""
    court, rng = served({"ball_speed": speed, "ball_speed_max": 38.0, "paddle_length": 40.0}, seed=seed)
    court.half[:], court._reach[:] = 20.0, 0.0
    hits = np.zeros(16, int)
    path = np.zeros(16)
    for _ in play(court, rng, 100):
        assert not court.conceded.any()
        hits += court.hits.any(axis=0)
        path += court.speed
    assert (hits >= 1).all()
    assert (hits <= path / (2 * LIMIT) + 1).all()


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32), parts=st.integers(2, 12), steepness=st.floats(0.1, 3.0), spin=st.floats(0.0, 1.0))
def test_one_long_frame_is_many_short_ones(seed, parts, steepness, spin):
    """A ball of k times the speed does in one frame what a slow one does in k, bounces and returns included."""
    same = {"steepness": steepness, "spin": spin, "paddle_length": 16.0, "speed_up": 1.1}
    speeds = {"ball_speed": 8.0, "ball_speed_max": 30.0, "paddle_speed": 4.0}
    fast, rng = served({**same, **speeds}, seed=seed, matches=64)
    slow, _ = served({**same, **{name: value / parts for name, value in speeds.items()}}, seed=seed, matches=64)
    running = np.ones(64)
    for _ in range(12):
        directions = rng.integers(-1, 2, size=(2, 64)).astype(float)
        fast.advance(directions * running, running)
        lost = fast.conceded.any(axis=0)
        for _ in range(parts):
            slow.advance(directions * running, running)
            running = running * ~slow.conceded.any(axis=0)
        assert (lost <= (running == 0)).all()
        playing = running > 0
        for name in ("x", "y", "paddle"):
            np.testing.assert_allclose(
                getattr(fast, name)[..., playing], getattr(slow, name)[..., playing], atol=1e-6, err_msg=name
            )
    assert (running == 0).any()
    assert (running == 1).any()
