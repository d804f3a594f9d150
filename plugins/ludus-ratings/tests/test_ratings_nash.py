"""Nash averaging against hand-computed equilibria and an LP solver."""

from __future__ import annotations

import numpy as np
import pyspiel
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from ludus_ratings import log_odds, maximum_entropy_nash, nash_average
from scipy.optimize import linprog, minimize

ROCK_PAPER_SCISSORS = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], float)
TABLES = arrays(np.float64, (6, 6), elements=st.integers(-3, 3).map(float)).map(lambda b: b - b.T)


@pytest.mark.parametrize(
    ("advantage", "expected"),
    [
        (ROCK_PAPER_SCISSORS, [1 / 3, 1 / 3, 1 / 3]),
        ([[0, 1, -1], [-1, 0, 3], [1, -3, 0]], [0.6, 0.2, 0.2]),  # mass is the advantage between the other two
        ([[0, 1, 2], [-1, 0, 1], [-2, -1, 0]], [1, 0, 0]),
        ([[0, 0, 1], [0, 0, 1], [-1, -1, 0]], [0.5, 0.5, 0]),  # two equal best ones share
        ([[0, 0, 0], [0, 0, -1], [0, 1, 0]], [0.5, 0, 0.5]),  # of a family of equilibria the most even one
        (np.zeros((4, 4)), [0.25] * 4),
        ([[0.0]], [1]),
        (np.zeros((0, 0)), []),
    ],
)
def test_equilibria_by_hand(advantage, expected):
    """Cycles, dominance, ties, and an empty table."""
    assert maximum_entropy_nash(advantage).tolist() == pytest.approx(expected, abs=1e-7)


def test_copies_share_and_change_nothing():
    """A second pair of scissors halves its mass; the ratings do not change."""
    copied = ROCK_PAPER_SCISSORS[np.ix_([0, 1, 2, 2], [0, 1, 2, 2])]
    average = nash_average(copied)
    assert average.mass.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6], abs=1e-7)
    assert average.rating.tolist() == pytest.approx([0] * 4, abs=1e-7)


def test_easy_opponents_do_not_count():
    """Beating a weak participant adds nothing: the rating is the advantage over the equilibrium alone."""
    average = nash_average([[0, 1, 9], [-1, 0, 99], [-9, -99, 0]])
    assert average.mass.tolist() == pytest.approx([1, 0, 0])
    assert average.rating.tolist() == pytest.approx([0, -1, -9])


@settings(deadline=None, max_examples=40)
@given(TABLES)
def test_no_participant_beats_the_equilibrium(advantage):
    """Participants with mass do not lose against it either."""
    average = nash_average(advantage)
    assert average.mass.sum() == pytest.approx(1)
    assert average.rating.max() < 1e-6
    assert np.max(np.abs(average.rating * average.mass)) < 1e-6


@settings(deadline=None, max_examples=25)
@given(TABLES, st.permutations(range(6)))
def test_the_result_does_not_depend_on_the_order(advantage, order):
    """It does not depend on the unit either."""
    mass = maximum_entropy_nash(advantage)
    assert np.allclose(maximum_entropy_nash(7 * advantage[np.ix_(order, order)]), mass[order], atol=1e-6)


def solved(stakes):
    """Return an optimal strategy of the first player of a zero-sum game, by linear programming."""
    rows, columns = stakes.shape
    found = linprog(
        np.append(np.zeros(rows), -1.0),  # the most that every column leaves
        A_ub=np.column_stack([-stakes.T, np.ones(columns)]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
    )
    assert found.success
    return found.x[:rows]


@pytest.mark.parametrize("seed", range(5))
def test_the_equilibrium_is_that_of_a_linear_program(seed):
    """Random results have one equilibrium only."""
    noise = np.random.default_rng(seed).standard_normal((12, 12))
    advantage = noise - noise.T
    assert np.allclose(maximum_entropy_nash(advantage), solved(advantage), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_averages_are_those_of_openspiel(seed):
    """Also where there are copies, so that many equilibria exist."""
    pytest.importorskip("cvxpy", reason="OpenSpiel averages with cvxpy")
    from open_spiel.python.algorithms.nash_averaging import nash_averaging

    noise = np.random.default_rng(seed).standard_normal((5, 5))
    order = [0, 1, 2, 3, 4, 0, 2]
    advantage = (noise - noise.T)[np.ix_(order, order)]
    game = pyspiel.create_matrix_game(advantage.tolist(), (-advantage).tolist())
    mass, rating = nash_averaging(game, a_v_a=True)
    average = nash_average(advantage)
    assert np.allclose(average.mass, np.ravel(mass), atol=1e-3)
    assert np.allclose(average.rating, np.ravel(rating), atol=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_of_many_equilibria_it_is_the_one_of_highest_entropy(seed):
    """A general optimizer over the equilibria of a game with many of them finds the same."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(-1, 2, (4, 4))
    core = (noise - noise.T).astype(float)
    advantage = core[np.ix_([0, 1, 2, 3, 0, 1], [0, 1, 2, 3, 0, 1])]
    mass = maximum_entropy_nash(advantage)
    constraints = [
        {"type": "eq", "fun": lambda p: p.sum() - 1},
        {"type": "ineq", "fun": lambda p: 1e-9 - advantage @ p},
    ]
    start = np.maximum(mass + 0.0, 1e-9)
    found = minimize(
        lambda p: float(np.sum(p * np.log(np.maximum(p, 1e-12)))),
        start,
        constraints=constraints,
        bounds=[(1e-12, 1)] * 6,
        method="SLSQP",
    )
    entropy = -np.sum(mass * np.log(np.maximum(mass, 1e-12)))
    assert -found.fun <= entropy + 1e-5


def test_roles_have_equilibria_of_their_own():
    """Pennies with stakes of 3 and 2: each side shows what is worth less with 6 of 11 (by hand)."""
    stakes = np.array([[3.0, -3.0], [-3.0, 2.0]])
    advantage = np.zeros((4, 4))
    advantage[:2, 2:], advantage[2:, :2] = stakes, -stakes.T
    mass = maximum_entropy_nash(advantage, roles=["cat", "cat", "mouse", "mouse"])
    assert mass.tolist() == pytest.approx([5 / 11, 6 / 11, 5 / 11, 6 / 11], abs=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_the_equilibria_of_two_roles_are_those_of_linear_programs(seed):
    """Five against seven; entries between participants of one role are ignored."""
    rng = np.random.default_rng(seed)
    stakes, noise = rng.standard_normal((5, 7)), rng.standard_normal((12, 12))
    advantage = noise - noise.T
    advantage[:5, 5:], advantage[5:, :5] = stakes, -stakes.T
    mass = maximum_entropy_nash(advantage, roles=[0] * 5 + [1] * 7)
    assert np.allclose(mass, np.concatenate([solved(stakes), solved(-stakes.T)]), atol=1e-6)


def test_results_without_matches_are_even():
    """All participants are equal."""
    average = nash_average(log_odds(np.zeros((3, 3))))
    assert average.mass.tolist() == pytest.approx([1 / 3] * 3)
    assert average.rating.tolist() == [0, 0, 0]


def test_all_wins_take_all_mass():
    """For any number of wins."""
    assert maximum_entropy_nash(log_odds([[0, 10**6], [0, 0]])).tolist() == pytest.approx([1, 0])


def test_an_invalid_table_raises():
    """The error names what was expected."""
    for wrong in (np.ones((2, 2)), np.zeros((2, 3)), np.full((2, 2), np.nan)):
        with pytest.raises(ValueError, match="antisymmetric"):
            maximum_entropy_nash(wrong)
