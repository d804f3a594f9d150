"""Check that options that follow the training budget are declared as schedules."""

from __future__ import annotations

import attrs
import pytest
from ludus._plugins.manager import load_plugins
from ludus.hookspecs import KINDS

PLUGINS = load_plugins()
COMPONENTS = [component for kind in KINDS for component in PLUGINS.components(kind).values()]


@pytest.mark.parametrize("component", [c for c in COMPONENTS if c.config], ids=lambda c: c.name)
def test_schedules_are_declared(component):
    """A run without a training budget then warns about these options."""
    options = attrs.fields(component.load_config())
    documented = [option.name for option in options if "training budget" in option.metadata["help"]]
    assert documented == [option.name for option in options if "unscheduled" in option.metadata]
