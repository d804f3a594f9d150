"""The compile runtime: compiled where it pays, torch as it is where not. Stand-ins replace the compiler."""

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
    """Let torch.compile return the function itself."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)


def network():
    """Return a small network."""
    return make_mlp(MLPConfig(hidden=(5,)), request=REQUEST)


@pytest.mark.usefixtures("compiler")
def test_compiled_networks_keep_the_contract():
    """Weights are arguments of the compiled function, slot by slot."""
    check_inference(Compiled)


@pytest.mark.parametrize(("speedup", "kind"), [(2.0, Compiled), (1.0, Eager)])
@pytest.mark.usefixtures("compiler")
def test_the_faster_one_is_kept(speedup, kind, monkeypatch, caplog):
    """By the time of one call; a line says where compiling did not pay."""
    monkeypatch.setattr(compiled, "_seconds", lambda one, *_: 1.0 if isinstance(one, Compiled) else speedup)
    with caplog.at_level(logging.INFO, logger="ludus.inference"):
        assert type(make_compiled(CONFIG, module=network(), request=REQUEST)) is kind
    assert len(caplog.messages) == (kind is Eager)


def test_a_compiler_that_fails_costs_one_line(monkeypatch, caplog):
    """There may be no compiler on a machine at all."""

    def refuse(function, **options):
        raise RuntimeError("no C++ compiler\nand a long story")

    monkeypatch.setattr(torch, "compile", refuse)
    with caplog.at_level(logging.WARNING, logger="ludus.inference"):
        assert type(make_compiled(CONFIG, module=network(), request=REQUEST)) is Eager
    assert caplog.messages == [
        "this network cannot be compiled (RuntimeError: no C++ compiler); torch runs it as it is"
    ]


@pytest.mark.usefixtures("compiler")
def test_timing_runs_networks_with_privileged_leaves():
    """The warm-up feeds every leaf."""
    request = NetworkRequest(
        observation={"obs": spaces.Discrete(3)},
        privileged={"fog": spaces.Box(0, 1, (2,), np.float32)},
        heads={"policy": 3},
        critic_heads={"value": 1},
    )
    module = make_mlp(MLPConfig(hidden=(5,)), request=request)
    assert isinstance(make_compiled(CompileConfig(min_speedup=0.0), module=module, request=request), Compiled)


@pytest.mark.usefixtures("compiler")
def test_networks_with_a_memory_are_compiled_too():
    """The warm-up is the start of a match, of leaves whose numbers need not start at 0."""
    leaves = {"obs": spaces.Discrete(3, start=2), "suits": spaces.MultiDiscrete([2, 3], start=[1, 5])}
    request = NetworkRequest(observation=leaves, heads={"policy": 3})
    module = make_modular(ModularConfig(core="lstm"), request=request)
    assert isinstance(make_compiled(CompileConfig(min_speedup=0.0), module=module, request=request), Compiled)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler, when it is first imported
def test_the_real_compiler_answers_what_torch_answers():
    """One compilation serves all slots and numbers of rows."""
    pytest.importorskip("torch._inductor")
    check_inference(Compiled, build_network=lambda request: make_mlp(MLPConfig(hidden=(5,)), request=request))
