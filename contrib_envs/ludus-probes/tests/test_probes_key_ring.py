"""Which keys fit and which opens in ``key-ring``."""

from __future__ import annotations

import numpy as np
import pytest
from ludus import ConfigError
from ludus_probes.environment import ROLE
from ludus_probes.key_ring import fitting_keys

BOTH = pytest.mark.parametrize("masked", [True, False])


@BOTH
def test_the_right_key_is_worth_one(make, make_agent, play, by_agent, masked):
    """In every match, with and without a mask: the observation holds the same information."""
    environment = make("key-ring", 500, masked=masked)
    assert play(environment, by_agent(make_agent("key-ring-perfect", environment))).min() == 1.0
    assert environment._tick.outcome.min() == 1.0


def test_the_mask_allows_the_keys_that_fit(make, start):
    """Option `fit` sets their number; the right key is among them; they are equal in all matches of a lock."""
    player = start(make("key-ring", 500, keys=50, locks=6, fit=3))
    locks = player.observation["obs"][:, 0].argmax(axis=1)
    order = fitting_keys(6, 50)
    for lock in range(6):
        masks = player.action_mask[locks == lock, 0]
        assert len(masks) > 50
        assert (masks == masks[0]).all()
        assert sorted(np.flatnonzero(masks[0])) == sorted(order[lock, :3])


def test_without_a_mask_any_key_may_be_tried(make, start):
    """There is no mask, and only the right key of every lock is worth anything."""
    environment = make("key-ring", 64, keys=64, locks=1, masked=False)
    player = start(environment)
    assert player.action_mask is None
    environment.step({ROLE: np.arange(64).reshape(64, 1, 1)})
    assert np.flatnonzero(player.reward[:, 0]).tolist() == [fitting_keys(1, 64)[0, 0]]


def test_guessing_among_fitting_keys_opens_once_in_their_number(make, play):
    """A quarter of the matches, within four deviations."""
    environment, rng = make("key-ring", 4000), np.random.default_rng(0)

    def guess(player, _):
        return np.where(player.action_mask, rng.random(player.action_mask.shape), -1).argmax(axis=2)[..., None]

    assert play(environment, guess).mean() == pytest.approx(1 / 4, abs=0.028)


def test_keys_that_fit_are_no_pattern(make):
    """Other locks have other right keys, and more keys do not change the order of the fewer."""
    right = fitting_keys(16, 256)[:, 0]
    assert len(set(right.tolist())) > 12
    fewer, more = fitting_keys(16, 10), fitting_keys(16, 20)
    assert all([key for key in more[lock] if key < 10] == fewer[lock].tolist() for lock in range(16))


def test_more_keys_cannot_fit_than_there_are(make):
    """The message names both numbers."""
    with pytest.raises(ConfigError, match="fit: expected at most 3, the number of keys, got 4"):
        make("key-ring", keys=3)


def test_the_lock_and_its_keys_are_shown(make, start):
    """As text."""
    environment = make("key-ring", keys=5, locks=1, fit=2)
    start(environment)
    first, second = sorted(fitting_keys(1, 5)[0, :2])
    assert environment.render(0) == f"lock \x1b[33m0\x1b[0m, keys that fit: {first} {second}"
