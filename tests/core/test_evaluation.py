"""Sides play on equal terms, and the record is the first one's."""

from __future__ import annotations

import numpy as np
import pytest
from ludus._evaluation import Record, play_out, play_pair
from ludus.errors import ContractError


class Agent:
    """Plays its number."""

    def __init__(self, number):
        self.number = number

    def reset(self, streams):
        pass

    def act(self, observation, *, action_mask, streams, rng):
        return np.full((streams.size, 1), self.number, np.int64)


def sides(*numbers, roles=("player",)):
    """Return sides that play their numbers in every role."""
    return [{role: Agent(number) for role in roles} for number in numbers]


def test_both_sides_play_the_same_seeds_from_both_seats(scripted):
    """Team 0 always wins here, so equal sides share the points."""
    game = scripted({"player": (0, 1)}, 4, reward=lambda now, role, seat: 1.0 - seat)
    record = play_pair(game, sides(1, 2), matches=9, seed=3)
    assert record == Record(wins=5, draws=0, losses=5, mean_return=1.5, mean_ticks=3.0)
    seeds = sorted(seed for _, seed, _ in game.resets)
    assert seeds[::2] == seeds[1::2]
    first = {tuple(row) for actions in game.received for row in actions["player"][..., 0].tolist()}
    assert {(1, 2), (2, 1)} <= first


def test_roles_are_not_exchanged(scripted):
    """The cat stays the cat."""
    game = scripted({"cat": (0,), "mouse": (1, 1)}, 2)
    record = play_pair(game, sides(1, 2, roles=("cat", "mouse")), matches=4, seed=3)
    assert (record.wins, record.losses) == (4, 0)
    assert all(actions["cat"][0, 0, 0] == 1 for actions in game.received)


def test_equal_outcomes_are_draws(scripted):
    """The best of the others counts."""
    game = scripted({"player": (0, 1, 2)}, 2)
    tick = game._tick

    def drawn(ended, *, stepped):
        made = tick(ended, stepped=stepped)
        made.outcome[:] = [0.5, 0.5, 0.0]
        return made

    game._tick = drawn
    record = play_pair(game, sides(1, 2, 3), matches=6, seed=3)
    assert (record.wins, record.draws, record.losses) == (0, 4, 2)


def test_an_environment_without_an_end_is_told(scripted, fixture_of, diary, monkeypatch):
    """The line says what to do."""
    game = scripted({"player": (0, 1)}, 1, length=lambda row: 10**9)
    monkeypatch.setattr("ludus._play.Play.step", lambda play: True)
    with pytest.raises(ContractError, match="'scripted': no match ended for a million ticks"):
        play_out(game, [fixture_of("ab")], lambda fixture, seat: (diary(), 0))
