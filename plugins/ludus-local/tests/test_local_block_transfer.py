"""Learners get the same blocks by every transfer method."""

from __future__ import annotations

import os

import numpy as np
import pytest
from attrs import evolve
from gymnasium import spaces
from ludus._sampling.recorder import Recorder
from ludus._sampling.segment_layout import SegmentLayout
from ludus.environment import Role
from ludus.errors import ContractError, WireError
from ludus.segment import Field, SegmentBatch
from ludus.wire import Segments
from ludus_local import block_transfer, codec
from ludus_local.block_transfer import LZ4, SHARED_MEMORY, BlockReference, decode_block, encode_block, transfer_methods
from ludus_local.buffers import BufferPool, BufferReader
from ludus_local.memory import ArraySpec, SharedFolder

ROLE = Role(
    name="player",
    observation_space=spaces.Dict({"image": spaces.Box(0, 255, (4, 3), np.uint8), "speed": spaces.Box(-1, 1, (2,))}),
    action_space=spaces.Discrete(5),
    teams=(0, 1),
)
STATE = {"h": np.zeros((1, 2), np.float32)}


@pytest.fixture
def folder(tmp_path):
    """Return a private folder as the sampler uses it."""
    path = tmp_path / "shared"
    path.mkdir(mode=0o700)
    return SharedFolder(path, "sampler-0")


def allocator(pool):
    """Return the allocation function of a recorder."""

    def allocate(shapes):
        buffer = pool.allocate(shapes)
        return None if buffer is None else buffer.arrays

    return allocate


def recorder(pool=None):
    """Return a recorder; it records in shared memory if there is a pool."""
    layout = SegmentLayout.for_role(ROLE, fields=(Field("log_prob"),), decisions=6, state=STATE)
    return Recorder(layout, 8) if pool is None else Recorder(layout, 8, allocator(pool))


def play(made, *, blocks, seed=3):
    """Yield blocks of random matches of eight seats, with truncation, termination and seats that do not act."""
    rng = np.random.default_rng(seed)
    streams = made.open_trajectories(8)
    for _ in range(blocks):
        while not made.full:
            acting = streams[rng.random(8) < 0.7]
            count = acting.size
            ticks = np.full(count, 1, np.int32)
            made.assign_rewards(acting, reward=rng.random(count, np.float32), elapsed_ticks=ticks)
            made.add_decisions(
                acting,
                {
                    "observation/image": rng.integers(0, 256, (count, 4, 3), np.uint8),
                    "observation/speed": rng.random((count, 2), np.float32),
                    "action": rng.integers(0, 5, (count, 1)),
                    "action_mask": rng.random((count, 5)) < 0.5,
                    "extras/log_prob": rng.random(count, np.float32),
                },
                version=int(rng.integers(0, 9)),
                state={"h": rng.random((count, 2), np.float32)},
            )
            if rng.random() < 0.2:
                made.end_trajectories(
                    acting[:2],
                    reward=rng.random(acting[:2].size, np.float32),
                    elapsed_ticks=ticks[:2],
                    terminated=np.ones(acting[:2].size, bool),
                    truncated=np.zeros(acting[:2].size, bool),
                )
        yield made.flush()


def sent(batch, *, pool=None, number=1, methods=()):
    """Return the message that transfers a block, and its buffer."""
    block = Segments(player="main", block=number, pid=os.getpid(), arrays=batch.arrays())
    buffer = None if pool is None else pool.find(block.arrays)
    return encode_block(block, buffer, methods), buffer


def received(message, reader=None):
    """Return the block of a message."""
    block = decode_block(message, reader) if isinstance(message, BlockReference) else message
    assert (block.player, block.pid) == ("main", os.getpid())
    return SegmentBatch.from_arrays(dict(block.arrays))


def transferred(blocks, *, pool=None, methods=(), reader=None):
    """Yield the blocks as a learner receives them."""
    for number, batch in enumerate(blocks, 1):
        message, buffer = sent(batch, pool=pool, number=number, methods=methods)
        yield received(codec.decode(codec.encode(message)), reader)
        assert message.block == number
        if buffer is not None:
            buffer.release()


def contents(batch):
    """Return the defined entries of a batch."""
    entries = np.arange(batch.decided.shape[0])[:, None] <= batch.length
    defined = entries & batch.decided
    return {
        name: array.tolist() if array.ndim == 1 or name.startswith("initial") else array[defined].tolist()
        for name, array in batch.arrays().items()
    }


def test_all_methods_give_equal_blocks(folder):
    """In messages, compressed, and in shared memory whose buffers are reused."""
    pytest.importorskip("lz4")
    reader, ours, others = BufferReader(folder, "sampler-0"), BufferPool(folder), BufferPool(folder)
    plain = [contents(batch) for batch in play(recorder(), blocks=12)]
    transfers = {
        "frames": transferred(play(recorder(), blocks=12)),
        "compressed": transferred(play(recorder(), blocks=12), methods=(LZ4,)),
        "shared": transferred(play(recorder(ours), blocks=12), pool=ours, methods=(SHARED_MEMORY,), reader=reader),
        "shared, but not to this learner": transferred(play(recorder(others), blocks=12), pool=others),
    }
    for name, blocks in transfers.items():
        assert [contents(batch) for batch in blocks] == plain, name
    assert len(list(folder.path.iterdir())) == 4


def test_shared_blocks_are_views_and_their_messages_small(folder):
    """Only the name of the buffer is sent."""
    pool = BufferPool(folder)
    (batch,) = play(recorder(pool), blocks=1)
    message, _ = sent(batch, pool=pool, methods=(SHARED_MEMORY,))
    assert len(codec.encode(message)) == 1
    assert batch.observation["image"].dtype == np.uint8
    got = received(message, BufferReader(folder, "sampler-0"))
    before = got.observation["image"][0, 0, 0, 0]
    batch.observation["image"][0, 0, 0, 0] = before ^ 1
    assert got.observation["image"][0, 0, 0, 0] == before ^ 1


def test_without_space_blocks_are_sent_as_plain_arrays(folder, monkeypatch):
    """They are equal."""
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    pool = BufferPool(folder)
    blocks = list(play(recorder(pool), blocks=3))
    assert [pool.find(batch.arrays()) for batch in blocks] == [None] * 3
    got = transferred(blocks, pool=pool, methods=(SHARED_MEMORY,), reader=BufferReader(folder, "sampler-0"))
    assert [contents(batch) for batch in got] == [contents(batch) for batch in play(recorder(), blocks=3)]


@pytest.mark.parametrize(
    ("address", "shared", "expected"),
    [
        ("ipc:///run/x", True, (SHARED_MEMORY,)),
        ("ipc:///run/x", False, ()),
        ("tcp://127.0.0.1:5", True, (LZ4,)),
        ("learner-main", False, ()),
    ],
)
def test_the_address_decides_the_method(address, shared, expected):
    """Shared memory on one host, compression between hosts, objects within a process."""
    pytest.importorskip("lz4")
    assert transfer_methods(address, shared=shared) == expected


def test_nothing_is_compressed_without_the_library(monkeypatch):
    """On either side."""
    monkeypatch.setattr(block_transfer, "_lz4", lambda: None)
    assert transfer_methods("tcp://127.0.0.1:5", shared=False) == ()
    (batch,) = play(recorder(), blocks=1)
    message, _ = sent(batch, methods=(LZ4,))
    assert isinstance(message, Segments)
    reference = BlockReference(player="main", block=1, pid=1, compression=LZ4, layout={})
    with pytest.raises(WireError, match="compression 'lz4' is not available in this process"):
        decode_block(reference, None)


def compressed():
    """Return the message of a compressed block."""
    pytest.importorskip("lz4")
    (batch,) = play(recorder(), blocks=1)
    return sent(batch, methods=(LZ4,))[0]


def test_compression_saves_bytes():
    """For arrays with redundancy."""
    message = compressed()
    image = message.layout["decided"]
    assert message.arrays["decided"].size < np.prod(image.shape)


@pytest.mark.parametrize(
    "spec",
    [
        ArraySpec(dtype="<f4", shape=(2**40,)),
        ArraySpec(dtype="<f4", shape=(7, 9)),
        ArraySpec(dtype="<f4", shape=(1,)),
        ArraySpec(dtype="<f4", shape=(-7, -8)),
        ArraySpec(dtype="|O", shape=(7, 8)),
    ],
    ids=str,
)
def test_false_layouts_of_compressed_arrays_are_rejected(spec):
    """Before memory is allocated, or if the sizes differ."""
    message = compressed()
    with pytest.raises(WireError):
        decode_block(evolve(message, layout=dict(message.layout) | {"reward": spec}), None)


def test_invalid_compressed_arrays_are_rejected():
    """Invalid data, invalid bools, undeclared arrays, unknown compression."""
    message = compressed()
    junk = dict(message.arrays) | {"reward": np.frombuffer(b"\xff" * 9, np.uint8)}
    with pytest.raises(WireError, match="compressed array reward"):
        decode_block(evolve(message, arrays=junk), None)
    twos = np.full((7, 8), 2, np.uint8)
    with pytest.raises(WireError, match="decided: a bool array"):
        decode_block(evolve(message, arrays=dict(message.arrays) | {"decided": block_transfer._compress(twos)}), None)
    with pytest.raises(WireError, match="not those declared"):
        decode_block(evolve(message, arrays={}), None)
    with pytest.raises(WireError, match="compression 'zip'"):
        decode_block(evolve(message, compression="zip"), None)


def test_a_buffer_without_shared_memory_is_rejected():
    """It cannot be mapped."""
    message = BlockReference(player="main", block=1, pid=1, buffer="sampler-0.1.0", generation=1, layout={})
    with pytest.raises(WireError, match="which this process does not have"):
        decode_block(message, None)


def test_a_buffer_without_segments_is_rejected(folder):
    """Whatever it contains."""
    buffer = BufferPool(folder).allocate({"x": ((3,), np.dtype(np.float32))})
    buffer.seal()
    message = BlockReference(
        player="m", block=1, pid=1, buffer=buffer.file.name, generation=1, segments=1, layout=buffer.layout.specs
    )
    with pytest.raises(ContractError, match="lacks"):
        decode_block(message, BufferReader(folder, "sampler-0"))
