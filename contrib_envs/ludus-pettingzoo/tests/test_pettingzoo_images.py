"""Images of agents become ``[height, width, channels]``."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.testing import check_environment
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment

GAME = '''
"""Two agents see an image in which every number differs, channels first."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

IMAGE = np.arange(4 * 6 * 6, dtype=np.uint8).reshape(4, 6, 6)


class Gallery(ParallelEnv):
    metadata = {"name": "gallery_v0"}
    possible_agents = ["red", "blue"]
    state_space = spaces.Box(0, 255, IMAGE.shape, np.uint8)

    def observation_space(self, agent):
        image = spaces.Box(0, 255, IMAGE.shape, np.uint8)
        return spaces.Dict({"observation": image, "action_mask": spaces.MultiBinary(2)})

    def action_space(self, agent):
        return spaces.Discrete(2)

    def state(self):
        return IMAGE

    def answers(self):
        return {a: {"observation": IMAGE, "action_mask": np.ones(2, np.int8)} for a in self.agents}

    def reset(self, seed=None, options=None):
        self.agents, self.now = list(self.possible_agents), 0
        return self.answers(), {a: {} for a in self.agents}

    def step(self, actions):
        self.now += 1
        answers, seats, over = self.answers(), self.agents, self.now == 2
        self.agents = [] if over else seats
        rewards = {a: float(actions[a]) for a in seats}
        return answers, rewards, dict.fromkeys(seats, over), dict.fromkeys(seats, False), {a: {} for a in seats}
'''


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Return a function that makes the environment from options."""
    (tmp_path / "ludus_gallery.py").write_text(GAME, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(num_matches=1, **options):
        return make_environment(PettingZooConfig(id="ludus_gallery:Gallery", **options), num_matches=num_matches)

    return make


def test_images_and_states_are_channel_last(make):
    """The layout is guessed, stated in the notes, and the same for observation and state."""
    env = make()
    (role,) = env.spec.roles
    assert role.observation_space.shape == (6, 6, 4)
    assert env.spec.notes == ("image obs [4, 6, 6]: channels, height, width; observed as [6, 6, 4]",)
    tick = env.reset(np.zeros(1, np.uint64)).roles["player"]
    expected = np.arange(4 * 6 * 6).reshape(4, 6, 6).transpose(1, 2, 0)
    np.testing.assert_array_equal(tick.observation["obs"][0, 1], expected)
    np.testing.assert_array_equal(tick.privileged["game_state"][0, 1], expected)


def test_the_option_overrides_the_guess(make):
    """With `last`, nothing is moved."""
    env = make(channels="last")
    assert env.spec.roles[0].observation_space.shape == (4, 6, 6)
    assert env.spec.notes == ("image obs [4, 6, 6]: height, width, channels",)
    tick = env.reset(np.zeros(1, np.uint64)).roles["player"]
    assert tick.observation["obs"][0, 0].ravel().tolist() == list(range(144))


def test_games_with_images_keep_the_contract(make):
    """Ticks, seeds and matches pass all checks."""
    check_environment(make, seed=0)
