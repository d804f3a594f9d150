"""Every installed rating keeps its contract."""

from __future__ import annotations

from functools import partial

import pytest
from ludus._plugins.manager import load_plugins
from ludus.testing import check_rating

RATINGS = load_plugins().components("rating")


@pytest.mark.parametrize("name", sorted(RATINGS))
def test_rating_keeps_its_contract(name):
    """The rating passes `check_rating` with default options."""
    options = RATINGS[name].load_config()
    check_rating(partial(RATINGS[name].load_factory(), None if options is None else options()))
