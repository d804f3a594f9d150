"""Soccer: contract, observations, rewards, goals and ends, and the names of Arena's interfaces."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from gymnasium import spaces
from ludus.errors import PluginError
from ludus.installed import open_game, open_interfaces
from ludus.interface import SeatView, Spaces
from ludus.rendering import Circle
from ludus.spaces import leaf_spaces
from ludus.testing import check_environment
from ludus_soccer.config import SoccerConfig
from ludus_soccer.game import ROLE, make_environment, make_game


@pytest.fixture
def make():
    """Make an environment, and close it at the end."""
    made = []

    def make_one(num_matches=1, **options):
        made.append(make_environment(SoccerConfig(**options), num_matches=num_matches))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def step(env, action=(0.0, 0.0, 0.0)):
    """Advance one match by a tick with the same action for all players."""
    seats = env.spec.roles[0].num_seats
    return env.step({ROLE: np.tile(np.array(action, np.float32), (1, seats, 1))})


def place_ball(env, goal):
    """Move the ball of the first match into the goal of a team."""
    simulation = env._games._games[0]._simulation._env
    arena = simulation.task.arena
    where = np.array((arena.home_goal if goal == "home" else arena.away_goal).mid)
    simulation.task.ball.set_pose(simulation.physics, where)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"team_size": 1}, {"team_size": 2, "observation": "dict", "workers": 1}])
def test_contract(make, options):
    """Matches keep the contract, in this process and in another one."""
    check_environment(lambda num_matches: make(num_matches, **options), steps=6)


def test_players_observe_themselves_the_ball_and_the_others(make):
    """Vectors join the leaves in alphabetical order; statistics are for critics only."""
    seeds = np.array([5], np.uint64)
    by_name = make(team_size=2, observation="dict")
    leaves = by_name.reset(seeds).roles[ROLE].observation
    joined = np.concatenate([leaves[name][0] for name in sorted(leaves)], axis=1)
    as_vector = make(team_size=2)
    player = as_vector.reset(seeds).roles[ROLE]
    assert player.observation["obs"].shape == (1, 4, 111)
    assert (player.observation["obs"][0] == joined).all()
    assert {"ball_ego_position", "teammate_0_ego_position", "opponent_1_ego_position"} <= leaves.keys()
    assert not any(name.startswith("stats") for name in leaves)
    assert player.privileged["stats"].shape == (1, 4, 8)


def test_a_decision_holds_for_its_time(make):
    """The time of a tick is a multiple of the physics' step."""
    assert make(team_size=1).spec.tick_s == pytest.approx(0.05)
    assert make(team_size=1, decision_s=0.1).spec.tick_s == pytest.approx(0.1)


@pytest.mark.parametrize(("goal", "scorer"), [("home", 1), ("away", 0)])
def test_a_goal_ends_the_match(make, goal, scorer):
    """The team that scored wins; its players are rewarded and the others punished."""
    env = make(team_size=2, goal=2.0, conceded=3.0, to_ball=0.0, ball_to_goal=0.0)
    env.reset(np.array([1], np.uint64))
    place_ball(env, goal)
    tick = step(env)
    assert tick.terminated.item()
    assert tick.outcome[0].tolist() == [float(team == scorer) for team in (0, 1)]
    rewards = [2.0 if team == scorer else -3.0 for team in (0, 0, 1, 1)]
    assert tick.roles[ROLE].reward[0].tolist() == rewards
    assert tick.roles[ROLE].statistics["goals"][0].tolist() == [float(team == scorer) for team in (0, 0, 1, 1)]


def test_several_goals_may_be_needed(make):
    """The match goes on after a goal, and a second one of the same team ends it."""
    env = make(team_size=1, goals=2)
    env.reset(np.array([1], np.uint64))
    place_ball(env, "away")
    tick = step(env)
    assert not tick.terminated.item()
    assert tick.roles[ROLE].acting.all()
    step(env)  # new positions
    place_ball(env, "away")
    tick = step(env)
    assert tick.terminated.item()
    assert tick.outcome[0].tolist() == [1.0, 0.0]


def test_a_match_without_goals_is_truncated_at_the_time_limit(make):
    """It is a draw."""
    env = make(team_size=1, time_limit_s=1.0)
    env.reset(np.array([1], np.uint64))
    for _ in range(env.spec.max_ticks):
        tick = step(env)
        if tick.truncated.item():
            break
    assert tick.truncated.item()
    assert tick.outcome.tolist() == [[0.5, 0.5]]


def test_guidance_is_paid_per_metre(make):
    """A player that runs towards the ball gets the metres of its approach, and the parts add up to the reward."""
    env = make(team_size=1, to_ball=1.0, ball_to_goal=1.0)
    before = env.reset(np.array([3], np.uint64)).roles[ROLE].observation["obs"].copy()
    names = leaf_spaces(make(team_size=1, observation="dict").spec.roles[0].observation_space)
    sizes = {name: space.shape[0] for name, space in names.items()}
    at = sum(size for name, size in sorted(sizes.items()) if name < "ball_ego_position")
    approached, ball = np.zeros(2), slice(at, at + 2)
    for _ in range(20):
        player = step(env, (1.0, 0.0, 0.0)).roles[ROLE]
        approached += player.reward_parts["to_ball"][0]
        assert player.reward == pytest.approx(sum(player.reward_parts.values()))
    after = player.observation["obs"]
    distance = np.linalg.norm(before[0, :, ball], axis=1) - np.linalg.norm(after[0, :, ball], axis=1)
    assert approached == pytest.approx(distance, abs=0.35)  # the ball moves too
    assert abs(approached).max() > 0.5


def test_teams_are_joint_seats_by_the_name_of_arena():
    """Group the players of a team, and join their observations and actions."""
    options = {"game": "soccer", "role": ROLE, "options": {"team_size": 2}}
    game = open_game("make-team", options={"make-team": options})
    env = game.make_environment(1)
    role = env.spec.roles[0]
    tick = env.reset(np.array([5], np.uint64))
    joint = tick.roles[role.name].observation
    env.close()
    assert role.teams == (0, 1)
    assert role.action_space.shape == (6,)
    assert {name: leaf.shape for name, leaf in joint.items()} == {"0.obs": (1, 2, 111), "1.obs": (1, 2, 111)}


@pytest.mark.parametrize("name", ["dict2vec", "concat-obs-act"])
def test_leaves_are_joined_by_the_names_of_arena(name):
    """A hand-made state of two leaves becomes one vector in their order."""
    leaves = {"ball": spaces.Box(-9, 9, (2,), np.float32), "speed": spaces.Box(-9, 9, (1,), np.float32)}
    raw = Spaces(observation=spaces.Dict(leaves), action=spaces.Box(-1, 1, (3,), np.float32))
    interface = open_interfaces([name])
    assert interface.bind(raw).observation.shape == (3,)
    state = {"ball": np.array([[1.0, 2.0]], np.float32), "speed": np.array([[3.0]], np.float32)}
    view = interface.observe(
        SeatView(observation=state, action_mask=None, reward=np.zeros(1, np.float32)), np.array([0])
    )
    assert view.observation["obs"].tolist() == [[1.0, 2.0, 3.0]]


def test_missing_libraries_are_named(monkeypatch):
    """With the command that installs them."""
    monkeypatch.setitem(sys.modules, "dm_control.locomotion.soccer", None)
    with pytest.raises(PluginError, match=r"soccer cannot be imported.*pip install \"ludus-soccer\[game\]\""):
        make_game()


def test_scenes_show_the_field_from_above(make):
    """The ball in the away team's goal is at the right end; players and ball lie within the scene."""
    env = make(team_size=2)
    env.reset(np.array([4], np.uint64))
    place_ball(env, "away")
    scene = env.render_frame(0)
    *_, ball, score = scene.shapes
    nets = scene.shapes[:2]
    assert nets[0].x == pytest.approx(2.0)
    assert nets[1].x < ball.x < nets[1].x + nets[1].width
    assert nets[1].y < ball.y < nets[1].y + nets[1].height
    bodies = [shape for shape in scene.shapes if isinstance(shape, Circle)]
    assert len(bodies) == 5
    assert all(0 < body.x < scene.width and 0 < body.y < scene.height for body in bodies)
    assert score.text == "0 : 0"


def test_scenes_show_where_players_look(make):
    """A player that runs ahead, which is the action -1, moves along its line."""
    env = make(team_size=1, time_limit_s=5.0)
    env.reset(np.array([4], np.uint64))
    simulation = env._games._games[0]._simulation
    before = simulation.place()
    for _ in range(12):
        step(env, (-1.0, 0.0, 0.0))
    moved = simulation.place().players[0] - before.players[0]
    assert np.hypot(*moved) > 0.3
    assert moved @ before.headings[0] / np.hypot(*moved) > 0.99
