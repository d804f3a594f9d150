"""One input of a fuzzer: a route and the frames of a message, and their encoding as bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

from attrs import frozen

Frames: TypeAlias = "list[bytes]"

_HEAD = struct.Struct("<BBB")
_LENGTH = struct.Struct("<I")
_MAX_FRAMES = 64  # of an input that was mutated


@frozen
class Input:
    """One message to deliver.

    Attributes:
        route: Index of the route, modulo the number of routes of the kind.
        live: Whether the ids of a report of results stand for fixtures that are open now.
        frames: Frames of the message.
    """

    route: int
    live: bool
    frames: tuple[bytes, ...]


def pack(one: Input) -> bytes:
    """Return the bytes that `unpack` reads; longer lists of frames are cut."""
    frames = one.frames[:_MAX_FRAMES]
    lengths = b"".join(_LENGTH.pack(len(frame)) for frame in frames[:-1])
    return b"".join([_HEAD.pack(one.route % 256, one.live, len(frames)), lengths, *frames])


def unpack(data: bytes) -> Input:
    """Return the input that bytes stand for. Any bytes are an input: lengths are cut to what is there."""
    head = data[: _HEAD.size].ljust(_HEAD.size, b"\0")
    route, live, count = _HEAD.unpack(head)
    count = max(1, min(count, _MAX_FRAMES))
    start = _HEAD.size + (count - 1) * _LENGTH.size
    table = data[_HEAD.size : start].ljust((count - 1) * _LENGTH.size, b"\0")
    frames, rest = [], data[start:]
    for (length,) in _LENGTH.iter_unpack(table):
        frames.append(rest[:length])
        rest = rest[length:]
    return Input(route, bool(live & 1), (*frames, rest))


def replaced(one: Input, frames: Sequence[bytes]) -> Input:
    """Return the input with other frames."""
    return Input(one.route, one.live, tuple(frames))
