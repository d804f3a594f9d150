"""Tests of the conversion of observation leaves to float32, and of the running normalization."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus import ContractError
from ludus.network import get_weights, set_weights
from ludus_networks.layers import FlatInput, RunningNorm, scale_factor


def encode(space, rows, *, scale=True):
    """Encode rows of a single leaf and return them as lists."""
    flat = FlatInput({"obs": space}, scale=scale)
    out = flat({"obs": torch.from_numpy(np.asarray(rows, space.dtype))})
    assert out.dtype == torch.float32
    assert out.shape[1] == flat.size
    return out.tolist()


def test_discrete_leaves_become_one_hot():
    """Numbers count from the start of the space."""
    assert encode(spaces.Discrete(3), [2, 0]) == [[0, 0, 1], [1, 0, 0]]
    assert encode(spaces.Discrete(2, start=5), [5, 6]) == [[1, 0], [0, 1]]


def test_multi_discrete_leaves_become_one_hot():
    """Each entry has its own unit vector, also in a matrix."""
    assert encode(spaces.MultiDiscrete([2, 3]), [[1, 2]]) == [[0, 1, 0, 0, 1]]
    assert encode(spaces.MultiDiscrete([[2], [2]]), [[[1], [0]]]) == [[0, 1, 1, 0]]


def test_multi_binary_leaves_become_zeros_and_ones():
    """Bits become 0 and 1."""
    assert encode(spaces.MultiBinary(3), [[1, 0, 1]]) == [[1, 0, 1]]


def test_8_bit_leaves_are_divided_by_their_largest_bound():
    """The results lie in [-1, 1]."""
    assert encode(spaces.Box(0, 255, (2,), np.uint8), [[0, 255]]) == [[0, 1]]
    assert encode(spaces.Box(-1, 1, (2,), np.int8), [[-1, 1]]) == [[-1, 1]]
    assert encode(spaces.Box(-128, 3, (2,), np.int8), [[-128, 64]]) == [[-1, 0.5]]


def test_bytes_are_unchanged_without_scale():
    """255 stays 255."""
    assert encode(spaces.Box(0, 255, (2,), np.uint8), [[0, 255]], scale=False) == [[0, 255]]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-10, 10, (2,), np.float32),
        spaces.Box(0, 100, (2,), np.int32),
        spaces.Box(0, 0, (2,), np.uint8),
        spaces.Discrete(200),
    ],
)
def test_other_leaves_are_not_scaled(space):
    """Only 8-bit boxes are."""
    assert scale_factor(space, scale=True) == 1.0


def test_scalar_and_matrix_leaves_are_flattened():
    """Shapes () and (2, 2) become one and four columns."""
    assert encode(spaces.Box(-1, 1, (), np.float32), [0.5, 0.25]) == [[0.5], [0.25]]
    assert encode(spaces.Box(0, 9, (2, 2), np.int64), [[[1, 2], [3, 4]]]) == [[1, 2, 3, 4]]


def test_leaves_are_joined_in_the_order_of_the_spaces():
    """The order of the arrays does not matter."""
    flat = FlatInput({"b": spaces.Discrete(2), "a": spaces.Box(-1, 1, (1,), np.float32)}, scale=True)
    out = flat({"a": torch.tensor([[0.5]]), "b": torch.tensor([1])})
    assert out.tolist() == [[0, 1, 0.5]]


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
