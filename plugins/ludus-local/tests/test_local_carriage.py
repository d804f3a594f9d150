"""However a block travels, the learner gets the same."""

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
from ludus_local import carriage, codec
from ludus_local.carriage import LZ4, SLOT, BlockReference, pack, unpack, ways
from ludus_local.memory import ArraySpec, SharedFolder
from ludus_local.slots import SlotReader, Slots

ROLE = Role(
    name="player",
    observation_space=spaces.Dict({"image": spaces.Box(0, 255, (4, 3), np.uint8), "speed": spaces.Box(-1, 1, (2,))}),
    action_space=spaces.Discrete(5),
    teams=(0, 1),
)
STATE = {"h": np.zeros((1, 2), np.float32)}


@pytest.fixture
def folder(tmp_path):
    """Return a private folder as the sampler sees it."""
    path = tmp_path / "shared"
    path.mkdir(mode=0o700)
    return SharedFolder(path, "sampler-0")


def lender(slots):
    """Return what a recorder asks for memory."""

    def allocate(shapes):
        slot = slots.take(shapes)
        return None if slot is None else slot.arrays

    return allocate


def recorder(slots=None):
    """Return a recorder, in shared memory if there are slots for it."""
    layout = SegmentLayout.for_role(ROLE, fields=(Field("log_prob"),), decisions=6, state=STATE)
    return Recorder(layout, 8) if slots is None else Recorder(layout, 8, lender(slots))


def play(made, *, blocks, seed=3):
    """Yield blocks of random matches of eight seats; some are cut off, some end, not all seats decide on a tick."""
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
                made.end_matches(
                    acting[:2],
                    reward=rng.random(acting[:2].size, np.float32),
                    elapsed_ticks=ticks[:2],
                    terminated=np.ones(acting[:2].size, bool),
                    truncated=np.zeros(acting[:2].size, bool),
                )
        yield made.flush()


def sent(batch, *, slots=None, number=1, how=()):
    """Return the message that takes a block to its learner, and its slot."""
    block = Segments(player="main", block=number, pid=os.getpid(), arrays=batch.arrays())
    slot = None if slots is None else slots.holding(block.arrays)
    return pack(block, slot, how), slot


def taken(message, reader=None):
    """Return the block that a message brought."""
    block = unpack(message, reader) if isinstance(message, BlockReference) else message
    assert (block.player, block.pid) == ("main", os.getpid())
    return SegmentBatch.from_arrays(dict(block.arrays))


def travelled(blocks, *, slots=None, how=(), reader=None):
    """Yield the blocks as a learner gets them."""
    for number, batch in enumerate(blocks, 1):
        message, slot = sent(batch, slots=slots, number=number, how=how)
        yield taken(codec.decode(codec.encode(message)), reader)
        assert message.block == number
        if slot is not None:
            slot.release()


def contents(batch):
    """Return everything of a batch that is defined: whatever was never decided is not."""
    entries = np.arange(batch.decided.shape[0])[:, None] <= batch.length
    defined = entries & batch.decided
    return {
        name: array.tolist() if array.ndim == 1 or name.startswith("initial") else array[defined].tolist()
        for name, array in batch.arrays().items()
    }


def test_every_way_gives_the_same_blocks(folder):
    """On the heap of one process, through messages, packed, and through shared memory that is used again and again."""
    pytest.importorskip("lz4")
    reader, ours, others = SlotReader(folder, "sampler-0"), Slots(folder), Slots(folder)
    plain = [contents(batch) for batch in play(recorder(), blocks=12)]
    ways_ = {
        "frames": travelled(play(recorder(), blocks=12)),
        "packed": travelled(play(recorder(), blocks=12), how=(LZ4,)),
        "shared": travelled(play(recorder(ours), blocks=12), slots=ours, how=(SLOT,), reader=reader),
        "shared, but not to this learner": travelled(play(recorder(others), blocks=12), slots=others),
    }
    for name, blocks in ways_.items():
        assert [contents(batch) for batch in blocks] == plain, name
    assert len(list(folder.path.iterdir())) == 4


def test_shared_blocks_are_views_and_their_messages_small(folder):
    """Nothing is copied but the name of the slot."""
    slots = Slots(folder)
    (batch,) = play(recorder(slots), blocks=1)
    message, _ = sent(batch, slots=slots, how=(SLOT,))
    assert len(codec.encode(message)) == 1
    assert batch.observation["image"].dtype == np.uint8
    got = taken(message, SlotReader(folder, "sampler-0"))
    before = got.observation["image"][0, 0, 0, 0]
    batch.observation["image"][0, 0, 0, 0] = before ^ 1
    assert got.observation["image"][0, 0, 0, 0] == before ^ 1


def test_without_space_blocks_travel_as_plain_arrays(folder, monkeypatch):
    """And are the same."""
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    slots = Slots(folder)
    blocks = list(play(recorder(slots), blocks=3))
    assert [slots.holding(batch.arrays()) for batch in blocks] == [None] * 3
    got = travelled(blocks, slots=slots, how=(SLOT,), reader=SlotReader(folder, "sampler-0"))
    assert [contents(batch) for batch in got] == [contents(batch) for batch in play(recorder(), blocks=3)]


@pytest.mark.parametrize(
    ("address", "shared", "expected"),
    [
        ("ipc:///run/x", True, (SLOT,)),
        ("ipc:///run/x", False, ()),
        ("tcp://127.0.0.1:5", True, (LZ4,)),
        ("learner-main", False, ()),
    ],
)
def test_the_address_chooses_the_way(address, shared, expected):
    """Shared memory on one host, packing between hosts, objects within a process."""
    pytest.importorskip("lz4")
    assert ways(address, shared=shared) == expected


def test_nothing_is_packed_without_the_library(monkeypatch):
    """On either side."""
    monkeypatch.setattr(carriage, "_lz4", lambda: None)
    assert ways("tcp://127.0.0.1:5", shared=False) == ()
    (batch,) = play(recorder(), blocks=1)
    message, _ = sent(batch, how=(LZ4,))
    assert isinstance(message, Segments)
    packed = BlockReference(player="main", block=1, pid=1, packing=LZ4, layout={})
    with pytest.raises(WireError, match="packing 'lz4' is not known here"):
        unpack(packed, None)


def packed():
    """Return the message of a packed block."""
    pytest.importorskip("lz4")
    (batch,) = play(recorder(), blocks=1)
    return sent(batch, how=(LZ4,))[0]


def test_packing_saves_bytes():
    """Where there is something to save."""
    message = packed()
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
def test_lies_about_packed_arrays_are_refused(spec):
    """Before memory is taken for them, or once they turn out longer or shorter."""
    message = packed()
    with pytest.raises(WireError):
        unpack(evolve(message, layout=dict(message.layout) | {"reward": spec}), None)


def test_packed_garbage_is_refused():
    """Bytes that are nothing packed, bools that are none, arrays that were not declared."""
    message = packed()
    junk = dict(message.arrays) | {"reward": np.frombuffer(b"\xff" * 9, np.uint8)}
    with pytest.raises(WireError, match="packed array reward"):
        unpack(evolve(message, arrays=junk), None)
    twos = np.full((7, 8), 2, np.uint8)
    with pytest.raises(WireError, match="decided: a bool array"):
        unpack(evolve(message, arrays=dict(message.arrays) | {"decided": carriage._pack(twos)}), None)
    with pytest.raises(WireError, match="not those declared"):
        unpack(evolve(message, arrays={}), None)
    with pytest.raises(WireError, match="packing 'zip'"):
        unpack(evolve(message, packing="zip"), None)


def test_a_slot_without_shared_memory_is_refused():
    """There is nowhere to look for it."""
    message = BlockReference(player="main", block=1, pid=1, slot="sampler-0.1.0", generation=1, layout={})
    with pytest.raises(WireError, match="of which there is none here"):
        unpack(message, None)


def test_a_slot_that_holds_no_segments_is_refused(folder):
    """Whatever else may lie in it."""
    slot = Slots(folder).take({"x": ((3,), np.dtype(np.float32))})
    slot.seal()
    message = BlockReference(
        player="m", block=1, pid=1, slot=slot.file.name, generation=1, columns=1, layout=slot.layout.specs
    )
    with pytest.raises(ContractError, match="lacks"):
        unpack(message, SlotReader(folder, "sampler-0"))
