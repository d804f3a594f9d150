"""Minibatches of rows and of segments, selected from batches of any memory layout."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ludus_ppo import row_minibatches
from ludus_ppo.row_minibatches import RowMinibatches
from ludus_ppo.segment_minibatches import SegmentMinibatches

CPU = torch.device("cpu")


@pytest.fixture
def batch(make_ppo, make_batch):
    """Return six segments of eight decisions with masks, privileged leaves and bytes."""
    made = make_batch(make_ppo(), privileged={"fog": 2})
    rng = np.random.default_rng(0)
    made.action_mask = rng.random((9, 6, 4)) < 0.5
    made.observation["image"] = rng.integers(0, 256, (9, 6, 4, 5, 2), dtype=np.uint8)
    return made


def source_of(batch, **options):
    """Return a source whose advantages are the numbers of entries."""
    numbers = np.arange(batch.decided.size, dtype=np.float32).reshape(batch.decided.shape)
    targets = {"advantage": numbers, "returns/value": -numbers}
    return RowMinibatches(batch, trainable=batch.trainable(), targets=targets, device=CPU, **options)


def check(rows, batch, entries):
    """Compare rows with those that NumPy selects."""
    step, segment = np.divmod(entries, batch.num_segments)
    assert rows.advantage.tolist() == entries.tolist()
    assert (-rows.returns["value"]).tolist() == entries.tolist()
    np.testing.assert_array_equal(rows.action, batch.action[step, segment])
    np.testing.assert_array_equal(rows.action_mask, batch.action_mask[step, segment])
    for ours, theirs in (
        (rows.observation, batch.observation),
        (rows.privileged, batch.privileged),
        (rows.extras, batch.extras),
    ):
        assert ours.keys() == theirs.keys()
        for name, tensor in ours.items():
            np.testing.assert_array_equal(tensor, theirs[name][step, segment])


def apart(array):
    """Return the same values as part of a larger array, as segments of a shared block are."""
    larger = np.zeros((array.shape[0], array.shape[1] + 5, *array.shape[2:]), array.dtype)
    larger[:, 2:-3] = array
    return larger[:, 2:-3]


def transposed(array):
    """Return the same values with segments outermost in memory."""
    return np.ascontiguousarray(array.swapaxes(0, 1)).swapaxes(0, 1)


def backwards(array):
    """Return the same values with the last axis reversed in memory."""
    return np.ascontiguousarray(array[..., ::-1])[..., ::-1]


def read_only(array):
    """Return the same values in memory that cannot be written."""
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("layout", [np.asarray, apart, transposed, backwards, read_only])
def test_rows_are_selected_from_any_layout(batch, monkeypatch, layout, resident):
    """From the arrays of the batch, or from copies of them on the device."""
    monkeypatch.setattr(row_minibatches, "_is_resident", lambda *_: resident)
    arrays = {name: layout(a) if a.ndim > 1 else a for name, a in batch.arrays().items()}
    entries = np.array([47, 0, 13, 13, 8])
    check(source_of(type(batch).from_arrays(arrays)).take(entries), batch, entries)


def test_bytes_stay_bytes(batch):
    """Observations keep their dtype; networks convert them."""
    assert source_of(batch).take(np.array([3])).observation["image"].dtype is torch.uint8


def test_minibatches_are_the_trainable_decisions(batch):
    """In random order, each once; a share of them is drawn again every time."""
    batch.decided[2, 3] = False
    source, rng = source_of(batch), np.random.default_rng(0)
    parts = source.draw(rng, count=4)
    assert sorted(np.concatenate(parts)) == np.flatnonzero(batch.trainable()).tolist()
    assert {part.size for part in parts} == {11, 12}
    some, others = (np.concatenate(source.draw(rng, count=2, share=0.25)) for _ in range(2))
    assert some.size == others.size == 12
    assert set(some) != set(others)


@pytest.mark.parametrize("decisions", [5, 40, 300, 3000, 3001, 4096])
def test_few_sizes_occur(make_ppo, make_batch, decisions):
    """Sizes differ by a sixteenth at most, no row is lost, and the network reads a multiple of that."""
    batch = make_batch(make_ppo(), steps=1, segments=decisions)
    source = source_of(batch, few_sizes=True)
    parts = source.draw(np.random.default_rng(0), count=4)
    assert sorted(np.concatenate(parts)) == list(range(decisions))
    sizes = [len(source.take(part).observation["obs"]) for part in parts]
    unit = max(1, 2 ** int(np.log2(max(1, decisions / 64))))
    assert all(size % unit == 0 for size in sizes)
    assert max(sizes) - min(sizes) <= max(2, 2 * unit)
    assert sum(sizes) <= decisions + 2 * unit


def test_rows_are_copies(batch):
    """The memory of the segments may be reused afterwards."""
    rows = source_of(batch).take(np.array([0, 1]))
    before = rows.observation["obs"].clone()
    batch.observation["obs"][:] = 0
    assert torch.equal(rows.observation["obs"], before)


def test_undefined_entries_are_unrolled_as_valid_inputs(batch):
    """Behind the end of a segment, the network reads the segment's first observation."""
    batch.length[:] = [8, 3, 1, 8, 8, 8]
    batch.terminated[:] = False
    batch.observation["number"] = np.full((9, 6), 5)  # one of 1 to 9
    for entry, segment in ((4, 1), (8, 1), (2, 2)):  # behind the entry that is bootstrapped from
        batch.observation["number"][entry, segment] = -(10**6)
        batch.observation["obs"][entry, segment] = np.nan
    batch.initial_state = {"memory": np.zeros((6, 2), np.float32)}
    zeros = np.zeros((9, 6), np.float32)
    targets = {"advantage": zeros, "returns/value": zeros}
    rows = SegmentMinibatches(batch, trainable=batch.trainable(), targets=targets, device=CPU).take(np.arange(6))
    assert (rows.observation["number"] == 5).all()
    np.testing.assert_array_equal(rows.observation["obs"][4:, 1], np.tile(batch.observation["obs"][0, 1], (4, 1)))
    np.testing.assert_array_equal(rows.observation["obs"][:4, 1], batch.observation["obs"][:4, 1])
