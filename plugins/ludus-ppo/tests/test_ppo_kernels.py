"""Linear layers by oneDNN: the same numbers as torch's own, forwards and backwards."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from ludus_ppo import kernels
from ludus_ppo.kernels import has_onednn, use_onednn
from torch import nn

needs_onednn = pytest.mark.skipif(not has_onednn(), reason="this build of torch has no oneDNN")


def network(activation: nn.Module) -> nn.Module:
    """Return two hidden layers and a head, the first narrower at its input, the second at its output."""
    torch.manual_seed(0)
    layers = (nn.Linear(5, 9), activation, nn.Linear(9, 6, bias=False), activation, nn.Linear(6, 3))
    return nn.Sequential(*layers)


def changed(model: nn.Module) -> nn.Module:
    """Return a copy that computes with oneDNN."""
    model = copy.deepcopy(model)
    use_onednn(model)
    return model


@needs_onednn
@pytest.mark.parametrize("activation", [nn.Tanh(), nn.ReLU(), nn.LeakyReLU(0.1), nn.GELU()])
def test_outputs_and_gradients_are_those_of_torch(activation):
    """With activations that are computed along with the layer, and with one that is not."""
    plain = network(activation)
    fast = changed(plain)
    inputs = torch.randn(7, 5, requires_grad=True)
    copied = inputs.detach().clone().requires_grad_()
    expected, got = plain(inputs), fast(copied)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
    weights = torch.randn(7, 3)
    (expected * weights).sum().backward()
    (got * weights).sum().backward()
    torch.testing.assert_close(copied.grad, inputs.grad, atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(fast.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-5, rtol=1e-5)


@needs_onednn
def test_the_linear_layers_go_through_onednn(monkeypatch):
    """One product per layer forwards; backwards one for every weight and for every input that has a gradient."""
    calls = []
    product = kernels._product

    def counted(*arguments):
        calls.append(arguments[3] if len(arguments) > 3 else "gradient")
        return product(*arguments)

    monkeypatch.setattr(kernels, "_product", counted)
    changed(network(nn.ReLU()))(torch.randn(7, 5)).sum().backward()
    assert calls == ["relu", "relu", "none", *["gradient"] * 5]


@needs_onednn
def test_names_and_parameters_stay():
    """Weights can be loaded from models that computed otherwise."""
    model = network(nn.Tanh())
    before = model.state_dict(keep_vars=True)
    use_onednn(model)
    after = model.state_dict(keep_vars=True)
    assert list(before) == list(after)
    assert all(before[name] is after[name] for name in before)


@needs_onednn
def test_other_inputs_take_the_usual_path():
    """More than two dimensions and other dtypes work as before."""
    plain = network(nn.Tanh())
    fast = changed(plain)
    inputs = torch.randn(2, 7, 5)
    torch.testing.assert_close(fast(inputs), plain(inputs))
    torch.testing.assert_close(fast.double()(inputs.double()), plain.double()(inputs.double()))


def test_without_onednn_nothing_changes(monkeypatch):
    """Where the operator is missing, models stay as they are."""

    def missing(*_):
        raise NotImplementedError

    monkeypatch.setattr(kernels, "_product", missing)
    has_onednn.cache_clear()
    try:
        model = network(nn.Tanh())
        use_onednn(model)
        assert {type(module) for module in model.modules()} == {nn.Sequential, nn.Linear, nn.Tanh}
    finally:
        monkeypatch.undo()
        has_onednn.cache_clear()


def test_a_wrong_result_counts_as_missing(monkeypatch):
    """An operator of that name that computes something else is not used."""
    monkeypatch.setattr(kernels, "_product", lambda *_: torch.from_numpy(np.zeros((4, 5), np.float32)))
    has_onednn.cache_clear()
    try:
        assert not has_onednn()
    finally:
        monkeypatch.undo()
        has_onednn.cache_clear()
