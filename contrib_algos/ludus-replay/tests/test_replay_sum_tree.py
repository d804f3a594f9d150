"""The sum tree does what a search in cumulative sums does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus_replay import SumTree


def filled(weights):
    """Return a tree with these weights."""
    tree = SumTree(len(weights))
    tree.set(np.arange(len(weights)), np.array(weights, np.float64))
    return tree


def test_shares_lie_in_the_order_of_the_index():
    """Weights 1, 0, 2, 1 own [0, 1), nothing, [1, 3) and [3, 4)."""
    tree = filled([1, 0, 2, 1])
    assert tree.total == 4
    assert tree.find(np.array([0, 0.9, 1, 2.9, 3, 3.9])).tolist() == [0, 0, 2, 2, 3, 3]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=40).filter(any), st.integers(0, 2**32))
def test_finds_what_cumulative_sums_find(weights, seed):
    """Whole numbers, so that nothing is rounded."""
    at = np.floor(np.random.default_rng(seed).random(50) * sum(weights))
    assert np.array_equal(filled(weights).find(at), np.searchsorted(np.cumsum(weights), at, side="right"))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 100), st.integers(0, 2**32))
def test_any_history_gives_the_same_tree(capacity, seed):
    """Nodes depend on the present weights alone, to the last bit."""
    rng = np.random.default_rng(seed)
    tree, weights = SumTree(capacity), np.zeros(capacity)
    for _ in range(20):
        index, new = rng.integers(0, capacity, 7), rng.random(7)
        tree.set(index, new)
        for i, weight in zip(index, new, strict=True):
            weights[i] = weight
    assert np.array_equal(tree.get(np.arange(capacity)), weights)
    assert tree.total == filled(weights).total


def test_rounding_never_reaches_a_weight_of_zero():
    """A position at or beyond the end belongs to the last weight that is not 0."""
    tree = filled([0, 0.1, 0.2, 0, 0])
    assert tree.find(np.array([tree.total, tree.total + 1])).tolist() == [2, 2]
    assert tree.find(np.array([0.0])).tolist() == [1]


def test_the_positions_are_left_as_they_are():
    """They may be used again."""
    at = np.array([0.5, 2.5])
    filled([1, 2]).find(at)
    assert at.tolist() == [0.5, 2.5]


def test_nothing_to_draw():
    """A tree without weights has no shares."""
    with pytest.raises(ValueError, match="all weights are 0"):
        SumTree(3).find(np.zeros(1))


def test_a_single_weight():
    """The smallest tree."""
    assert filled([3]).find(np.array([0, 2.9])).tolist() == [0, 0]
