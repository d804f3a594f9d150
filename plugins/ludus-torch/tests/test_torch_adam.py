"""Adam equals torch's Adam, without importing torch's compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from ludus_torch.adam import Adam
from torch import nn


@pytest.fixture
def parameters():
    """Return a layer, a parameter that no loss depends on, and one that is not trained."""
    torch.manual_seed(0)
    layer = nn.Linear(5, 3)
    return {**dict(layer.named_parameters()), "unused": nn.Parameter(torch.ones(2)), "fixed": frozen()}


def frozen():
    """Return a parameter that is not trained."""
    return nn.Parameter(torch.ones(2), requires_grad=False)


def differentiate(parameters):
    """Compute gradients of a loss of the layer."""
    (parameters["weight"].square().sum() + parameters["bias"].sin().sum() + parameters["fixed"].sum()).backward()


def test_steps_are_those_of_torch(parameters):
    """To the bit, with a changing rate; parameters without a gradient stay as they are."""
    copies = {name: nn.Parameter(p.detach().clone(), requires_grad=p.requires_grad) for name, p in parameters.items()}
    ours = Adam(parameters, betas=(0.8, 0.95), eps=1e-3)
    theirs = torch.optim.Adam(copies.values(), betas=(0.8, 0.95), eps=1e-3, fused=True)
    for rate in (0.1, 0.03, 0.01):
        ours.zero_grad()
        differentiate(parameters)
        ours.step(learning_rate=rate)
        theirs.param_groups[0]["lr"] = rate
        theirs.zero_grad()
        differentiate(copies)
        theirs.step()
    assert all(torch.equal(parameter, copies[name]) for name, parameter in parameters.items())
    assert torch.equal(parameters["unused"], torch.ones(2))
    assert ours.state["adam/step/bias"] == 3.0


@pytest.mark.parametrize("max_norm", [1e-3, 1.0, 1e3])
def test_gradients_are_scaled_down_as_by_torch(parameters, max_norm):
    """The norm before clipping is returned."""
    copies = {name: nn.Parameter(p.detach().clone(), requires_grad=p.requires_grad) for name, p in parameters.items()}
    ours, theirs = Adam(parameters, eps=1e-3), torch.optim.Adam(copies.values(), eps=1e-3)
    for _ in range(2):
        ours.zero_grad()
        differentiate(parameters)
        norm = ours.step(learning_rate=0.1, max_norm=max_norm)
        theirs.param_groups[0]["lr"] = 0.1
        theirs.zero_grad()
        differentiate(copies)
        expected = nn.utils.clip_grad_norm_(copies.values(), max_norm)
        theirs.step()
        torch.testing.assert_close(norm, expected)
    for name, parameter in parameters.items():
        torch.testing.assert_close(parameter, copies[name])


def test_without_gradients_nothing_changes(parameters):
    """The norm is 0."""
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    adam = Adam(parameters)
    assert adam.step(learning_rate=0.1, max_norm=1.0) == 0.0
    assert all(torch.equal(parameter, before[name]) for name, parameter in parameters.items())
    assert not any(tensor.any() for tensor in adam.state.values())


def test_the_state_exists_from_the_start(parameters):
    """It holds the tensors of all trained parameters, which steps change in place."""
    adam = Adam(parameters)
    assert adam.state.keys() == {
        f"adam/{key}/{name}" for key in ("step", "exp_avg", "exp_avg_sq") for name in ("weight", "bias", "unused")
    }
    assert not any(tensor.any() for tensor in adam.state.values())
    differentiate(parameters)
    adam.step(learning_rate=0.1)
    assert adam.state["adam/step/bias"] == 1.0
    assert adam.state["adam/step/unused"] == 0.0
    assert adam.state["adam/exp_avg/bias"].all()


def test_it_does_not_import_the_compiler():
    """Importing the compiler takes as long as importing torch."""
    code = """
import sys, torch
from ludus_torch.adam import Adam
parameter = torch.nn.Parameter(torch.ones(2))
adam = Adam({"p": parameter})
parameter.sum().backward()
adam.step(learning_rate=0.1)
adam.zero_grad()
print("torch._dynamo" in sys.modules)
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False"]
