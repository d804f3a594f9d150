"""The products of a task are found, forwards and backwards, and repeated alone."""

from __future__ import annotations

import pytest
import torch
from ludus_bench.products import _Recorder, products_task
from torch import nn


def operators(task):
    """Return how often a task calls each operator."""
    with _Recorder() as recorder:
        task()
    found = {}
    for call, count in recorder.counts.items():
        found[call.operator.name()] = found.get(call.operator.name(), 0) + count
    return found


@pytest.mark.parametrize("without_gradients", [torch.no_grad, torch.inference_mode])
def test_products_of_a_forward_pass(without_gradients):
    """Two linear layers and a convolution; the activation is no product."""
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 6 * 6, 5), nn.ReLU(), nn.Linear(5, 2))

    def run():
        with without_gradients():
            network(torch.zeros(7, 3, 8, 8))
        return 7.0

    assert operators(run) == {"aten::convolution": 1, "aten::addmm": 2}


def test_products_of_an_update():
    """Gradients of weights are products, and of inputs where layers before them learn."""
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    assert operators(lambda: network(torch.zeros(7, 3)).sum().backward()) == {"aten::addmm": 2, "aten::mm": 3}


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_products_of_a_recurrent_cell(cell):
    """One product for the inputs, one for the state."""
    weights = [torch.zeros(8 if cell == "lstm" else 6, 2)] * 2
    state = torch.zeros(7, 2)

    def run():
        with torch.inference_mode():
            getattr(torch, f"{cell}_cell")(torch.zeros(7, 2), (state, state) if cell == "lstm" else state, *weights)

    assert sum(operators(run).values()) == 2


def test_the_products_take_less_than_the_task():
    """A task that does more than multiply is slower than its products; both have the same units."""
    weight = torch.rand(64, 64)

    def run():
        product = torch.rand(256, 64) @ weight
        for _ in range(50):
            product = product.tanh()
        return 256.0

    products = products_task(run)
    assert products() == 256.0
    with _Recorder() as recorder:
        products()
    assert sum(recorder.counts.values()) <= 1  # none, if NumPy is faster


def test_tasks_without_products():
    """They have no limit."""
    assert products_task(lambda: float(torch.zeros(3).sum())) is None
