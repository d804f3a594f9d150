"""Sides play paired matches, and the record is that of the first side."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, RoleTick, Tick
from ludus_terminal.evaluate import Record, play_pair


class Game:
    """A batch of matches of three ticks in which all seats act; by default team 0 wins.

    Args:
        teams: Team of each seat, by role.
        num_matches: Number of matches B.
        outcome: Outcome of the teams.
    """

    def __init__(self, teams, num_matches, outcome=None):
        self.teams, self.num_matches = teams, num_matches
        number = 1 + max(team for row in teams.values() for team in row)
        self.outcome = [1.0] + [0.0] * (number - 1) if outcome is None else outcome
        space = {"observation_space": spaces.Box(0, 1, (1,)), "action_space": spaces.Discrete(4)}
        roles = tuple(Role(name=name, teams=row, **space) for name, row in teams.items())
        self.spec = EnvironmentSpec(name="game", roles=roles, turn="simultaneous")
        self.clock, self.seeds, self.received = np.full(num_matches, -1), [], []

    def tick(self, ended, *, reward):
        """Return a tick; the first seat of each role earns 1 on every step."""
        roles = {}
        for name, row in self.teams.items():
            shape = (self.num_matches, len(row))
            earned = np.zeros(shape, np.float32)
            earned[:, 0] = reward
            acting = np.repeat(((self.clock >= 0) & ~ended)[:, None], len(row), axis=1)
            observation = {"obs": np.zeros((*shape, 1), np.float32)}
            roles[name] = RoleTick(observation=observation, acting=acting, action_mask=None, reward=earned)
        outcome = np.tile(np.array(self.outcome, np.float32), (self.num_matches, 1))
        return Tick(roles=roles, terminated=ended, truncated=np.zeros_like(ended), outcome=outcome)

    def reset(self, seeds, *, indices=None, scenarios=None):
        self.clock[slice(None) if indices is None else indices] = 0
        self.seeds += seeds.tolist()
        return self.tick(np.zeros(self.num_matches, bool), reward=0.0)

    def step(self, actions):
        self.received.append({role: action[..., 0].tolist() for role, action in actions.items()})
        self.clock[self.clock >= 0] += 1
        return self.tick(self.clock == 3, reward=1.0)


class Agent:
    """An agent that always plays its number."""

    def __init__(self, number):
        self.number = number

    def reset(self, seat_ids):
        pass

    def act(self, observation, *, action_mask, seat_ids, rng):
        return np.full((seat_ids.size, 1), self.number, np.int64)


def sides(*numbers, roles=("player",)):
    """Return sides of agents that play their numbers in every role."""
    return [{role: Agent(number) for role in roles} for number in numbers]


def test_both_sides_play_the_same_seeds_from_both_seats():
    """Team 0 always wins, so both sides score one half."""
    game = Game({"player": (0, 1)}, 4)
    record = play_pair(game, sides(1, 2), matches=9, seed=3)
    assert record == Record(wins=5, draws=0, losses=5, mean_return=1.5, mean_ticks=3.0)
    seeds = sorted(game.seeds)
    assert seeds[::2] == seeds[1::2]
    assert {tuple(row) for actions in game.received for row in actions["player"]} >= {(1, 2), (2, 1)}


def test_roles_are_not_exchanged():
    """In a game of two roles every side keeps its role."""
    game = Game({"cat": (0,), "mouse": (1, 1)}, 2)
    record = play_pair(game, sides(1, 2, roles=("cat", "mouse")), matches=4, seed=3)
    assert (record.wins, record.losses) == (4, 0)
    assert all(actions["cat"][0] == [1] for actions in game.received)


def test_equal_outcomes_are_draws():
    """The outcome is compared with the best other team."""
    record = play_pair(Game({"player": (0, 1, 2)}, 2, [0.5, 0.5, 0.0]), sides(1, 2, 3), matches=6, seed=3)
    assert (record.wins, record.draws, record.losses) == (0, 4, 2)


@pytest.mark.parametrize(("points", "record"), [(1.0, (4, 0, 0)), (0.5, (0, 4, 0)), (0.0, (0, 0, 4))])
def test_a_single_team_is_compared_with_a_draw(points, record):
    """A game of one team has no other outcome to compare with."""
    played = play_pair(Game({"player": (0,)}, 2, [points]), sides(1), matches=4, seed=3)
    assert (played.wins, played.draws, played.losses) == record
