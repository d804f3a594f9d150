"""The protocol between runtimes in samplers, the clients, and the inference server.

A message is one small frame: a magic word with a version, then msgpack ``[kind, field, …]``. Observations, answers and
weights are in shared memory; each file is written by one side and mapped read-only by the other. A client sends one
request at a time and repeats it until it is answered; an answer contains the number of its request. ::

    client → server    RegisterClient    registers the client's request buffer
                       AssignModel       assigns the model of a content hash to a slot, if the server has it
                       UploadModel       assigns a model to a slot, with its weights
                       ClearSlot         clears a slot
                       EvaluateRequest   evaluates the first rows of the request buffer
                       ClientLeft        removes the client; not answered
    server → client    ClientRegistered, ModelStatus, EvaluateResult
                       UnknownClient     the client has to register again
                       RequestRejected   the request can never succeed
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

MAX_FRAME_BYTES = 1024 * 1024
_MAGIC = b"LUDI\x01"  # the last byte is the version
_MAX_ITEMS = 65536
_MAX_TEXT = 4096


def service_address(sockets: Path, service: str) -> str:
    """Return the address of a service in the private folder of a run's sockets.

    Raises:
        LinkError: Other users can enter the folder.
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
class _Numbered:
    """Base of the messages.

    Attributes:
        number: Number of the request; an answer repeats it.
    """

    number: int = field(validator=_is_count)


@frozen
class RegisterClient(_Numbered):
    """Registers a client, or its new request buffer; all of its slots are empty then.

    Attributes:
        player: Player whose network is evaluated.
        architecture: Hash of the network, see `ludus_inference_server.server.architecture_key`.
        file: Name of the request buffer.
        specs: Layout of the buffer.
        rows: Number of rows of the buffer.
    """

    player: str = field(validator=_is_text)
    architecture: str = field(validator=_is_text)
    file: str = field(validator=_is_text)
    specs: Specs = field(validator=_is_specs)
    rows: int = field(validator=_is_count)


@frozen
class AssignModel(_Numbered):
    """Assigns the model with the content hash `key` to a slot."""

    slot: int = field(validator=_is_count)
    key: str = field(validator=_is_text)


@frozen
class UploadModel(_Numbered):
    """Assigns a model to a slot, with its weights in a file of shared memory."""

    slot: int = field(validator=_is_count)
    key: str = field(validator=_is_text)
    file: str = field(validator=_is_text)
    specs: Specs = field(validator=_is_specs)


@frozen
class ClearSlot(_Numbered):
    """Clears a slot."""

    slot: int = field(validator=_is_count)


@frozen
class ClientLeft(_Numbered):
    """Removes the client."""


@frozen
class EvaluateRequest(_Numbered):
    """Evaluates the first `rows` rows of the request buffer.

    Attributes:
        spans: ``[n, 3] int64`` as bytes: slot, start, stop.
        privileged: Whether there are privileged leaves.
        state: Whether there are leaves of recurrent state.
    """

    rows: int = field(validator=_is_count)
    spans: bytes = field(validator=validators.instance_of(bytes))
    privileged: bool = field(validator=validators.instance_of(bool))
    state: bool = field(validator=validators.instance_of(bool))


@frozen
class ClientRegistered(_Numbered):
    """Answers `RegisterClient` with the file of the answers."""

    file: str = field(validator=_is_text)
    specs: Specs = field(validator=_is_specs)


@frozen
class ModelStatus(_Numbered):
    """Answers whether the server has the model and has assigned it."""

    available: bool = field(validator=validators.instance_of(bool))


@frozen
class EvaluateResult(_Numbered):
    """Answers `EvaluateRequest`: these leaves of the answer buffer are written."""

    leaves: tuple[str, ...] = field(validator=validators.deep_iterable(validators.instance_of(str)))


@frozen
class UnknownClient(_Numbered):
    """The server does not know the client: it was restarted, or has removed it."""


@frozen
class RequestRejected(_Numbered):
    """The request can never succeed."""

    reason: str = field(validator=_is_text)


Message: TypeAlias = (
    RegisterClient
    | AssignModel
    | UploadModel
    | ClearSlot
    | EvaluateRequest
    | ClientLeft
    | ClientRegistered
    | ModelStatus
    | EvaluateResult
    | UnknownClient
    | RequestRejected
)
_KINDS = {kind.__name__: kind for kind in get_args(Message)}


def encode(message: Message) -> bytes:
    """Encode a message."""
    fields = [getattr(message, one.name) for one in attrs.fields(type(message))]
    packed: bytes = msgpack.packb([type(message).__name__, *fields])
    return _MAGIC + packed


def decode(frame: bytes) -> Message:
    """Decode a message.

    Raises:
        WireError: The frame is not a valid message.
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
    """Return specs as messages contain them."""
    return tuple((name, spec.dtype, spec.shape) for name, spec in arrays.items())


def unpack_specs(specs: Specs) -> Layout:
    """Return the layout of a file as a message declares it.

    Raises:
        WireError: A name, dtype or shape is invalid.
    """
    arrays = {}
    for name, dtype, shape in specs:
        if type(name) is not str or type(dtype) is not str or len(name) > _MAX_TEXT:
            raise WireError("an array without a name or dtype")
        if type(shape) is not tuple or not all(type(size) is int and 0 <= size < 2**40 for size in shape):
            raise WireError(f"{name[:64]}: impossible shape")
        arrays[name] = ArraySpec(dtype=dtype, shape=shape)
    return Layout(arrays)


def decode_spans(run: EvaluateRequest) -> np.ndarray:
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
