"""Hypothesis strategies of inputs: valid messages with replaced fields, and messages whose fields are all drawn.

Hypothesis takes 50 microseconds for everything that is drawn. So an input draws one number, from which all choices
among given values follow, and in one of four cases a value of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import msgpack
import numpy as np
from attrs import define
from hypothesis import strategies as st
from ludus.wire import PROTOCOL, Message
from ludus_local import codec

from fuzz.inputs import Input
from fuzz.values import Values

PREFIX = codec._PREFIX.pack(codec._MAGIC, PROTOCOL)

#: Values of a header, of any type.
_ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)
_OF_TYPE: dict[type, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**64 - 1),
    float: st.floats(),
    str: st.text(max_size=40),
}
_DRAWN_SHARE = 0.25  # of inputs with a value of their own
_LARGE_SHARE = 0.004  # of the values, since each takes milliseconds
_NUMBERS = (0, 1, 2, 3, -1, 2**31 - 1, 2**62, 0.5, float("nan"), float("inf"), float("-inf"))


def inputs(kind: str, messages: Sequence[Message], values: Values) -> st.SearchStrategy[Input]:
    """Return the strategy of the inputs of a kind.

    Args:
        kind: Class name of the messages.
        messages: Valid messages of that kind.
        values: Values for their fields.
    """
    return _inputs(kind, [_plain(message) for message in messages], values)


@st.composite
def _inputs(draw: st.DrawFn, kind: str, bases: Sequence[dict[str, Any]], values: Values) -> Input:
    """Draw an input: up to three changes of a valid message, new values for all fields, or changes of its frames."""
    rng = random.Random(draw(st.integers(0, 2**64 - 1)))
    drawn = draw if rng.random() < _DRAWN_SHARE else None
    fields = Change(rng, values, drawn).message(rng.choice(bases))
    frames = encode(kind, fields)
    if rng.random() < 0.1:
        frames = _changed_frames(frames, rng)
    return Input(rng.randrange(256), rng.random() < 0.8, tuple(frames))


def _plain(value: Any) -> Any:
    """Return the fields of a message, with nested records as dicts and tuples as lists; arrays stay arrays."""
    if attrs.has(type(value)):
        return {attribute.name: _plain(getattr(value, attribute.name)) for attribute in attrs.fields(type(value))}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if hasattr(value, "items"):
        return {key: _plain(item) for key, item in value.items()}
    return value


@define
class Change:
    """Changes of the fields of one message.

    Args:
        rng: Makes all choices.
        values: Values to choose from.
        draw: Draws one more value, which is used first; None: none is drawn.
    """

    rng: random.Random
    values: Values
    draw: Callable[[st.SearchStrategy[Any]], Any] | None

    def message(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a message with one to three changes, all of them changed, or a field too many or few."""
        rng, changed = self.rng, dict(fields)
        way = rng.random()
        if way < 0.05:
            return {name: self.value(like=value) for name, value in fields.items()}
        if way < 0.08:
            changed[rng.choice(self.values.texts)] = rng.choice(self.values.scalars)
        elif way < 0.1 and changed:
            del changed[rng.choice(list(changed))]
        for _ in range(rng.choice((1, 1, 1, 2, 3)) if changed else 0):
            name = rng.choice(list(changed))
            changed[name] = self.inside(changed[name])
        return changed

    def inside(self, value: Any) -> Any:
        """Return a value with itself or one of the values in it replaced."""
        if isinstance(value, dict | list) and value and self.rng.random() < 0.9:
            return self._in_dict(value) if isinstance(value, dict) else self._in_list(value)
        return self.value(like=value)

    def _in_dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        key, way = self.rng.choice(list(value)), self.rng.random()
        if way < 0.08:
            return {name: item for name, item in value.items() if name != key}
        if way < 0.15:
            return {**value, self.rng.choice(self.values.texts): value[key]}
        return {**value, key: self.inside(value[key])}

    def _in_list(self, value: list[Any]) -> list[Any]:
        position, way = self.rng.randrange(len(value)), self.rng.random()
        if way < 0.08:
            return value[:position] + value[position + 1 :]
        if way < 0.12:
            return (value * self.rng.choice((2, 2, 2, 2, 16, 16, 4096)))[:5000]
        return [*value[:position], self.inside(value[position]), *value[position + 1 :]]

    def value(self, *, like: Any) -> Any:
        """Return a value, mostly of the type of another one."""
        rng, values = self.rng, self.values
        if self.draw is not None:
            draw, self.draw = self.draw, None
            return draw(_OF_TYPE.get(type(like), _ANY) if rng.random() < 0.8 else _ANY)
        way = rng.random()
        if way < _LARGE_SHARE:
            return rng.choice(values.large)
        if way < 0.1:
            return rng.choice(values.scalars if rng.random() < 0.6 else values.containers)
        if isinstance(like, np.ndarray):
            return self.array(like)
        if isinstance(like, dict | list):
            return rng.choice(values.containers)
        return rng.choice(values.by_type.get(type(like), values.scalars))

    def array(self, like: np.ndarray) -> np.ndarray:
        """Return an array: of other rows, with other numbers, of another dtype, or any."""
        rng, way = self.rng, self.rng.random()
        if way < 0.15:
            return rng.choice(self.values.arrays)
        if way < 0.25:
            return like.astype(rng.choice(("<i8", "<f4", "<i4", "|b1", "<f8", "|u1")))
        if way < 0.35:
            return np.repeat(like, rng.choice((0, 2, 3)), axis=rng.randrange(like.ndim)) if like.ndim else like
        changed = like.copy()
        flat, number = changed.reshape(-1), rng.choice(_NUMBERS[:7] if like.dtype.kind in "biu" else _NUMBERS)
        if flat.size:
            where = slice(None) if way > 0.8 else rng.randrange(flat.size)
            flat[where] = np.array(number).astype(like.dtype)
        return changed


def _changed_frames(frames: list[bytes], rng: random.Random) -> list[bytes]:
    """Change bytes of a frame, or remove, repeat or exchange frames."""
    way, position = rng.randrange(6), rng.randrange(len(frames))
    frame = frames[position]
    if way == 0:
        return frames[:position] + frames[position + 1 :] or [b""]
    if way == 1:
        return [*frames, frame]
    if way == 2:
        return frames[::-1]
    start, new = rng.randrange(max(1, len(frame))), rng.randbytes(rng.randrange(9))
    end = start + len(new) if way == 3 else start if way == 4 else len(frame)
    return [*frames[:position], frame[:start] + new + frame[end:], *frames[position + 1 :]]


def encode(kind: str, fields: dict[str, Any]) -> list[bytes]:
    """Return the frames of a message with any fields, valid or not."""
    buffers: list[bytes] = []

    def entry(value: Any) -> Any:
        assert isinstance(value, np.ndarray)
        buffers.append(np.ascontiguousarray(value).tobytes())
        return [value.dtype.str, list(value.shape)]

    header = msgpack.packb([kind, fields], default=entry, unicode_errors="surrogatepass")
    return [PREFIX + header, *buffers]
