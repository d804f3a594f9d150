"""Frame skip, largest values of frames, sticky actions and no-op starts of PettingZoo environments."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from ludus.errors import ConfigError
from ludus.testing import check_environment
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment, make_pettingzoo

BOXING = "atari/boxing_v2"
needs_atari = pytest.mark.skipif(importlib.util.find_spec("multi_agent_ale_py") is None, reason="needs Atari games")


def make(num_matches=1, **options):
    """Make an environment."""
    return make_environment(PettingZooConfig(**options), num_matches=num_matches)


def start(env, seed=1):
    """Start all matches."""
    return env.reset(np.full(env.num_matches, seed, np.uint64))


@pytest.mark.parametrize("workers", [0, 1])
def test_contract(toys, workers):
    """A game with deaths and a time limit keeps the contract with every option, and replays exactly."""
    options = {"id": "toy_chase:Chase", "options": {"limit": 30}, "frame_skip": 3, "sticky_actions": 0.3, "noop_max": 2}
    check_environment(lambda n: make(n, workers=workers, max_ticks=6, **options), steps=20)


def test_decisions_consist_of_frames(toys):
    """The hunter observes its time: three frames per decision, of which max_ticks counts the decisions."""
    env = make(id="toy_chase:Chase", options={"limit": 99}, frame_skip=3, max_ticks=2)
    start(env)
    actions = {role.name: np.ones((1, role.num_seats, len(role_labels(role))), np.int64) for role in env.spec.roles}
    actions["hunter"][:] = 0
    times = []
    for _ in range(2):
        tick = env.step(actions)
        times.append(tick.roles["hunter"].observation["obs"][0, 0, 0])
    assert times == [4.0, 7.0]
    assert tick.truncated.all()
    assert "frame_skip: an action is held for 3 frames" in " ".join(env.spec.notes)


def role_labels(role):
    """Return an entry per action label of a role."""
    return np.atleast_1d(getattr(role.action_space, "nvec", 1))


@pytest.mark.parametrize("option", [{"frame_skip": 2}, {"max_frames": 2}, {"sticky_actions": 0.1}, {"noop_max": 1}])
def test_games_in_turns_refuse_the_options(toys, option):
    """One line names the option and what to do."""
    (name,) = option
    with pytest.raises(ConfigError, match=f"^{name}: 'toy_elimination:Elimination' is played in turns") as error:
        make(id="toy_elimination:Elimination", **option)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("option", [{"frame_skip": 2}, {"sticky_actions": 0.1}, {"noop_max": 1}])
def test_games_with_masks_refuse_held_actions(toys, option):
    """A held action may be illegal in the next frame."""
    with pytest.raises(ConfigError, match="has action masks"):
        make(id="toy_mixed:Mixed", **option)


@needs_atari
def test_boxing_plays_the_same_frames_as_its_library():
    """Four frames per decision, the larger of the last two screens, and the sum of the rewards."""
    env = make(id=BOXING, frame_skip=4, max_frames=2)
    game = make_pettingzoo(BOXING, {}, api="parallel").unwrapped
    start(env)
    game.reset(seed=1)
    rng = np.random.default_rng(5)
    for _ in range(60):
        first, second = rng.integers(18, size=2).tolist()
        screens, total = [], 0.0
        for _ in range(4):
            observations, rewards, *_ = game.step({"first_0": first, "second_0": second})
            screens.append(observations["first_0"])
            total += rewards["first_0"]
        role = env.step({"player": np.array([[[first], [second]]])}).roles["player"]
        assert (role.observation["obs"][0, 0] == np.maximum(*screens[-2:])).all()
        assert role.reward[0].tolist() == [total, -total]
    env.close()
    game.close()
