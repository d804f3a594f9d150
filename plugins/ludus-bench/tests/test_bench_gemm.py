"""Matrix products of networks."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from attrs import evolve
from ludus_bench.gemm import Gemm, flops, numpy_task, torch_task, trace_gemms
from torch import nn


def products(module, shape, *, backward=False):
    """Return the products of a module for random inputs."""
    inputs = torch.randn(*shape)

    def run():
        out = module(inputs)
        if backward:
            out.sum().backward()

    return trace_gemms(run)


def test_flops_are_two_per_multiplication_and_addition():
    """Batches are counted."""
    assert flops([Gemm(m=2, k=3, n=4), Gemm(m=1, k=1, n=1, batch=5)]) == 2 * 24 + 10


def test_a_forward_pass_has_one_product_per_layer():
    """Rows by inputs, inputs by outputs."""
    module = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
    assert products(module, (8, 6)) == [Gemm(m=8, k=6, n=5), Gemm(m=8, k=5, n=2)]


def test_the_first_layer_needs_no_gradient_of_its_input():
    """Hence an update is less than three forward passes: two products for every other layer, one for the first."""
    module = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
    found = products(module, (8, 6), backward=True)
    first, second = 2 * 8 * 6 * 5, 2 * 8 * 5 * 2
    assert flops(found) == 2 * first + 3 * second
    assert len(found) == 5


def test_a_convolution_is_the_product_of_patches_and_kernels():
    """One row per cell of the output."""
    assert products(nn.Conv2d(3, 4, 3, padding=1), (2, 3, 5, 5)) == [Gemm(m=2 * 25, k=27, n=4)]


def test_the_first_convolution_has_a_gradient_for_its_kernels_only():
    """As for the first linear layer."""
    found = products(nn.Conv2d(3, 4, 3, padding=1), (2, 3, 5, 5), backward=True)
    assert [flops([gemm]) for gemm in found] == [2 * 50 * 27 * 4] * 2


def test_a_recurrent_layer_has_a_product_per_step():
    """Four gates from the input and four from the state."""
    lstm = nn.LSTM(6, 5)
    found = trace_gemms(lambda: lstm(torch.randn(3, 8, 6))[0])
    assert flops(found) == 3 * 2 * 8 * 20 * (6 + 5)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_layers_in_inference_mode_are_recorded(kind):
    """Torch dispatches whole layers then."""
    linear, recurrent = nn.Linear(6, 5), kind(6, 5)

    def run():
        with torch.inference_mode():
            linear(torch.randn(8, 6))
            recurrent(torch.randn(3, 8, 6))

    gates = {nn.LSTM: 4, nn.GRU: 3}[kind] * 5
    layer, inputs, *steps = trace_gemms(run)
    assert layer == Gemm(m=8, k=6, n=5)
    assert inputs == Gemm(m=3 * 8, k=6, n=gates)
    assert steps == [Gemm(m=8, k=5, n=gates)] * 3


def test_products_keep_their_precision():
    """Float32 would be no limit on processors with bfloat16 units."""
    module = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))

    def run():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = module(torch.randn(8, 6))
        out.float().sum().backward()

    gemms = trace_gemms(run)
    assert {gemm.dtype for gemm in gemms} == {torch.bfloat16}
    assert trace_gemms(torch_task(gemms[:1], 1.0)) == gemms[:1]
    assert trace_gemms(torch_task(gemms[:1], 1.0, dtype=torch.float32)) == [evolve(gemms[0], dtype=torch.float32)]


def test_a_task_keeps_the_order_of_its_products(monkeypatch):
    """Equal products in a row would be faster."""
    one, other = Gemm(m=4, k=3, n=2), Gemm(m=2, k=3, n=4)
    assert trace_gemms(torch_task([one, other, one, other], 1.0)) == [one, other, one, other]
    made = []
    monkeypatch.setattr("numpy.matmul", lambda left, right, out: made.append(out.shape))
    numpy_task([one, other, one, other], 1.0)()
    assert made == [(4, 2), (2, 4), (4, 2), (2, 4)]


@pytest.mark.parametrize("make", [numpy_task, torch_task])
@pytest.mark.parametrize("gemm", [Gemm(m=4, k=3, n=2), Gemm(m=4, k=3, n=2, batch=2)])
def test_a_task_returns_its_units(make, gemm):
    """The units are an argument."""
    assert make([gemm, gemm], 7.0)() == 7.0


def test_the_gpu_that_computes_is_synchronized(monkeypatch):
    """By its device name; all products are one launch."""
    normal, calls = torch.randn, []
    graph = SimpleNamespace(replay=lambda: calls.append("replay"))
    monkeypatch.setattr(torch, "randn", lambda *shape, device, dtype: normal(*shape, dtype=dtype))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph, raising=False)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(torch.cuda, "graph", nullcontext)
    monkeypatch.setattr(torch.cuda, "synchronize", calls.append)
    task = torch_task([Gemm(m=4, k=3, n=2)], 5.0, device="cuda:1")
    assert [task(), task()] == [5.0, 5.0]
    assert calls == ["replay", "cuda:1"] * 2
