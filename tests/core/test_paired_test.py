"""Hosts that play alike are hardly ever found to differ, biased ones soon."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ludus._league.paired_test import ALPHA, BETS, TOLERANCE, PairedTest, log_growth, log_mean_exp

MATCHES = 32  # of a fixture
TOLERATED_ELO = 20.0  # of live weights that are a few updates apart, in one direction
HOSTS = 500


def expected(elo):
    """Return the expected points of a participant that is stronger by so much."""
    return 1 / (1 + 10 ** (-elo / 400))


def differences(rng, *, matches, elo, strength=0.0):
    """Return ``[matches]``: differences of a host whose player is stronger by `elo` than on the run's host."""
    own, other = rng.random(matches) < expected(strength + elo), rng.random(matches) < expected(strength)
    return own.astype(float) - other


def alarms(rng, *, fixtures, elo, strength=0.0, matches=MATCHES, deviation=0.0):
    """Return ``[HOSTS]``: the number of pairs after which each host is found, infinite for those that are not.

    Args:
        rng: Draws the results.
        fixtures: Pairs of fixtures of a host.
        elo: By how much the player is stronger on the host.
        strength: That of the player on the run's host.
        matches: Matches of a fixture.
        deviation: Standard deviation of the strength between fixtures: live weights change.
    """
    own = expected(strength + elo + rng.normal(0, deviation, (HOSTS, fixtures)))
    won, lost = rng.binomial(matches, own), rng.binomial(matches, expected(strength), own.shape)
    growth = log_growth((won - lost)[..., None] / matches)
    is_found = log_mean_exp(growth.cumsum(axis=1)) >= -math.log(ALPHA)
    return np.where(is_found.any(axis=1), 1 + is_found.argmax(axis=1), np.inf)


def test_the_wealth_is_a_supermartingale():
    """Its expected factor is at most 1 wherever the mean difference is tolerated, for every bet and sign."""
    for win, loss in ((0.5, 0.5), (0.26, 0.24), (0.05, 0.02), (1.0, 0.0), (0.515, 0.485)):
        factors = [np.exp(log_growth(np.array([value]))) for value in (1.0, 0.0, -1.0)]
        mean = win * factors[0] + (1 - win - loss) * factors[1] + loss * factors[2]
        is_tolerated = abs(win - loss) <= TOLERANCE + 1e-12
        assert (mean <= 1 + 1e-12).all() == is_tolerated


def test_the_growth_is_as_in_the_formula():
    """The product over fixtures, for both signs and all bets."""
    values = np.array([1.0, -0.5, 0.0])
    wanted = [
        sum(math.log(1 + bet * (sign * value - TOLERANCE)) for value in values) for sign in (1, -1) for bet in BETS
    ]
    np.testing.assert_allclose(log_growth(values), wanted)


@pytest.mark.parametrize("matches", [1, MATCHES])
@pytest.mark.parametrize(("elo", "strength"), [(0.0, 0.0), (TOLERATED_ELO, 0.0), (-TOLERATED_ELO, 0.0), (0.0, 300.0)])
def test_honest_hosts_are_hardly_ever_found(elo, strength, matches):
    """Over 2,000 pairs of fixtures each, at most 1 % of the hosts."""
    found = alarms(np.random.default_rng(1), fixtures=2000, elo=elo, strength=strength, matches=matches)
    assert np.isfinite(found).mean() <= ALPHA


@pytest.mark.parametrize("deviation", [150.0, 400.0])
def test_a_player_that_changes_between_fixtures_is_no_alarm(deviation):
    """Its results in all matches of a fixture differ by chance: of one side or the other."""
    found = alarms(np.random.default_rng(5), fixtures=2000, elo=0.0, deviation=deviation)
    assert np.isfinite(found).mean() <= ALPHA


@pytest.mark.parametrize("elo", [100.0, -100.0])
def test_biased_hosts_are_found(elo):
    """All of them within 200 pairs of fixtures, half of them within 100."""
    found = alarms(np.random.default_rng(2), fixtures=250, elo=elo)
    assert np.median(found) <= 100
    assert found.max() <= 200


def test_views_find_a_bias_for_one_player_or_team():
    """A bias for one of two players cancels out over both."""
    rng, test = np.random.default_rng(3), PairedTest(("the player", "the first team", "main", "other"))
    while not test.differs and test.fixtures < 1000:
        for player, elo in (("main", 100.0), ("other", -100.0)):
            values = differences(rng, matches=MATCHES, elo=elo)
            test.add({"the player": values, "the first team": values[::-1] * rng.choice([-1, 1]), player: values})
    assert test.differs
    assert test.strongest_view in {"main", "other"}
    assert test.matches == MATCHES * test.fixtures
    assert test.fixtures < 500


def test_a_forger_is_found_soon():
    """A host that reports nothing but wins."""
    rng, test = np.random.default_rng(4), PairedTest(("the player",))
    while not test.differs and test.fixtures < 100:
        test.add({"the player": differences(rng, matches=MATCHES, elo=1e4)})
    assert test.fixtures < 30
    assert test.mean("the player") > 0.3
