"""Running normalisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from ludus.network import get_weights, set_weights
from ludus_networks.normalization import RunningNorm


def rows(count=200, seed=0):
    """Return columns of different means and deviations."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(count, 3)) * [1, 5, 0.1] + [0, 100, -3]).astype(np.float32)


def normal(norm, array, present=None):
    """Call the module with arrays."""
    return norm(torch.from_numpy(array), None if present is None else torch.from_numpy(present)).numpy()


@settings(deadline=None, max_examples=20)
@given(cuts=st.lists(st.integers(1, 199), max_size=6))
def test_statistics_are_those_of_all_rows(cuts):
    """However the rows come in pieces, mean and variance are those that NumPy finds in all of them."""
    norm, array = RunningNorm([True] * 3, clip=10), rows()
    for piece in np.split(array, sorted(set(cuts))):
        normal(norm, piece)
    np.testing.assert_allclose(norm.mean.numpy(), array.mean(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(norm.variance.numpy(), array.var(0), rtol=1e-3)
    assert norm.count == len(array)


def test_rows_become_standard():
    """Once the statistics are known, columns have mean 0 and deviation 1."""
    norm, array = RunningNorm([True] * 3, clip=10), rows()
    normal(norm, array)
    standard = normal(norm.eval(), array)
    np.testing.assert_allclose(standard, (array - array.mean(0)) / array.std(0), atol=1e-3)


def test_rows_see_the_statistics_before_them():
    """A learner's first pass gives the very numbers that the decisions were made on."""
    norm = RunningNorm([True] * 3, clip=10)
    normal(norm, rows())
    fresh = rows(seed=1) * 2
    decided = normal(norm.eval(), fresh)
    np.testing.assert_array_equal(normal(norm.train(), fresh), decided)
    assert (normal(norm, fresh) != decided).any()


@pytest.mark.parametrize("learning", ["evaluation mode", "no gradients"])
def test_only_learning_changes_statistics(learning):
    """Neither evaluation mode nor a call without gradients does."""
    norm = RunningNorm([True] * 3, clip=10).train(learning != "evaluation mode")
    before = get_weights(norm)
    with torch.set_grad_enabled(learning != "no gradients"):
        normal(norm, rows())
    for name, array in get_weights(norm).items():
        np.testing.assert_array_equal(array, before[name])


def test_statistics_travel_as_weights():
    """A copy that gets the weights normalises in the same way, and its mask is no weight."""
    norm, copy = RunningNorm([True, False, True], clip=10), RunningNorm([True, False, True], clip=10)
    normal(norm, rows())
    assert set(get_weights(norm)) == {"mean", "variance", "count"}
    set_weights(copy, get_weights(norm))
    np.testing.assert_array_equal(normal(copy.eval(), rows(seed=2)), normal(norm.eval(), rows(seed=2)))


def test_other_columns_pass():
    """A column that is not chosen stays as it is, even beyond the clip."""
    norm, array = RunningNorm([True, False, True], clip=2), rows()
    normal(norm, array)
    np.testing.assert_array_equal(normal(norm, array)[:, 1], array[:, 1])


def test_absent_rows_do_not_count():
    """Statistics are those of the rows present; none at all change nothing."""
    norm, array = RunningNorm([True] * 3, clip=10), rows()
    present = np.arange(len(array)) % 3 > 0
    normal(norm, np.where(present[:, None], array, 1e6).astype(np.float32), present)
    np.testing.assert_allclose(norm.mean.numpy(), array[present].mean(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(norm.variance.numpy(), array[present].var(0), rtol=1e-3)
    before = get_weights(norm)
    normal(norm, array, np.zeros(len(array), bool))
    for name, tensor in get_weights(norm).items():
        np.testing.assert_array_equal(tensor, before[name])


def test_extremes_are_clipped_and_constants_are_zero():
    """A column that never changed gives 0 as long as it does not."""
    norm = RunningNorm([True, True], clip=3)
    array = np.array([[7, 0], [7, 1], [7, 0], [7, 1]], np.float32)
    normal(norm, array)
    standard = normal(norm.eval(), np.array([[7, 1000], [8, -1000]], np.float32))
    np.testing.assert_allclose(standard, [[0, 3], [3, -3]])


def test_gradients_pass_the_scale():
    """The gradient is that of (x - mean) / deviation."""
    norm = RunningNorm([True], clip=10)
    normal(norm, np.array([[0], [4]], np.float32))  # deviation 2
    number = torch.tensor([[1.0]], requires_grad=True)
    norm(number).backward()
    torch.testing.assert_close(number.grad, torch.tensor([[0.5]]))
