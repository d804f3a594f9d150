"""Every installed rule keeps its contract."""

from __future__ import annotations

import pytest
from ludus._plugins.manager import load_plugins
from ludus.testing import check_rule

RULES = load_plugins().components("rule")


@pytest.mark.parametrize("name", sorted(RULES))
def test_rule_keeps_its_contract(name):
    """The rule passes `check_rule` on all leagues, with default options."""
    options = RULES[name].load_config()
    check_rule(RULES[name].load_factory()(None if options is None else options()))
