"""Every option that follows the training budget says so, to people and to the run."""

from __future__ import annotations

import attrs
import pytest
from ludus._plugins.manager import load_plugins
from ludus.hookspecs import KINDS

PLUGINS = load_plugins()
COMPONENTS = [component for kind in KINDS for component in PLUGINS.components(kind).values()]


@pytest.mark.parametrize("component", [c for c in COMPONENTS if c.config], ids=lambda c: c.name)
def test_schedules_are_declared(component):
    """A run without a budget can then name those that do nothing."""
    options = attrs.fields(component.load_config())
    told = [option.name for option in options if "training budget" in option.metadata["help"]]
    assert told == [option.name for option in options if "unscheduled" in option.metadata]
