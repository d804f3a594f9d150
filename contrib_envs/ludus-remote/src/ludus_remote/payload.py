"""Payloads of the game protocol: encoding, decoding, and reading of typed values."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sized
from typing import Any, TypeAlias

import msgpack

Message: TypeAlias = "dict[str, Any]"

HELLO_BYTES = 1 << 20
LARGEST_INT = 1 << 53
_MOST_LEVELS = 16
_REQUIRED: Any = object()
_KINDS: dict[str, type | tuple[type, ...]] = {
    "bool": bool,
    "bytes": bytes,
    "float": (int, float),
    "int": int,
    "list": list,
    "map": dict,
    "text": str,
}


class ProtocolError(Exception):
    """A game violated the protocol.

    Args:
        code: Code of the error message.
        text: What was wrong and what was expected, for people.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


def encode(message: Mapping[str, Any]) -> bytes:
    """Return the payload of a message."""
    payload: bytes = msgpack.packb(message)
    return payload


def decode(payload: bytes) -> Message:
    """Return the message of a payload.

    Raises:
        ProtocolError: The bytes are not one map of the allowed types.
    """
    try:
        message = msgpack.unpackb(payload, strict_map_key=False, ext_hook=_refuse_extension)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise ProtocolError("frame", f"the payload is no MessagePack: {type(error).__name__}") from error
    if not isinstance(message, dict):
        raise ProtocolError("frame", f"the payload is a {type(message).__name__}; expected a map")
    _check(message, _MOST_LEVELS)
    return message


def _refuse_extension(_code: int, _data: bytes) -> None:
    raise ValueError("extension types are not allowed")


def _check(value: Any, levels: int) -> None:
    """Check depth, keys and numbers of a value."""
    if isinstance(value, dict | list):
        if not levels:
            raise ProtocolError("frame", f"the payload has more than {_MOST_LEVELS} levels")
        for item in _items(value):
            _check(item, levels - 1)
    elif isinstance(value, int | float):
        if not abs(value) <= (LARGEST_INT if isinstance(value, int) else sys.float_info.max):
            raise ProtocolError("value", f"the number {value} is not finite, or an integer larger than 2^53")
    elif value is not None and not isinstance(value, str | bytes):
        raise ProtocolError("frame", f"a value is a {type(value).__name__}")


def _items(value: dict[Any, Any] | list[Any]) -> Iterable[Any]:
    if isinstance(value, list):
        return value
    if not all(type(key) is str for key in value):
        raise ProtocolError("frame", "a map has a key that is no text")
    return value.values()


def read(message: Mapping[str, Any], key: str, kind: str, default: Any = _REQUIRED, *, most: int = 0) -> Any:
    """Return the value of a key.

    Args:
        message: The map.
        key: Key to read.
        kind: Kind of the value: ``"int"``, ``"float"``, ``"text"``, ``"bytes"``, ``"bool"``, ``"list"`` or ``"map"``.
        default: Value of a key that is missing; without it, the key is required.
        most: Largest length of a text, list or map; 0: unbounded.

    Raises:
        ProtocolError: The key is missing, or its value has another type or is too long.
    """
    value: Any = message.get(key, default)
    if value is _REQUIRED:
        raise ProtocolError("message", f"{key}: the key is missing; expected {kind}")
    if value is default:
        return default
    if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise ProtocolError("message", f"{key}: expected {kind}, got {type(value).__name__}")
    if most and isinstance(value, Sized) and len(value) > most:
        raise ProtocolError("value", f"{key}: expected at most {most} items, got {len(value)}")
    return value


def read_whole(message: Mapping[str, Any], key: str, low: int, high: int, default: Any = _REQUIRED) -> int:
    """Return an integer from low to high.

    Raises:
        ProtocolError: The value is missing, of another type or out of bounds.
    """
    value: int = read(message, key, "int", default)
    if not low <= value <= high:
        raise ProtocolError("value", f"{key}: expected a whole number from {low} to {high}, got {value}")
    return value


def read_items(message: Mapping[str, Any], key: str, kind: str, default: Any = (), *, most: int = 4096) -> list[Any]:
    """Return a list whose items are of one kind.

    Raises:
        ProtocolError: The value is missing, of another type, or too long.
    """
    items = list(read(message, key, "list", default, most=most))
    for number, item in enumerate(items):
        read({f"{key}[{number}]": item}, f"{key}[{number}]", kind)
    return items


def one_line(text: str, most: int) -> str:
    """Return a text from outside as one line of printable characters."""
    return "".join(character if character.isprintable() else "?" for character in text)[:most]
