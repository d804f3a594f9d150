"""Tests of the conversion of segments to rows."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus.errors import ContractError
from ludus.segment import SegmentBatch
from ludus_replay.layout import ReplayLayout
from ludus_replay.rows import make_rows


def make_segment(rewards, *, terminated=(), truncated=(), undecided=(), length=None, ticks=None):
    """Return a batch of one segment; observations number its entries."""
    entries = len(rewards)

    def marks(at):
        return np.isin(np.arange(entries), at)[:, None]

    return SegmentBatch(
        observation={"obs": np.arange(entries, dtype=np.float32)[:, None, None]},
        action=np.arange(entries)[:, None, None] % 4,
        reward=np.array(rewards, np.float32)[:, None],
        terminated=marks(terminated),
        truncated=marks(truncated),
        decided=~marks(undecided),
        elapsed_ticks=np.array(ticks or [1] * entries, np.int32)[:, None],
        length=np.array([entries - 1 if length is None else length], np.int32),
        version=np.zeros(1, np.int64),
    )


@pytest.fixture
def layout(role):
    """Return the layout of a role with one observation leaf."""
    return ReplayLayout.for_role(attrs.evolve(role, observation_space=spaces.Box(-1, 1, (1,), np.float32)))


def list_transitions(rows):
    """Return (start, end or None, reward, discount) of every transition."""
    arrays, found = rows.arrays, []
    for row in np.flatnonzero(arrays["offset"]):
        after = None if arrays["discount"][row] == 0 else arrays["observation/obs"][row + arrays["offset"][row], 0]
        found.append(
            (arrays["observation/obs"][row, 0], after, float(arrays["reward"][row]), float(arrays["discount"][row]))
        )
    return found


def test_one_step_transitions(layout):
    """The last decision ends at the bootstrap entry."""
    rows = make_rows(make_segment([1, 2, 3, np.nan]), layout, gamma=0.5)
    assert list_transitions(rows) == [(0, 1, 1, 0.5), (1, 2, 2, 0.5), (2, 3, 3, 0.5)]


def test_three_step_transitions(layout):
    """1 + 2/2 + 4/4 = 3; transitions are shorter at the end of the segment."""
    rows = make_rows(make_segment([1, 2, 4, 8, np.nan]), layout, gamma=0.5, n_step=3)
    assert list_transitions(rows) == [(0, 3, 3, 0.125), (1, 4, 6, 0.125), (2, 4, 8, 0.25), (3, 4, 8, 0.5)]


def test_terminated_match_does_not_bootstrap(layout):
    """A transition does not continue in the next match either."""
    rows = make_rows(make_segment([1, 2, 4, np.nan], terminated=[1]), layout, gamma=0.5, n_step=3)
    assert list_transitions(rows) == [(0, None, 2, 0), (1, None, 2, 0), (2, 3, 4, 0.5)]


def test_truncated_match_bootstraps_from_its_final_observation(layout):
    """The entry after the last decision is not a decision."""
    rows = make_rows(make_segment([1, 2, np.nan, 4, np.nan], truncated=[1], undecided=[2]), layout, gamma=0.5, n_step=3)
    assert list_transitions(rows) == [(0, 2, 2, 0.25), (1, 2, 2, 0.5), (3, 4, 4, 0.5)]


def test_segment_that_ends_with_its_match_stores_no_bootstrap_entry(layout):
    """The undefined entry is neither checked nor stored."""
    batch = make_segment([1, 2, np.nan], terminated=[1])
    batch.observation["obs"][2] = np.nan
    batch.decided[2] = False
    rows = make_rows(batch, layout, gamma=0.5)
    assert list_transitions(rows) == [(0, 1, 1, 0.5), (1, None, 2, 0)]
    assert len(rows.arrays["offset"]) == 2


def test_discount_per_tick(layout):
    """1 + 0.5^2 · 2 = 1.5, discounted by 0.5^5."""
    rows = make_rows(make_segment([1, 2, np.nan], ticks=[2, 3, 1]), layout, gamma=0.5, n_step=2, discount_per="tick")
    assert list_transitions(rows) == [(0, 2, 1.5, 0.03125), (1, 2, 2, 0.125)]


def test_further_columns_are_summed_like_the_reward(role):
    """8 + 0.5 · 4 = 10."""
    role = attrs.evolve(role, observation_space=spaces.Box(-1, 1, (1,), np.float32))
    batch = make_segment([0, 0, np.nan])
    extra = np.array([[8.0], [4.0], [np.nan]], np.float32)
    rows = make_rows(batch, ReplayLayout.for_role(role, sums=["bonus"]), gamma=0.5, n_step=2, sums={"bonus": extra})
    assert rows.arrays["sums/bonus"][:2].tolist() == [10, 4]


def test_rows_have_the_dtypes_of_the_layout(role, make_batch):
    """Bytes stay bytes."""
    layout = ReplayLayout.for_role(role, privileged=True)
    rows = make_rows(make_batch(), layout, gamma=0.9)
    assert {name: array.dtype for name, array in rows.arrays.items()} == {
        name: dtype for name, (_, dtype) in layout.arrays.items()
    }
    assert rows.arrays["observation/board"].dtype == np.uint8


def test_missing_mask_means_all_actions_are_legal(layout):
    """Environments may omit masks."""
    rows = make_rows(make_segment([1, np.nan]), layout, gamma=0.9)
    assert rows.arrays["action_mask"].all()


def test_missing_array_raises(role):
    """The message names the array."""
    with pytest.raises(ContractError, match="no observation/board"):
        make_rows(make_segment([1, np.nan]), ReplayLayout.for_role(role), gamma=0.9)


@pytest.mark.parametrize("array", ["reward", "obs"])
def test_infinite_number_raises(layout, array):
    """The message names the array."""
    batch = make_segment([1, 2, np.nan])
    (batch.reward if array == "reward" else batch.observation["obs"])[1] = np.inf
    with pytest.raises(ContractError, match=rf"{array} of a batch is not finite"):
        make_rows(batch, layout, gamma=0.9)


@pytest.mark.parametrize("reward", [1e25, -3e38])
def test_reward_whose_square_overflows_raises(layout, reward):
    """Otherwise every update that samples the transition would fail."""
    batch = make_segment([1, 2, np.nan])
    batch.reward[1] = 1e12
    make_rows(batch, layout, gamma=0.9)
    batch.reward[1] = reward
    with pytest.raises(ContractError, match=r"expected at most 1e\+12; the batch was not stored"):
        make_rows(batch, layout, gamma=0.9)


def test_sum_above_the_limit_raises(role):
    """The limit applies to the sum over n steps, of further columns too."""
    role = attrs.evolve(role, observation_space=spaces.Box(-1, 1, (1,), np.float32))
    batch, layout = make_segment([1, 2, np.nan]), ReplayLayout.for_role(role, sums=["bonus"])
    extra = np.array([[8e11], [8e11], [np.nan]], np.float32)
    make_rows(batch, layout, gamma=1.0, n_step=1, sums={"bonus": extra})
    with pytest.raises(ContractError, match=r"replay: 'sums/bonus' .* has magnitude 1\.6e\+12"):
        make_rows(batch, layout, gamma=1.0, n_step=2, sums={"bonus": extra})


def list_transitions_one_by_one(batch, *, gamma, n_step, per_tick):
    """Return the transitions of a batch by a plain loop: (start, end or None, reward, discount)."""
    found = []
    speed = batch.observation["speed"][..., 0]
    for segment in range(batch.num_segments):
        for start in range(batch.length[segment]):
            if not batch.decided[start, segment]:
                continue
            total, discount, entry, ended = 0.0, 1.0, start, False
            for _ in range(n_step):
                total += discount * float(batch.reward[entry, segment])
                discount *= gamma ** (int(batch.elapsed_ticks[entry, segment]) if per_tick else 1)
                ended = bool(batch.terminated[entry, segment])
                entry += 1
                if ended or not batch.decided[entry, segment] or entry >= batch.length[segment]:
                    break
            end = None if ended else speed[entry, segment]
            found.append((speed[start, segment], end, total, 0.0 if ended else discount))
    return found


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), n_step=st.integers(1, 8), per_tick=st.booleans())
def test_transitions_equal_those_of_a_plain_loop(role, make_batch, seed, n_step, per_tick):
    """For random segments."""
    batch = make_batch(seed)
    rows = make_rows(
        batch,
        ReplayLayout.for_role(role),
        gamma=0.5,
        n_step=n_step,
        discount_per="tick" if per_tick else "decision",
    )
    rows.arrays["observation/obs"] = rows.arrays["observation/speed"]
    assert list_transitions(rows) == list_transitions_one_by_one(batch, gamma=0.5, n_step=n_step, per_tick=per_tick)
    assert rows.num_transitions == batch.num_decisions
