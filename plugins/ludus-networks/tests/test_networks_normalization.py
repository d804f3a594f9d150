"""Tests of the running normalization."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from ludus import ContractError
from ludus.network import get_weights, set_weights
from ludus_networks.layers import RunningNorm


def make_rows(count=200, seed=0):
    """Return columns of different means and deviations."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(count, 3)) * [1, 5, 0.1] + [0, 100, -3]).astype(np.float32)


def normalize(norm, array):
    """Apply the module to an array."""
    return norm(torch.from_numpy(array)).numpy()


def add(norm, array):
    """Add the rows of an array to the statistics."""
    norm.add(torch.from_numpy(array))


@settings(deadline=None, max_examples=20)
@given(cuts=st.lists(st.integers(1, 199), max_size=6))
def test_statistics_are_those_of_all_rows(cuts):
    """Mean and variance equal those of NumPy, however the rows are split."""
    norm, array = RunningNorm([True] * 3, clip=10), make_rows()
    for piece in np.split(array, sorted(set(cuts))):
        add(norm, piece)
    np.testing.assert_allclose(norm.mean.numpy(), array.mean(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(norm.variance.numpy(), array.var(0), rtol=1e-3)
    assert norm.count == len(array)


def test_normalized_columns_have_mean_0_and_deviation_1():
    """After their statistics were added."""
    norm, array = RunningNorm([True] * 3, clip=10), make_rows()
    add(norm, array)
    np.testing.assert_allclose(normalize(norm, array), (array - array.mean(0)) / array.std(0), atol=1e-3)


@pytest.mark.parametrize("training", [False, True])
def test_forward_does_not_change_the_statistics(training):
    """In training and in evaluation mode."""
    norm = RunningNorm([True] * 3, clip=10).train(training)
    add(norm, make_rows())
    before, fresh = get_weights(norm), make_rows(seed=1) * 2
    np.testing.assert_array_equal(normalize(norm, fresh), normalize(norm, fresh))
    for name, array in get_weights(norm).items():
        np.testing.assert_array_equal(array, before[name])


def test_statistics_are_weights():
    """A module that loads the weights normalizes equally; the mask of columns is not a weight."""
    norm, copy = RunningNorm([True, False, True], clip=10), RunningNorm([True, False, True], clip=10)
    add(norm, make_rows())
    assert set(get_weights(norm)) == {"mean", "variance", "count"}
    set_weights(copy, get_weights(norm))
    np.testing.assert_array_equal(normalize(copy, make_rows(seed=2)), normalize(norm, make_rows(seed=2)))


def test_other_columns_are_unchanged():
    """Even beyond the clip."""
    norm, array = RunningNorm([True, False, True], clip=2), make_rows()
    add(norm, array)
    np.testing.assert_array_equal(normalize(norm, array)[:, 1], array[:, 1])


def test_adding_no_rows_changes_nothing():
    """As when no entity is present in a batch."""
    norm, array = RunningNorm([True] * 3, clip=10), make_rows()
    add(norm, array)
    before = get_weights(norm)
    add(norm, array[:0])
    for name, tensor in get_weights(norm).items():
        np.testing.assert_array_equal(tensor, before[name])


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e30])
def test_row_that_is_not_finite_or_too_large_raises(number):
    """The statistics are unchanged."""
    norm, array = RunningNorm([True, False, True], clip=10), make_rows()
    add(norm, array)
    before = get_weights(norm)
    array[5, 0] = number
    with pytest.raises(ContractError, match="not finite, or too large"):
        add(norm, array)
    for name, tensor in get_weights(norm).items():
        np.testing.assert_array_equal(tensor, before[name])


def test_extremes_are_clipped_and_constants_are_zero():
    """A constant column gives 0."""
    norm = RunningNorm([True, True], clip=3)
    array = np.array([[7, 0], [7, 1], [7, 0], [7, 1]], np.float32)
    add(norm, array)
    standard = normalize(norm, np.array([[7, 1000], [8, -1000]], np.float32))
    np.testing.assert_allclose(standard, [[0, 3], [3, -3]])


def test_gradient_is_divided_by_the_deviation():
    """The gradient of (x - mean) / deviation."""
    norm = RunningNorm([True], clip=10)
    add(norm, np.array([[0], [4]], np.float32))  # deviation 2
    number = torch.tensor([[1.0]], requires_grad=True)
    norm(number).backward()
    torch.testing.assert_close(number.grad, torch.tensor([[0.5]]))
