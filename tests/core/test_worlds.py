"""Win rates and training of synthetic worlds follow their formulas."""

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


def opponents(*strategies):
    """Return opponents ``[n, d]``."""
    return np.array(strategies, np.float64)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
@given(seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=20)
def test_win_rates_of_two_sum_to_one(world, seed):
    """After some training; the win rate against itself is ½."""
    source = np.random.default_rng(seed)
    one, other = world.start(source), world.start(source)
    for _ in range(5):
        one, other = world.trained(one, opponents(other)), world.trained(other, opponents(other), rate=2.0)
    ours, theirs = world.win_rate(one, opponents(other, one)), world.win_rate(other, opponents(one))
    assert ours[0] + theirs[0] == pytest.approx(1)
    assert ours[1] == pytest.approx(0.5)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_training_raises_the_win_rate_against_its_opponents(world):
    """The argument is not modified."""
    source = rng()
    one, others = world.start(source), np.array([world.start(source) for _ in range(3)]) + 0.3
    before = one.copy()
    better = world.trained(one, others, rate=0.05)
    assert world.win_rate(better, others).mean() > world.win_rate(one, others).mean()
    np.testing.assert_array_equal(one, before)


def test_strength_is_log_odds():
    """A strength of ln 3 more wins three of four."""
    assert EloWorld().win_rate(opponents(np.log(3))[0:1], opponents([0.0]))[0] == pytest.approx(0.75)


def test_even_opponents_have_the_largest_effect():
    """The step against an even opponent, 4 · ¾ · ¼ of it against one with a win rate of ¾."""
    world = EloWorld(step=0.1)
    assert world.trained(np.zeros(1), opponents([0.0]))[0] == pytest.approx(0.1)
    assert world.trained(np.zeros(1), opponents([np.log(3)]))[0] == pytest.approx(0.075)
    assert world.trained(np.zeros(1), opponents([0.0]), rate=2.0)[0] == pytest.approx(0.2)


def test_paper_beats_rock_beats_scissors_beats_paper():
    """With certainty, for pure strategies."""
    world = RockPaperScissors()
    wins = np.array([world.win_rate(one, PURE) for one in PURE])
    np.testing.assert_allclose(wins, [[0.5, 0, 1], [1, 0.5, 0], [0, 1, 0.5]], atol=1e-6)


def test_a_step_moves_towards_the_best_response():
    """Against rock, the logit of paper rises and that of scissors falls, by the step."""
    moved = RockPaperScissors(step=0.3, entropy=0.0).trained(np.zeros(3), opponents(PURE[0]))
    np.testing.assert_allclose(moved, [0, 0.3, -0.3], atol=1e-6)


def test_the_entropy_bonus_pulls_to_equal_probabilities():
    """Against equal probabilities only the bonus counts."""
    moved = RockPaperScissors(step=0.5, entropy=0.2).trained(np.array([1.0, -1.0, 0.0]), np.zeros((1, 3)))
    np.testing.assert_allclose(moved, [0.9, -0.9, 0.0])


def test_pure_self_play_cycles():
    """The best response always wins well more than ½; with half of the matches against the past it does not."""

    def best_response(history):
        world, source = RockPaperScissors(), rng()
        path = [world.start(source)]
        for _ in range(300):
            now = path[-1:]
            path.append(world.trained(path[-1], np.array(now * len(path) + path if history else now)))
        return 1 - np.mean([world.win_rate(one, PURE).min() for one in path[-50:]])

    assert best_response(history=False) > 0.6
    assert best_response(history=True) < 0.52


def test_styles_matter_less_for_strong_strategies():
    """A quarter of a turn decides matches at strength 0 and hardly matters at strength 18."""
    world = SpinningTop()

    def quarter(strength):
        width = np.exp(-strength / world.height)
        return world.win_rate(np.array([strength, width, 0.0]), opponents([strength, 0.0, width]))[0]

    assert quarter(0.0) == pytest.approx(1 / (1 + np.exp(-6)))
    assert 0.5 < quarter(18.0) < 0.52


def test_strength_decides_between_equal_styles():
    """The log-odds are the difference in strength."""
    assert SpinningTop().win_rate(np.array([1.0, 0.2, 0.3]), opponents([0.0, 0.2, 0.3]))[0] == pytest.approx(
        0.731, abs=1e-3
    )


def test_styles_are_clipped_to_the_maximum_of_their_strength():
    """A step is not longer than `step`."""
    world, one = SpinningTop(), SpinningTop().start(rng())
    for _ in range(500):
        before, one = one, world.trained(one, opponents(one))
        assert np.linalg.norm(one - before) <= world.step * 1.001
        assert np.hypot(one[1], one[2]) <= np.exp(-one[0] / world.height) + 1e-12


def test_pure_self_play_changes_style_instead_of_strength():
    """Against opponents of every style, strength grows faster."""
    world = SpinningTop()
    self_play, diverse = world.start(rng()), world.start(rng())
    turn = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    for _ in range(300):
        self_play = world.trained(self_play, opponents(self_play))
        others = np.stack([np.full(12, diverse[0]), 0.5 * np.cos(turn), 0.5 * np.sin(turn)], axis=1)
        diverse = world.trained(diverse, others)
    assert diverse[0] > 3 * self_play[0]
