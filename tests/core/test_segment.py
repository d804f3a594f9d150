"""Segments are checked, converted, joined and divided."""

from __future__ import annotations

import numpy as np
import pytest
from ludus import ContractError
from ludus.segment import SegmentBatch


def batch(segments: int = 3, steps: int = 4, *, seed: int = 0, mask: bool = True) -> SegmentBatch:
    """Return full segments with every group of arrays."""
    rng = np.random.default_rng(seed)
    shape = (steps + 1, segments)
    return SegmentBatch(
        observation={"obs": rng.integers(0, 255, (*shape, 2), np.uint8)},
        privileged={"fog": rng.random((*shape, 1), np.float32)},
        action=rng.integers(0, 3, (*shape, 1)),
        action_mask=np.ones((*shape, 3), bool) if mask else None,
        reward=rng.random(shape, np.float32),
        terminated=np.zeros(shape, bool),
        truncated=np.zeros(shape, bool),
        decided=np.ones(shape, bool),
        elapsed_ticks=np.ones(shape, np.int32),
        extras={"value": rng.random(shape, np.float32)},
        initial_state={"memory": rng.random((segments, 5), np.float32)},
        length=np.full(segments, steps, np.int32),
        version=np.arange(segments),
    )


def test_only_decisions_before_the_bootstrap_entry_are_trainable():
    """Neither the entry at `length` nor undecided entries are trained on."""
    played = batch()
    played.length[:] = [4, 2, 0]
    played.decided[1, 0] = False
    expected = [[True, True, False], [False, True, False], [True, False, False], [True, False, False], [False] * 3]
    assert played.trainable().tolist() == expected
    assert played.num_decisions == 5
    assert played.num_segments == 3


@pytest.mark.parametrize("mask", [True, False])
def test_arrays_are_the_inverse_of_from_arrays(mask):
    """All arrays survive both conversions."""
    played = batch(mask=mask)
    again = SegmentBatch.from_arrays(played.arrays())
    assert again.arrays().keys() == played.arrays().keys()
    assert all(again.arrays()[name] is array for name, array in played.arrays().items())
    assert (again.action_mask is None) is not mask


def test_flat_names_contain_the_group():
    """Leaves are named after their group."""
    assert {"observation/obs", "privileged/fog", "extras/value", "initial_state/memory"} < batch().arrays().keys()


def test_a_missing_array_is_rejected():
    """The message names the array."""
    arrays = batch().arrays()
    del arrays["reward"], arrays["version"]
    with pytest.raises(ContractError, match="lacks reward, version"):
        SegmentBatch.from_arrays(arrays)


@pytest.mark.parametrize("name", ["bonus", "extra/value", "observation", "observation/"])
def test_an_unknown_array_is_rejected(name):
    """Only known names and groups are accepted."""
    with pytest.raises(ContractError, match=f"unknown array '{name}'"):
        SegmentBatch.from_arrays(batch().arrays() | {name: np.zeros((5, 3))})


@pytest.mark.parametrize("name", ["action", "observation/obs", "action_mask", "extras/value", "version"])
def test_a_wrong_shape_is_rejected(name):
    """The message names the array and its shape."""
    arrays = batch().arrays()
    arrays[name] = arrays[name][:-1]
    with pytest.raises(ContractError, match=f"{name} has shape"):
        SegmentBatch.from_arrays(arrays).check()


def test_initial_state_has_one_entry_per_segment():
    """It is not time-major."""
    arrays = batch().arrays() | {"initial_state/memory": np.zeros((5, 3, 5), np.float32)}
    with pytest.raises(ContractError, match="initial_state/memory has shape"):
        SegmentBatch.from_arrays(arrays).check()


@pytest.mark.parametrize("length", [-1, 5])
def test_invalid_lengths_are_rejected(length):
    """The bootstrap entry must fit."""
    played = batch()
    played.length[1] = length
    with pytest.raises(ContractError, match=r"lengths must be in \[0, 4\]"):
        played.check()


@pytest.mark.parametrize(("kind", "refused"), [("truncated", True), ("terminated", False)])
def test_a_final_observation_without_a_legal_action_is_rejected(kind, refused):
    """Bootstrapping from actions needs a legal action; terminated matches need none."""
    played = batch()
    getattr(played, kind)[1, 2] = True
    played.decided[2, 2] = False
    played.check()
    played.action_mask[2, 2] = False
    if refused:
        with pytest.raises(ContractError, match=r"final observation of segment 2 \(entry 2\) leaves no legal action"):
            played.check()
    else:
        played.check()


def test_entries_after_a_segment_are_not_checked():
    """Entries after `length` are undefined, masks included."""
    played = batch()
    played.truncated[1] = True
    played.decided[2] = played.action_mask[2] = False
    played.length[:] = 1
    played.check()


def test_concatenate_joins_segments():
    """Segments are joined in order, with all of their arrays."""
    one, two = batch(3, seed=1), batch(2, seed=2)
    joined = SegmentBatch.concatenate([one, two])
    assert joined.num_segments == 5
    for name, array in joined.arrays().items():
        axis = 0 if name in {"length", "version", "initial_state/memory"} else 1
        first, second = np.split(array, [3], axis=axis)
        np.testing.assert_array_equal(first, one.arrays()[name])
        np.testing.assert_array_equal(second, two.arrays()[name])


def test_concatenate_leaves_out_empty_segments():
    """Dropped segments cost no memory and no time."""
    one, two, none = batch(3, seed=1), batch(2, seed=2), batch(2, seed=3)
    one.length[1] = 0
    none.length[:] = 0
    joined = SegmentBatch.concatenate([one, none, two])
    assert joined.num_segments == 4
    assert joined.counts().tolist() == joined.trainable().sum(axis=0).tolist()
    for name, array in joined.arrays().items():
        axis = 0 if name in {"length", "version", "initial_state/memory"} else 1
        first, second = np.split(array, [2], axis=axis)
        np.testing.assert_array_equal(first, one.arrays()[name].take([0, 2], axis=axis))
        np.testing.assert_array_equal(second, two.arrays()[name])


def test_concatenate_of_one_batch_is_no_copy():
    """The batch itself is returned."""
    played = batch()
    assert SegmentBatch.concatenate([played]) is played


def test_a_read_only_batch_cannot_be_written_to():
    """Nothing is copied, and the original stays writable."""
    played = batch()
    shown = played.read_only()
    for name, array in shown.arrays().items():
        assert np.shares_memory(array, played.arrays()[name])
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    assert shown.num_decisions == played.num_decisions
    assert all(part.reward.flags.writeable is False for part in shown.divide(2))
    played.reward[...] = 0


def test_a_batch_is_divided_evenly_by_decisions():
    """Each part holds whole segments, as views."""
    played = batch(9)
    played.length[:] = [4, 1, 1, 1, 1, 2, 2, 2, 2]
    counts = played.counts()
    for parts in (1, 2, 3):
        divided = played.divide(parts)
        assert len(divided) == parts
        assert sum(part.num_decisions for part in divided) == counts.sum()
        assert max(part.num_decisions for part in divided) - min(part.num_decisions for part in divided) <= counts.max()
        assert all(np.shares_memory(part.action, played.action) for part in divided)
    assert [part.num_segments for part in played.divide(20)] == [1] * 9


@pytest.mark.parametrize(
    ("lengths", "parts", "segments"),
    [
        ([1, 4], 2, [1, 1]),
        ([1, 1, 4], 2, [2, 1]),
        ([4, 1, 1], 2, [1, 2]),
        ([1, 1, 1, 1, 1, 4], 3, [3, 2, 1]),
        ([0, 0, 0, 4], 3, [4]),
        ([3, 0, 0, 4], 3, [3, 1]),
        ([2] * 10, 3, [3, 4, 3]),
    ],
)
def test_no_part_of_a_batch_is_without_decisions(lengths, parts, segments):
    """For any distribution of decisions; each part ends near its share."""
    played = batch(len(lengths))
    played.length[:] = lengths
    assert [part.num_segments for part in played.divide(parts)] == segments
