"""Agents that are terminated or truncated before their match end their seats."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from ludus.errors import ContractError
from ludus.testing import check_environment
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment
from ludus_pettingzoo.export import to_aec, to_parallel

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # PettingZoo's own imports
    from pettingzoo.test import api_test, parallel_api_test

DIES = {"dead": (2, "terminated"), "cut": (3, "truncated"), "left": (9, "")}


@pytest.fixture
def make():
    """Make an environment of `Exits`, and close it at the end."""
    made = []

    def make_one(num_matches=1, ends=DIES, limit=4, team_reward=0.0, unknown_at=0, **options):
        options |= {"options": {"ends": ends, "limit": limit, "team_reward": team_reward, "unknown_at": unknown_at}}
        config = PettingZooConfig(id="toy_exits:Exits", **options)
        made.append(make_environment(config, num_matches=num_matches))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def play(env):
    """Play one match and return, per tick: terminated seats, truncated seats, rewards, and the ends of the match."""
    env.reset(np.array([1], np.uint64))
    ticks = []
    while not ticks or not any(ticks[-1][3]):
        tick = env.step({"player": np.zeros((1, 3, 1), np.int64)})
        player = tick.roles["player"]
        flags = [np.flatnonzero(flags[0]).tolist() for flags in (player.terminated, player.truncated)]
        ticks.append((*flags, player.reward[0].tolist(), (tick.terminated.item(), tick.truncated.item())))
    return ticks


@pytest.mark.parametrize("workers", [0, 1])
def test_seats_end_with_their_agents(make, workers) -> None:
    """The match goes on, in this process and in another one."""
    assert play(make(workers=workers)) == [
        ([], [], [1, 1, 1], (False, False)),
        ([0], [], [1, 1, 1], (False, False)),
        ([], [1], [0, 1, 1], (False, False)),
        ([], [2], [0, 0, 1], (False, True)),
    ]


def test_a_seat_may_be_terminated_as_its_match_is_truncated(make) -> None:
    """Every agent ends in its own way."""
    (*_, last) = play(make(ends={"dead": (2, "terminated"), "cut": (3, ""), "left": (9, "")}, limit=2))
    assert last == ([0], [1, 2], [1, 1, 1], (False, True))


def test_dead_agents_may_wait_for_later_rewards(make) -> None:
    """Their seats end with the match, terminated or truncated as the agents were; team rewards reach them."""
    ticks = play(make(team_reward=5.0, dead_agents="wait"))
    assert [tick[:2] for tick in ticks] == [([], []), ([], []), ([], []), ([0], [1, 2])]
    assert ticks[-1][2] == [5, 5, 5]


def test_in_turns_a_truncated_agent_shows_its_last_observation(make) -> None:
    """It bootstraps from that observation, although it is not its turn."""
    env = make(api="aec", ends={"first": (9, ""), "second": (9, ""), "cut": (1, "truncated")})
    env.reset(np.array([1], np.uint64))
    for _ in range(3):
        tick = env.step({"player": np.zeros((1, 3, 1), np.int64)})
    player = tick.roles["player"]
    assert player.truncated.tolist() == [[False, False, True]]
    assert player.observation["obs"][0, 2] == 1
    assert not tick.truncated.any()


@pytest.mark.parametrize("api", ["parallel", "aec"])
@pytest.mark.parametrize("dead_agents", ["end", "wait"])
def test_contract(make, api, dead_agents) -> None:
    """Both interfaces and both rules keep the contract."""
    check_environment(lambda num_matches: make(num_matches, api=api, dead_agents=dead_agents), steps=40)


@pytest.mark.parametrize(("api", "workers"), [("parallel", 0), ("parallel", 1), ("aec", 0)])
def test_statistics_are_read_from_infos(make, api, workers) -> None:
    """Those of dead agents stay as they were on the tick on which the agents died."""
    env = make(api=api, workers=workers, statistics={"age": "age", "height": "missing"})
    tick = env.reset(np.array([1], np.uint64))
    while not (tick.terminated | tick.truncated).any():
        tick = env.step({"player": np.zeros((1, 3, 1), np.int64)})
    statistics = tick.roles["player"].statistics
    assert {name: values.tolist() for name, values in statistics.items()} == {
        "age": [[2, 3, 4]],
        "height": [[0, 0, 0]],
    }
    assert env.reset(np.array([1], np.uint64)).roles["player"].statistics["age"].tolist() == [[0, 0, 0]]


def test_statistics_are_numbers(make) -> None:
    """The message names game, agent and key."""
    env = make(statistics={"age": "age"}, unknown_at=1)
    env.reset(np.array([1], np.uint64))
    with pytest.raises(
        ContractError, match="game 'toy_exits:Exits', agent 'dead': info 'age': expected one number, got"
    ):
        env.step({"player": np.zeros((1, 3, 1), np.int64)})


@pytest.mark.parametrize("wrong", [{"Kicks!": "kicks"}, {"kicks": 3}])
def test_statistics_have_names_and_keys(wrong) -> None:
    """As texts."""
    with pytest.raises(ValueError, match="statistics: expected a table of which each key is a name of 1 to 64"):
        PettingZooConfig(statistics=wrong)


def test_exported_agents_end_with_their_seats(make) -> None:
    """In the Parallel interface agents leave when their seats end."""
    env = to_parallel(make())
    env.reset(seed=1)
    left = []
    while env.agents:
        _, rewards, terminations, truncations, _ = env.step(dict.fromkeys(env.agents, 0))
        left.append((sorted(rewards), *([a for a, flag in f.items() if flag] for f in (terminations, truncations))))
    one, two, three = (f"player_{seat}" for seat in range(3))
    assert left == [
        ([one, two, three], [], []),
        ([one, two, three], [one], []),
        ([two, three], [], [two]),
        ([three], [], [three]),
    ]


def test_exported_agents_end_in_turns(make) -> None:
    """In the AEC interface an agent that ended is selected once more, for the action None."""
    env = to_aec(make())
    env.reset(seed=1)
    turns, returns = [], dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        _, reward, terminated, truncated, _ = env.last()
        returns[agent] += reward
        turns.append((int(agent[-1]), "t" * terminated + "c" * truncated))
        env.step(None if terminated or truncated else 0)
    assert turns == [
        *((0, ""), (1, ""), (2, "")),
        *((0, ""), (1, ""), (2, "")),
        *((0, "t"), (1, ""), (2, "")),
        *((1, "c"), (2, "")),
        (2, "c"),
    ]
    assert list(returns.values()) == [2, 3, 4]


@pytest.mark.filterwarnings("ignore:Observation:UserWarning")  # remarks about the space of the game
def test_exported_ends_pass_the_tests_of_pettingzoo(make) -> None:
    """In both interfaces."""
    parallel_api_test(to_parallel(make()), num_cycles=50)
    api_test(to_aec(make()), num_cycles=50)
