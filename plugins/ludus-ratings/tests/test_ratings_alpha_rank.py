"""Alpha-rank against hand-computed numbers and OpenSpiel."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_ratings import alpha_rank, alpha_rank_roles, alpha_sweep, win_rates
from open_spiel.python.egt import alpharank

CYCLE = np.array([[0.5, 0.9, 0.2], [0.1, 0.5, 0.8], [0.8, 0.2, 0.5]])


def table(seed, n=6):
    """Return random win rates."""
    rng = np.random.default_rng(seed)
    rates = np.triu(rng.random((n, n)), 1)
    return rates + np.tril(1 - rates.T, -1) + 0.5 * np.eye(n)


def test_a_dominant_participant_has_all_mass():
    """A participant that beats all others takes over every population."""
    assert alpha_rank(win_rates([[0, 5, 5], [0, 0, 5], [0, 0, 0]])).tolist() == pytest.approx([1, 0, 0], abs=1e-8)


def test_members_of_a_cycle_have_equal_mass():
    """The size of the wins does not matter; a participant below the cycle has no mass."""
    assert alpha_rank(CYCLE).tolist() == pytest.approx([1 / 3] * 3)
    below = np.full((4, 4), 0.5)
    below[:3, :3], below[:3, 3], below[3, :3] = CYCLE, 0.6, 0.4
    assert alpha_rank(below).tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=1e-8)


def test_equal_participants_have_equal_mass():
    """Without matches all participants are equal."""
    assert alpha_rank(win_rates(np.zeros((4, 4)))).tolist() == pytest.approx([0.25] * 4)


def test_zero_and_one_participant():
    """A single participant has all mass."""
    assert alpha_rank(np.zeros((0, 0))).tolist() == []
    assert alpha_rank([[0.5]]).tolist() == [1]


def test_two_by_hand():
    """A mutant that is better by g takes over with (1 - e^-u) / (1 - e^-mu), u = alpha m / (m - 1) g."""
    mass = alpha_rank([[0.5, 0.7], [0.3, 0.5]], alpha=2, population=5)
    u = 2 * 5 / 4 * 0.2
    up, down = (1 - np.exp(-u)) / (1 - np.exp(-5 * u)), (1 - np.exp(u)) / (1 - np.exp(5 * u))
    assert mass[0] / mass[1] == pytest.approx(up / down)
    assert mass[0] / mass[1] == pytest.approx(np.exp(4 * u))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_finite_alpha_is_that_of_openspiel(seed, alpha):
    """For a single population whose members meet all others."""
    rates = table(seed)
    *_, expected, _, _ = alpharank.compute([rates], m=20, alpha=alpha, use_local_selection_model=False)
    assert np.allclose(alpha_rank(rates, alpha=alpha, population=20), expected, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_infinite_alpha_is_that_of_openspiel(seed):
    """With the same noise."""
    rates = table(seed)
    *_, expected, _, _ = alpharank.compute([rates], m=2, alpha=1, use_inf_alpha=True, inf_alpha_eps=0.01)
    assert np.allclose(alpha_rank(rates, noise=0.01), expected, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("infinite", [False, True])
def test_two_roles_are_those_of_openspiel(seed, infinite):
    """Three against four, each role a population; the joint distribution summed over the other role."""
    rates = np.random.default_rng(seed).random((3, 4))
    options = {"use_inf_alpha": True, "inf_alpha_eps": 0.01} if infinite else {}
    *_, expected, _, _ = alpharank.compute([rates, 1 - rates], m=10, alpha=3, **options)
    joint = np.reshape(expected, (3, 4), order="F" if order_is_columns() else "C")
    given = {"noise": 0.01} if infinite else {"alpha": 3, "population": 10}
    first, second = alpha_rank_roles(rates, **given)
    assert np.allclose(first, joint.sum(axis=1), atol=1e-8)
    assert np.allclose(second, joint.sum(axis=0), atol=1e-8)


def order_is_columns():
    """Return whether OpenSpiel numbers profiles with the first role fastest."""
    from open_spiel.python.egt import utils

    return list(utils.get_strat_profile_from_id(np.array([3, 4]), 1)) == [1, 0]


def test_a_dominant_pair_of_roles_has_all_mass():
    """A row that is best against every column, and the column that is best against it."""
    first, second = alpha_rank_roles([[0.9, 0.7], [0.4, 0.3]])
    assert (first.tolist(), second.tolist()) == (pytest.approx([1, 0], abs=1e-8), pytest.approx([0, 1], abs=1e-8))


@pytest.mark.parametrize("alpha", [1e-6, 1e3, 1e9])
def test_extreme_alphas_give_finite_results(alpha):
    """Probabilities below the range of floats cause no error, and the mass adds up to 1."""
    mass = alpha_rank(table(0, 30), alpha=alpha)
    assert np.all(np.isfinite(mass))
    assert mass.sum() == pytest.approx(1)


def test_ratios_beyond_the_float_range_give_finite_results():
    """Two steps lead to the last pair, each 1e250 times likelier than back: it has all mass."""
    first, second = alpha_rank_roles([[0.5, 0.1], [0.9, 0.5]], alpha=1e9)
    assert first.tolist() == pytest.approx([0.0, 1.0])
    assert second.tolist() == pytest.approx([0.0, 1.0])


def test_a_sweep_converges_to_infinite_alpha():
    """Its first distribution is uniform; without ties, its last one is that of infinite alpha."""
    alphas, masses = alpha_sweep(CYCLE)
    assert masses.shape == (len(alphas), 3)
    assert masses[0].tolist() == pytest.approx([1 / 3] * 3, abs=1e-3)
    best, worst = win_rates([[0, 50], [0, 0]]), win_rates([[0, 0], [50, 0]])
    for rates in (CYCLE, best, worst):
        assert np.allclose(alpha_sweep(rates)[1][-1], alpha_rank(rates), atol=1e-4)


def test_a_sweep_without_differences_ends():
    """No value of alpha changes the result."""
    assert alpha_sweep(np.full((2, 2), 0.5))[1][-1].tolist() == [0.5, 0.5]


def test_wrong_arguments_raise():
    """The error names what was expected."""
    with pytest.raises(ValueError, match="adds up to 1"):
        alpha_rank(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="expected alpha > 0"):
        alpha_rank([[0.5]], alpha=0)
    with pytest.raises(ValueError, match=r"\[n, m\]"):
        alpha_rank_roles(np.zeros(3))
