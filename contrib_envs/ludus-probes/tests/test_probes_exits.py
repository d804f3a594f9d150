"""Staying and leaving in ``exits``."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_probes.environment import ROLE


def choose(environment, *seats):
    """Step one match with the choices of its seats."""
    return environment.step({ROLE: np.array([[[choice] for choice in seats]])})


def test_staying_is_worth_one(make, make_agent, play, by_agent):
    """In all seats, and the match is won when it is cut off."""
    environment = make("exits", 3)
    assert play(environment, by_agent(make_agent("exits-perfect", environment))) == pytest.approx(1.0)
    assert environment._tick.truncated.all()
    assert environment._tick.outcome.tolist() == [[1.0]] * 3


@pytest.mark.parametrize("leaving", ["terminated", "truncated"])
def test_leaving_is_worth_the_prize_and_ends_the_seat(make, start, leaving):
    """The other seat plays on; its choices alone count from then on."""
    environment = make("exits", ticks=4, leaving=leaving)
    player = start(environment)
    tick = choose(environment, 1, 0)
    assert player.reward.tolist() == [[0.25, 0.25]]
    assert getattr(player, leaving).tolist() == [[True, False]]
    assert player.acting.tolist() == [[False, True]]
    assert not (tick.terminated | tick.truncated).any()
    choose(environment, 1, 0)
    assert player.reward.tolist() == [[0.0, 0.25]]
    assert not (player.terminated | player.truncated).any()
    choose(environment, 9, 0)  # actions of seats that have ended are ignored
    tick = choose(environment, 0, 0)
    assert tick.truncated[0]
    assert tick.outcome[0, 0] == 0.0


def test_a_match_ends_when_all_seats_have_left(make, start):
    """By the rules, before its limit."""
    environment = make("exits", seats=3)
    start(environment)
    choose(environment, 1, 0, 0)
    tick = choose(environment, 0, 1, 1)
    assert tick.terminated[0]
    assert not tick.truncated[0]
