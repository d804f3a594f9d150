"""The messages that launchers carry.

A launcher defines the encoding of messages. It makes received ones by `message_of`, which checks every value against
the type hint of its field. Integers of more than 64 bits are rejected; an integer is accepted as a float. Floats may be
NaN or infinite. Input of a peer cannot raise anything but `WireError`, nor run code.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import attrs
import numpy as np

from ludus._config.structuring import StructuringError, converter, structure
from ludus._messaging import messages as _messages
from ludus._messaging.messages import (
    Activity,
    CheckpointAck,
    Credit,
    DamagedModel,
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
from ludus._messaging.permissions import check_kind, check_owner, permit
from ludus._messaging.refusals import Refusals, RefusedMessage
from ludus.errors import WireError

__all__ = [
    "MESSAGES",
    "PROTOCOL",
    "Activity",
    "CheckpointAck",
    "Credit",
    "DamagedModel",
    "Failure",
    "FixtureRequest",
    "Fixtures",
    "Heartbeat",
    "Hello",
    "Message",
    "MetricsReport",
    "Refusals",
    "RefusedMessage",
    "Results",
    "ResultsAck",
    "SamplerLeft",
    "Segments",
    "Stop",
    "check_kind",
    "check_owner",
    "message_of",
    "permit",
]

Message: TypeAlias = attrs.AttrsInstance
_M = TypeVar("_M", bound=Message)

#: Version of the protocol, increased whenever a message changes; peers of different versions reject each other.
PROTOCOL = 17

#: All message classes.
MESSAGES: tuple[type[Message], ...] = tuple(
    attrs.resolve_types(value, localns={"np": np})
    for value in vars(_messages).values()
    if getattr(value, "__module__", "") == _messages.__name__
)

converter.register_structure_hook(np.ndarray, lambda array, _: array)  # decoded by the launcher


def message_of(kind: type[_M], fields: dict[str, Any]) -> _M:
    """Make a message from received fields.

    Args:
        kind: Message class with resolved type hints.
        fields: Plain values, as from `attrs.asdict`, and arrays.

    Raises:
        WireError: A value has not the type of its field.
    """
    try:
        return structure(fields, kind)
    except StructuringError as error:
        problem = error.problems[0]
        raise WireError(f"{'.'.join(map(str, (kind.__name__, *problem.path)))[:256]}: {problem.text}") from None
