"""Rows of seat ids are stable, distinct, and fresh when a match starts."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st
from ludus_interfaces.frames import SeatRows


@given(st.lists(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5, unique=True), max_size=6))
@settings(deadline=None, max_examples=50)
def test_every_seat_id_keeps_its_row(batches):
    """There are as many rows as seat ids."""
    table, known = SeatRows(), {}
    for seat_ids in batches:
        rows = table.rows(np.array(seat_ids))
        for seat_id, row in zip(seat_ids, rows.tolist(), strict=True):
            assert known.setdefault(seat_id, row) == row
    assert sorted(known.values()) == list(range(table.count)) == list(range(len(known)))


def test_rows_are_fresh_once_and_again_after_a_reset():
    """New and reset rows are fresh until they are taken."""
    table = SeatRows()
    seat_ids = np.array([7, 3])
    assert table.take_fresh(table.rows(seat_ids)).tolist() == [True, True]
    table.reset(np.array([3, 99]))
    assert table.take_fresh(table.rows(seat_ids)).tolist() == [False, True]
