"""Frame skip, largest values of frames, sticky actions and no-op starts of Gymnasium environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import MaxAndSkipObservation
from ludus.errors import ConfigError, ContractError
from ludus.testing import check_environment
from ludus_gymnasium.config import GymnasiumConfig
from ludus_gymnasium.environment import NativeEnvironment, make_environment


class Film(gymnasium.Env):
    """Shows random pictures, the reward is the action, and the match ends after ten frames, if at all."""

    observation_space = spaces.Box(0, 255, (6, 5, 3), np.uint8)
    action_space = spaces.Discrete(4)

    def __init__(self, ends=True, masks=False, malformed=False):
        self.ends, self.masks, self.malformed = ends, masks, malformed

    def answer(self):
        picture = self.np_random.integers(0, 256, (6, 5, 3), np.uint8)
        return picture, {"action_mask": np.ones(4, bool)} if self.masks else {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.frame = 0
        return self.answer()

    def step(self, action):
        self.frame += 1
        picture, info = self.answer()
        step = picture, float(action), self.ends and self.frame == 10, False, info
        return step[1:] if self.malformed else step


@pytest.fixture(autouse=True)
def _registered():
    gymnasium.register("Film-v0", entry_point=Film, max_episode_steps=50)
    yield
    del gymnasium.registry["Film-v0"]


def make(num_matches=1, id="Film-v0", **options):
    """Make an environment."""
    return make_environment(GymnasiumConfig(id=id, **options), num_matches=num_matches)


def play(env, *actions):
    """Start a match, play it with these actions, and return its pictures, rewards and last tick."""
    tick = env.reset(np.array([7], np.uint64))
    pictures, rewards = [tick.roles["player"].observation["obs"][0, 0].copy()], []
    for action in actions:
        tick = env.step({"player": np.array([[[action]]])})
        pictures.append(tick.roles["player"].observation["obs"][0, 0].copy())
        rewards.append(float(tick.roles["player"].reward[0, 0]))
    return np.stack(pictures), rewards, tick


def test_contract():
    """The options keep the contract, and matches replay exactly."""
    check_environment(lambda n: make(n, frame_skip=2, max_frames=2, sticky_actions=0.2, noop_max=3), steps=20)


def test_frames_are_those_of_gymnasiums_wrapper():
    """MaxAndSkipObservation shows the same pictures and rewards, but an old picture where a decision ends early."""
    ours = play(make(frame_skip=4, max_frames=2), 1, 2, 3)
    theirs = MaxAndSkipObservation(Film(), skip=4)
    first, _ = theirs.reset(seed=7)
    answers = [theirs.step(action) for action in (1, 2, 3)]
    assert (ours[0][:3] == np.stack([first, *(answer[0] for answer in answers[:2])])).all()
    assert ours[1] == [4.0, 8.0, 6.0] == [answer[1] for answer in answers]
    assert ours[2].terminated.all()


def test_time_limits_count_decisions():
    """max_ticks counts decisions; the limit of the registry counts steps of the game."""
    env = make(options={"ends": False}, frame_skip=4, noop_max=8, max_ticks=3)
    assert env.spec.max_ticks == 3
    *_, tick = play(env, 1, 1)
    assert not tick.truncated.any()
    *_, tick = play(env, 1, 1, 1)
    assert tick.truncated.all()
    env = make(options={"ends": False}, frame_skip=4)
    assert env.spec.max_ticks == 13
    assert play(env, *[1] * 13)[2].truncated.all()


def test_noop_starts_differ_by_seed():
    """The first picture is one of the first frames."""
    (pictures, *_), (frames, *_) = play(make(noop_max=5)), play(make(), *[0] * 5)
    assert any((pictures[0] == frame).all() for frame in frames[1:])


def test_held_actions_are_not_vectorized():
    """CartPole has a vectorized implementation, which plays single frames."""
    assert isinstance(make(id="CartPole-v1"), NativeEnvironment)
    assert not isinstance(make(id="CartPole-v1", frame_skip=2), NativeEnvironment)
    with pytest.raises(ConfigError, match="held actions"):
        make(id="CartPole-v1", frame_skip=2, vectorized="native")


def test_masks_and_games_without_images_are_refused():
    """One line each."""
    with pytest.raises(ConfigError, match="frame_skip: 'Film-v0' has action masks"):
        make(options={"masks": True}, frame_skip=2)
    with pytest.raises(ConfigError, match="max_frames: 'CartPole-v1' observes no image"):
        make(id="CartPole-v1", max_frames=2)


def test_malformed_answers_are_reported():
    """The error is the one without these options."""
    env = make(options={"malformed": True}, frame_skip=2)
    with pytest.raises(ContractError, match="game 'Film-v0': step returned too few or many values"):
        play(env, 1)
