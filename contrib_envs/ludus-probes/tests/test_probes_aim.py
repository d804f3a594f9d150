"""Rewards and odds of ``aim``."""

from __future__ import annotations

import numpy as np
import pytest
from ludus import ContractError
from ludus_probes.environment import ROLE

ROWS = 50_000


def by(target=None, place=None):
    """Return a `decide` with the right target and place, or these instead."""

    def decide(player, number):
        sought, middle = player.observation["sought"][:, 0].argmax(axis=1), player.observation["place"][:, 0]
        first = sought if target is None else np.full(len(sought), target)
        second = middle if place is None else np.tile(np.float32(place), (len(sought), 1))
        return np.concatenate([first[:, None], second], axis=1).astype(np.float32)[:, None]

    return decide


def test_the_perfect_agent_receives_one(make, make_agent, play, by_agent):
    """In every match, and all are won."""
    environment = make("aim", 1000)
    assert play(environment, by_agent(make_agent("aim-perfect", environment))).min() == 1.0
    assert environment._tick.outcome.min() == 1.0


def test_each_part_of_the_action_alone_receives_little(make, play):
    """1 of 4 without the target; without the place the volume of a cone over a square, π/12."""
    environment = make("aim", ROWS)
    assert play(environment, by(target=0)).mean() == pytest.approx(1 / 4, abs=0.01)
    assert play(environment, by(place=(0, 0))).mean() == pytest.approx(np.pi / 12, abs=0.005)


@pytest.mark.parametrize(("off", "won"), [(0.0, True), (0.1, True), (0.3, False), (1.5, False)])
def test_the_reward_falls_with_the_distance(make, start, off, won):
    """1 less the distance, at least 0; the match is won within the tolerance of 0.2."""
    environment = make("aim", 100)
    player = start(environment)
    place = player.observation["place"][:, 0].copy()
    shot = place + np.where(place[:, :1] > 0, -off, off) * np.array([1.0, 0.0], np.float32)
    inside = np.abs(shot).max(axis=1) <= 1
    action = np.concatenate([player.observation["sought"].argmax(axis=2), np.clip(shot, -1, 1)], axis=1)
    tick = environment.step({ROLE: action.astype(np.float32)[:, None]})
    assert np.allclose(player.reward[inside, 0], max(1 - off, 0), atol=1e-6)
    assert set(tick.outcome[inside, 0].tolist()) == {float(won)}


@pytest.mark.parametrize("action", [[4, 0, 0], [1.5, 0, 0], [np.nan, 0, 0], [1, 2, 0]])
def test_a_wrong_part_of_an_action_is_refused(make, start, action):
    """A label out of range or between two choices, and a number out of bounds."""
    environment = make("aim")
    start(environment)
    with pytest.raises(ContractError, match="chose the illegal action"):
        environment.step({ROLE: np.array([[action]], np.float32)})


def test_actions_are_typed_as_target_and_numbers(make):
    """The label first."""
    environment = make("aim")
    assert environment.parse_action(ROLE, "3 0.5 -1").tolist() == [3.0, 0.5, -1.0]
    assert environment.action_name(ROLE, np.array([3, 0.5, -1.0])) == "3 0.5 -1"
    for wrong in ("3", "3 0.5", "4 0.5 -1", "3 0.5 2", "3 0.5 x", "0.5 -1", ""):
        with pytest.raises(ValueError, match="expected one of 0 1 2 3, then 2 numbers from -1 to 1; got"):
            environment.parse_action(ROLE, wrong)
