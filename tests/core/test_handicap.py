"""Agents that play below their strength."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.agent import RandomAgent
from ludus.environment import EnvironmentSpec, Role
from ludus.errors import ConfigError
from ludus.handicap import Handicap, split_settings, weaken

SPACE = spaces.MultiDiscrete([4, 2])
ROWS = 20_000


class Constant:
    """Always chooses the last choices; logs resets and ticks."""

    def __init__(self):
        self.resets, self.ticks = [], []

    def reset(self, seat_ids):
        self.resets += seat_ids.tolist()

    def elapse(self, ticks, seat_ids):
        self.ticks += ticks.tolist()

    def act(self, observation, *, action_mask, seat_ids, rng):
        return np.tile([3, 1], (seat_ids.size, 1))


def act(agent, mask=None):
    """Return decisions for many rows."""
    masks = None if mask is None else np.tile(np.array(mask, bool), (ROWS, 1))
    return agent.act({}, action_mask=masks, seat_ids=np.arange(ROWS), rng=np.random.default_rng(0))


def test_noise_replaces_a_share_of_decisions():
    """By uniform choices among the legal ones, all labels of a decision together."""
    action = act(weaken(Constant(), Handicap(noise=0.5), SPACE), mask=[1, 1, 0, 1, 1, 1])
    shares = np.bincount(action[:, 0], minlength=4) / ROWS
    assert shares == pytest.approx([1 / 6, 1 / 6, 0, 0.5 + 1 / 6], abs=0.015)
    assert np.mean(action[action[:, 0] == 0, 1]) == pytest.approx(0.5, abs=0.03)


def test_without_noise_the_agent_is_the_same():
    """Nothing wraps it."""
    agent = Constant()
    assert weaken(agent, Handicap(), SPACE) is agent


def test_noise_passes_resets_and_time_on():
    """The agent keeps its state by seat."""
    agent = Constant()
    noisy = weaken(agent, Handicap(noise=1.0), SPACE)
    noisy.reset(np.array([2, 5]))
    noisy.elapse(np.array([7]), np.array([2]))
    assert (agent.resets, agent.ticks) == ([2, 5], [7])


def test_scripted_agents_have_no_temperature():
    """The message states what else weakens them."""
    role = Role(name="player", observation_space=SPACE, action_space=SPACE, teams=(0,))
    agent = RandomAgent(None, spec=EnvironmentSpec(name="game", roles=(role,), turn="simultaneous"), role="player")
    with pytest.raises(ConfigError, match="RandomAgent is no model, so it has no temperature; use noise"):
        weaken(agent, Handicap(temperature=2.0), SPACE)


@pytest.mark.parametrize(
    ("text", "name", "handicap"),
    [
        ("main@7", "main@7", Handicap()),
        ("main@7,temperature=2", "main@7", Handicap(temperature=2.0)),
        ("random,noise=0.25,temperature=0.5", "random", Handicap(temperature=0.5, noise=0.25)),
    ],
)
def test_settings_follow_a_name(text, name, handicap):
    """In any order; their text is the same again up to the order."""
    assert split_settings(text) == (name, handicap)
    assert split_settings(f"{name}{handicap}") == (name, handicap)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("temp=2", "'temp=2': expected temperature=NUMBER or noise=NUMBER, each once"),
        ("noise=0.1,noise=0.2", "'noise=0.2': expected temperature=NUMBER or noise=NUMBER, each once"),
        ("noise=much", "'noise=much': expected a number"),
        ("noise=1.5", r"noise: expected a number in \[0, 1\], got 1.5"),
        ("temperature=0", "temperature: expected a number > 0, got 0.0"),
        ("temperature=inf", "temperature: expected a number > 0, got inf"),
    ],
)
def test_wrong_settings(settings, problem):
    """The message names the participant and the setting."""
    with pytest.raises(ConfigError, match=rf"^main@7,{settings}: {problem}$"):
        split_settings(f"main@7,{settings}")
