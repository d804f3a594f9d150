"""Fused linear layers compute what plain layers compute, forward and backward."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from ludus import ContractError
from ludus_torch import linear
from ludus_torch.linear import apply_heads, choose_kernels, fuse_linear_layers, has_onednn
from torch import nn

needs_onednn = pytest.mark.skipif(not has_onednn(), reason="this build of torch has no oneDNN")
every_kernel = pytest.mark.parametrize("name", [pytest.param("onednn", marks=needs_onednn), "torch"])


def network(activation: nn.Module) -> nn.Module:
    """Return two hidden layers and a head: a layer with fewer inputs than outputs, then one with more."""
    torch.manual_seed(0)
    layers = (nn.Linear(5, 9), activation, nn.Linear(9, 6, bias=False), activation, nn.Linear(6, 3))
    return nn.Sequential(*layers)


def fused(model: nn.Module, name: str, **dtypes: torch.dtype) -> nn.Module:
    """Return a copy with fused layers."""
    model = copy.deepcopy(model)
    fuse_linear_layers(model, name, **dtypes)
    return model


@every_kernel
@pytest.mark.parametrize("activation", [nn.Tanh(), nn.ReLU(), nn.LeakyReLU(0.1), nn.GELU()])
def test_outputs_and_gradients_are_those_of_torch(activation, name):
    """With activations that are fused with the layer, and with one that is not (GELU)."""
    plain = network(activation)
    fast = fused(plain, name)
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


def record_products(monkeypatch):
    """Return a list that receives the activation and the kernels of every product."""
    found = []
    product = linear._product

    def recorded(*arguments, kernels):
        found.append((arguments[3] if len(arguments) > 3 else "gradient", kernels))
        return product(*arguments, kernels=kernels)

    monkeypatch.setattr(linear, "_product", recorded)
    return found


@every_kernel
def test_each_layer_has_one_forward_product(monkeypatch, name):
    """The backward pass has one product per weight and one per input that needs a gradient."""
    found = record_products(monkeypatch)
    model = nn.Sequential(nn.Linear(5, 40), nn.ReLU(), nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 3))
    fused(model, name)(torch.randn(7, 5)).sum().backward()
    # torch computes the backward products of the head, whose sums over 3 outputs are short
    forwards = [("relu", name), ("relu", name), ("none", name)]
    assert found == [*forwards, *[("gradient", "torch")] * 2, *[("gradient", name)] * 3]


def heads(**sizes):
    """Return linear layers with the given numbers of outputs."""
    torch.manual_seed(0)
    return nn.ModuleDict({name: nn.Linear(40, size) for name, size in sizes.items()})


@every_kernel
@pytest.mark.parametrize("backward", [torch.float32, torch.bfloat16])
def test_heads_share_one_product(monkeypatch, name, backward):
    """Outputs and gradients equal those of separate layers, also for a head with a single output."""
    plain = heads(policy=7, value=1)
    fast = fused(plain, name, backward_dtype=backward)
    inputs, weights = torch.randn(9, 40, requires_grad=True), torch.randn(9, 8)
    copied = inputs.detach().clone().requires_grad_()
    expected = {key: head(inputs) for key, head in plain.items()}
    found = record_products(monkeypatch)
    got = apply_heads(fast, copied)
    (torch.cat([*expected.values()], dim=1) * weights).sum().backward()
    (torch.cat([*got.values()], dim=1) * weights).sum().backward()
    assert len(found) == 3
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(copied.grad, inputs.grad, atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(fast.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-5, rtol=1e-5)


@every_kernel
def test_other_heads_are_evaluated_one_by_one(name):
    """A single head, layers with rounded gradients, modules that are not linear, and inputs of more dimensions."""
    inputs = torch.randn(9, 40)
    for layers in (heads(only=3), heads(policy=48, value=1), nn.ModuleDict({"a": nn.Linear(40, 3), "b": nn.Tanh()})):
        fast = fused(layers, name, backward_dtype=torch.bfloat16)
        for features in (inputs, inputs.view(3, 3, 40)):
            expected = {key: layer(features) for key, layer in layers.items()}
            torch.testing.assert_close(apply_heads(fast, features), expected, atol=1e-5, rtol=1e-5)


@every_kernel
@pytest.mark.parametrize("activation", [nn.Tanh(), nn.ReLU(), nn.LeakyReLU(0.1), nn.GELU()])
def test_only_gradients_are_rounded(activation, name):
    """Outputs are equal to the bit. Gradients have rounded factors, except in narrow layers."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(40, 48), activation, nn.Linear(48, 32), activation, nn.Linear(32, 3))
    exact, rounded = fused(plain, name), fused(plain, name, backward_dtype=torch.bfloat16)
    inputs, weights = torch.randn(70, 40), torch.randn(70, 3)
    outputs = [model(inputs) for model in (exact, rounded)]
    assert torch.equal(*outputs)
    for output in outputs:
        (output * weights).sum().backward()
    for (layer, ours), theirs in zip(rounded.named_parameters(), exact.parameters(), strict=True):
        assert ours.grad.dtype is torch.float32
        error = (ours.grad - theirs.grad).norm() / theirs.grad.norm()
        assert error < 0.01
        assert (error == 0) == (layer in ("4.weight", "4.bias", "2.bias"))


@every_kernel
def test_gradients_of_inputs_keep_their_dtype(name):
    """Also where their factors are rounded to bfloat16."""
    model = fused(nn.Sequential(nn.Linear(32, 32), nn.ReLU()), name, backward_dtype=torch.bfloat16)
    inputs = torch.randn(7, 32, requires_grad=True)
    model(inputs).sum().backward()
    assert inputs.grad.dtype is torch.float32
    exact = (model(inputs) > 0).float() @ model[0].weight
    torch.testing.assert_close(inputs.grad, exact, atol=0.02, rtol=0.02)


@every_kernel
def test_the_gradient_of_the_outputs_is_not_changed(name):
    """Only gradients between layers change in place."""
    model = fused(nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 6), nn.Tanh()), name)
    inputs, gradient = torch.randn(7, 5, requires_grad=True), torch.randn(7, 6)
    before = gradient.clone()
    model(inputs).backward(gradient)
    assert torch.equal(gradient, before)


@every_kernel
def test_a_layer_with_one_output_is_not_fused(monkeypatch, name):
    """The layers before it are."""
    plain = nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 6), nn.Tanh(), nn.Linear(6, 1), nn.Tanh())
    fast, inputs, found = fused(plain, name), torch.randn(7, 5), record_products(monkeypatch)
    torch.testing.assert_close(fast(inputs), plain(inputs))
    assert found == [("tanh", name)] * 2


@every_kernel
def test_names_and_parameters_stay(name):
    """So weights can be loaded from models with plain layers."""
    model = network(nn.Tanh())
    before = model.state_dict(keep_vars=True)
    fuse_linear_layers(model, name)
    after = model.state_dict(keep_vars=True)
    assert list(before) == list(after)
    assert all(before[name] is after[name] for name in before)


@every_kernel
def test_unsupported_inputs_use_plain_layers(name):
    """Inputs of more than two dimensions, and other dtypes."""
    plain = network(nn.Tanh())
    fast = fused(plain, name)
    inputs = torch.randn(2, 7, 5)
    torch.testing.assert_close(fast(inputs), plain(inputs))
    torch.testing.assert_close(fast.double()(inputs.double()), plain.double()(inputs.double()))


def test_plain_layers_stay_plain():
    """Unless gradients are rounded."""
    model = fused(network(nn.Tanh()), "plain")
    assert {type(module) for module in model.modules()} == {nn.Sequential, nn.Linear, nn.Tanh}


@pytest.mark.parametrize("requested", linear.KERNELS)
def test_requested_kernels_are_used_on_cpus(requested):
    """Layers on other devices stay plain."""
    assert choose_kernels(requested, torch.device("cpu")) == requested
    assert choose_kernels(requested, torch.device("cuda")) == "plain"


@pytest.mark.parametrize(("processor", "expected"), [("AVX512", "onednn"), ("AVX2", "torch"), ("DEFAULT", "onednn")])
def test_auto_depends_on_the_processor(monkeypatch, processor, expected):
    """OneDNN is slower than torch on x86 processors without AVX-512."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: processor)
    assert choose_kernels("auto", torch.device("cpu")) == expected


def test_unknown_kernels_are_refused():
    """The error lists the kernels that exist."""
    with pytest.raises(ContractError, match="expected auto or one of onednn, torch, plain, got 'numpy'"):
        choose_kernels("numpy", torch.device("cpu"))


def test_without_onednn_nothing_changes(monkeypatch):
    """Where the operator is missing, models are not changed."""

    def missing(*_):
        raise NotImplementedError

    monkeypatch.setattr(linear, "_onednn_product", missing)
    has_onednn.cache_clear()
    try:
        model = network(nn.Tanh())
        fuse_linear_layers(model, "onednn")
        assert {type(module) for module in model.modules()} == {nn.Sequential, nn.Linear, nn.Tanh}
    finally:
        monkeypatch.undo()
        has_onednn.cache_clear()


def test_a_wrong_result_counts_as_missing(monkeypatch):
    """An operator of that name with other results is not used."""
    monkeypatch.setattr(linear, "_onednn_product", lambda *_: torch.from_numpy(np.zeros((4, 5), np.float32)))
    has_onednn.cache_clear()
    try:
        assert not has_onednn()
    finally:
        monkeypatch.undo()
        has_onednn.cache_clear()
