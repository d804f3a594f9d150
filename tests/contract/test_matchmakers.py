"""Every installed matchmaker keeps its contract."""

from __future__ import annotations

import pytest
from ludus._plugins.manager import load_plugins
from ludus.testing import check_matchmaker

MATCHMAKERS = load_plugins().components("matchmaker")


def make(name):
    """Make a matchmaker, and the parts it asks for, with default options."""
    component = MATCHMAKERS[name]
    options = component.load_config()
    return component.load_factory()(None if options is None else options(), build=make)


@pytest.mark.parametrize("name", sorted(MATCHMAKERS))
def test_matchmaker_keeps_its_contract(name):
    """It passes `check_matchmaker` on every kind of league."""
    check_matchmaker(make(name))
