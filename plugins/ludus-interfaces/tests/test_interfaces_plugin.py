"""The components of this package can be made from their options."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces
from ludus.interface import Spaces
from ludus_interfaces.actions import MergeLabels
from ludus_interfaces.config import FrameStackConfig, MergeLabelsConfig, ScaleRewardConfig, SelectLeavesConfig
from ludus_interfaces.frames import FrameStack
from ludus_interfaces.observations import SelectLeaves
from ludus_interfaces.plugin import ludus_register_interfaces
from ludus_interfaces.rewards import ScaleReward

COMPONENTS = {component.name: component for component in ludus_register_interfaces()}


def test_every_component_can_be_made_and_bound():
    """The registered paths exist."""
    image = spaces.Box(0, 255, (4, 4, 3), np.uint8)
    leaves = {"obs": spaces.Box(0, 1, (2,)), "image": image, "label": spaces.Discrete(2)}
    raw = Spaces(spaces.Dict(leaves), spaces.Discrete(2))
    for name in COMPONENTS.keys() - {"combine"}:
        component = COMPONENTS[name]
        options = component.load_config()
        values = {"select-leaves": {"keep": ("obs",)}, "delay": {"tick_ms": 100.0}}.get(name, {})
        interface = component.load_factory()(None if options is None else options(**values))
        assert interface.bind(raw).action == spaces.Discrete(2)


@pytest.mark.parametrize(
    ("name", "config", "expected"),
    [
        ("frame-stack", FrameStackConfig(frames=7), FrameStack(7)),
        ("merge-labels", MergeLabelsConfig(max_choices=9), MergeLabels(max_choices=9)),
        ("scale-reward", ScaleRewardConfig(factor=0.5, clip=3.0), ScaleReward(0.5, clip=3.0)),
        ("select-leaves", SelectLeavesConfig(keep=("a",)), SelectLeaves(("a",))),
    ],
)
def test_factories_pass_options(name, config, expected):
    """Attributes of the interface have the configured values."""
    assert repr(COMPONENTS[name].load_factory()(config)) == repr(expected)


@pytest.mark.parametrize("keep", [(), "obs", (1,)])
def test_select_leaves_needs_names(keep):
    """An empty list, a string and numbers are rejected."""
    with pytest.raises(ValueError, match="a list of at least one leaf name"):
        SelectLeavesConfig(keep=keep)


def test_the_plugin_module_imports_nothing_heavy():
    """Listing components imports neither NumPy code of this package nor torch."""
    code = (
        "import sys, ludus_interfaces.plugin, ludus_interfaces.config\n"
        "assert 'torch' not in sys.modules, 'torch'\n"
        "assert 'ludus_interfaces.frames' not in sys.modules, 'frames'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
