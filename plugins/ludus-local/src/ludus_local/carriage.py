"""How the arrays of a block get from a sampler to a learner; which way is chosen by the learner's address.

On one host (``ipc://``) a block stays in the slot of shared memory it was recorded in, and the message only names it.
Elsewhere its arrays travel in the message, packed by lz4 where both sides have it. What cannot go its way, for want of
shared memory, goes as plain arrays; the learner gets the same either way.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from attrs import field, frozen
from ludus.errors import WireError
from ludus.segment import SegmentBatch
from ludus.wire import Segments

from ludus_local.codec import MAX_TOTAL_BYTES, check_bools, register
from ludus_local.memory import ArraySpec, Layout
from ludus_local.slots import Slot, SlotReader

__all__ = ["LZ4", "SLOT", "BlockReference", "pack", "unpack", "ways"]

SLOT, LZ4 = "slot", "lz4"


@frozen(kw_only=True)
class BlockReference:
    """`Segments` whose arrays lie in a slot of shared memory, or are packed.

    Attributes:
        player: As there, and so are `block` and `pid`.
        arrays: The packed arrays; empty if they lie in a slot.
        packing: How each of them is packed into bytes; empty if they lie in a slot.
        layout: What the arrays of the slot or the packed ones are.
        slot: Name of the slot; empty if the arrays come in the message.
        generation: Of the slot.
        columns: How many of its first segments are used.
    """

    player: str
    block: int
    pid: int
    layout: Mapping[str, ArraySpec]
    arrays: Mapping[str, np.ndarray] = field(factory=dict)
    packing: str = ""
    slot: str = ""
    generation: int = 0
    columns: int = 0


register(BlockReference)


@functools.cache
def _lz4() -> Any:
    """Return the module that packs, None where ``ludus-local[lz4]`` is not installed."""
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


def pack(block: Segments, slot: Slot | None, ways: Collection[str]) -> Segments | BlockReference:
    """Return the message that takes a block to its learner.

    Args:
        block: As recorded.
        slot: That it was recorded in; None for one on the heap.
        ways: What the learner can take besides plain arrays.
    """
    parcel = functools.partial(BlockReference, player=block.player, block=block.block, pid=block.pid)
    if slot is not None and SLOT in ways:
        slot.seal()
        columns = len(block.arrays["length"])
        return parcel(slot=slot.file.name, generation=slot.generation, columns=columns, layout=slot.layout.specs)
    if LZ4 in ways and _lz4():
        specs = {key: ArraySpec(dtype=array.dtype.str, shape=array.shape) for key, array in block.arrays.items()}
        return parcel(arrays={key: _pack(array) for key, array in block.arrays.items()}, packing=LZ4, layout=specs)
    return block


def unpack(parcel: BlockReference, reader: SlotReader | None) -> Segments:
    """Return the block of a parcel; views on its slot, which hold until the block is released.

    Args:
        parcel: As received.
        reader: The sampler's slots; None where there is no shared memory.

    Raises:
        ContractError: It holds no segments.
        LinkError: The slot cannot be mapped here, nor can others.
        WireError: The slot or the packing is not what the message says.
    """
    if not parcel.slot:
        arrays = _unpack(parcel)
    elif reader is None:
        raise WireError("a block in shared memory, of which there is none here")
    else:
        whole = SegmentBatch.from_arrays(reader.read(parcel.slot, parcel.generation, parcel.layout))
        arrays = whole.part(0, parcel.columns).arrays()
    return Segments(player=parcel.player, block=parcel.block, pid=parcel.pid, arrays=arrays)


def _pack(array: np.ndarray) -> np.ndarray:
    packed = _lz4().compress(np.ascontiguousarray(array).reshape(-1).view(np.uint8), store_size=False)
    return np.frombuffer(packed, np.uint8)


def _unpack(parcel: BlockReference) -> dict[str, np.ndarray]:
    if parcel.packing != LZ4 or not _lz4():
        raise WireError(f"packing {parcel.packing[:16]!r} is not known here")
    if parcel.layout.keys() != parcel.arrays.keys():
        raise WireError("packed arrays are not those declared")
    size = Layout(parcel.layout).size(1)
    if size > MAX_TOTAL_BYTES:  # before anything is unpacked
        raise WireError(f"packed arrays of {size} bytes, at most {MAX_TOTAL_BYTES} are allowed")
    return {name: _unpack_array(name, parcel.arrays[name], spec) for name, spec in parcel.layout.items()}


def _unpack_array(name: str, packed: np.ndarray, spec: ArraySpec) -> np.ndarray:
    dtype, size = np.dtype(spec.dtype), math.prod(spec.shape)
    try:
        raw = _lz4().decompress(packed, uncompressed_size=size * dtype.itemsize)
        array = np.frombuffer(raw, dtype, size).reshape(spec.shape)
    except (ValueError, _lz4().LZ4BlockError) as error:
        raise WireError(f"packed array {name[:64]}: {error}") from None
    check_bools(name, array)
    return array
