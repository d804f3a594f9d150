"""The encoding of messages: one message is a list of frames.

::

    frame 0     magic "LUDS" | protocol version, uint16 little endian | msgpack [kind, {field: value}]
    frame 1…n   the buffers of the arrays, in the order in which the header declares them

In the header an array is ``[dtype, shape]``. The receiver checks the fields against their type hints by
`ludus.wire.message_of`, so a header needs no type tags.

Input of a peer cannot make `decode` raise anything but `WireError`, run code, or allocate more memory than the frames
take. Decoded arrays are read-only views of the frames, not necessarily aligned: copy them to keep them.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import msgpack
import numpy as np
from ludus.errors import WireError
from ludus.wire import MESSAGES, PROTOCOL, Message, message_of

Frame: TypeAlias = bytes | memoryview

MAX_HEADER_BYTES = 512 * 1024
MAX_FRAME_BYTES = 256 * 1024**2
MAX_TOTAL_BYTES = 1024**3
MAX_ARRAYS = 4096
MAX_DIMENSIONS = 32

_PREFIX = struct.Struct("<4sH")
_MAGIC = b"LUDS"
_MAX_KIND_BYTES = 80  # of the class name of a message
_MAX_ITEMS = MAX_ARRAYS  # of one list or map; bounds what msgpack allocates for a false length
#: Dtypes of arrays.
DTYPES = {
    dtype: np.dtype(dtype)
    for dtype in ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")
}


def encode(message: Message) -> list[Frame]:
    """Encode a message. Arrays are not copied, so the sender must not write to them afterwards.

    Raises:
        WireError: The message has an unknown class, contains a value that cannot be encoded, or exceeds a limit.
    """
    kind = type(message).__name__
    if _kinds.get(kind) is not type(message):
        raise WireError(f"{kind} is not a message; messages are the classes of ludus.wire and registered ones")
    buffers: list[Frame] = []
    try:
        header = msgpack.packb([kind, _fields(message)], default=functools.partial(_encode_value, buffers=buffers))
    except ValueError as error:  # from `_encode_value`, or a lone surrogate
        raise WireError(f"{kind} cannot be sent: {error}") from None
    frames = [_PREFIX.pack(_MAGIC, PROTOCOL) + header, *buffers]
    check_limits(frames, kind)
    _read_header(frames[0])  # checks the bounds of lists and maps, as the receiver does
    return frames


def decode(frames: Sequence[Frame]) -> Message:
    """Decode a message.

    Raises:
        WireError: The frames are not exactly one valid message.
    """
    check_limits(frames, "message")
    try:
        return _decode(frames)
    except RecursionError:
        raise WireError("header is nested too deeply") from None


def message_kind(frames: Sequence[Frame]) -> str:
    """Return the class name of a message in constant time: its fields are neither decoded nor checked.

    Raises:
        WireError: A limit is exceeded, or the first frame does not begin like the header of a message.
    """
    check_limits(frames, "message")
    start = bytes(frames[0][: _PREFIX.size + _MAX_KIND_BYTES])
    _check_prefix(start)
    marks = start[_PREFIX.size : _PREFIX.size + 3]  # of msgpack: a list of two items, then a string
    if len(marks) == 3 and marks[0] == 0x92 and 0xA0 <= marks[1] < 0xC0:
        first, length = _PREFIX.size + 2, marks[1] - 0xA0
    elif len(marks) == 3 and marks[:2] == b"\x92\xd9":
        first, length = _PREFIX.size + 3, marks[2]
    else:
        raise WireError("header is not [kind, fields]")
    return start[first : first + length].decode("ascii", "replace")


def message_bytes(frames: Sequence[Frame]) -> int:
    """Return the size of a message, header and arrays together."""
    return sum(memoryview(frame).nbytes for frame in frames)


def _decode(frames: Sequence[Frame]) -> Message:
    kind, fields = _read_header(bytes(frames[0]))
    message_class = _kinds.get(kind)
    if message_class is None:
        raise WireError(f"unknown message kind {kind[:64]!r}")
    expected = attrs.fields_dict(message_class)
    if type(fields) is not dict or fields.keys() != expected.keys():
        raise WireError(f"{kind} has {_abbreviate(fields)}, expected exactly the fields {', '.join(expected)}")
    rest = iter(frames[1:])
    for name, attribute in expected.items():
        if attribute.type == Mapping[str, np.ndarray] and type(fields[name]) is dict:
            fields[name] = {
                key: _decode_array(value, rest, where=f"{kind}.{name}") for key, value in fields[name].items()
            }
    if next(rest, None) is not None:
        raise WireError(f"{kind}: more frames than declared arrays")
    return message_of(message_class, fields)


def check_limits(frames: Sequence[Frame], what: str) -> None:
    """Check the limits on size and number of frames.

    Raises:
        WireError: A limit is exceeded; the text begins with `what`.
    """
    if not frames:
        raise WireError(f"{what}: no frames")
    if len(frames) - 1 > MAX_ARRAYS:
        raise WireError(f"{what}: {len(frames) - 1} arrays, at most {MAX_ARRAYS} are allowed")
    sizes = [memoryview(frame).nbytes for frame in frames]
    if sizes[0] > MAX_HEADER_BYTES:
        raise WireError(f"{what}: header of {sizes[0]} bytes, at most {MAX_HEADER_BYTES} are allowed")
    if max(sizes) > MAX_FRAME_BYTES:
        raise WireError(f"{what}: array of {max(sizes)} bytes, at most {MAX_FRAME_BYTES} are allowed")
    if sum(sizes) > MAX_TOTAL_BYTES:
        raise WireError(f"{what}: {sum(sizes)} bytes in all, at most {MAX_TOTAL_BYTES} are allowed")


def _read_header(header: Frame) -> tuple[str, Any]:
    _check_prefix(header)
    try:
        content = msgpack.unpackb(
            memoryview(header)[_PREFIX.size :], max_array_len=_MAX_ITEMS, max_map_len=_MAX_ITEMS, max_ext_len=0
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise WireError(f"header is not valid msgpack: {type(error).__name__}: {error}") from None
    match content:
        case [str(kind), fields]:
            return kind, fields
    raise WireError("header is not [kind, fields]")


def _check_prefix(header: Frame) -> None:
    if len(header) < _PREFIX.size:
        raise WireError(f"header of {len(header)} bytes is too short")
    magic, protocol = _PREFIX.unpack_from(header)
    if magic != _MAGIC:
        raise WireError("not a ludus message")
    if protocol != PROTOCOL:
        raise WireError(f"peer uses protocol {protocol}, this process {PROTOCOL}: install the same version of ludus")


_kinds: dict[str, type[Message]] = {kind.__name__: kind for kind in MESSAGES}


def register(*kinds: type[Message]) -> None:
    """Register further message classes, such as those that links exchange."""
    for kind in kinds:
        _kinds[kind.__name__] = attrs.resolve_types(kind, localns={"np": np})


def registered_kinds() -> tuple[type[Message], ...]:
    """Return all message classes that can be sent."""
    return tuple(_kinds.values())


def _abbreviate(value: Any) -> str:
    return repr(sorted(map(str, value)) if type(value) is dict else value)[:200]


def _fields(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in attrs.fields_dict(type(message))}


def _encode_value(value: Any, *, buffers: list[Frame]) -> Any:
    """Return the header entry of a value that msgpack cannot encode."""
    if attrs.has(type(value)):
        return _fields(value)
    if not isinstance(value, np.ndarray):  # an int beyond 64 bits comes here too
        raise WireError(f"{_abbreviate(value)} of type {type(value).__name__} cannot be encoded")
    if value.dtype.str not in DTYPES or value.ndim > MAX_DIMENSIONS:
        raise WireError(f"arrays of dtype {value.dtype.str} and {value.ndim} dimensions cannot be encoded")
    flat = np.ascontiguousarray(value).reshape(-1)
    buffers.append(flat.view(np.uint8).data if flat.size else b"")
    return [value.dtype.str, list(value.shape)]


def _read_spec(value: Any, *, where: str) -> tuple[str, list[int]]:
    """Return the name of the dtype and the shape of an array from its header entry."""
    match value:
        case [str(name), list(shape)] if name in DTYPES and len(shape) <= MAX_DIMENSIONS:
            if all(type(size) is int and size >= 0 for size in shape):
                return name, shape
    raise WireError(f"{where}: expected [dtype, shape] of an array, got {_abbreviate(value)}")


def _decode_array(value: Any, frames: Iterator[Frame], *, where: str) -> np.ndarray:
    name, shape = _read_spec(value, where=where)
    dtype = DTYPES[name]
    frame = next(frames, None)
    if frame is None:
        raise WireError(f"{where}: its frame is missing")
    declared, size = math.prod(shape) * dtype.itemsize, memoryview(frame).nbytes
    if declared != size:
        raise WireError(f"{where}: {name} of shape {str(shape)[:64]} takes {declared} bytes, the frame has {size}")
    try:
        array = (np.empty(0, dtype) if 0 in shape else np.frombuffer(frame, dtype)).reshape(shape)
    except ValueError as error:  # an empty array whose other axes are too long
        raise WireError(f"{where}: impossible shape {str(shape)[:64]}: {error}") from None
    check_bools(where, array)
    array.setflags(write=False)
    return array


def check_bools(where: str, array: np.ndarray) -> None:
    """Check that the bytes of a bool array are 0 or 1; NumPy's results are undefined for others.

    Raises:
        WireError: There are other bytes.
    """
    if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise WireError(f"{where[:64]}: a bool array holds bytes other than 0 and 1")
