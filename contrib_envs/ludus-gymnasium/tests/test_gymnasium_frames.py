"""What Gymnasium environments render becomes frames of `ludus watch`."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from ludus.rendering import draw_match, enable_rendering
from ludus_copies import Copies
from ludus_gymnasium.config import GymnasiumConfig
from ludus_gymnasium.environment import NativeEnvironment, make_environment


class Counter(gymnasium.Env):
    """Draws the number of its steps."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - Gymnasium's form
    observation_space = action_space = spaces.Discrete(9)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return 0, {}

    def step(self, action):
        self.count += 1
        return 0, 0.0, False, False, {}

    def render(self):
        return np.full((2, 2, 3), self.count, np.uint8)


@pytest.fixture(autouse=True)
def _registered():
    gymnasium.register("FrameCounter-v0", entry_point=Counter)
    yield
    del gymnasium.registry["FrameCounter-v0"]


def make(id):
    """Return a started environment of one match."""
    env = make_environment(GymnasiumConfig(id=id), num_matches=1)
    env.reset(np.array([0], np.uint64))
    return env


def test_games_are_drawn_if_rendering_is_enabled():
    """A frame is that of the current tick; samplers make games without a render mode."""
    assert draw_match(make("FrameCounter-v0"), 0) is None
    with enable_rendering():
        env = make("FrameCounter-v0")
    env.step({"player": np.zeros((1, 1, 1), np.int64)})
    assert draw_match(env, 0).tolist() == np.ones((2, 2, 3)).tolist()


def test_watched_matches_are_not_vectorized():
    """Vectorized environments draw no single matches; the matches are the same."""
    assert isinstance(make("CartPole-v1"), NativeEnvironment)
    with enable_rendering():
        assert isinstance(make("CartPole-v1"), Copies)
