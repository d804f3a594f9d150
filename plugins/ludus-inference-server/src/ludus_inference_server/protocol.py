"""What runtimes and their server say to each other.

A message is one small frame: a magic word with a version, then msgpack ``[kind, field, …]``. Arrays never travel in it:
observations, answers and weights lie in shared memory, each file written by one side and mapped read-only by the other.
A runtime says one thing at a time and repeats it until it is answered; answers carry the number of what they answer. ::

    runtime → server    Open      here is my request area; make me an answer area
                        Know      a slot of mine holds the model of this content: do you have it?
                        Take      here are its weights
                        Drop      a slot of mine is empty
                        Run       evaluate the first rows of my area
                        Leave     forget me; this alone is not answered
    server → runtime    Opened, Known, Done; Lost: open again, I do not know you; Refused: this can never work
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, get_args

import attrs
import msgpack
import numpy as np
from attrs import field, frozen, validators
from ludus.errors import WireError
from ludus_local.memory import ArraySpec, Layout, check_private
from ludus_local.transport import ipc_address

__all__ = [
    "MAX_FRAME_BYTES",
    "ClientLeave",
    "Done",
    "Drop",
    "Know",
    "Known",
    "Lost",
    "Message",
    "Open",
    "Opened",
    "Refused",
    "Run",
    "Take",
    "decode",
    "encode",
    "pack_specs",
    "service_address",
    "spans_of",
    "unpack_specs",
]

MAX_FRAME_BYTES = 1024 * 1024
_MAGIC = b"LUDI\x01"  # the last byte is the version
_MAX_ITEMS = 65536
_MAX_TEXT = 4096


def service_address(sockets: Path, service: str) -> str:
    """Return the address at which a service is asked, in the private folder of a run's sockets.

    Raises:
        LinkError: Others can enter the folder.
    """
    check_private(sockets)
    return ipc_address(sockets, f"{service}.ask")


#: Name, dtype and shape of every array of a file.
Specs: TypeAlias = tuple[tuple[str, str, tuple[int, ...]], ...]


def _is_count(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:  # noqa: ARG001 - attrs' signature
    if type(value) is not int or not 0 <= value < 2**62:
        raise ValueError(f"{attribute.name}: expected a number ≥ 0, got {repr(value)[:64]}")


def _is_specs(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:  # noqa: ARG001
    unpack_specs(value)


def _is_text(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:  # noqa: ARG001
    if type(value) is not str or len(value) > _MAX_TEXT:
        raise ValueError(f"{attribute.name}: expected a text, got {repr(value)[:64]}")


@frozen
class Open:
    """Begin, or begin anew with another area: networks of `player` with that `architecture`, at most `rows` rows.

    No slot holds a model.
    """

    number: int = field(validator=_is_count)
    player: str = field(validator=_is_text)
    architecture: str = field(validator=_is_text)
    file: str = field(validator=_is_text)
    specs: Specs = field(validator=_is_specs)
    rows: int = field(validator=_is_count)


@frozen
class Know:
    """A slot holds the model with the content `key`."""

    number: int = field(validator=_is_count)
    slot: int = field(validator=_is_count)
    key: str = field(validator=_is_text)


@frozen
class Take:
    """As `Know`, with the weights in a file."""

    number: int = field(validator=_is_count)
    slot: int = field(validator=_is_count)
    key: str = field(validator=_is_text)
    file: str = field(validator=_is_text)
    specs: Specs = field(validator=_is_specs)


@frozen
class Drop:
    """A slot is empty."""

    number: int = field(validator=_is_count)
    slot: int = field(validator=_is_count)


@frozen
class ClientLeave:
    """The runtime is gone."""

    number: int = field(validator=_is_count)


@frozen
class Run:
    """Evaluate the first `rows` rows of the area.

    Attributes:
        spans: ``[n, 3] int64`` as bytes: slot, start, stop.
        privileged: Whether there are privileged leaves.
        state: Whether there are leaves of recurrent state.
    """

    number: int = field(validator=_is_count)
    rows: int = field(validator=_is_count)
    spans: bytes = field(validator=validators.instance_of(bytes))
    privileged: bool = field(validator=validators.instance_of(bool))
    state: bool = field(validator=validators.instance_of(bool))


@frozen
class Opened:
    """Answers lie in that file."""

    number: int = field(validator=_is_count)
    file: str = field(validator=_is_text)
    specs: Specs = field(validator=_is_specs)


@frozen
class Known:
    """Whether the server has the model, which the slot holds then."""

    number: int = field(validator=_is_count)
    known: bool = field(validator=validators.instance_of(bool))


@frozen
class Done:
    """The rows are evaluated: these leaves of the answer area are written."""

    number: int = field(validator=_is_count)
    leaves: tuple[str, ...] = field(validator=validators.deep_iterable(validators.instance_of(str)))


@frozen
class Lost:
    """The server has started anew, or has forgotten the runtime: open, and say everything again."""

    number: int = field(validator=_is_count)


@frozen
class Refused:
    """The server cannot do it, however often it is asked."""

    number: int = field(validator=_is_count)
    why: str = field(validator=_is_text)


Message: TypeAlias = Open | Know | Take | Drop | ClientLeave | Run | Opened | Known | Done | Lost | Refused
_KINDS = {kind.__name__: kind for kind in get_args(Message)}


def encode(message: Message) -> bytes:
    """Turn a message into a frame."""
    fields = [getattr(message, one.name) for one in attrs.fields(type(message))]
    packed: bytes = msgpack.packb([type(message).__name__, *fields])
    return _MAGIC + packed


def decode(frame: bytes) -> Message:
    """Turn a frame into a message.

    Raises:
        WireError: It is none.
    """
    if len(frame) > MAX_FRAME_BYTES or not frame.startswith(_MAGIC):
        raise WireError("not a message of the inference server")
    try:
        kind, *fields = msgpack.unpackb(
            frame[len(_MAGIC) :], use_list=False, max_array_len=_MAX_ITEMS, max_map_len=0, max_ext_len=0
        )
        message: Message = _KINDS[kind](*fields)
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        raise WireError(f"not a message: {type(error).__name__}: {error}") from None
    return message


def pack_specs(arrays: Mapping[str, ArraySpec]) -> Specs:
    """Return specs as they travel."""
    return tuple((name, spec.dtype, spec.shape) for name, spec in arrays.items())


def unpack_specs(specs: Specs) -> Layout:
    """Return the layout of a file as a message declares it.

    Raises:
        WireError: It declares something impossible.
    """
    arrays = {}
    for name, dtype, shape in specs:
        if type(name) is not str or type(dtype) is not str or len(name) > _MAX_TEXT:
            raise WireError("an array without a name or dtype")
        if type(shape) is not tuple or not all(type(size) is int and 0 <= size < 2**40 for size in shape):
            raise WireError(f"{name[:64]}: impossible shape")
        arrays[name] = ArraySpec(dtype=dtype, shape=shape)
    return Layout(arrays)


def spans_of(run: Run) -> np.ndarray:
    """Return the spans of a request, ``[n, 3] int64``.

    Raises:
        WireError: They do not cover its rows in order.
    """
    if not run.spans or len(run.spans) % 24:
        raise WireError("spans are not triples of numbers")
    spans = np.frombuffer(run.spans, np.int64).reshape(-1, 3)
    bounds = [0, *spans[:, 2].tolist()]
    if bounds[:-1] != spans[:, 1].tolist() or bounds[-1] != run.rows or (spans[:, 1] > spans[:, 2]).any():
        raise WireError(f"spans do not cover {run.rows} rows in order")
    return spans
