"""Linear layers by oneDNN, NumPy and torch: the numbers of plain layers, forwards and backwards."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from ludus import kernels
from ludus.kernels import choose_kernels, evaluate_together, fastest_kernels, has_onednn, numpy_is_slow, use_kernels
from torch import nn

needs_onednn = pytest.mark.skipif(not has_onednn(), reason="this build of torch has no oneDNN")
every_kernel = pytest.mark.parametrize("name", [pytest.param("onednn", marks=needs_onednn), "numpy", "torch"])


def network(activation: nn.Module) -> nn.Module:
    """Return two hidden layers and a head, the first narrower at its input, the second at its output."""
    torch.manual_seed(0)
    layers = (nn.Linear(5, 9), activation, nn.Linear(9, 6, bias=False), activation, nn.Linear(6, 3))
    return nn.Sequential(*layers)


def changed(model: nn.Module, name: str, **dtypes: torch.dtype) -> nn.Module:
    """Return a copy that computes with other kernels."""
    model = copy.deepcopy(model)
    use_kernels(model, name, **dtypes)
    return model


@every_kernel
@pytest.mark.parametrize("activation", [nn.Tanh(), nn.ReLU(), nn.LeakyReLU(0.1), nn.GELU()])
def test_outputs_and_gradients_are_those_of_torch(activation, name):
    """With activations that are computed along with the layer, and with one that is not."""
    plain = network(activation)
    fast = changed(plain, name)
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


def products(monkeypatch):
    """Return a list that gets the activation and the kernels of every product."""
    found = []
    product = kernels._product

    def noted(*arguments, kernels):
        found.append((arguments[3] if len(arguments) > 3 else "gradient", kernels))
        return product(*arguments, kernels=kernels)

    monkeypatch.setattr(kernels, "_product", noted)
    return found


@every_kernel
def test_the_linear_layers_go_through_the_kernels(monkeypatch, name):
    """One product per layer forwards; backwards one for every weight and for every input that has a gradient."""
    found = products(monkeypatch)
    model = nn.Sequential(nn.Linear(5, 40), nn.ReLU(), nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 3))
    changed(model, name)(torch.randn(7, 5)).sum().backward()
    head = "torch" if name == "onednn" else name  # its sums over 3 outputs are short
    forwards = [("relu", name), ("relu", name), ("none", name)]
    assert found == [*forwards, *[("gradient", head)] * 2, *[("gradient", name)] * 3]


def heads(**sizes):
    """Return linear layers of so many outputs."""
    torch.manual_seed(0)
    return nn.ModuleDict({name: nn.Linear(40, size) for name, size in sizes.items()})


@every_kernel
@pytest.mark.parametrize("backward", [torch.float32, torch.bfloat16])
def test_heads_are_one_product(monkeypatch, name, backward):
    """Outputs and gradients are those of each alone, also of one with a single output."""
    plain = heads(policy=7, value=1)
    fast = changed(plain, name, backward=backward)
    inputs, weights = torch.randn(9, 40, requires_grad=True), torch.randn(9, 8)
    copied = inputs.detach().clone().requires_grad_()
    expected = {key: head(inputs) for key, head in plain.items()}
    found = products(monkeypatch)
    got = evaluate_together(fast, copied)
    (torch.cat([*expected.values()], dim=1) * weights).sum().backward()
    (torch.cat([*got.values()], dim=1) * weights).sum().backward()
    assert len(found) == 3
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(copied.grad, inputs.grad, atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(fast.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-5, rtol=1e-5)


@every_kernel
def test_what_is_no_head_is_evaluated_alone(name):
    """One layer alone, layers whose gradients are rounded, others than linear ones, and inputs of more dimensions."""
    inputs = torch.randn(9, 40)
    for layers in (heads(only=3), heads(policy=48, value=1), nn.ModuleDict({"a": nn.Linear(40, 3), "b": nn.Tanh()})):
        fast = changed(layers, name, backward=torch.bfloat16)
        for seen in (inputs, inputs.view(3, 3, 40)):
            expected = {key: layer(seen) for key, layer in layers.items()}
            torch.testing.assert_close(evaluate_together(fast, seen), expected, atol=1e-5, rtol=1e-5)


@every_kernel
@pytest.mark.parametrize("activation", [nn.Tanh(), nn.ReLU(), nn.LeakyReLU(0.1), nn.GELU()])
def test_gradients_alone_can_be_rounded(activation, name):
    """Outputs stay the same to the bit; gradients are those of rounded factors, but for narrow layers."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(40, 48), activation, nn.Linear(48, 32), activation, nn.Linear(32, 3))
    exact, rounded = changed(plain, name), changed(plain, name, backward=torch.bfloat16)
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
    """Whatever they were multiplied in."""
    model = changed(nn.Sequential(nn.Linear(32, 32), nn.ReLU()), name, backward=torch.bfloat16)
    inputs = torch.randn(7, 32, requires_grad=True)
    model(inputs).sum().backward()
    assert inputs.grad.dtype is torch.float32
    exact = (model(inputs) > 0).float() @ model[0].weight
    torch.testing.assert_close(inputs.grad, exact, atol=0.02, rtol=0.02)


@every_kernel
def test_the_gradient_of_outputs_is_only_read(name):
    """It may belong to somebody else, unlike those between layers."""
    model = changed(nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 6), nn.Tanh()), name)
    inputs, gradient = torch.randn(7, 5, requires_grad=True), torch.randn(7, 6)
    before = gradient.clone()
    model(inputs).backward(gradient)
    assert torch.equal(gradient, before)


@every_kernel
def test_a_row_ends_before_a_single_output(monkeypatch, name):
    """That one is left to torch; those before it are not."""
    plain = nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 6), nn.Tanh(), nn.Linear(6, 1), nn.Tanh())
    fast, inputs, found = changed(plain, name), torch.randn(7, 5), products(monkeypatch)
    torch.testing.assert_close(fast(inputs), plain(inputs))
    assert found == [("tanh", name)] * 2


@every_kernel
def test_names_and_parameters_stay(name):
    """Weights can be loaded from models that computed otherwise."""
    model = network(nn.Tanh())
    before = model.state_dict(keep_vars=True)
    use_kernels(model, name)
    after = model.state_dict(keep_vars=True)
    assert list(before) == list(after)
    assert all(before[name] is after[name] for name in before)


@every_kernel
def test_other_inputs_take_the_usual_path(name):
    """More than two dimensions and other dtypes work as before."""
    plain = network(nn.Tanh())
    fast = changed(plain, name)
    inputs = torch.randn(2, 7, 5)
    torch.testing.assert_close(fast(inputs), plain(inputs))
    torch.testing.assert_close(fast.double()(inputs.double()), plain.double()(inputs.double()))


def test_plain_layers_stay_what_they_are():
    """Unless gradients are to be rounded."""
    model = changed(network(nn.Tanh()), "plain")
    assert {type(module) for module in model.modules()} == {nn.Sequential, nn.Linear, nn.Tanh}


@pytest.mark.parametrize(
    ("wanted", "chosen"), [("auto", "numpy"), ("onednn", "onednn"), ("torch", "torch"), ("plain", "plain")]
)
def test_kernels_are_for_cpus(monkeypatch, wanted, chosen):
    """Elsewhere layers stay plain."""
    monkeypatch.setattr(kernels, "fastest_kernels", lambda: "numpy")
    assert choose_kernels(wanted, torch.device("cpu")) == chosen
    assert choose_kernels(wanted, torch.device("cuda")) == "plain"


def test_without_onednn_nothing_changes(monkeypatch):
    """Where the operator is missing, models stay as they are."""

    def missing(*_):
        raise NotImplementedError

    monkeypatch.setattr(kernels, "_onednn_product", missing)
    has_onednn.cache_clear()
    try:
        model = network(nn.Tanh())
        use_kernels(model, "onednn")
        assert {type(module) for module in model.modules()} == {nn.Sequential, nn.Linear, nn.Tanh}
    finally:
        monkeypatch.undo()
        has_onednn.cache_clear()


def test_a_wrong_result_counts_as_missing(monkeypatch):
    """An operator of that name that computes something else is not used."""
    monkeypatch.setattr(kernels, "_onednn_product", lambda *_: torch.from_numpy(np.zeros((4, 5), np.float32)))
    has_onednn.cache_clear()
    try:
        assert not has_onednn()
    finally:
        monkeypatch.undo()
        has_onednn.cache_clear()


@pytest.mark.parametrize(
    ("processor", "threads", "slow", "expected"),
    [
        ("AVX512", 1, False, "onednn"),
        ("AVX2", 1, False, "numpy"),
        ("AVX2", 1, True, "torch"),
        ("AVX2", 2, False, "torch"),
    ],
)
def test_the_processor_and_its_threads_choose(monkeypatch, processor, threads, slow, expected):
    """Each library where it was found to be the fastest."""
    monkeypatch.setattr(kernels, "numpy_is_slow", lambda: slow)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: processor)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert fastest_kernels() == expected


@pytest.mark.parametrize(("numpy_s", "slow"), [(1.9, False), (2.1, True)])
def test_numpy_is_slow_where_it_takes_twice_as_long(monkeypatch, numpy_s, slow):
    """The best of some tries counts."""
    times = iter([1.0, numpy_s])
    monkeypatch.setattr(kernels, "_least_s", lambda _: next(times))
    assert numpy_is_slow.__wrapped__() is slow


def test_the_shortest_time_counts(monkeypatch):
    """So that a try in which the processor did something else does not."""
    clock = iter([0.0, 3.0, 5.0, 6.0] + [10.0, 12.0] * 8)
    monkeypatch.setattr(kernels.time, "thread_time", lambda: next(clock))
    assert kernels._least_s(lambda: None) == 1.0


def test_numpy_computes_tanh_everywhere():
    """By way of a sigmoid: close to 0, far from it, and where both are 1."""
    inputs = torch.cat([torch.linspace(-20, 20, 4001), torch.linspace(-1e-3, 1e-3, 4001)]).unsqueeze(1)
    model = nn.Sequential(nn.Linear(1, 2), nn.Tanh())
    with torch.no_grad():
        model[0].weight.fill_(1.0)
        model[0].bias.zero_()
    expected = inputs.double().tanh().expand(-1, 2)
    torch.testing.assert_close(changed(model, "numpy")(inputs).double(), expected, atol=3e-7, rtol=0)
