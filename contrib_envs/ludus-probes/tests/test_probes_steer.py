"""Rewards and odds of ``steer``."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_probes.environment import ROLE
from ludus_probes.steer import best_actions

ROWS = 50_000


def constant(*action):
    """Return a `decide` that does the same everywhere."""
    return lambda *_: np.tile(np.array(action, np.float32), (ROWS, 1, 1))


@pytest.mark.parametrize("steps", [1, 5])
def test_the_best_actions_receive_nothing_less_than_zero(make, make_agent, play, by_agent, steps):
    """Exactly 0 in every match, and all are won, whatever was lost in the rows before."""
    environment = make("steer", 1000, steps=steps)
    assert play(environment, lambda *_: np.ones((1000, 1, 2), np.float32)).max() < 0.0
    assert not environment._tick.outcome.all()
    assert not play(environment, by_agent(make_agent("steer-perfect", environment))).any()
    assert environment._tick.outcome.min() == 1.0


def test_the_best_actions_are_product_and_mean():
    """Of the first two and of the last two numbers; they never leave the action space."""
    observed = np.array([[0.5, -0.5, 1.0], [1.0, 1.0, 1.0], [-1.0, 1.0, -1.0]], np.float32)
    assert best_actions(observed).tolist() == [[-0.25, 0.25], [1.0, 1.0], [-1.0, 0.0]]


def test_who_does_not_look_receives_minus_five_eighteenths(make, play):
    """The mean best action is (0, 0), so that is the best constant; its loss is 1/9 + 1/6, others lose their square."""
    environment = make("steer", ROWS)
    assert play(environment, constant(0, 0)).mean() == pytest.approx(-5 / 18, abs=0.005)
    assert play(environment, constant(0.5, 0)).mean() == pytest.approx(-5 / 18 - 0.25, abs=0.01)
    assert play(environment, constant(0, -0.5)).mean() == pytest.approx(-5 / 18 - 0.25, abs=0.01)


def test_random_play_loses_two_thirds_more(make, play):
    """The variance of two uniform numbers in [-1, 1] on top of that."""
    rng = np.random.default_rng(0)
    environment = make("steer", ROWS)
    total = play(environment, lambda *_: rng.uniform(-1, 1, (ROWS, 1, 2)).astype(np.float32))
    assert total.mean() == pytest.approx(-5 / 18 - 2 / 3, abs=0.015)


def test_the_reward_is_minus_the_squared_distance(make, start):
    """Of a known action on a known observation."""
    environment = make("steer", 2)
    player = start(environment)
    best = best_actions(player.observation["obs"][:, 0])
    environment.step({ROLE: (best * 0.5)[:, None]})
    assert np.allclose(player.reward[:, 0], -0.25 * (best**2).sum(axis=1))


def test_every_tick_shows_other_numbers(make, start):
    """Uniform in [-1, 1] and independent of those before."""
    environment = make("steer", 2000, steps=3)
    player = start(environment)
    observed = []
    for _ in range(3):
        observed.append(player.observation["obs"][:, 0].copy())
        environment.step({ROLE: np.zeros((2000, 1, 2), np.float32)})
    numbers = np.concatenate(observed, axis=1)
    assert abs(numbers.mean(axis=0)).max() < 0.06
    assert abs(numbers.var(axis=0) - 1 / 3).max() < 0.03
    assert abs(np.corrcoef(numbers.T) - np.eye(9)).max() < 0.1


@pytest.mark.parametrize(("miss", "won"), [(0.2, True), (0.24, False)])
def test_a_match_is_won_within_the_tolerance(make, start, miss, won):
    """Mean squared distance of all ticks at most 0.05: 0.04 is, 0.0576 is not."""
    environment = make("steer", 10, steps=2)
    player = start(environment)
    for _ in range(2):
        best = best_actions(player.observation["obs"][:, 0])
        off = np.where(best[:, :1] > 0, -miss, miss) * np.array([1.0, 0.0])
        tick = environment.step({ROLE: (best + off).astype(np.float32)[:, None]})
    assert tick.terminated.all()
    assert tick.outcome[:, 0].tolist() == [float(won)] * 10


def test_actions_are_typed_as_numbers(make):
    """Two of them, within bounds."""
    environment = make("steer")
    assert environment.parse_action(ROLE, "0.5 -1").tolist() == [0.5, -1.0]
    assert environment.action_name(ROLE, np.array([0.5, -1.0])) == "0.5 -1"
    for wrong in ("0.5", "0.5 1.5", "0 0 0", ""):
        with pytest.raises(ValueError, match="expected 2 numbers from -1 to 1"):
            environment.parse_action(ROLE, wrong)
