"""How blocks of segments get from a sampler to a learner; which way is chosen by the learner's address.

On one host (``ipc://``) a block stays in the slot of shared memory it was recorded in, and the message only names it.
Elsewhere its arrays travel in the message, packed by lz4 where both sides have it. What cannot go its way, for want of
shared memory, goes as plain arrays; the learner gets the same either way.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from importlib import import_module
from typing import Any

import numpy as np

from ludus._messages import ArraySpec, Segments
from ludus._shared import Layout
from ludus._slots import Slot, SlotReader
from ludus._wire import MAX_TOTAL_BYTES, check_bools
from ludus.errors import WireError
from ludus.segment import SegmentBatch

SLOT, LZ4 = "slot", "lz4"


@functools.cache
def _lz4() -> Any:
    """Return the module that packs, None where ``ludus[lz4]`` is not installed."""
    try:
        return import_module("lz4.block")
    except ImportError:
        return None


def ways(address: str, *, shared: bool) -> tuple[str, ...]:
    """Return the ways, besides plain arrays, in which a learner at an address can be sent blocks.

    Args:
        address: Where it listens.
        shared: Whether it has shared memory.
    """
    if address.startswith("ipc:"):
        return (SLOT,) if shared else ()
    return (LZ4,) if address.startswith("tcp:") and _lz4() else ()


def load(batch: SegmentBatch, *, worker: str, player: str, block: int, pid: int, ways: Collection[str]) -> Segments:
    """Return the message that takes a block to its learner.

    Args:
        batch: As recorded.
        worker: The sampler.
        player: Whose.
        block: Its number.
        pid: The sampler's process.
        ways: What the learner can take besides plain arrays.
    """
    name = functools.partial(Segments, worker=worker, player=player, block=block, pid=pid)
    slot = batch.lease
    if isinstance(slot, Slot) and SLOT in ways:
        slot.seal()
        return name(
            slot=slot.file.name, generation=slot.generation, columns=batch.num_segments, layout=slot.layout.specs
        )
    arrays = batch.arrays()
    if LZ4 in ways and _lz4():
        specs = {key: ArraySpec(dtype=array.dtype.str, shape=array.shape) for key, array in arrays.items()}
        return name(arrays={key: _pack(array) for key, array in arrays.items()}, packing=LZ4, layout=specs)
    return name(arrays=arrays)


def unload(message: Segments, reader: SlotReader | None) -> SegmentBatch:
    """Return the block that a message brought; views on its slot, which hold until the block is released.

    Args:
        message: As received.
        reader: The sampler's slots; None where there is no shared memory.

    Raises:
        ContractError: It holds no segments.
        WireError: The slot or the packing is not what the message says.
    """
    if message.slot:
        if reader is None:
            raise WireError("a block in shared memory, of which there is none here")
        arrays = reader.read(message.slot, message.generation, message.layout)
        return SegmentBatch.from_arrays(arrays).part(0, message.columns)
    if message.packing:
        return SegmentBatch.from_arrays(_unpack(message))
    return SegmentBatch.from_arrays(dict(message.arrays))


def _pack(array: np.ndarray) -> np.ndarray:
    packed = _lz4().compress(np.ascontiguousarray(array).reshape(-1).view(np.uint8), store_size=False)
    return np.frombuffer(packed, np.uint8)


def _unpack(message: Segments) -> dict[str, np.ndarray]:
    if message.packing != LZ4 or not _lz4():
        raise WireError(f"packing {message.packing[:16]!r} is not known here")
    if message.layout.keys() != message.arrays.keys():
        raise WireError("packed arrays are not those declared")
    size = Layout(message.layout).size(1)
    if size > MAX_TOTAL_BYTES:  # before anything is unpacked
        raise WireError(f"packed arrays of {size} bytes, at most {MAX_TOTAL_BYTES} are allowed")
    return {name: _unpack_array(name, message.arrays[name], spec) for name, spec in message.layout.items()}


def _unpack_array(name: str, packed: np.ndarray, spec: ArraySpec) -> np.ndarray:
    dtype, size = np.dtype(spec.dtype), math.prod(spec.shape)
    try:
        raw = _lz4().decompress(packed, uncompressed_size=size * dtype.itemsize)
        array = np.frombuffer(raw, dtype, size).reshape(spec.shape)
    except (ValueError, _lz4().LZ4BlockError) as error:
        raise WireError(f"packed array {name[:64]}: {error}") from None
    check_bools(name, array)
    return array
