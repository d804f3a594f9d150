"""Two-player Atari games: contract, observations, points, rewards and ends."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ludus.errors import ConfigError, PluginError
from ludus.interface import stack
from ludus.testing import check_environment
from ludus_atari.config import AtariConfig
from ludus_atari.emulator import Emulator
from ludus_atari.game import ROLE, make_environment
from ludus_atari.observations import player_memories
from ludus_interfaces.environment import wrap_environment
from ludus_interfaces.frames import FrameStack
from ludus_interfaces.images import Resize
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment as make_pettingzoo

NO_OP, FIRE = 0, 1


@pytest.fixture
def make():
    """Make an environment, and close it at the end."""
    made = []

    def make_one(num_matches=1, **options):
        made.append(make_environment(AtariConfig(**options), num_matches=num_matches))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def start(env, *seeds):
    """Start all matches and return the tick."""
    return env.reset(np.array(seeds, np.uint64))


def play(env, *, first=NO_OP, second=NO_OP, ticks=1):
    """Play ticks with the same actions, until the match ends, and return the last tick."""
    for _ in range(ticks):
        tick = env.step({ROLE: np.array([[[first], [second]]] * env.num_matches)})
        if tick.terminated.any() or tick.truncated.any():
            break
    return tick


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"observation": "image", "side": 32},
        {"game": "pong", "points": 1, "sticky": 0.25},
        {"game": "tennis", "point_won": 1.0, "result": 0.0},
        pytest.param({"game": "maze_craze", "workers": 1}, marks=pytest.mark.slow),
    ],
)
def test_contract(make, options):
    """Games keep the contract, from memory and from images, also those whose saved states are incomplete."""
    check_environment(lambda num_matches: make(num_matches, **options), steps=10)


def test_random_starts_make_matches_differ(make):
    """The console itself knows no seed."""
    memory = start(make(2), 3, 4).roles[ROLE].observation["ram"]
    assert (memory[0] != memory[1]).any()
    memory = start(make(2, random_start=0), 3, 4).roles[ROLE].observation["ram"]
    assert (memory[0] == memory[1]).all()


def test_images_are_those_of_the_pettingzoo_adapter_and_interfaces(make):
    """Its frame skip, largest values, one frame without actions, resize and frame stack play the same match."""
    env = make(observation="image", random_start=0, points=0)
    game = {"id": "atari/boxing_v2", "options": {"obs_type": "grayscale_image"}}
    raw = make_pettingzoo(PettingZooConfig(**game, frame_skip=4, max_frames=2, noop_max=1), num_matches=1)
    other = wrap_environment(raw, {ROLE: stack(Resize(84, 84), FrameStack(4))})
    ticks, rng = [start(env, 1), start(other, 1)], np.random.default_rng(0)
    for _ in range(30):
        seen = [tick.roles[ROLE].observation for tick in ticks]
        assert (seen[0]["screen"] == seen[1]["obs"]).all()
        actions = {ROLE: rng.integers(18, size=(1, 2, 1))}
        ticks = [env.step(actions), other.step(actions)]
    other.close()


def test_both_players_observe_their_own_bytes_first(make):
    """In Boxing, both players start at the same place of their view, and score where the first player does."""
    env = make(random_start=0)
    first, second = start(env, 1).roles[ROLE].observation["ram"][0].astype(int)
    assert env.reset(np.array([1], np.uint64)).roles[ROLE].observation["side"].tolist() == [[0, 1]]
    assert first[[32, 33, 34, 35]].tolist() == second[[32, 33, 34, 35]].tolist() == [30, 109, 4, 87]
    others = [address for address in range(128) if address not in (32, 33, 34, 35, 18, 19)]
    assert (first[others] == second[others]).all()


def test_scores_and_positions_of_the_second_player():
    """Places add up to 139 and 91; scores are exchanged as they are."""
    memory = np.zeros(128, np.uint8)
    memory[[32, 33, 34, 35, 18, 19]] = 40, 100, 10, 91, 3, 7
    first, second = player_memories(memory, "boxing")
    assert (first == memory).all()
    assert second[[32, 33, 34, 35, 18, 19]].tolist() == [39, 99, 0, 81, 7, 3]


@pytest.mark.parametrize(("up", "down"), [(2, 5), (6, 9), (7, 8)])
def test_exchanged_players_see_the_same_match(make, up, down):
    """In Boxing, equal actions of either player move it alike in its own view."""
    env = make(2, random_start=0)
    start(env, 1, 1)
    for choice in (up, down, 3, up, 4) * 3:
        tick = env.step({ROLE: np.array([[[choice], [NO_OP]], [[NO_OP], [choice]]])})
    moved = tick.roles[ROLE].observation["ram"].astype(int)[:, :, [32, 34]]
    assert abs(moved[0, 0] - moved[1, 1]).max() <= 2  # a step
    assert abs(moved[0, 1] - moved[1, 0]).max() <= 2
    assert (moved[0, 0] != moved[0, 1]).all()


def test_other_games_show_the_same_bytes_to_both_players():
    """Their addresses are not known here; the leaf `side` distinguishes the players."""
    memory = np.arange(128, dtype=np.uint8)
    assert (player_memories(memory, "tennis") == memory).all()


def test_images_are_stacked_along_channels(make):
    """A stack starts with the first image, and the newest is last."""
    env = make(observation="image", side=84, stack=3, random_start=0)
    screens = [start(env, 1).roles[ROLE].observation["screen"][0].copy()]
    assert screens[0].shape == (2, 84, 84, 3)
    assert (screens[0] == screens[0][..., :1]).all()
    assert screens[0].std() > 10
    screens += [play(env, first=3, second=4).roles[ROLE].observation["screen"][0].copy() for _ in range(3)]
    for before, after in itertools.pairwise(screens):
        assert (after[..., :-1] == before[..., 1:]).all()
    assert (screens[-1][0] == screens[-1][1]).all()
    assert (screens[-1][..., -1] != screens[0][..., -1]).any()


def test_the_clock_ends_boxing(make):
    """Two minutes of no hits are a draw, by the rules."""
    env = make(random_start=0, frame_skip=60)
    start(env, 1)
    tick = play(env, ticks=200)
    assert tick.terminated.item()
    assert tick.outcome.tolist() == [[0.5, 0.5]]
    assert tick.roles[ROLE].reward.tolist() == [[0, 0]]


def test_points_end_a_match_and_are_rewarded(make):
    """In Pong, a player that does not move loses points; the parts add up to the reward."""
    env = make(game="pong", points=2, point_won=0.25, point_lost=0.5, result=1.0, random_start=0)
    start(env, 1)
    returns, parts = np.zeros(2), {name: np.zeros(2) for name in ("result", "point_won", "point_lost")}
    for _ in range(5000):
        tick = play(env, first=FIRE, second=FIRE)
        returns += tick.roles[ROLE].reward[0]
        for name, values in tick.roles[ROLE].reward_parts.items():
            parts[name] += values[0]
        if tick.terminated.any():
            break
    points = tick.roles[ROLE].statistics["points"][0]
    winner = int(points.argmax())
    assert points[winner] == 2
    assert tick.outcome[0].tolist() == [float(seat == winner) for seat in (0, 1)]
    assert parts["point_won"].tolist() == (0.25 * points).tolist()
    assert parts["point_lost"].tolist() == (-0.5 * points[::-1]).tolist()
    assert parts["result"][winner] == 1.0
    assert returns == pytest.approx(sum(parts.values()))


def test_a_match_is_truncated_at_its_limit(make):
    """A truncated match has an outcome by points, and no reward for it."""
    env = make(max_ticks=3)
    start(env, 1)
    tick = play(env, ticks=5)
    assert tick.truncated.item()
    assert not tick.terminated.item()
    assert tick.roles[ROLE].reward.tolist() == [[0, 0]]


def test_actions_are_held_for_the_frames_of_a_decision(make):
    """One decision of four frames is four decisions of one frame."""
    memories = []
    for skip, ticks in ((4, 5), (1, 20)):
        env = make(frame_skip=skip, random_start=0)
        start(env, 1)
        memories.append(play(env, first=3, second=4, ticks=ticks).roles[ROLE].observation["ram"].copy())
    assert (memories[0] == memories[1]).all()


def test_sticky_actions_depend_on_the_seed_of_the_match(make):
    """The same actions lead to other positions in a match of another seed."""
    env = make(2, sticky=0.5, random_start=0)
    start(env, 1, 2)
    for action in (2, 3, 4, 5) * 5:
        memory = play(env, first=action, second=action).roles[ROLE].observation["ram"]
    assert (memory[0] != memory[1]).any()


@pytest.mark.parametrize(("game", "problem"), [("boxin", "has no Atari game"), ("warlords", "is a game of 4 players")])
def test_other_games_are_refused(make, game, problem):
    """The error names the option."""
    with pytest.raises(ConfigError, match=f"^game: .*{problem}"):
        make(game=game)


def test_missing_libraries_are_named(make, monkeypatch):
    """With the command that installs them."""
    monkeypatch.setitem(__import__("sys").modules, "ale_py", None)
    with pytest.raises(PluginError, match=r"ROMs .* missing.*pip install \"ludus-atari\[games\]\""):
        make()


def test_saved_states_are_complete_in_boxing():
    """A match starts from the saved state, whatever was played before."""
    emulator = Emulator("boxing")
    starts = []
    for _ in range(3):
        emulator.reset()
        starts.append(emulator.memory().copy())
        for _ in range(50):
            emulator.act(np.array([3, 4]))
    emulator.close()
    assert (starts[0] == starts[1]).all()
    assert (starts[0] == starts[2]).all()
