"""The minimax reward against equations 3 and 4, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus.errors import ContractError
from ludus.segment import SegmentBatch
from ludus_minimax.reward import minimax_reward, minimax_term, opponent_value, shift


def reward(reward, value, *, shift=0.0, **options):
    """Return R' of lists."""
    reward, value = (np.array(numbers, np.float32) for numbers in (reward, value))
    shifts = np.where(np.isnan(value), 0, np.float32(shift))
    return minimax_reward(reward, value, shifts, **{"alpha": 0.1, "gamma": 0.5, **options}).tolist()


def test_equation_3():
    """2 - 0.5 · 0.5 · 3 = 1.25 and -1 - 0.5 · 0.5 · -2 = -0.5."""
    assert reward([2, -1], [3, -2], alpha=0.5) == [1.25, -0.5]


def test_equation_4():
    """Evaluations of a win, a draw and a loss in [-1, 1]: -(1 + 1), -(0 + 1), -(-1 + 1)."""
    assert reward([0, 0, 0], [1, 0, -1], alpha=1, gamma=1, shift=1) == [-2, -1, 0]


def test_without_an_evaluation_the_reward_stays():
    """Neither the value nor R_min is subtracted."""
    assert reward([1, -1], [np.nan, np.nan], shift=1) == [1, -1]


@given(r_min=st.floats(-100, 100), above=st.floats(0, 100), alpha=st.floats(0, 1), gamma=st.floats(0, 1))
@settings(deadline=None)
def test_the_term_is_never_positive(r_min, above, alpha, gamma):
    """For every V ≥ R_min: no cycle of positive rewards."""
    assert minimax_term(np.array([r_min + above]), np.array([abs(r_min)]), alpha=alpha, gamma=gamma)[0] <= 1e-12


def test_the_term_is_linear():
    """The term of summed values is the sum of the terms."""
    value, shifts, weight = np.array([0.5, -0.25, 0.0]), np.array([1.0, 2.0, 0.0]), np.array([1, 0.9, 0.81])
    options = {"alpha": 0.1, "gamma": 0.99}
    single = (weight * minimax_term(value, shifts, **options)).sum()
    together = minimax_term((weight * value).sum(keepdims=True), (weight * shifts).sum(keepdims=True), **options)
    assert together[0] == pytest.approx(single)


def test_the_term_of_tensors():
    """Learners compute it on their device."""
    torch = pytest.importorskip("torch")
    term = minimax_term(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.0]), alpha=0.5, gamma=0.5)
    assert term.tolist() == [-0.5, 0.0]


def test_the_result_is_single_precision():
    """Like the rewards of segments."""
    result = minimax_reward(np.zeros(2, np.float32), np.ones(2, np.float32), np.zeros(2), alpha=0.1, gamma=0.9)
    assert result.dtype == np.float32


def batch_of(values, *, length):
    """Return a batch of one segment with these evaluations."""
    entries = len(values)
    return SegmentBatch(
        observation={"obs": np.zeros((entries, 1, 2), np.float32)},
        action=np.zeros((entries, 1, 1), np.int64),
        reward=np.zeros((entries, 1), np.float32),
        terminated=np.zeros((entries, 1), bool),
        truncated=np.zeros((entries, 1), bool),
        decided=np.ones((entries, 1), bool),
        elapsed_ticks=np.ones((entries, 1), np.int32),
        extras={} if values[0] is None else {"opponent_value": np.array(values, np.float32)[:, None]},
        length=np.array([length], np.int32),
        version=np.zeros(1, np.int64),
    )


def test_evaluations_of_other_entries_are_nan():
    """The bootstrap entry belongs to the next segment, and later entries are undefined."""
    value = opponent_value(batch_of([1, -2, -7, -np.inf], length=2), algorithm="x")
    np.testing.assert_array_equal(value[:, 0], [1, -2, np.nan, np.nan])


def test_evaluations_must_be_there():
    """The error names the algorithm and the option."""
    with pytest.raises(ContractError, match="x: the segments carry no opponent_value, which minimax_alpha > 0 needs"):
        opponent_value(batch_of([None, None], length=1), algorithm="x")


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_evaluation_is_refused(value):
    """Before it reaches the networks."""
    with pytest.raises(ContractError, match="x: opponent_value is infinite"):
        opponent_value(batch_of([value, 0], length=1), algorithm="x")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("none", [0, 0, 0, 0]), ("fixed", [1.5, 1.5, 0, 1.5]), ("tracked", [3, 2, 0, 0])],
)
def test_the_shift_depends_on_the_kind(kind, expected):
    """0, |the fixed value|, or |the lowest evaluation of that opponent|; 0 without evaluation, or if it is unknown."""
    batch = batch_of([1, -2, np.nan, 0.5, 9], length=4)
    batch.extras["opponent_lowest"] = np.array([-3, 2, -3, np.nan, -3], np.float32)[:, None]
    value = opponent_value(batch, algorithm="x")
    result = shift(batch, value, kind=kind, fixed=-1.5)
    assert result[:, 0].tolist() == [*expected, 0]
    assert result.dtype == np.float32
