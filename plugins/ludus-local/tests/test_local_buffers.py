"""Buffers are read as they were written, reused only after release, and checked before use."""

from __future__ import annotations

import os

import numpy as np
import pytest
from ludus.errors import WireError
from ludus_local.buffers import BufferPool, BufferReader
from ludus_local.memory import ArraySpec, SharedFolder


@pytest.fixture
def reader(folder):
    """Return a learner's reader of the sampler's buffers."""
    return BufferReader(SharedFolder(folder.path, "learner-main"), "sampler-0")


def written(folder, shapes):
    """Return a buffer with recognizable contents, not sealed yet."""
    buffer = BufferPool(folder).allocate(shapes)
    buffer.arrays["image"][:] = np.arange(30, dtype=np.uint8).reshape(3, 2, 5)
    buffer.arrays["flag"][:] = [[True, False], [False, True], [True, True]]
    buffer.arrays["scalar"][...] = -7
    return buffer


def read(reader, buffer, **other):
    """Read a buffer as its message describes it."""
    what = {"name": buffer.file.name, "generation": buffer.generation, "specs": buffer.layout.specs}
    return reader.read(**what | other)


def test_arrays_are_read_as_written(folder, reader, shapes):
    """All dtypes and shapes, empty ones too, without a copy."""
    buffer = written(folder, shapes)
    buffer.seal()
    arrays = read(reader, buffer)
    assert arrays.keys() == shapes.keys()
    for name, (shape, dtype) in shapes.items():
        assert (arrays[name].shape, arrays[name].dtype) == (shape, dtype)
        np.testing.assert_array_equal(arrays[name], buffer.arrays[name])
        assert not arrays[name].flags.writeable
    buffer.arrays["image"][0, 0, 0] = 99
    assert arrays["image"][0, 0, 0] == 99


def test_arrays_are_aligned(folder, shapes):
    """To cache lines, for vector instructions."""
    buffer = written(folder, shapes)
    assert all(array.ctypes.data % 64 == 0 for array in buffer.arrays.values() if array.size)


def test_files_are_private(folder, shapes):
    """Mode 0600."""
    buffer = written(folder, shapes)
    assert buffer.file.path.stat().st_mode & 0o777 == 0o600


def test_a_buffer_is_reused_only_after_release(folder, shapes):
    """Otherwise a block would change while it is read."""
    buffers = BufferPool(folder)
    first, second = buffers.allocate(shapes), buffers.allocate(shapes)
    assert second is not first
    first.seal()
    third = buffers.allocate(shapes)
    assert third not in (first, second)
    first.release()
    assert buffers.allocate(shapes) is first
    assert first.generation == 2


def test_a_buffer_that_is_reused_is_not_read(folder, reader, shapes):
    """Neither unsealed nor under an earlier generation."""
    buffer = written(folder, shapes)
    with pytest.raises(WireError, match="does not hold block 1"):
        read(reader, buffer)
    buffer.seal()
    read(reader, buffer)
    buffer.release()
    buffer.begin()
    with pytest.raises(WireError, match="does not hold block 2"):
        read(reader, buffer)
    buffer.seal()
    with pytest.raises(WireError, match="does not hold block 1"):
        read(reader, buffer, generation=1)


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
def test_an_invalid_layout_is_rejected(folder, reader, specs, shapes):
    """Before any array is accessed."""
    buffer = written(folder, shapes)
    buffer.seal()
    with pytest.raises(WireError):
        read(reader, buffer, specs=specs)


def test_another_layout_of_the_same_size_is_rejected(folder, reader, shapes):
    """By its digest."""
    buffer = written(folder, shapes)
    buffer.seal()
    specs = dict(buffer.layout.specs) | {"image": ArraySpec(dtype="|i1", shape=(3, 2, 5))}
    with pytest.raises(WireError, match="does not begin as declared"):
        read(reader, buffer, specs=specs)


@pytest.mark.parametrize("name", ["", "../secret", "learner-main.1.0", "sampler-0.9.9", "sampler-0./etc", "x" * 200])
def test_names_of_other_files_are_rejected(folder, reader, name, shapes):
    """A peer may refer to its own files only."""
    buffer = written(folder, shapes)
    buffer.seal()
    with pytest.raises(WireError):
        read(reader, buffer, name=name)


def test_links_are_not_followed(folder, reader, tmp_path, shapes):
    """They could refer to any file of the user."""
    buffer = written(folder, shapes)
    buffer.seal()
    moved = buffer.file.path.rename(tmp_path / "elsewhere")
    buffer.file.path.symlink_to(moved)
    with pytest.raises(WireError):
        read(reader, buffer)


def test_a_truncated_file_is_rejected(folder, reader, shapes):
    """Reading beyond its end would raise a signal."""
    buffer = written(folder, shapes)
    buffer.seal()
    os.truncate(buffer.file.path, 100)
    with pytest.raises(WireError, match="100 bytes, expected"):
        read(reader, buffer)


def test_invalid_bools_are_rejected(folder, reader, shapes):
    """As in messages."""
    buffer = written(folder, shapes)
    buffer.arrays["flag"].view(np.uint8)[0, 0] = 2
    buffer.seal()
    with pytest.raises(WireError, match="flag: a bool array holds bytes other than 0 and 1"):
        read(reader, buffer)


def test_the_number_of_mapped_buffers_is_limited(folder, reader, monkeypatch, shapes):
    """A peer cannot exhaust the memory."""
    monkeypatch.setattr("ludus_local.buffers._MAX_BUFFERS", 1)
    first, second = written(folder, shapes), written(folder, shapes)
    for buffer in (first, second):
        buffer.seal()
    read(reader, first)
    with pytest.raises(WireError, match="more than 1 buffers"):
        read(reader, second)


def test_without_space_there_is_no_buffer(folder, caplog):
    """One line is logged; memory is allocated in advance, since writing without space raises a signal."""
    buffers = BufferPool(folder)
    huge = {"image": ((2**50,), np.dtype(np.uint8))}
    assert buffers.allocate(huge) is None
    assert buffers.allocate(huge) is None
    assert [record.message for record in caplog.records] == [
        f"sampler-0: no space for {2**50 / 1e6:.0f} MB in {folder.path}; segments are sent through sockets"
    ]
    assert not list(folder.path.iterdir())


def test_the_number_of_buffers_is_limited(folder, monkeypatch, shapes):
    """A learner that never releases blocks does not fill the memory."""
    monkeypatch.setattr("ludus_local.buffers._MAX_BUFFERS", 2)
    buffers = BufferPool(folder)
    assert [buffers.allocate(shapes) is None for _ in range(3)] == [False, False, True]


def test_mapped_arrays_outlive_their_file(folder, reader, shapes):
    """A learner may still read a block of a killed sampler."""
    buffer = written(folder, shapes)
    buffer.seal()
    arrays = read(reader, buffer)
    buffer.file.path.unlink()
    del buffer
    assert arrays["scalar"] == -7
