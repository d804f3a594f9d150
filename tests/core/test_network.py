"""Weights are copied from and to modules."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ludus import ModelError
from ludus.network import LazyLeaves, get_weights, restored_on_error, set_weights, update_statistics


def make_module(seed: int = 0, inputs: int = 2) -> torch.nn.Module:
    """Return a small module with buffers."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(inputs, 3), torch.nn.BatchNorm1d(3))


def test_weights_are_copied_between_modules():
    """Parameters and buffers of any dtype."""
    one, two = make_module(1), make_module(2)
    one(torch.rand(5, 2))
    set_weights(two, get_weights(one))
    for name, array in get_weights(one).items():
        np.testing.assert_array_equal(get_weights(two)[name], array)
    assert get_weights(two)["1.num_batches_tracked"] == 1


def test_get_weights_returns_copies():
    """Changes of the arrays do not change the module."""
    net = make_module()
    get_weights(net)["0.weight"][:] = 7
    assert (net[0].weight != 7).all()


def test_set_weights_copies_in_place():
    """The module keeps its tensors, and later changes of the arrays do not change them."""
    net, weights = make_module(1), get_weights(make_module(2))
    before = net[0].weight.data_ptr()
    set_weights(net, weights)
    weights["0.bias"][:] = 7
    assert net[0].weight.data_ptr() == before
    assert net[0].weight.requires_grad
    assert (net[0].bias != 7).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.pop("0.bias"), "0.bias is missing"),
        (lambda weights: weights.update(extra=np.zeros(1)), "extra is unknown"),
        (lambda weights: weights.update({"0.bias": np.zeros(4)}), r"0.bias has shape \(4,\), expected \(3,\)"),
    ],
)
def test_weights_that_do_not_fit_are_rejected(change, message):
    """The message lists the differences, and nothing is copied."""
    net, weights = make_module(1), get_weights(make_module(2))
    before = get_weights(net)
    change(weights)
    with pytest.raises(ModelError, match=message):
        set_weights(net, weights)
    np.testing.assert_array_equal(get_weights(net)["0.weight"], before["0.weight"])


def add_one(parameter, count, *, fail):
    """Add to two tensors in place, then raise if requested."""
    with restored_on_error([parameter, count]):
        parameter.detach().add_(1.0)
        count.add_(1)
        if fail:
            raise ZeroDivisionError


def test_tensors_are_restored_on_error():
    """In the same memory; without an error the changes stay."""
    parameter, count = torch.nn.Parameter(torch.arange(3.0)), torch.tensor(7)
    alias = parameter.detach()
    with pytest.raises(ZeroDivisionError):
        add_one(parameter, count, fail=True)
    assert (alias.tolist(), count.item()) == ([0.0, 1.0, 2.0], 7)
    add_one(parameter, count, fail=False)
    assert (alias.tolist(), count.item()) == ([1.0, 2.0, 3.0], 8)


def test_lazy_leaves_are_computed_on_access():
    """Names and length need no computation."""
    made = []
    leaves = LazyLeaves(["one", "two"], lambda name: made.append(name) or torch.ones(2))
    assert (list(leaves), len(leaves), "two" in dict.fromkeys(leaves), made) == (["one", "two"], 2, True, [])
    assert leaves["two"].sum() == 2
    assert made == ["two"]
    with pytest.raises(KeyError):
        leaves["three"]


def test_update_statistics_skips_modules_without_statistics():
    """Others are left alone."""
    counted = []
    net = make_module()
    update_statistics(net, {"obs": torch.ones(1)}, {})
    net.update_statistics = lambda observation, privileged: counted.append((observation, privileged))
    update_statistics(net, {"obs": torch.ones(1)}, {})
    assert counted == [({"obs": torch.ones(1)}, {})]
