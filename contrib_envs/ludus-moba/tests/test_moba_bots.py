"""Scripted heroes: stronger ones win, and all of them play by the masks."""

from __future__ import annotations

import pytest
from ludus_moba.config import MobaConfig
from ludus_moba.plugin import ludus_register_agents
from ludus_moba.table import mean_score

_SHORT = MobaConfig(map=False, time_limit_s=150.0)


@pytest.mark.parametrize(("first", "second"), [(2, 0), (3, 1), (4, 1)])
def test_stronger_bots_win(first, second):
    """Against a weaker one, after two and a half minutes."""
    assert mean_score(first, second, matches=24, config=_SHORT) > 0.65


def test_the_bot_is_registered():
    """For this environment only."""
    (component,) = ludus_register_agents()
    assert (component.name, component.environments) == ("moba-bot", ("moba",))
    component.load_factory()
