"""The plugin registers both runtimes."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus._plugins.manager import load_plugins
from ludus.network import NetworkRequest
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp


def test_both_runtimes_are_registered():
    """Under their names in configurations."""
    offered = load_plugins(allow=["ludus-inference"]).components("inference")
    assert list(offered) == ["compile", "lean"]


def test_a_factory_makes_a_runtime():
    """With the arguments that the hook's documentation names."""
    component = load_plugins(allow=["ludus-inference"]).get("inference", "lean")
    request = NetworkRequest(observation={"obs": spaces.Discrete(3)}, heads={"policy": 2})
    module = make_mlp(MLPConfig(hidden=(4,)), request=request)
    inference = component.load_factory()(None, module=module, request=request)
    heads = inference.run({"obs": np.array([0, 2])}, privileged={}, state={}).heads
    assert heads["policy"].shape == (2, 2)
