"""The scripted opponents: the effect of their options, and the scores of matches between them."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.agent import Agent
from ludus_pong2p.agents import FollowerAgent, RandomAgent
from ludus_pong2p.config import FollowerConfig, Pong2pConfig, RandomConfig
from ludus_pong2p.environment import Pong2p
from ludus_pong2p.plugin import ludus_register_agents

STAY, UP, DOWN = 0, 1, 2
PERFECT = {"delay": 0, "speed": 1.0, "error": 0.0}


def make(matches: int = 1, **options) -> Pong2p:
    """Return the environment with these options."""
    return Pong2p(Pong2pConfig(**options), num_matches=matches)


def follower(**options) -> FollowerAgent:
    """Return the agent with these options."""
    return FollowerAgent(FollowerConfig(**options), spec=make().spec, role="player")


def random_agent(**options) -> RandomAgent:
    """Return the agent with these options."""
    return RandomAgent(RandomConfig(**options), spec=make().spec, role="player")


def observed(*, ball_x: float = 10.0, ball_y: float = 0.0, paddle: float = 0.0, rows: int = 1) -> dict:
    """Return the vector observation of a seat, from positions in units from the middle."""
    obs = np.zeros((rows, 10), np.float32)
    obs[:, 0], obs[:, 2], obs[:, 3] = paddle / 20, ball_x / 20, ball_y / 20
    return {"obs": obs}


def act(agent: Agent, observation: dict, *, seat_ids: tuple = (0,), seed: int = 0) -> list[int]:
    """Return the actions of the agent."""
    rng = np.random.default_rng(seed)
    actions = agent.act(observation, action_mask=None, seat_ids=np.array(seat_ids), rng=rng)
    assert actions.shape == (len(seat_ids), 1)
    assert actions.dtype == np.int64
    return actions[:, 0].tolist()


def score(left: Agent, right: Agent, *, matches: int = 48, **options) -> float:
    """Return the mean outcome of the left agent."""
    environment, rng = make(matches, **options), np.random.default_rng(0)
    tick = environment.reset(np.arange(matches, dtype=np.uint64))
    player, rows = tick.roles["player"], np.arange(matches)
    actions = np.zeros((matches, 2, 1), np.int64)
    outcome = np.full(matches, np.nan)
    while player.acting.any():
        for seat, agent in enumerate((left, right)):
            leaves = {name: leaf[:, seat] for name, leaf in player.observation.items()}
            actions[:, seat] = agent.act(leaves, action_mask=None, seat_ids=2 * rows + seat, rng=rng)
        tick = environment.step({"player": actions})
        over = tick.terminated | tick.truncated
        outcome[over] = tick.outcome[over, 0]
    return float(outcome.mean())


# -- matches of agents ---------------------------------------------------------------------------------------------


def test_the_easy_follower_beats_the_random_agent():
    """Nearly always."""
    assert score(follower(), random_agent()) > 0.85


def test_the_hard_follower_beats_the_easy_one():
    """Nearly always, in either seat."""
    assert score(follower(strength="hard"), follower()) > 0.9
    assert score(follower(), follower(strength="hard")) < 0.1


@pytest.mark.parametrize("observation", ["image", "both"])
def test_the_follower_plays_from_any_observation(observation):
    """It also plays from images."""
    assert score(follower(), random_agent(), matches=24, observation=observation) > 0.8


def test_every_option_weakens_the_follower():
    """Against the hard one, each weakness alone loses."""
    hard = follower(strength="hard")
    for weakness in ({"delay": 12}, {"speed": 0.3}, {"error": 9.0}):
        assert score(follower(strength="hard", **weakness), hard, matches=24, points=3) < 0.3, weakness


# -- the follower --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "action"), [(5.0, DOWN), (-5.0, UP), (0.5, STAY), (-0.5, STAY)])
def test_it_moves_to_where_the_ball_is(height, action):
    """And stays where it is close enough."""
    assert act(follower(**PERFECT), observed(ball_y=height)) == [action]


def test_it_observes_the_ball_with_a_delay():
    """With a delay of 2 it follows the ball of two ticks ago, and at first the first ball."""
    agent = follower(**{**PERFECT, "delay": 2})
    done = [act(agent, observed(ball_y=height))[0] for height in (9.0, -9.0, -9.0, -9.0, 9.0, 9.0, 9.0)]
    assert done == [DOWN, DOWN, DOWN, UP, UP, UP, DOWN]


@pytest.mark.parametrize(("speed", "moves"), [(0.0, 0), (0.25, 25), (0.7, 70), (1.0, 100)])
def test_it_moves_in_a_share_of_the_ticks(speed, moves):
    """Evenly spread."""
    agent = follower(**{**PERFECT, "speed": speed})
    done = [act(agent, observed(ball_y=9.0))[0] for _ in range(100)]
    assert done.count(DOWN) == pytest.approx(moves, abs=1)
    assert done.count(STAY) == 100 - done.count(DOWN)


def approach(agent: FollowerAgent, *, rows: int, seed: int, at: tuple = (10.0, 9.0)) -> None:
    """Let the agent observe an approaching ball."""
    for x in at:
        act(agent, observed(ball_x=x, rows=rows), seat_ids=tuple(range(rows)), seed=seed)


def test_it_misses_by_as_much_as_its_error():
    """The paddle settles where the ball is off its middle by anything up to the error."""
    agent, rows = follower(**{**PERFECT, "error": 4.0}), 400
    approach(agent, rows=rows, seed=3)
    obs = observed(ball_x=8.0, rows=rows)
    offsets = []
    for paddle in np.arange(-6.0, 6.1, 0.5):
        obs["obs"][:, 0] = paddle / 20
        stays = np.array(act(agent, obs, seat_ids=tuple(range(rows)))) == STAY
        offsets += [-paddle] * int(stays.sum())
    assert -4.75 <= min(offsets) <= -3.5
    assert 3.5 <= max(offsets) <= 4.75
    assert abs(np.mean(offsets)) < 0.5


def test_it_chooses_a_new_error_for_each_approach_only():
    """It is drawn once per approach."""
    agent, aim = follower(**{**PERFECT, "error": 4.0}), []
    for seed, x in enumerate((0.0, -5.0, -10.0, -15.0, -10.0, 0.0, 10.0, 5.0, 0.0)):
        act(agent, observed(ball_x=x), seed=seed)
        aim.append(float(agent._states["aim"][0]))
    assert aim[0] == 0.0
    assert len(set(aim[1:7])) == 1
    assert len(set(aim[7:])) == 1
    assert len(set(aim)) == 3


def test_rows_are_independent():
    """Streams have memories of their own, in any order."""
    ball = np.random.default_rng(0).uniform(-19, 19, (30, 6))
    one, other = (follower(delay=3, speed=0.6, error=0.0) for _ in range(2))
    order = np.array([3, 0, 5, 1, 4, 2])
    for heights in ball:
        obs = observed(rows=6)
        obs["obs"][:, 3] = heights / 20
        straight = act(one, obs, seat_ids=tuple(range(6)))
        turned = act(other, {"obs": obs["obs"][order]}, seat_ids=tuple(order))
        assert turned == [straight[i] for i in order]


def test_a_new_match_starts_without_memories():
    """A reset clears the ball of the given seats only."""
    agent = follower(**{**PERFECT, "delay": 2})
    for _ in range(3):
        act(agent, observed(ball_y=9.0, rows=2), seat_ids=(0, 7))
    agent.reset(np.array([7]))
    assert act(agent, observed(ball_y=-9.0, rows=2), seat_ids=(0, 7)) == [DOWN, UP]


def test_strength_sets_defaults():
    """Each of the three options can be set separately."""
    assert (follower()._delay, follower()._speed, follower()._error) == (2, 0.7, 4.5)
    mixed = follower(strength="hard", delay=7)
    assert (mixed._delay, mixed._speed, mixed._error) == (7, 1.0, 3.5)


def test_help_texts_name_the_values_of_both_strengths():
    """They are written in two places."""
    from attrs import fields_dict
    from ludus_pong2p.agents import _STRENGTHS

    for number, name in enumerate(("delay", "speed", "error")):
        help_text = fields_dict(FollowerConfig)[name].metadata["help"]
        assert help_text.endswith(", ".join(f"{strength} {_STRENGTHS[strength][number]:g}" for strength in _STRENGTHS))


# -- the random agent ----------------------------------------------------------------------------------------------


def test_random_actions_are_uniform():
    """Without holding."""
    counts = np.bincount(act(random_agent(hold=1.0), observed(rows=3000), seat_ids=tuple(range(3000))), minlength=3)
    assert (np.abs(counts - 1000) < 120).all()


def test_random_actions_are_held_for_a_while():
    """With hold = 5 a fifth of the ticks renews them, of which two thirds change them."""
    agent, rng, seat_ids = random_agent(hold=5.0), np.random.default_rng(0), np.arange(200)
    done = [agent.act({}, action_mask=None, seat_ids=seat_ids, rng=rng)[:, 0] for _ in range(100)]
    changed = np.mean(np.diff(done, axis=0) != 0)
    assert changed == pytest.approx(1 / 5 * 2 / 3, abs=0.01)


def test_a_new_match_starts_with_a_new_action():
    """It does not hold on to the last one."""
    agent, rng, seat_ids = random_agent(hold=1e9), np.random.default_rng(0), np.arange(100)
    first = agent.act({}, action_mask=None, seat_ids=seat_ids, rng=rng)
    np.testing.assert_array_equal(agent.act({}, action_mask=None, seat_ids=seat_ids, rng=rng), first)
    agent.reset(seat_ids)
    assert (agent.act({}, action_mask=None, seat_ids=seat_ids, rng=rng) != first).any()


# -- the rest ------------------------------------------------------------------------------------------------------


def test_agents_are_offered_for_this_game():
    """And load with their options."""
    environment = make()
    for component in ludus_register_agents():
        assert component.environments == ("pong2p",)
        agent = component.load_factory()(component.load_config()(), spec=environment.spec, role="player")
        assert act(agent, observed())[0] in (STAY, UP, DOWN)
