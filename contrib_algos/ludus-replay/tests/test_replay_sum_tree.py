"""Tests of the sum tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus_replay.sum_tree import SumTree


def make_tree(weights):
    """Return a tree with the given weights."""
    tree = SumTree(len(weights))
    tree.set(np.arange(len(weights)), np.array(weights, np.float64))
    return tree


def test_find_returns_the_index_of_the_interval():
    """Weights 1, 0, 2, 1 have the intervals [0, 1), none, [1, 3) and [3, 4)."""
    tree = make_tree([1, 0, 2, 1])
    assert tree.total == 4
    assert tree.find(np.array([0, 0.9, 1, 2.9, 3, 3.9])).tolist() == [0, 0, 2, 2, 3, 3]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=40).filter(any), st.integers(0, 2**32))
def test_find_equals_a_search_in_cumulative_sums(weights, seed):
    """Integer weights, so that nothing is rounded."""
    position = np.floor(np.random.default_rng(seed).random(50) * sum(weights))
    expected = np.searchsorted(np.cumsum(weights), position, side="right")
    assert np.array_equal(make_tree(weights).find(position), expected)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 100), st.integers(0, 2**32))
def test_nodes_depend_on_current_weights_only(capacity, seed):
    """A tree after 20 updates equals a new tree with the same weights, bit for bit."""
    rng = np.random.default_rng(seed)
    tree, weights = SumTree(capacity), np.zeros(capacity)
    for _ in range(20):
        index, new = rng.integers(0, capacity, 7), rng.random(7)
        tree.set(index, new)
        for i, weight in zip(index, new, strict=True):
            weights[i] = weight
    assert np.array_equal(tree.get(np.arange(capacity)), weights)
    assert tree.total == make_tree(weights).total


def test_rounding_never_selects_a_weight_of_zero():
    """A position at or beyond the end belongs to the last nonzero weight."""
    tree = make_tree([0, 0.1, 0.2, 0, 0])
    assert tree.find(np.array([tree.total, tree.total + 1])).tolist() == [2, 2]
    assert tree.find(np.array([0.0])).tolist() == [1]


def test_find_does_not_modify_its_argument():
    """The caller may reuse the array."""
    position = np.array([0.5, 2.5])
    make_tree([1, 2]).find(position)
    assert position.tolist() == [0.5, 2.5]


def test_find_raises_without_weights():
    """A tree of zeros has no intervals."""
    with pytest.raises(ValueError, match="all weights are 0"):
        SumTree(3).find(np.zeros(1))


def test_tree_with_one_weight():
    """The smallest tree finds its only index."""
    assert make_tree([3]).find(np.array([0, 2.9])).tolist() == [0, 0]
