"""Several frames per decision: frame skip, largest values of frames, sticky actions and random no-op starts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gymnasium import spaces
from ludus.errors import ConfigError
from ludus_copies.stepping import Stepping, SteppingOptions, no_op

IMAGE = spaces.Box(0, 255, (4, 4, 3), np.uint8)


class Frames:
    """Agents a and b see the number of the frame as an image; b ends after some frames, a after ten."""

    def __init__(self, b_ends=99, space=IMAGE, keeps_dead=False):
        self.b_ends, self.space, self.keeps_dead = b_ends, space, keeps_dead
        self.played, self.agents = [], []

    def observation_space(self, agent):
        return self.space

    def action_space(self, agent):
        return spaces.Discrete(5, start=1)

    def answer(self):
        shown = self.pictures(len(self.played)) if isinstance(self.space, spaces.Box) else {"image": self.pictures(1)}
        return dict.fromkeys(self.agents, shown), {agent: {"frame": len(self.played)} for agent in self.agents}

    def pictures(self, frame):
        picture = np.zeros((4, 4, 3), np.uint8)
        picture[frame % 4] = 10 + frame
        return picture

    def reset(self, *, seed, **options):
        self.seed, self.options = seed, options
        self.played, self.agents = [], ["a", "b"]
        return self.answer()

    def step(self, actions):
        self.played.append(dict(actions))
        now = len(self.played)
        observations, infos = self.answer()
        ends = {agent: now >= (10 if agent == "a" else self.b_ends) for agent in self.agents}
        rewards = {agent: float(now) for agent in self.agents}
        if not self.keeps_dead:
            self.agents = [agent for agent in self.agents if not ends[agent]]
        return observations, rewards, ends, dict.fromkeys(ends, False), infos


def make(game=None, **options):
    """Return a game and its stepping."""
    game = game or Frames()
    return game, Stepping(game, SteppingOptions(**options), agents=["a", "b"], id="frames")


def test_frame_skip_holds_actions_and_sums_rewards():
    """A decision of three frames has the last observation and info, and the sum of the rewards."""
    game, stepping = make(frame_skip=3)
    stepping.reset(seed=1)
    observations, rewards, terminations, truncations, infos = stepping.step({"a": 2, "b": 3})
    assert game.played == [{"a": 2, "b": 3}] * 3
    assert rewards == {"a": 6.0, "b": 6.0}
    assert infos["a"] == {"frame": 3}
    assert (observations["a"] == game.pictures(3)).all()
    assert terminations == truncations == {"a": False, "b": False}


@pytest.mark.parametrize("keeps_dead", [False, True])
def test_an_agent_that_ends_within_a_decision_keeps_its_end_and_its_reward(keeps_dead):
    """The other agent goes on, and a dead agent acts no more, also where the game keeps it."""
    game, stepping = make(Frames(b_ends=2, keeps_dead=keeps_dead), frame_skip=4)
    stepping.reset(seed=1)
    _, rewards, terminations, _, _ = stepping.step({"a": 2, "b": 3})
    assert [sorted(actions) for actions in game.played] == [["a", "b"], ["a", "b"], ["a"], ["a"]]
    assert terminations == {"a": False, "b": True}
    assert rewards["a"] == 10.0
    assert rewards["b"] >= 3.0


def test_a_match_that_ends_within_a_decision_plays_no_further_frame():
    """Ten frames are played of three decisions of four."""
    game, stepping = make(Frames(b_ends=10), frame_skip=4)
    stepping.reset(seed=1)
    for _ in range(3):
        answer = stepping.step({"a": 2, "b": 3})
    assert len(game.played) == 10
    assert answer[2]["a"] is True


def test_images_hold_the_largest_values_of_the_last_frames():
    """Two frames count, also of two decisions, but not those of an earlier match."""
    game, stepping = make(max_frames=2)
    stepping.reset(seed=1)
    stepping.step({"a": 2, "b": 3})
    (second, *_) = stepping.step({"a": 2, "b": 3})
    assert (second["a"] == np.maximum(game.pictures(1), game.pictures(2))).all()
    first, _ = stepping.reset(seed=1)
    assert (first["a"] == game.pictures(0)).all()


def test_images_within_a_dict_are_maximised():
    """Other leaves are those of the last frame, and the game's own observation does not change."""
    game, stepping = make(Frames(space=spaces.Dict({"image": IMAGE})), max_frames=3)
    stepping.reset(seed=1)
    (seen, *_) = stepping.step({"a": 2, "b": 3})
    assert (seen["a"]["image"] == game.pictures(1)).all()


def test_a_game_without_images_has_no_largest_values():
    """One line names the option."""
    with pytest.raises(ConfigError, match="max_frames: 'frames' observes no image"):
        make(Frames(space=spaces.Discrete(3)), max_frames=2)


def test_sticky_actions_hold_the_previous_action_with_their_probability():
    """The first action of a match never sticks; later ones do with p = 0.25 per frame and agent."""
    game, stepping = make(Frames(), sticky_actions=0.25)
    held = frames = 0
    for seed in range(300):
        stepping.reset(seed=seed)
        for now in range(5):
            stepping.step({"a": 1 + now, "b": 3})
        actions = [played["a"] for played in game.played]
        assert actions[0] == 1
        held += sum(action == before for before, action in itertools.pairwise(actions))
        frames += 4
    assert 0.22 < held / frames < 0.28


def test_equal_seeds_hold_equal_actions():
    """The seed of a match draws its sticky actions and its no-op frames."""

    def record(seed):
        game, stepping = make(sticky_actions=0.5, noop_max=4)
        stepping.reset(seed=seed)
        for now in range(4):
            stepping.step({"a": 1 + now, "b": 5 - now})
        return game.played

    assert record(3) == record(3)
    assert any(record(3) != record(seed) for seed in range(4, 9))


def test_noop_starts_play_frames_without_actions():
    """1 to 4 frames are played, all numbers of them, and built-in agents get no action."""
    lengths = set()
    for seed in range(40):
        game, stepping = make(noop_max=4)
        observations, _ = stepping.reset(seed=seed, passive=["b"])
        lengths.add(len(game.played))
        assert game.played == [{"a": 1}] * len(game.played)
        assert (observations["a"] == game.pictures(len(game.played))).all()
    assert lengths == {1, 2, 3, 4}


def test_a_match_that_would_end_in_its_noops_starts_without_them():
    """Agent b ends in the second frame."""
    for seed in range(20):
        game, stepping = make(Frames(b_ends=2), noop_max=5)
        stepping.reset(seed=seed)
        assert game.agents == ["a", "b"]
        assert len(game.played) < 2


def test_malformed_answers_are_passed_on():
    """The adapters report them with the name of the game."""
    game, stepping = make(frame_skip=2, noop_max=1, max_frames=2)
    game.reset = lambda **_: "nothing"
    assert stepping.reset(seed=1) == "nothing"
    game.step = lambda _: (1, 2, 3, 4)
    assert stepping.step({"a": 1, "b": 1}) == (1, 2, 3, 4)


def test_malformed_rewards_are_passed_on():
    """A reward of None counts as none, and one that is no number is left for the adapter to report."""
    game, stepping = make(frame_skip=3)
    stepping.reset(seed=1)
    given = iter([None, 2.0, 3.0])
    step = game.step

    def odd(actions):
        observations, _, *others = step(actions)
        return observations, {"a": next(given), "b": "much"}, *others

    game.step = odd
    assert stepping.step({"a": 1, "b": 1})[1] == {"a": 5.0, "b": "much"}


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (spaces.Discrete(3, start=-1), -1),
        (spaces.MultiDiscrete([2, 3], start=[1, 2]), [1, 2]),
        (spaces.MultiBinary(2), [0, 0]),
        (spaces.Box(1.0, 2.0, (2,)), [1.0, 1.0]),
        (spaces.Tuple([spaces.Discrete(2), spaces.Box(-1.0, 1.0, (1,))]), (0, [0.0])),
        (spaces.Dict({"move": spaces.Discrete(2)}), {"move": 0}),
    ],
)
def test_no_op_is_the_first_choice_or_zero(space, expected):
    """It is an action of the space."""
    action = no_op(space)
    assert space.contains(action)
    np.testing.assert_equal(action, expected)
