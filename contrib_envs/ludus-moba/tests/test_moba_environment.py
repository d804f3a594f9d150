"""The environment keeps the contract, and its spec describes the game."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.testing import check_environment
from ludus_moba.config import MobaConfig
from ludus_moba.environment import Moba
from ludus_moba.plugin import ludus_register_environments


@pytest.mark.parametrize(
    ("options", "steps"),
    [({"time_limit_s": 20.0}, 170), ({"time_limit_s": 30.0, "heroes": ("mage",), "map": False}, 240)],
)
def test_the_environment_keeps_the_contract(options, steps):
    """Up to the end of matches; with one hero the game is symmetric."""
    check_environment(ludus_register_environments()[0], steps=steps, options=options)


def test_the_spec_describes_the_game():
    """Two seats with six action labels, 133 ms, 4511 ticks."""
    spec = Moba(MobaConfig(), num_matches=1).spec
    role = spec.roles[0]
    assert (spec.turn, spec.tick_s, spec.max_ticks, role.teams) == ("simultaneous", 0.133, 4511, (0, 1))
    assert role.action_space.nvec.tolist() == [8, 15, 15, 15, 15, 20]
    assert [sum(used) for used in role.labels_used] == [1, 3, 2, 4, 4, 4, 1, 1]
    assert spec.zero_sum
    assert not spec.symmetric


def test_some_of_the_matches_may_start_before_the_others():
    """The first start of a part of the batch computes no value of the rest that is not a number."""
    game = Moba(MobaConfig(), num_matches=3)
    tick = game.reset(np.array([7], np.uint64), indices=np.array([1]))
    assert all(np.isfinite(leaf).all() for leaf in tick.roles["hero"].observation.values())


def test_matches_do_not_depend_on_the_batch(play):
    """A match is the same alone and as one of many."""
    many, alone = Moba(MobaConfig(), num_matches=5), Moba(MobaConfig(), num_matches=1)
    for tick, single in zip(play(many, 150), play(alone, 150, first=3, of=5), strict=True):
        for name, leaf in tick.roles["hero"].observation.items():
            np.testing.assert_array_equal(leaf[3], single.roles["hero"].observation[name][0])
