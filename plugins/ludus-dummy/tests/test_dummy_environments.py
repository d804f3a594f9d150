"""The two dummy games."""

from __future__ import annotations

import numpy as np
import pytest
from ludus import ContractError, Scenario
from ludus.testing import check_environment
from ludus_dummy.config import CountConfig, GuessConfig
from ludus_dummy.count import Count
from ludus_dummy.guess import Guess
from ludus_dummy.plugin import ludus_register_environments

COUNT, GUESS = ludus_register_environments()


@pytest.mark.parametrize("options", [{"tick_limit": 3}, {"target": 2, "most": 5}])
def test_count_keeps_the_contract(options):
    """The checker finds no problem in dummy-count, including truncated matches and tiny targets."""
    check_environment(COUNT, options=options)


def test_guess_keeps_the_contract():
    """The checker finds no problem in dummy-guess."""
    check_environment(GUESS, options={"places": 2, "rounds": 1})


def start(counts, **options):
    """Return a game of counting whose rows start at `counts`."""
    game = Count(CountConfig(**options), num_matches=len(counts))
    scenarios = [Scenario(name="start-at", parameters={"count": count}) for count in counts]
    return game, game.reset(np.arange(len(counts), dtype=np.uint64), scenarios=scenarios)


def play(game, *actions):
    """Step with one action per row, given to both seats."""
    both = np.repeat(np.array(actions, np.int64)[:, None, None], 2, axis=1)
    return game.step({"player": both})


def test_count_is_won_by_the_seat_that_reaches_the_target():
    """Seat 0 adds 1, then seat 1 adds 3 and reaches 10 from 7."""
    game, _ = start([6])
    assert not play(game, 0).terminated[0]
    tick = play(game, 2)
    assert tick.terminated[0]
    assert tick.outcome[0].tolist() == [0, 1]
    assert tick.roles["player"].reward[0].tolist() == [-1, 1]


def test_count_masks_numbers_that_pass_the_target():
    """One below the target only 1 can be added."""
    _, tick = start([9, 8, 0])
    mask = tick.roles["player"].action_mask
    assert mask[:, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_count_shows_the_remainder():
    """The observation is one-hot at the remainder to the target, for both seats."""
    _, tick = start([7])
    assert tick.roles["player"].observation["obs"][0].argmax(-1).tolist() == [3, 3]


def test_count_draws_starts_from_the_seed():
    """Different seeds give all four starts, equal seeds equal starts."""
    game = Count(CountConfig(), num_matches=100)
    first = game.reset(np.arange(100, dtype=np.uint64)).roles["player"].observation["obs"].copy()
    assert sorted(set(first[:, 0].argmax(-1).tolist())) == [7, 8, 9, 10]
    assert (game.reset(np.arange(100, dtype=np.uint64)).roles["player"].observation["obs"] == first).all()


def test_count_truncates_as_a_draw():
    """The tick limit ends a match with half a point for each seat and no reward."""
    game, _ = start([0], tick_limit=1)
    tick = play(game, 0)
    assert (tick.truncated[0], tick.terminated[0]) == (True, False)
    assert tick.outcome[0].tolist() == [0.5, 0.5]
    assert not tick.roles["player"].reward.any()


def test_count_rejects_an_illegal_action():
    """Passing the target is an error that names match and action, and the state is unchanged."""
    game, _ = start([0, 9])
    with pytest.raises(ContractError, match="action 1 in match 1 is illegal, 1 are missing"):
        play(game, 1, 1)
    assert game.render(0) == "count 0 of 10, seat 0 to move"


@pytest.mark.parametrize("parameters", [{"count": 10}, {"count": -1}, {"speed": 1}])
def test_count_rejects_invalid_parameters(parameters):
    """A start outside the game, or an unknown parameter, is an error."""
    game = Count(CountConfig(), num_matches=1)
    with pytest.raises(ContractError, match="start-at takes"):
        game.reset(np.zeros(1, np.uint64), scenarios=[Scenario(name="start-at", parameters=parameters)])


def test_count_parses_typed_actions():
    """The typed number is the number to add."""
    game = Count(CountConfig(), num_matches=1)
    assert game.parse_action("player", " 3 ").tolist() == [2]
    assert game.action_name("player", np.array([2])) == "3"


@pytest.mark.parametrize("text", ["", "0", "4", "two", "-1"])
def test_count_names_the_numbers_that_can_be_typed(text):
    """Any other text is a ValueError that names the numbers."""
    with pytest.raises(ValueError, match="a number from 1 to 3"):
        Count(CountConfig(), num_matches=1).parse_action("player", text)


def guess(game, hider, seeker):
    """Step one match."""
    return game.step({"hider": np.array([[[hider]]]), "seeker": np.array([[[seeker]]])})


def test_guess_pays_the_finder():
    """The seeker earns 1 for finding the hider; the hider earns 1 / (places - 1) for not being found."""
    game = Guess(GuessConfig(), num_matches=1)
    game.reset(np.zeros(1, np.uint64))
    found = guess(game, 2, 2).roles["seeker"].reward[0, 0].item()
    missed = guess(game, 2, 0).roles["hider"].reward[0, 0].item()
    assert (found, missed) == (1.0, 0.5)


@pytest.mark.parametrize(("seeker", "outcome"), [((1, 1), [0, 1]), ((0, 0), [1, 0]), ((1, 0, 0), [0.5, 0.5])])
def test_guess_is_won_by_the_higher_sum(seeker, outcome):
    """Against a hider at place 1: two finds win, two misses lose, one find of three with 3 places is a draw."""
    game = Guess(GuessConfig(rounds=len(seeker)), num_matches=1)
    game.reset(np.zeros(1, np.uint64))
    for place in seeker:
        tick = guess(game, 1, place)
    assert tick.terminated[0]
    assert tick.outcome[0].tolist() == outcome


def test_guess_shows_the_last_place_of_the_opponent():
    """Only critics observe the score."""
    game = Guess(GuessConfig(), num_matches=1)
    game.reset(np.zeros(1, np.uint64))
    tick = guess(game, 2, 1)
    assert tick.roles["hider"].observation["last"][0, 0].tolist() == [0, 1, 0]
    assert tick.roles["seeker"].observation["last"][0, 0].tolist() == [0, 0, 1]
    assert tick.roles["seeker"].privileged["score"][0, 0].tolist() == [-0.5]


@pytest.mark.parametrize("places", [(3, 0), (0, -1)])
def test_guess_rejects_an_unknown_place(places):
    """The error names the match, and the state is unchanged; the game has three places."""
    game = Guess(GuessConfig(), num_matches=1)
    left = game.reset(np.zeros(1, np.uint64)).roles["hider"].observation["left"]
    with pytest.raises(ContractError, match="in match 0; expected 0 to 2"):
        guess(game, *places)
    assert left[0, 0, 0] == 1.0


def test_guess_has_no_scenario():
    """An unknown scenario is an error."""
    game = Guess(GuessConfig(), num_matches=1)
    with pytest.raises(ContractError, match="default"):
        game.reset(np.zeros(1, np.uint64), scenarios=[Scenario(name="start-at")])


def test_the_statistic_is_what_a_seat_has_added():
    """Until its match starts again."""
    game, tick = start([0, 4])
    for action in (0, 2, 1):
        tick = game.step({"player": np.full((2, 2, 1), action)})
    assert tick.roles["player"].statistics["added"].tolist() == [[3, 3], [3, 3]]
    assert tick.terminated.tolist() == [False, True]
    tick = game.reset(np.zeros(1, np.uint64), indices=np.array([1]))
    assert tick.roles["player"].statistics["added"].tolist() == [[3, 3], [0, 0]]
