"""The rules of the game, and the contract of every environment."""

from __future__ import annotations

import numpy as np
import pytest
from ludus import ContractError, Scenario
from ludus.testing import check_environment
from ludus_rock_paper_scissors.config import Config
from ludus_rock_paper_scissors.environment import Game
from ludus_rock_paper_scissors.plugin import ludus_register_environments

(COMPONENT,) = ludus_register_environments()


@pytest.mark.parametrize("rounds", [1, 5])
def test_keeps_the_contract(rounds):
    """The kit plays hundreds of random ticks and finds nothing wrong."""
    check_environment(COMPONENT, options={"rounds": rounds}, steps=50)


def match(rounds=5):
    """Start one match."""
    made = Game(Config(rounds=rounds), num_matches=1)
    made.reset(np.zeros(1, np.uint64))
    return made


def throw(made, *texts):
    """Play one round of what two people typed."""
    chosen = np.stack([made.parse_action("player", text) for text in texts])
    return made.step({"player": chosen[None]})


@pytest.mark.parametrize(("first", "second"), [("paper", "rock"), ("scissors", "paper"), ("rock", "scissors")])
def test_what_beats_what(first, second):
    """The first wins a match of one round, the second loses it."""
    tick = throw(match(rounds=1), first, second)
    assert tick.outcome.tolist() == [[1, 0]]
    assert tick.roles["player"].reward.tolist() == [[1, -1]]


def test_equal_choices_are_a_draw():
    """Half a point each and no reward."""
    tick = throw(match(rounds=1), "rock", "rock")
    assert tick.terminated[0]
    assert tick.outcome.tolist() == [[0.5, 0.5]]
    assert tick.roles["player"].reward.tolist() == [[0, 0]]


def test_a_match_ends_when_it_is_decided():
    """Three of five rounds won cannot be made up; the reward comes at the end only."""
    made = match()
    for _ in range(2):
        tick = throw(made, "p", "r")
        assert not tick.terminated[0]
        assert tick.roles["player"].reward.tolist() == [[0, 0]]
    tick = throw(made, "p", "r")
    assert tick.terminated[0]
    assert tick.outcome.tolist() == [[1, 0]]


def test_each_seat_sees_the_match_from_its_side():
    """Own choice, the other's, lead and rounds left."""
    tick = throw(match(), "paper", "rock")
    first, second = tick.roles["player"].observation["obs"][0].tolist()
    assert first == pytest.approx([0, 1, 0, 1, 0, 0, 0.2, 0.8])
    assert second == pytest.approx([1, 0, 0, 0, 1, 0, -0.2, 0.8])


def test_other_actions_are_refused():
    """The error names the match."""
    with pytest.raises(ContractError, match="in match 0; expected 0, 1 or 2"):
        match().step({"player": np.full((1, 2, 1), 3)})


def test_people_see_the_last_round_and_the_score():
    """Before the first round there is a question."""
    made = match()
    assert made.render(0) == "best of 5: rock, paper or scissors?"
    throw(made, "s", "p")
    assert made.render(0) == "round 1 of 5: scissors - paper; lead of seat 0: +1"


@pytest.mark.parametrize("text", ["", "x", "rocks"])
def test_what_cannot_be_played_is_explained(text):
    """The error says what to type."""
    with pytest.raises(ValueError, match="type rock, paper or scissors"):
        match().parse_action("player", text)


def test_other_scenarios_are_refused():
    """There is no scenario but the default one."""
    with pytest.raises(ContractError, match="default"):
        match().reset(np.zeros(1, np.uint64), scenarios=[Scenario(name="hard")])
