"""Every installed algorithm keeps its contract."""

from __future__ import annotations

import pytest
from ludus._plugins.manager import load_plugins
from ludus.testing import check_algorithm

ALGORITHMS = load_plugins().components("algorithm")


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_algorithm_keeps_its_contract(name):
    """The algorithm passes `check_algorithm` with its default options."""
    component = ALGORITHMS[name]
    factory, options = component.load_factory(), component.load_config()
    config = None if options is None else options()
    check_algorithm(lambda context: factory(config, context=context))
