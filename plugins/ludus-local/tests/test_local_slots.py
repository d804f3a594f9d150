"""Slots are read as they were written, used again only after their release, and never trusted blindly."""

from __future__ import annotations

import os

import numpy as np
import pytest
from ludus.errors import WireError
from ludus_local.memory import ArraySpec, SharedFolder
from ludus_local.slots import SlotReader, Slots


@pytest.fixture
def reader(folder):
    """Return the learner's view of the sampler's slots."""
    return SlotReader(SharedFolder(folder.path, "learner-main"), "sampler-0")


def taken(folder, shapes):
    """Return a slot with recognisable contents, not sealed yet."""
    slot = Slots(folder).take(shapes)
    slot.arrays["image"][:] = np.arange(30, dtype=np.uint8).reshape(3, 2, 5)
    slot.arrays["flag"][:] = [[True, False], [False, True], [True, True]]
    slot.arrays["scalar"][...] = -7
    return slot


def read(reader, slot, **other):
    """Read a slot as its message would tell to."""
    what = {"name": slot.file.name, "generation": slot.generation, "specs": slot.layout.specs}
    return reader.read(**what | other)


def test_what_is_written_is_read(folder, reader, shapes):
    """Every dtype and shape, the empty ones too, without a copy."""
    slot = taken(folder, shapes)
    slot.seal()
    arrays = read(reader, slot)
    assert arrays.keys() == shapes.keys()
    for name, (shape, dtype) in shapes.items():
        assert (arrays[name].shape, arrays[name].dtype) == (shape, dtype)
        np.testing.assert_array_equal(arrays[name], slot.arrays[name])
        assert not arrays[name].flags.writeable
    slot.arrays["image"][0, 0, 0] = 99
    assert arrays["image"][0, 0, 0] == 99


def test_arrays_are_aligned(folder, shapes):
    """Vector instructions want whole cache lines."""
    slot = taken(folder, shapes)
    assert all(array.ctypes.data % 64 == 0 for array in slot.arrays.values() if array.size)


def test_only_this_user_can_read_it(folder, shapes):
    """Mode 0600."""
    slot = taken(folder, shapes)
    assert slot.file.path.stat().st_mode & 0o777 == 0o600


def test_a_slot_is_used_again_only_after_its_release(folder, shapes):
    """Otherwise a block would change while it is learned from."""
    slots = Slots(folder)
    first, second = slots.take(shapes), slots.take(shapes)
    assert second is not first
    first.seal()
    third = slots.take(shapes)
    assert third not in (first, second)
    first.release()
    assert slots.take(shapes) is first
    assert first.generation == 2


def test_a_slot_that_is_written_again_is_not_read(folder, reader, shapes):
    """Neither while it is written nor afterwards, under the number of the earlier block."""
    slot = taken(folder, shapes)
    with pytest.raises(WireError, match="does not hold block 1"):
        read(reader, slot)
    slot.seal()
    read(reader, slot)
    slot.release()
    slot.take()
    with pytest.raises(WireError, match="does not hold block 2"):
        read(reader, slot)
    slot.seal()
    with pytest.raises(WireError, match="does not hold block 1"):
        read(reader, slot, generation=1)


@pytest.mark.parametrize(
    "specs",
    [
        {},
        {"image": ArraySpec(dtype="|u1", shape=(3, 2, 6))},
        {"image": ArraySpec(dtype="|u1", shape=(2**40, 2**40))},
        {"image": ArraySpec(dtype="|u1", shape=(-3, -10))},
        {"image": ArraySpec(dtype="|O", shape=(3,))},
        {"image": ArraySpec(dtype="|u1", shape=(1,) * 33)},
    ],
    ids=str,
)
def test_a_layout_that_does_not_fit_is_refused(folder, reader, specs, shapes):
    """Before any array is looked at."""
    slot = taken(folder, shapes)
    slot.seal()
    with pytest.raises(WireError):
        read(reader, slot, specs=specs)


def test_another_layout_of_the_same_size_is_refused(folder, reader, shapes):
    """The digest tells."""
    slot = taken(folder, shapes)
    slot.seal()
    specs = dict(slot.layout.specs) | {"image": ArraySpec(dtype="|i1", shape=(3, 2, 5))}
    with pytest.raises(WireError, match="does not begin as declared"):
        read(reader, slot, specs=specs)


@pytest.mark.parametrize("name", ["", "../secret", "learner-main.1.0", "sampler-0.9.9", "sampler-0./etc", "x" * 200])
def test_names_of_anything_else_are_refused(folder, reader, name, shapes):
    """A peer names its own files and nothing else."""
    slot = taken(folder, shapes)
    slot.seal()
    with pytest.raises(WireError):
        read(reader, slot, name=name)


def test_links_are_not_followed(folder, reader, tmp_path, shapes):
    """The folder could hold one to any file of the user."""
    slot = taken(folder, shapes)
    slot.seal()
    moved = slot.file.path.rename(tmp_path / "elsewhere")
    slot.file.path.symlink_to(moved)
    with pytest.raises(WireError):
        read(reader, slot)


def test_a_file_that_was_cut_short_is_refused(folder, reader, shapes):
    """Reading beyond its end would be a signal, not an exception."""
    slot = taken(folder, shapes)
    slot.seal()
    os.truncate(slot.file.path, 100)
    with pytest.raises(WireError, match="100 bytes, declared are"):
        read(reader, slot)


def test_bytes_that_are_no_bools_are_refused(folder, reader, shapes):
    """As in messages."""
    slot = taken(folder, shapes)
    slot.arrays["flag"].view(np.uint8)[0, 0] = 2
    slot.seal()
    with pytest.raises(WireError, match="flag: a bool array holds bytes other than 0 and 1"):
        read(reader, slot)


def test_no_peer_can_make_the_reader_map_without_end(folder, reader, monkeypatch, shapes):
    """A few hundred slots are enough for anybody."""
    monkeypatch.setattr("ludus_local.slots._MOST_SLOTS", 1)
    first, second = taken(folder, shapes), taken(folder, shapes)
    for slot in (first, second):
        slot.seal()
    read(reader, first)
    with pytest.raises(WireError, match="more than 1 slots"):
        read(reader, second)


def test_without_space_there_is_no_slot_and_one_line(folder, caplog):
    """Memory files promise more than there is, and break the promise with a signal; so it is asked before."""
    slots = Slots(folder)
    huge = {"image": ((2**50,), np.dtype(np.uint8))}
    assert slots.take(huge) is None
    assert slots.take(huge) is None
    assert [record.message for record in caplog.records] == [
        f"sampler-0: no space for {2**50 / 1e6:.0f} MB in {folder.path}; segments travel through sockets"
    ]
    assert not list(folder.path.iterdir())


def test_more_blocks_than_anybody_needs_go_another_way(folder, monkeypatch, shapes):
    """A learner that never releases does not fill the memory."""
    monkeypatch.setattr("ludus_local.slots._MOST_SLOTS", 2)
    slots = Slots(folder)
    assert [slots.take(shapes) is None for _ in range(3)] == [False, False, True]


def test_what_was_mapped_outlives_its_file(folder, reader, shapes):
    """A learner may still read what a sampler wrote that was killed and replaced."""
    slot = taken(folder, shapes)
    slot.seal()
    arrays = read(reader, slot)
    slot.file.path.unlink()
    del slot
    assert arrays["scalar"] == -7
