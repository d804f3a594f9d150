"""Transfer of blocks from a sampler to a learner; the learner's address decides the method.

On one host (``ipc://``) a block stays in the shared memory buffer in which it was recorded, and the message refers to
it. Between hosts (``tcp://``) its arrays are sent in the message, compressed by lz4 if both sides have it. If a method
is not possible, the block is sent as plain arrays. The learner gets the same block in all cases.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from attrs import field, frozen
from ludus.errors import WireError
from ludus.launcher import Shapes
from ludus.segment import SegmentBatch
from ludus.wire import Segments

from ludus_local.buffers import BlockBuffer, BufferReader
from ludus_local.codec import MAX_TOTAL_BYTES, check_bools, register
from ludus_local.memory import ArraySpec, Layout

SHARED_MEMORY, LZ4 = "shared-memory", "lz4"


@frozen(kw_only=True)
class BlockReference:
    """A block, as `ludus.wire.Segments`, whose arrays are in a shared memory buffer or compressed.

    Attributes:
        player: Player that learns from the block.
        block: Number of the block.
        pid: Process id of the sampler.
        arrays: The compressed arrays; empty if they are in a buffer.
        compression: Compression method of the arrays; empty if they are in a buffer.
        layout: Layout of the arrays.
        buffer: Name of the buffer; empty if the arrays are in the message.
        generation: Generation of the buffer.
        segments: Number of segments, the first ones of the buffer.
    """

    player: str
    block: int
    pid: int
    layout: Mapping[str, ArraySpec]
    arrays: Mapping[str, np.ndarray] = field(factory=dict)
    compression: str = ""
    buffer: str = ""
    generation: int = 0
    segments: int = 0


register(BlockReference)


@functools.cache
def _lz4() -> Any:
    """Return the compression module, None if ``ludus-local[lz4]`` is not installed."""
    try:
        return import_module("lz4.block")
    except ImportError:
        return None


def transfer_methods(address: str, *, shared: bool) -> tuple[str, ...]:
    """Return the methods, besides plain arrays, by which a learner can receive blocks.

    Args:
        address: Address at which the learner listens.
        shared: Whether it has shared memory.
    """
    if address.startswith("ipc:"):
        return (SHARED_MEMORY,) if shared else ()
    return (LZ4,) if address.startswith("tcp:") and _lz4() else ()


def encode_block(block: Segments, buffer: BlockBuffer | None, methods: Collection[str]) -> Segments | BlockReference:
    """Return the message that transfers a block.

    Args:
        block: The recorded block.
        buffer: Buffer in which it was recorded; None for a block on the heap.
        methods: Methods that the learner accepts besides plain arrays.
    """
    reference = functools.partial(BlockReference, player=block.player, block=block.block, pid=block.pid)
    if buffer is not None and SHARED_MEMORY in methods:
        buffer.seal()
        return reference(
            buffer=buffer.file.name,
            generation=buffer.generation,
            segments=len(block.arrays["length"]),
            layout=buffer.layout.specs,
        )
    if LZ4 in methods and _lz4():
        specs = {key: ArraySpec(dtype=array.dtype.str, shape=array.shape) for key, array in block.arrays.items()}
        return reference(
            arrays={key: _compress(array) for key, array in block.arrays.items()}, compression=LZ4, layout=specs
        )
    return block


def decode_block(
    reference: BlockReference, reader: BufferReader | None, check: Callable[[Shapes], None] | None = None
) -> Segments:
    """Return the block that a message refers to; arrays of a buffer are views, valid until the block is released.

    Args:
        reference: The received message.
        reader: Buffers of the sampler; None without shared memory.
        check: Checks the declared shapes and dtypes before an array is read or memory is allocated.

    Raises:
        ContractError: The arrays are no segments, or not those that the learner expects.
        LinkError: This process cannot map further buffers.
        WireError: Buffer or compressed arrays differ from what the message declares.
    """
    layout = Layout(reference.layout)  # checks the dtypes
    if check is not None:
        check({name: (spec.shape, np.dtype(spec.dtype)) for name, spec in layout.specs.items()})
    if not reference.buffer:
        arrays = _decompress_all(reference)
    elif reader is None:
        raise WireError("the block is in shared memory, which this process does not have")
    else:
        batch = SegmentBatch.from_arrays(reader.read(reference.buffer, reference.generation, reference.layout))
        arrays = batch.part(0, reference.segments).arrays()
    return Segments(player=reference.player, block=reference.block, pid=reference.pid, arrays=arrays)


def _compress(array: np.ndarray) -> np.ndarray:
    data = _lz4().compress(np.ascontiguousarray(array).reshape(-1).view(np.uint8), store_size=False)
    return np.frombuffer(data, np.uint8)


def _decompress_all(reference: BlockReference) -> dict[str, np.ndarray]:
    if reference.compression != LZ4 or not _lz4():
        raise WireError(f"compression {reference.compression[:16]!r} is not available in this process")
    if reference.layout.keys() != reference.arrays.keys():
        raise WireError("compressed arrays are not those declared")
    size = Layout(reference.layout).size(1)
    if size > MAX_TOTAL_BYTES:  # before any memory is allocated
        raise WireError(f"compressed arrays of {size} bytes, at most {MAX_TOTAL_BYTES} are allowed")
    return {name: _decompress(name, reference.arrays[name], spec) for name, spec in reference.layout.items()}


def _decompress(name: str, data: np.ndarray, spec: ArraySpec) -> np.ndarray:
    dtype, size = np.dtype(spec.dtype), math.prod(spec.shape)
    try:
        raw = _lz4().decompress(data, uncompressed_size=size * dtype.itemsize)
        array = np.frombuffer(raw, dtype, size).reshape(spec.shape)
    except (ValueError, _lz4().LZ4BlockError) as error:
        raise WireError(f"compressed array {name[:64]}: {error}") from None
    check_bools(name, array)
    return array
