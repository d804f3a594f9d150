"""Messages as bytes: `encode` and `decode` for the attrs classes of `ludus._messages`.

A message is one header frame and one raw frame per array::

    frame 0     magic "LUDS" | protocol version, uint16 little endian | msgpack [kind, {field: value}]
    frame 1…n   the buffers of the arrays, in the order in which the header declares them

In the header an array is ``[dtype, shape]``. Both sides walk the same type hints, so a header needs no type tags, and
a value that does not have exactly the declared type is refused. Floats may be NaN or infinite.

Nothing a peer sends can make `decode` raise anything but `WireError`, run code, or allocate more than the frames
themselves take. Decoded arrays are read-only views on the frames, not necessarily aligned: copy what is kept.
"""

from __future__ import annotations

import functools
import math
import struct
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import msgpack
import numpy as np

from ludus import _messages
from ludus.errors import WireError

__all__ = ["DTYPES", "PROTOCOL", "Frame", "Message", "check_bools", "decode", "encode", "fits"]

Message: TypeAlias = attrs.AttrsInstance
Frame: TypeAlias = bytes | memoryview

#: Raised whenever a message changes; peers of different versions refuse each other.
PROTOCOL = 2
MAX_HEADER_BYTES = 64 * 1024
MAX_FRAME_BYTES = 256 * 1024**2
MAX_TOTAL_BYTES = 1024**3
MAX_ARRAYS = 256

_PREFIX = struct.Struct("<4sH")
_MAGIC = b"LUDS"
_MAX_ITEMS = 4096  # of one list or map; bounds what msgpack allocates ahead for lengths that are lies
_MAX_DIMENSIONS = 32
#: What arrays may consist of.
DTYPES = {
    dtype: np.dtype(dtype)
    for dtype in ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")
}


def encode(message: Message) -> list[Frame]:
    """Turn a message into frames; large arrays are not copied, so the sender must not write to them afterwards.

    Raises:
        WireError: The message is of an unknown kind, a field has the wrong type, or a limit is exceeded.
    """
    kind = type(message).__name__
    if _kinds().get(kind) is not type(message):
        raise WireError(f"{kind} is not a message; messages are the classes of ludus._messages")
    buffers: list[Frame] = []
    try:
        header = msgpack.packb([kind, _record(type(message)).pack(message, buffers)])
    except WireError:
        raise
    except (ValueError, OverflowError) as error:  # an int beyond 64 bits, or a lone surrogate
        raise WireError(f"{kind} cannot be written as msgpack: {error}") from None
    frames = [_PREFIX.pack(_MAGIC, PROTOCOL) + header, *buffers]
    _check_limits(frames, kind)
    return frames


def decode(frames: Sequence[Frame]) -> Message:
    """Turn frames into a message.

    Raises:
        WireError: The frames are not exactly one valid message.
    """
    _check_limits(frames, "message")
    kind, fields = _read_header(bytes(frames[0]))
    message_class = _kinds().get(kind)
    if message_class is None:
        raise WireError(f"unknown message kind {kind[:64]!r}")
    rest = iter(frames[1:])
    message = _record(message_class).unpack(fields, rest)
    if next(rest, None) is not None:
        raise WireError(f"{kind}: more frames than declared arrays")
    return typing.cast("Message", message)


def fits(frames: Sequence[Frame]) -> bool:
    """Return whether frames keep the limits on size and number, whatever they contain."""
    try:
        _check_limits(frames, "")
    except WireError:
        return False
    return True


def _check_limits(frames: Sequence[Frame], what: str) -> None:
    if not frames:
        raise WireError(f"{what}: no frames")
    if len(frames) - 1 > MAX_ARRAYS:
        raise WireError(f"{what}: {len(frames) - 1} arrays, at most {MAX_ARRAYS} are allowed")
    sizes = [_num_bytes(frame) for frame in frames]
    if sizes[0] > MAX_HEADER_BYTES:
        raise WireError(f"{what}: header of {sizes[0]} bytes, at most {MAX_HEADER_BYTES} are allowed")
    if max(sizes) > MAX_FRAME_BYTES:
        raise WireError(f"{what}: array of {max(sizes)} bytes, at most {MAX_FRAME_BYTES} are allowed")
    if sum(sizes) > MAX_TOTAL_BYTES:
        raise WireError(f"{what}: {sum(sizes)} bytes in all, at most {MAX_TOTAL_BYTES} are allowed")


def _num_bytes(frame: Frame) -> int:
    return frame.nbytes if isinstance(frame, memoryview) else len(frame)


def _read_header(header: bytes) -> tuple[str, Any]:
    if len(header) < _PREFIX.size:
        raise WireError(f"header of {len(header)} bytes is too short")
    magic, protocol = _PREFIX.unpack_from(header)
    if magic != _MAGIC:
        raise WireError("not a ludus message")
    if protocol != PROTOCOL:
        raise WireError(f"peer speaks protocol {protocol}, this side {PROTOCOL}: install the same ludus on both sides")
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


@functools.cache
def _kinds() -> dict[str, type[Message]]:
    """Return every message class by name."""
    return {
        name: value
        for name, value in vars(_messages).items()
        if isinstance(value, type) and attrs.has(value) and value.__module__ == _messages.__name__
    }


@attrs.frozen
class _Codec:
    """How values of one type hint travel: `pack` to msgpack values and buffers, `unpack` back; both check the type."""

    pack: Callable[[Any, list[Frame]], Any]
    unpack: Callable[[Any, Iterator[Frame]], Any]


def _codec(hint: Any) -> _Codec:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if hint is np.ndarray:
        return _Codec(_pack_array, _unpack_array)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _tuple(_codec(arguments[0]))
    if origin is not None and issubclass(origin, Mapping) and arguments[0] is str:
        return _mapping(_codec(arguments[1]))
    if attrs.has(hint):
        return _record(hint)
    raise TypeError(f"messages cannot have fields of type {hint}")


@functools.cache
def _record(record_class: type[Any]) -> _Codec:
    """Return the codec of an attrs class: a map of all its fields, no more and no fewer."""
    hints = typing.get_type_hints(record_class, localns={"np": np})
    codecs = {field.name: _codec(hints[field.name]) for field in attrs.fields(record_class)}
    label = record_class.__name__

    def pack(value: Any, buffers: list[Frame]) -> dict[str, Any]:
        if type(value) is not record_class:
            raise _mismatch(label, value)
        return {
            name: _within(f"{label}.{name}", codec.pack, getattr(value, name), buffers)
            for name, codec in codecs.items()
        }

    def unpack(value: Any, frames: Iterator[Frame]) -> Any:
        if type(value) is not dict or value.keys() != codecs.keys():
            raise WireError(f"{label} has {_keys(value)}, expected exactly the fields {', '.join(codecs)}")
        fields = {name: _within(f"{label}.{name}", codec.unpack, value[name], frames) for name, codec in codecs.items()}
        try:
            return record_class(**fields)
        except (ValueError, TypeError) as error:  # the class's own validators
            raise WireError(f"{label}: {error}") from None

    return _Codec(pack, unpack)


def _within(where: str, convert: Callable[[Any, Any], Any], value: Any, frames: Any) -> Any:
    """Convert a value; an error names the field it is in."""
    try:
        return convert(value, frames)
    except WireError as error:
        raise WireError(f"{where}: {error}") from None


def _keys(value: Any) -> str:
    return ", ".join(sorted(value))[:200] if type(value) is dict else type(value).__name__


def _mismatch(expected: str, value: Any) -> WireError:
    return WireError(f"expected {expected}, got {type(value).__name__} {repr(value)[:64]}")


def _scalar(expected: type, packs: tuple[type, ...]) -> _Codec:
    def pack(value: Any, _: list[Frame]) -> Any:
        if type(value) not in packs:
            raise _mismatch(expected.__name__, value)
        return expected(value)

    def unpack(value: Any, _: Iterator[Frame]) -> Any:
        if type(value) is not expected:
            raise _mismatch(expected.__name__, value)
        return value

    return _Codec(pack, unpack)


_SCALARS: dict[Any, _Codec] = {
    str: _scalar(str, (str,)),
    int: _scalar(int, (int,)),
    float: _scalar(float, (float, int, np.float64)),
    bool: _scalar(bool, (bool,)),
}


def _tuple(item: _Codec) -> _Codec:
    def pack(value: Any, buffers: list[Frame]) -> list[Any]:
        if type(value) is not tuple:
            raise _mismatch("a tuple", value)
        if len(value) > _MAX_ITEMS:
            raise WireError(f"{len(value)} items, at most {_MAX_ITEMS} are allowed")
        return [item.pack(entry, buffers) for entry in value]

    def unpack(value: Any, frames: Iterator[Frame]) -> tuple[Any, ...]:
        if type(value) is not list:
            raise _mismatch("a list", value)
        return tuple([item.unpack(entry, frames) for entry in value])

    return _Codec(pack, unpack)


def _mapping(item: _Codec) -> _Codec:
    def pack(value: Any, buffers: list[Frame]) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not all(type(key) is str for key in value):
            raise _mismatch("a mapping from str", value)
        if len(value) > _MAX_ITEMS:
            raise WireError(f"{len(value)} items, at most {_MAX_ITEMS} are allowed")
        return {key: item.pack(entry, buffers) for key, entry in value.items()}

    def unpack(value: Any, frames: Iterator[Frame]) -> dict[str, Any]:
        if type(value) is not dict or not all(type(key) is str for key in value):
            raise _mismatch("a map from str", value)
        return {key: item.unpack(entry, frames) for key, entry in value.items()}

    return _Codec(pack, unpack)


def _pack_array(value: Any, buffers: list[Frame]) -> list[Any]:
    if not isinstance(value, np.ndarray):
        raise _mismatch("an array", value)
    if value.dtype.str not in DTYPES or value.ndim > _MAX_DIMENSIONS:
        raise WireError(f"arrays of dtype {value.dtype.str} and {value.ndim} dimensions do not travel")
    flat = np.ascontiguousarray(value).reshape(-1)
    buffers.append(flat.view(np.uint8).data if flat.size else b"")
    return [value.dtype.str, list(value.shape)]


def _unpack_array(value: Any, frames: Iterator[Frame]) -> np.ndarray:
    match value:
        case [str(name), list(shape)] if name in DTYPES and all(type(size) is int and size >= 0 for size in shape):
            dtype = DTYPES[name]
        case _:
            raise _mismatch("[dtype, shape] of an array", value)
    frame = next(frames, None)
    if frame is None:
        raise WireError("its frame is missing")
    declared = math.prod(shape) * dtype.itemsize
    if len(shape) > _MAX_DIMENSIONS or declared != _num_bytes(frame):
        raise WireError(f"{name} of shape {str(shape)[:64]} takes {declared} bytes, the frame has {_num_bytes(frame)}")
    return _view(frame, dtype, shape)


def check_bools(name: str, array: np.ndarray) -> None:
    """Check the bytes of an array if it is one of bools.

    Raises:
        WireError: Some are neither 0 nor 1, of which NumPy would make anything.
    """
    if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise WireError(f"{name[:64]} a bool array holds bytes other than 0 and 1".lstrip())


def _view(frame: Frame, dtype: np.dtype[Any], shape: list[int]) -> np.ndarray:
    try:
        array = (np.empty(0, dtype) if 0 in shape else np.frombuffer(frame, dtype)).reshape(shape)
    except ValueError as error:  # an empty array whose other axes are too long
        raise WireError(f"impossible shape {str(shape)[:64]}: {error}") from None
    check_bools("", array)
    array.setflags(write=False)
    return array
