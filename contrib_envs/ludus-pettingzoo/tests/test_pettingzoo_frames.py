"""What PettingZoo games render becomes frames of `ludus watch`."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.rendering import draw_match, enable_rendering
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment

GAME = """
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec


class Count(ParallelEnv):
    metadata = {"name": "count_v0", "render_modes": ["human", "rgb_array"], "is_parallelizable": True}

    def __init__(self, render_mode=None):
        self.possible_agents, self.render_mode = ["red", "blue"], render_mode

    def observation_space(self, agent):
        return spaces.Discrete(9)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.now = list(self.possible_agents), seed % 100
        return {a: 0 for a in self.agents}, {a: {} for a in self.agents}

    def step(self, actions):
        self.now += 1
        zeros, running = dict.fromkeys(self.agents, 0), dict.fromkeys(self.agents, False)
        return zeros, zeros, running, running, {a: {} for a in self.agents}

    def render(self):
        return np.full((2, 2, 3), self.now, np.uint8)


def env(**options):
    return parallel_to_aec(Count(**options))
"""


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Make an environment of `Count`, and close it at the end."""
    (tmp_path / "toy_frames.py").write_text(GAME, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def make_one(id, **options):
        made.append(make_environment(PettingZooConfig(id=f"toy_frames:{id}", **options), num_matches=2))
        made[-1].reset(np.array([3, 5], np.uint64))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


@pytest.mark.parametrize(("id", "api"), [("Count", "parallel"), ("env", "aec")])
@pytest.mark.parametrize("workers", [0, 1])
def test_games_are_drawn_as_images(make, id, api, workers):
    """Through both interfaces, in this process and in workers."""
    with enable_rendering():
        env = make(id, api=api, workers=workers)
    assert [int(draw_match(env, match).max()) for match in range(2)] == [3, 5]
    for _ in range(2):  # in turn, two steps of an agent are one of the game
        env.step({role.name: np.zeros((2, role.num_seats, 1), np.int64) for role in env.spec.roles})
    moves = 2 if api == "parallel" else 1
    assert [int(draw_match(env, match).max()) for match in range(2)] == [3 + moves, 5 + moves]


def test_games_of_samplers_are_made_without_a_render_mode(make):
    """They have no frames then."""
    env = make("Count")
    assert draw_match(env, 0) is None


def test_a_render_mode_may_be_an_option(make):
    """A mode of the options is kept."""
    env = make("Count", options={"render_mode": "rgb_array"})
    assert draw_match(env, 0).shape == (2, 2, 3)
