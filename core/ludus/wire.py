"""The messages of ludus as launchers carry them.

A launcher decides what bytes a message becomes, and lets `message_of` check what arrives: a value of another type than
the hint of its field is refused, and so are integers of more than 64 bits; only an integer may stand for a float.
Floats may be NaN or infinite. Nothing a peer sends can make it raise anything but `WireError`, or run code.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import attrs
import numpy as np

from ludus._config.structuring import StructuringError, converter, structure
from ludus._messaging import messages as _messages
from ludus._messaging.messages import (
    CheckpointAck,
    Credit,
    Failure,
    FixtureRequest,
    Fixtures,
    Heartbeat,
    Hello,
    MetricsReport,
    Results,
    ResultsAck,
    SamplerLeft,
    Segments,
    Stop,
)
from ludus.errors import WireError

__all__ = [
    "MESSAGES",
    "PROTOCOL",
    "CheckpointAck",
    "Credit",
    "Failure",
    "FixtureRequest",
    "Fixtures",
    "Heartbeat",
    "Hello",
    "Message",
    "MetricsReport",
    "Results",
    "ResultsAck",
    "SamplerLeft",
    "Segments",
    "Stop",
    "message_of",
]

Message: TypeAlias = attrs.AttrsInstance
_M = TypeVar("_M", bound=Message)

#: Raised whenever a message changes; peers of different versions refuse each other.
PROTOCOL = 12

#: Every class of messages.
MESSAGES: tuple[type[Message], ...] = tuple(
    attrs.resolve_types(value, localns={"np": np})
    for value in vars(_messages).values()
    if getattr(value, "__module__", "") == _messages.__name__
)

converter.register_structure_hook(np.ndarray, lambda array, _: array)  # made by the launcher


def message_of(kind: type[_M], fields: dict[str, Any]) -> _M:
    """Make the message that somebody sent.

    Args:
        kind: Its class, the type hints of which are resolved.
        fields: Plain values, as from `attrs.asdict`, and arrays.

    Raises:
        WireError: A value is not of the type that its field has.
    """
    try:
        return structure(fields, kind)
    except StructuringError as error:
        problem = error.problems[0]
        raise WireError(f"{'.'.join(map(str, (kind.__name__, *problem.path)))[:256]}: {problem.text}") from None
