"""Observation leaves as numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus_networks.inputs import FlatInput, scale_of


def flat(space, rows, *, scale=True):
    """Encode rows of a single leaf and return them as lists."""
    encode = FlatInput({"obs": space}, scale=scale)
    out = encode({"obs": torch.from_numpy(np.asarray(rows, space.dtype))})
    assert out.dtype == torch.float32
    assert out.shape[1] == encode.size
    return out.tolist()


def test_discrete_leaves_become_one_hot():
    """A number becomes its unit vector, counted from the start of the space."""
    assert flat(spaces.Discrete(3), [2, 0]) == [[0, 0, 1], [1, 0, 0]]
    assert flat(spaces.Discrete(2, start=5), [5, 6]) == [[1, 0], [0, 1]]


def test_multi_discrete_leaves_become_one_hot():
    """Each entry has its own unit vector; matrices of entries too."""
    assert flat(spaces.MultiDiscrete([2, 3]), [[1, 2]]) == [[0, 1, 0, 0, 1]]
    assert flat(spaces.MultiDiscrete([[2], [2]]), [[[1], [0]]]) == [[0, 1, 1, 0]]


def test_multi_binary_leaves_are_taken_as_they_are():
    """Bits become 0 and 1."""
    assert flat(spaces.MultiBinary(3), [[1, 0, 1]]) == [[1, 0, 1]]


def test_bytes_are_scaled_and_boards_are_not():
    """8-bit leaves end up within [-1, 1]."""
    assert flat(spaces.Box(0, 255, (2,), np.uint8), [[0, 255]]) == [[0, 1]]
    assert flat(spaces.Box(-1, 1, (2,), np.int8), [[-1, 1]]) == [[-1, 1]]
    assert flat(spaces.Box(-128, 3, (2,), np.int8), [[-128, 64]]) == [[-1, 0.5]]


def test_scaling_can_be_switched_off():
    """Bytes stay what they are."""
    assert flat(spaces.Box(0, 255, (2,), np.uint8), [[0, 255]], scale=False) == [[0, 255]]


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
    assert scale_of(space, scale=True) == 1.0


def test_scalar_and_matrix_leaves_are_flattened():
    """Shapes (), (2, 2) become one and four columns."""
    assert flat(spaces.Box(-1, 1, (), np.float32), [0.5, 0.25]) == [[0.5], [0.25]]
    assert flat(spaces.Box(0, 9, (2, 2), np.int64), [[[1, 2], [3, 4]]]) == [[1, 2, 3, 4]]


def test_leaves_are_joined_in_the_order_of_the_spaces():
    """The order of the arrays given does not matter."""
    encode = FlatInput({"b": spaces.Discrete(2), "a": spaces.Box(-1, 1, (1,), np.float32)}, scale=True)
    out = encode({"a": torch.tensor([[0.5]]), "b": torch.tensor([1])})
    assert out.tolist() == [[0, 1, 0.5]]
