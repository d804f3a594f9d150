"""The way, the door and the odds of ``corridor``."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.agent import RandomAgent
from ludus_probes.corridor import right_actions
from ludus_probes.environment import ROLE


def walk(make, start, path, **options):
    """Play one match by a list of actions and return the role's tick and the batch's."""
    environment = make("corridor", **options)
    player = start(environment)
    tick = None
    for action in path:
        tick = environment.step({ROLE: np.full((1, 1, 1), action)})
    return player, tick


def place(player):
    """Return where the seat of the first match is."""
    return int(player.observation["obs"][0, 0].argmax())


@pytest.mark.parametrize("length", [2, 16, 60])
def test_the_end_is_worth_one(make, make_agent, play, by_agent, length):
    """Reached in as many ticks as there are cells."""
    environment = make("corridor", 3, length=length)
    assert play(environment, by_agent(make_agent("corridor-perfect", environment))).tolist() == [[1.0]] * 3
    assert environment._ticks.tolist() == [length] * 3
    assert environment._tick.outcome.tolist() == [[1.0]] * 3


def test_the_door_is_worth_the_distraction(make, start):
    """The wrong action at the start ends the match with the small reward, and it is no win."""
    player, tick = walk(make, start, [1 - right_actions(16)[0]])
    assert tick.terminated[0]
    assert player.reward[0, 0] == np.float32(0.1)
    assert tick.outcome[0, 0] == 0.0
    assert place(player) == 17


def test_a_wrong_action_leads_back_to_the_start(make, start):
    """From any later cell, without a reward."""
    way = right_actions(16)
    for cell in range(1, 16):
        player, tick = walk(make, start, [*way[:cell], 1 - way[cell]])
        assert place(player) == 0
        assert not tick.terminated[0]
        assert player.reward[0, 0] == 0.0


def test_no_action_is_right_everywhere():
    """A policy has to learn each cell, and the actions of a cell are equal in longer corridors."""
    assert set(right_actions(16).tolist()) == {0, 1}
    assert np.array_equal(right_actions(60)[:16], right_actions(16))


def test_a_match_is_cut_off(make, start):
    """After the limit: truncated, lost, without a reward."""
    way = right_actions(16)
    player, tick = walk(make, start, [way[0], 1 - way[1]] * 3, max_ticks=6)
    assert tick.truncated[0]
    assert not tick.terminated[0]
    assert tick.outcome[0, 0] == 0.0
    assert player.reward[0, 0] == 0.0


def test_arriving_on_the_last_tick_counts(make, start):
    """The rules end the match, not the limit."""
    _, tick = walk(make, start, right_actions(5), length=5, max_ticks=5)
    assert tick.terminated[0]
    assert not tick.truncated[0]


def test_the_observation_has_mean_square_one(make, start):
    """One-hot over cells, end and outside, times the root of their number."""
    observed = start(make("corridor")).observation["obs"][0, 0]
    assert observed.shape == (18,)
    assert np.count_nonzero(observed) == 1
    assert np.mean(observed**2) == pytest.approx(1.0)


def arrivals(length, limit):
    """Return the probability that random play arrives within the limit, by propagating it cell by cell."""
    here, arrived = np.zeros(length), 0.0
    here[0] = 1.0
    for _ in range(limit):
        arrived += here[-1] / 2
        here = np.concatenate([[here[1:].sum() / 2], here[:-1] / 2])
    return arrived


def test_random_play_arrives_as_often_as_it_must(make, play, by_agent):
    """A corridor of four cells: 1/9 but for the limit; played 20,000 times."""
    environment = make("corridor", 20_000, length=4)
    total = play(environment, by_agent(RandomAgent(None, spec=environment.spec, role=ROLE)))
    odds = arrivals(4, 16)
    assert odds == pytest.approx(1 / 9, abs=2e-3)
    assert abs((total == 1.0).mean() - odds) < 0.01


def test_random_play_hardly_ever_arrives(make, play, by_agent):
    """At the default length in 3 of 100,000 matches, computed and played; the others leave by the door."""
    assert arrivals(16, 64) < 3.1e-5
    environment = make("corridor", 100_000)
    total = play(environment, by_agent(RandomAgent(None, spec=environment.spec, role=ROLE)))
    assert (total == 1.0).sum() <= 10
    assert abs(total.mean() - 0.1) < 2e-3


def test_the_corridor_is_drawn(make, start):
    """The door on the left, the end on the right, an @ where the seat is."""
    environment = make("corridor", length=3)
    start(environment)
    assert environment.render(0) == "| \x1b[33m@\x1b[0m . . $"
    environment.step({ROLE: right_actions(1)[None, None]})
    assert environment.render(0) == "| . \x1b[33m@\x1b[0m . $"
