"""Tests of the rules, and of the contract of environments."""

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
def test_contract(rounds):
    """`check_environment` plays hundreds of random ticks."""
    check_environment(COMPONENT, options={"rounds": rounds}, steps=50)


def start_match(rounds=5):
    """Return a game with one new match."""
    game = Game(Config(rounds=rounds), num_matches=1)
    game.reset(np.zeros(1, np.uint64))
    return game


def play_round(game, *texts):
    """Play one round of typed actions."""
    actions = np.stack([game.parse_action("player", text) for text in texts])
    return game.step({"player": actions[None]})


@pytest.mark.parametrize(("first", "second"), [("paper", "rock"), ("scissors", "paper"), ("rock", "scissors")])
def test_winning_choices(first, second):
    """The first wins a match of one round, the second loses it."""
    tick = play_round(start_match(rounds=1), first, second)
    assert tick.outcome.tolist() == [[1, 0]]
    assert tick.roles["player"].reward.tolist() == [[1, -1]]


def test_equal_choices_are_a_draw():
    """Half a point each and no reward."""
    tick = play_round(start_match(rounds=1), "rock", "rock")
    assert tick.terminated[0]
    assert tick.outcome.tolist() == [[0.5, 0.5]]
    assert tick.roles["player"].reward.tolist() == [[0, 0]]


def test_match_ends_when_it_is_decided():
    """After three won rounds of five the match ends; only then is there a reward."""
    game = start_match()
    for _ in range(2):
        tick = play_round(game, "p", "r")
        assert not tick.terminated[0]
        assert tick.roles["player"].reward.tolist() == [[0, 0]]
    tick = play_round(game, "p", "r")
    assert tick.terminated[0]
    assert tick.outcome.tolist() == [[1, 0]]


def test_observations_of_both_seats():
    """They hold the own choice, the opposing choice, the lead and the rounds left."""
    tick = play_round(start_match(), "paper", "rock")
    first, second = tick.roles["player"].observation["obs"][0].tolist()
    assert first == pytest.approx([0, 1, 0, 1, 0, 0, 0.2, 0.8])
    assert second == pytest.approx([1, 0, 0, 0, 1, 0, -0.2, 0.8])


def test_invalid_actions_are_errors():
    """The message names the match."""
    with pytest.raises(ContractError, match="in match 0; expected 0, 1 or 2"):
        start_match().step({"player": np.full((1, 2, 1), 3)})


def test_render():
    """The text shows the last round and the score, or a prompt before the first round."""
    game = start_match()
    assert game.render(0) == "best of 5: rock, paper or scissors?"
    play_round(game, "s", "p")
    assert game.render(0) == "round 1 of 5: scissors - paper; lead of seat 0: +1"


@pytest.mark.parametrize("text", ["", "x", "rocks"])
def test_malformed_actions_are_errors(text):
    """The message lists the accepted texts."""
    with pytest.raises(ValueError, match="type rock, paper or scissors"):
        start_match().parse_action("player", text)


def test_unknown_scenarios_are_errors():
    """The only scenario is the default one."""
    with pytest.raises(ContractError, match="default"):
        start_match().reset(np.zeros(1, np.uint64), scenarios=[Scenario(name="hard")])
