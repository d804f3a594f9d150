"""Rows that are equal: found by their bytes, and only these."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from ludus_ppo import kinds as kinds_module
from ludus_ppo.kinds import kinds_of, one_of_each


def found(*leaves, row_bytes=1):
    """Return the kinds of all rows of some leaves."""
    return kinds_of(lambda entries: [leaf[entries] for leaf in leaves], np.arange(len(leaves[0])), row_bytes=row_bytes)


def agree(kinds, table):
    """Compare kinds with what NumPy finds in a table ``[n, …]`` of whole numbers."""
    np.testing.assert_array_equal(table[kinds], table)
    np.testing.assert_array_equal(kinds[kinds], kinds)
    assert len(np.unique(kinds)) == len(np.unique(table.reshape(len(table), -1), axis=0))


def test_rows_that_meet_others_are_found_too(monkeypatch):
    """In a table with hardly more places than kinds."""
    monkeypatch.setattr(kinds_module, "_PLACES", 1)
    rows = np.random.default_rng(0).integers(0, 800, (1000, 1))
    agree(found(rows), rows)


@pytest.mark.parametrize("row_bytes", [1, 1 << 20], ids=["at once", "in parts"])
def test_rows_are_of_one_kind_if_all_leaves_are_equal(row_bytes):
    """Bytes, whose number is no multiple of four, and wide integers; a difference in either is one."""
    rng = np.random.default_rng(0)
    board, turn = rng.integers(0, 2, (300, 3, 2)).astype(np.int8), rng.integers(0, 3, 300)
    agree(found(board, turn, row_bytes=row_bytes), np.concatenate([board.reshape(300, -1), turn[:, None]], axis=1))


def test_entries_are_read_where_they_lie():
    """Kinds are those of the rows that entries name, in their order."""
    leaf = np.array([[5], [6], [5], [7]])
    kinds = kinds_of(lambda entries: [leaf[entries]], np.array([3, 2, 0]), row_bytes=8)
    assert kinds[1] == kinds[2] != kinds[0]


def test_different_rows_with_one_hash_are_told_apart(monkeypatch):
    """Then no two rows are taken for equal."""
    monkeypatch.setattr(kinds_module, "hash_rows", lambda keys: np.zeros(len(keys), np.uint64))
    assert found(np.array([[1], [2], [1]])).tolist() == [0, 1, 2]
    assert len(set(found(np.array([[1], [1], [1]])).tolist())) == 1


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_one_row_of_each_kind_stands_for_all(numbers):
    """Every kind is kept once, and every row finds its own."""
    kinds = np.array(numbers)
    kept, place = one_of_each(kinds)
    assert sorted(kinds[kept].tolist()) == sorted(set(numbers))
    np.testing.assert_array_equal(kinds[kept][place], kinds)
