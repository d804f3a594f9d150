"""The messages of ludus as launchers carry them: their kinds, and their fields as plain values.

A launcher decides what bytes a message becomes. Whatever it does, it takes a message apart by `fields_of`, and makes
the one that arrives by `message_of`, which lets `ludus._structuring` check the fields against the type hints: a value
of another type is refused; only an integer may stand for a float. Floats may be NaN or infinite.

Nothing a peer sends can make `message_of` raise anything but `WireError`, or run code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs
import numpy as np

from ludus import _messages
from ludus._messages import CheckpointAck, Credit, Failure, Hello, MetricsReport, Progress, ResultsAck, Segments
from ludus._structuring import StructuringError, converter, structure
from ludus.errors import WireError

__all__ = [
    "PROTOCOL",
    "CheckpointAck",
    "Credit",
    "Failure",
    "Hello",
    "Message",
    "MetricsReport",
    "Progress",
    "ResultsAck",
    "Segments",
    "fields_of",
    "kind_of",
    "message_of",
    "register",
    "shown",
]

Message: TypeAlias = attrs.AttrsInstance

#: Raised whenever a message changes; peers of different versions refuse each other.
PROTOCOL = 6

_kinds: dict[str, type[Message]] = {}


def register(*kinds: type[Message]) -> None:
    """Let messages of more kinds travel, such as those that only links say to each other."""
    for kind in kinds:
        _kinds[kind.__name__] = attrs.resolve_types(kind, localns={"np": np})


register(*(value for value in vars(_messages).values() if getattr(value, "__module__", "") == _messages.__name__))


def kind_of(message: Message) -> str:
    """Return the name of a message's kind.

    Raises:
        WireError: It is of an unknown kind.
    """
    kind = type(message).__name__
    if _kinds.get(kind) is not type(message):
        raise WireError(f"{kind} is not a message; messages are the classes of ludus._messages")
    return kind


def fields_of(message: Message) -> dict[str, Any]:
    """Return the fields of a message, or of what is part of one, by name."""
    return {name: getattr(message, name) for name in attrs.fields_dict(type(message))}


def message_of(kind: str, fields: Any, *, array: Callable[[Any, str], np.ndarray]) -> Message:
    """Make the message that somebody sent.

    Args:
        kind: As from `kind_of`.
        fields: As from `fields_of` or `attrs.asdict`; parts of it too, at any depth.
        array: Makes an array of what stands for it, and is told where that was found.

    Raises:
        WireError: They are not exactly one valid message.
    """
    message_class = _kinds.get(kind)
    if message_class is None:
        raise WireError(f"unknown message kind {kind[:64]!r}")
    expected = attrs.fields_dict(message_class)
    if type(fields) is not dict or fields.keys() != expected.keys():
        raise WireError(f"{kind} has {shown(fields)}, expected exactly the fields {', '.join(expected)}")
    for name, attribute in expected.items():
        if attribute.type == Mapping[str, np.ndarray] and type(fields[name]) is dict:
            fields[name] = {key: array(value, f"{kind}.{name}") for key, value in fields[name].items()}
    try:
        return structure(fields, message_class)
    except StructuringError as error:
        problem = error.problems[0]
        raise WireError(f"{'.'.join(map(str, (kind, *problem.path)))[:256]}: {problem.text}") from None


def shown(value: Any) -> str:
    """Return a value as errors show it: of a table its keys, and not too much."""
    return repr(sorted(map(str, value)) if type(value) is dict else value)[:200]


converter.register_structure_hook(np.ndarray, lambda array, _: array)  # made before
