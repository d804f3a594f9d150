"""The compile runtime uses compiled code if it is faster. Tests replace the compiler."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.inference import Eager
from ludus.network import NetworkRequest
from ludus.testing import check_inference
from ludus_inference import compiled
from ludus_inference.compiled import Compiled, make_compiled
from ludus_inference.config import CompileConfig
from ludus_networks.config import MLPConfig, ModularConfig
from ludus_networks.modular import make_modular
from ludus_networks.network import make_mlp

REQUEST = NetworkRequest(observation={"obs": spaces.Box(-1, 1, (4,), np.float32)}, heads={"policy": 3})
CONFIG = CompileConfig(warm_up_rows=2)


@pytest.fixture
def compiler(monkeypatch):
    """Make torch.compile return the function itself."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)


def network():
    """Return a small network."""
    return make_mlp(MLPConfig(hidden=(5,)), request=REQUEST)


@pytest.mark.usefixtures("compiler")
def test_compiled_satisfies_the_contract():
    """Weights are arguments of the compiled function."""
    check_inference(Compiled)


@pytest.mark.parametrize(("speedup", "kind"), [(2.0, Compiled), (1.0, Eager)])
@pytest.mark.usefixtures("compiler")
def test_the_faster_runtime_is_used(speedup, kind, monkeypatch, caplog):
    """A log line states that compiled code is not faster."""
    monkeypatch.setattr(compiled, "_seconds", lambda runtime, *_: 1.0 if isinstance(runtime, Compiled) else speedup)
    with caplog.at_level(logging.INFO, logger="ludus.inference"):
        assert type(make_compiled(CONFIG, module=network(), request=REQUEST)) is kind
    assert len(caplog.messages) == (kind is Eager)


def test_a_compiler_error_is_logged_in_one_line(monkeypatch, caplog):
    """A machine may have no compiler."""

    def refuse(function, **options):
        raise RuntimeError("no C++ compiler\nand more lines")

    monkeypatch.setattr(torch, "compile", refuse)
    with caplog.at_level(logging.WARNING, logger="ludus.inference"):
        assert type(make_compiled(CONFIG, module=network(), request=REQUEST)) is Eager
    assert caplog.messages == [
        "torch.compile failed for this network (RuntimeError: no C++ compiler); it runs uncompiled"
    ]


@pytest.mark.usefixtures("compiler")
def test_warm_up_includes_privileged_leaves():
    """All leaves of the request are inputs."""
    request = NetworkRequest(
        observation={"obs": spaces.Discrete(3)},
        privileged={"fog": spaces.Box(0, 1, (2,), np.float32)},
        heads={"policy": 3},
        critic_heads={"value": 1},
    )
    module = make_mlp(MLPConfig(hidden=(5,)), request=request)
    assert isinstance(make_compiled(CompileConfig(min_speedup=0.0), module=module, request=request), Compiled)


@pytest.mark.usefixtures("compiler")
def test_recurrent_networks_are_compiled():
    """The warm-up uses the initial state, and valid values of leaves that do not start at 0."""
    leaves = {"obs": spaces.Discrete(3, start=2), "suits": spaces.MultiDiscrete([2, 3], start=[1, 5])}
    request = NetworkRequest(observation=leaves, heads={"policy": 3})
    module = make_modular(ModularConfig(core="lstm"), request=request)
    assert isinstance(make_compiled(CompileConfig(min_speedup=0.0), module=module, request=request), Compiled)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler, when it is first imported
def test_the_real_compiler_equals_torch():
    """One compilation serves all slots and numbers of rows."""
    pytest.importorskip("torch._inductor")
    check_inference(Compiled, build_network=lambda request: make_mlp(MLPConfig(hidden=(5,)), request=request))
