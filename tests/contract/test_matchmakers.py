"""Every installed matchmaker keeps its contract."""

from __future__ import annotations

import pytest
from ludus._plugins.manager import load_plugins
from ludus.testing import check_matchmaker

MATCHMAKERS = load_plugins().components("matchmaker")


def make(name):
    """Return a matchmaker with default options; it builds its parts in the same way."""
    component = MATCHMAKERS[name]
    options = component.load_config()
    return component.load_factory()(None if options is None else options(), build=make)


@pytest.mark.parametrize("name", sorted(MATCHMAKERS))
def test_matchmaker_keeps_its_contract(name):
    """The matchmaker passes `check_matchmaker` on all leagues."""
    check_matchmaker(make(name))
