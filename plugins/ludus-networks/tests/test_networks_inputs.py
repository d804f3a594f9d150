"""Tests of the conversion of observation leaves to float32."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus_networks.layers import FlatInput, scale_factor


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
