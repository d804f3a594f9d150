"""Keys of rows: bytes decide, and hashes keep them apart."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_ppo.row_keys import hash_rows, keys_of


def test_keys_are_the_bytes_of_all_leaves():
    """Side by side, filled up to whole words, with room behind them."""
    first, second = np.array([[1, 2, 3], [4, 5, 6]], np.int8), np.array([7, 8], np.float64)
    keys = keys_of([first, second], more=1)
    assert keys.shape == (2, 2 + 1)
    for row in range(2):
        expected = first[row].tobytes() + second[row].tobytes() + bytes(5 + 8)
        assert keys[row].tobytes() == expected


def test_bits_decide():
    """NaN is equal to itself here, and 0 is not -0: a network might tell them apart."""
    keys = keys_of([np.array([np.nan, 0.0, np.nan, -0.0], np.float32)])
    assert keys[0] == keys[2]
    assert len(set(keys.ravel().tolist())) == 3


def test_leaves_may_lie_in_memory_as_they_like():
    """Backwards, or every other column."""
    leaf = np.arange(24).reshape(4, 6)
    np.testing.assert_array_equal(keys_of([leaf[::-1, ::2]]), keys_of([leaf[::-1, ::2].copy()]))


@pytest.mark.parametrize("columns", [(7, 15), (0, 8), (3, 11)], ids=["highest", "lowest", "middle"])
def test_rows_that_differ_in_any_bytes_have_different_hashes(columns):
    """Sums of products lose what differs in high bits only; here they keep it, in the upper half, too."""
    rows = np.zeros((1 << 16, 16), np.uint8)
    rows[:, columns[0]], rows[:, columns[1]] = np.divmod(np.arange(1 << 16), 256)
    hashes = hash_rows(keys_of([rows]))
    assert len(np.unique(hashes)) == 1 << 16
    assert len(np.unique(hashes >> np.uint64(64 - 20))) > 0.95 * (1 << 20) * -np.expm1(-1 / 16)  # as by lot
