"""Synthetic worlds: who wins and what training does follow the formulas that they are described by."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus.testing import EloWorld, RockPaperScissors, SpinningTop

WORLDS = [EloWorld(), RockPaperScissors(), SpinningTop()]
PURE = 20.0 * np.eye(3)  # rock, paper, scissors


def rng():
    """Return a generator with a fixed seed."""
    return np.random.default_rng(0)


def met(*strategies):
    """Return opponents ``[n, d]``."""
    return np.array(strategies, np.float64)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
@given(seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=20)
def test_win_rates_of_two_sum_to_one(world, seed):
    """After some training in any direction; against oneself it is ½."""
    source = np.random.default_rng(seed)
    one, other = world.start(source), world.start(source)
    for _ in range(5):
        one, other = world.trained(one, met(other)), world.trained(other, met(other), rate=2.0)
    ours, theirs = world.win_rate(one, met(other, one)), world.win_rate(other, met(one))
    assert ours[0] + theirs[0] == pytest.approx(1)
    assert ours[1] == pytest.approx(0.5)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_training_helps_against_whom_it_met(world):
    """One slow step raises the win rate, and the strategy given is left as it was."""
    source = rng()
    one, others = world.start(source), np.array([world.start(source) for _ in range(3)]) + 0.3
    before = one.copy()
    better = world.trained(one, others, rate=0.05)
    assert world.win_rate(better, others).mean() > world.win_rate(one, others).mean()
    np.testing.assert_array_equal(one, before)


def test_strength_is_log_odds():
    """A strength of ln 3 more wins three of four."""
    assert EloWorld().win_rate(met(np.log(3))[0:1], met([0.0]))[0] == pytest.approx(0.75)


def test_even_opponents_teach_most():
    """By the step against an even one, by 4 · ¾ · ¼ of it against one that is beaten three times of four."""
    world = EloWorld(step=0.1)
    assert world.trained(np.zeros(1), met([0.0]))[0] == pytest.approx(0.1)
    assert world.trained(np.zeros(1), met([np.log(3)]))[0] == pytest.approx(0.075)
    assert world.trained(np.zeros(1), met([0.0]), rate=2.0)[0] == pytest.approx(0.2)


def test_paper_beats_rock_beats_scissors_beats_paper():
    """Surely, where both play pure strategies."""
    world = RockPaperScissors()
    wins = np.array([world.win_rate(one, PURE) for one in PURE])
    np.testing.assert_allclose(wins, [[0.5, 0, 1], [1, 0.5, 0], [0, 1, 0.5]], atol=1e-6)


def test_a_step_goes_towards_what_beats_the_opponent():
    """From the middle, against rock: paper up, scissors down, by the step."""
    moved = RockPaperScissors(step=0.3, entropy=0.0).trained(np.zeros(3), met(PURE[0]))
    np.testing.assert_allclose(moved, [0, 0.3, -0.3], atol=1e-6)


def test_entropy_pulls_to_the_middle():
    """Against the middle nothing can be won, so only the bonus counts."""
    moved = RockPaperScissors(step=0.5, entropy=0.2).trained(np.array([1.0, -1.0, 0.0]), np.zeros((1, 3)))
    np.testing.assert_allclose(moved, [0.9, -0.9, 0.0])


def test_who_only_meets_himself_runs_in_circles():
    """The best answer always wins well more than ½; with half of the matches against the past it does not."""

    def exploited(history):
        world, source = RockPaperScissors(), rng()
        path = [world.start(source)]
        for _ in range(300):
            now = path[-1:]
            path.append(world.trained(path[-1], np.array(now * len(path) + path if history else now)))
        return 1 - np.mean([world.win_rate(one, PURE).min() for one in path[-50:]])

    assert exploited(history=False) > 0.6
    assert exploited(history=True) < 0.52


def test_styles_of_the_weak_count_more_than_those_of_the_strong():
    """A quarter of a turn decides matches at the bottom and hardly matters at the top."""
    world = SpinningTop()

    def quarter(strength):
        width = np.exp(-strength / world.height)
        return world.win_rate(np.array([strength, width, 0.0]), met([strength, 0.0, width]))[0]

    assert quarter(0.0) == pytest.approx(1 / (1 + np.exp(-6)))
    assert 0.5 < quarter(18.0) < 0.52


def test_strength_decides_between_equal_styles():
    """By its log-odds."""
    assert SpinningTop().win_rate(np.array([1.0, 0.2, 0.3]), met([0.0, 0.2, 0.3]))[0] == pytest.approx(0.731, abs=1e-3)


def test_styles_stay_inside_the_circle_of_their_strength():
    """However long somebody is trained; and a step is no longer than `step`."""
    world, one = SpinningTop(), SpinningTop().start(rng())
    for _ in range(500):
        before, one = one, world.trained(one, met(one))
        assert np.linalg.norm(one - before) <= world.step * 1.001
        assert np.hypot(one[1], one[2]) <= np.exp(-one[0] / world.height) + 1e-12


def test_one_who_only_meets_himself_turns_instead_of_getting_strong():
    """Against opponents of every style, strength is what is left to be learned."""
    world = SpinningTop()
    lonely, social = world.start(rng()), world.start(rng())
    turn = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    for _ in range(300):
        lonely = world.trained(lonely, met(lonely))
        others = np.stack([np.full(12, social[0]), 0.5 * np.cos(turn), 0.5 * np.sin(turn)], axis=1)
        social = world.trained(social, others)
    assert social[0] > 3 * lonely[0]
