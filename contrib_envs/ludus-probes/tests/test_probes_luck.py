"""Rewards, luck and what critics see in ``luck``."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_probes.environment import ROLE

ROWS = 4000


def test_answers_are_worth_one_besides_luck(make, make_agent, play, by_agent, start):
    """A match in which every answer is right returns 1 plus its luck, and is won."""
    environment = make("luck", ROWS)
    luck = start(environment).privileged["luck"][:, 0, 0].copy()
    total = play(environment, by_agent(make_agent("luck-perfect", environment)))[:, 0]
    np.testing.assert_allclose(total, 1.0 + luck, atol=1e-5)
    assert environment._tick.outcome.min() == 1.0
    assert environment._ticks.tolist() == [8] * ROWS


@pytest.mark.parametrize("wrong", range(4))
def test_one_wrong_answer_costs_its_share_and_the_match(make, play, start, wrong):
    """Whichever it is."""
    environment = make("luck", 50, ticks=4, spread=0.0)

    def decide(player, number):
        return (player.observation["obs"].argmax(axis=2)[..., None] + (number == wrong)) % 4

    assert play(environment, decide).tolist() == [[0.75]] * 50
    assert not environment._tick.outcome.any()


def test_critics_observe_the_luck_to_come(make, start):
    """All of it at first, an equal part less after every tick, none in the end."""
    environment = make("luck", 3, ticks=4)
    player = start(environment)
    luck = player.privileged["luck"][:, 0, 0].copy()
    for left in (0.75, 0.5, 0.25, 0.0):
        environment.step({ROLE: np.zeros((3, 1, 1), np.int64)})
        np.testing.assert_allclose(player.privileged["luck"][:, 0, 0], luck * left, atol=1e-6)


def test_luck_is_uniform_and_not_in_the_observation(make, start):
    """Mean 0, variance spread² / 3, and no correlation with the sign."""
    player = start(make("luck", ROWS, spread=6.0))
    luck = player.privileged["luck"][:, 0, 0]
    assert luck.min() >= -6.0
    assert luck.max() <= 6.0
    assert luck.mean() == pytest.approx(0.0, abs=0.25)
    assert luck.var() == pytest.approx(12.0, rel=0.06)
    assert abs(np.corrcoef(luck, player.observation["obs"][:, 0].argmax(axis=1))[0, 1]) < 0.06


def test_luck_can_be_hidden_from_critics(make, start):
    """The same matches without the privileged leaf."""
    shown, hidden = make("luck", 20), make("luck", 20, told=False)
    players = [start(environment) for environment in (shown, hidden)]
    assert hidden.spec.role(ROLE).privileged_space is None
    assert not players[1].privileged
    for _ in range(8):
        for environment in (shown, hidden):
            environment.step({ROLE: np.ones((20, 1, 1), np.int64)})
        assert np.array_equal(players[0].reward, players[1].reward)
        assert np.array_equal(players[0].observation["obs"], players[1].observation["obs"])


def test_signs_change_from_tick_to_tick(make, start):
    """All pairs of successive signs are about equally likely."""
    environment = make("luck", ROWS, choices=3)
    player = start(environment)
    before = player.observation["obs"][:, 0].argmax(axis=1)
    environment.step({ROLE: np.zeros((ROWS, 1, 1), np.int64)})
    after = player.observation["obs"][:, 0].argmax(axis=1)
    assert abs(np.bincount(before * 3 + after, minlength=9) - ROWS / 9).max() < 85
