"""Payoffs, totals and mixtures of ``matrix-game``."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ludus import ConfigError
from ludus_probes.environment import ROLE

PRESETS = {
    "rock-paper-scissors": {(0, 0): (0, 0), (0, 1): (-1, 1), (0, 2): (1, -1), (1, 2): (-1, 1)},
    "matching-pennies": {(0, 0): (1, -1), (0, 1): (-1, 1), (1, 0): (-1, 1), (1, 1): (1, -1)},
    "prisoners-dilemma": {(0, 0): (3, 3), (0, 1): (0, 5), (1, 0): (5, 0), (1, 1): (1, 1)},
}


def table(make, play, **options):
    """Return the rewards of both seats for every pair of choices, ``[n, n, 2]``."""
    size = make("matrix-game", **options).spec.role(ROLE).action_space.n
    pairs = np.array(list(itertools.product(range(size), repeat=2)))
    environment = make("matrix-game", len(pairs), **options)
    return play(environment, lambda *_: pairs[:, :, None]).reshape(size, size, 2)


@pytest.mark.parametrize("preset", PRESETS)
def test_payoffs_of_presets(make, play, preset):
    """Both seats, for every pair of choices listed."""
    paid = table(make, play, preset=preset)
    assert {pair: tuple(paid[pair]) for pair in PRESETS[preset]} == PRESETS[preset]


@pytest.mark.parametrize(
    ("preset", "zero_sum", "symmetric"),
    [("rock-paper-scissors", True, True), ("matching-pennies", True, False), ("prisoners-dilemma", False, True)],
)
def test_presets_declare_true_properties(make, preset, zero_sum, symmetric):
    """Zero-sum and symmetric where they are."""
    spec = make("matrix-game", preset=preset).spec
    assert (spec.zero_sum, spec.symmetric, spec.constant_sum) == (zero_sum, symmetric, True)


@pytest.mark.parametrize("preset", ["rock-paper-scissors", "matching-pennies"])
def test_the_even_mixture_cannot_be_exploited(make, play, preset):
    """It receives 0 whatever the other does, and no single choice is as safe: the worst case of each is -1."""
    first = table(make, play, preset=preset)[:, :, 0]
    assert first.mean(axis=0).tolist() == [0.0] * len(first)
    assert first.mean(axis=1).tolist() == [0.0] * len(first)
    assert first.min(axis=1).tolist() == [-1.0] * len(first)


def test_confessing_dominates(make, play):
    """Whatever the other does it is better by 1 or 2; both confess for 1 where both silent have 3."""
    first = table(make, play, preset="prisoners-dilemma")[:, :, 0]
    assert (first[1] - first[0]).tolist() == [2.0, 1.0]
    assert first.diagonal().tolist() == [3.0, 1.0]


def test_own_matrices_are_paid(make, play):
    """Rows are the own choice of seat 0, columns that of seat 1; without a second matrix the game is zero-sum."""
    payoff, second = ((1.0, 2.0), (3.0, 4.0)), ((5.0, 6.0), (7.0, 8.0))
    assert table(make, play, payoff=payoff)[0, 1].tolist() == [2.0, -2.0]
    assert make("matrix-game", payoff=payoff).spec.zero_sum
    assert table(make, play, payoff=payoff, payoff_second=second)[0, 1].tolist() == [2.0, 6.0]
    assert not make("matrix-game", payoff=payoff, payoff_second=second).spec.zero_sum
    assert make("matrix-game", payoff=payoff).spec.reward_range == (-4.0, 4.0)


def test_the_larger_total_wins(make, play):
    """Over four rounds; sums of tenths that are equal but for rounding are a draw."""
    third = ((0.1, 0.2, 0.3),) * 3  # by the other's choice
    environment = make("matrix-game", 3, payoff=third, payoff_second=tuple(zip(*third, strict=True)), rounds=4)
    own = np.array([[0, 1, 1, 0], [2, 0, 0, 1], [1, 2, 1, 1]])
    other = np.array([[2, 0, 0, 0], [2, 2, 2, 2], [0, 0, 0, 0]])
    assert (0.3 - 0.1) - (0.2 - 0.1) - (0.2 - 0.1) != 0.0  # the lead of seat 0 in the first match
    play(environment, lambda _, number: np.stack([own[:, number], other[:, number]], axis=1)[:, :, None])
    outcome = environment._tick.outcome
    assert outcome.tolist() == [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]


def test_the_observation_tells_last_choices_rounds_left_and_seat(make, start):
    """Own choice first; the seat's number only where the game is not symmetric."""
    environment = make("matrix-game", preset="matching-pennies", rounds=4)
    player = start(environment)
    assert player.observation["obs"][0].tolist() == [[0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 1]]
    environment.step({ROLE: np.array([[[1], [0]]])})
    assert player.observation["obs"][0].tolist() == [[0, 1, 1, 0, 0.75, 0], [1, 0, 0, 1, 0.75, 1]]
    same = start(make("matrix-game", preset="prisoners-dilemma")).observation["obs"][0]
    assert np.array_equal(same[0], same[1])


@pytest.mark.parametrize("mixture", [(), (0.5, 0.25, 0.25), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0)])
def test_the_fixed_agent_draws_from_its_mixture(make, make_agent, mixture):
    """In 40,000 draws; what has probability 0 never comes."""
    agent = make_agent("matrix-fixed", make("matrix-game"), mixture=mixture)
    drawn = agent.act({}, action_mask=None, seat_ids=np.arange(40_000), rng=np.random.default_rng(0))
    assert drawn.shape == (40_000, 1)
    shares = np.bincount(drawn[:, 0], minlength=3) / 40_000
    wanted = np.array(mixture or (1 / 3, 1 / 3, 1 / 3))
    assert abs(shares - wanted).max() < 0.01
    assert not shares[wanted == 0].any()


def test_a_mixture_of_another_game_is_refused(make, make_agent):
    """Two probabilities do not fit three choices."""
    with pytest.raises(ConfigError, match="expected 3 probabilities, one per choice, got 2"):
        make_agent("matrix-fixed", make("matrix-game"), mixture=(0.5, 0.5))


@pytest.mark.parametrize("mixture", [(0.5, 0.4), (1.5, -0.5)])
def test_a_mixture_that_is_none_is_refused(make, make_agent, mixture):
    """Probabilities are not negative and sum to 1."""
    with pytest.raises(ValueError, match="probabilities that sum to 1"):
        make_agent("matrix-fixed", make("matrix-game", preset="matching-pennies"), mixture=mixture)


def test_choices_are_typed_by_name(make):
    """Presets have names for them, other matrices numbers."""
    assert make("matrix-game").parse_action(ROLE, "Paper").tolist() == [1]
    own = make("matrix-game", payoff=((1.0, 0.0), (0.0, 1.0)))
    assert own.parse_action(ROLE, "1").tolist() == [1]
    assert own.action_name(ROLE, np.array([0])) == "0"


def test_the_last_round_is_shown(make, start):
    """Both choices by name, and who leads."""
    environment = make("matrix-game", rounds=2)
    start(environment)
    assert environment.render(0) == "choose: rock, paper, scissors"
    environment.step({ROLE: np.array([[[0], [1]]])})
    assert environment.render(0).endswith("paper\x1b[0m; seat 1 leads by 2; 1 rounds left")
