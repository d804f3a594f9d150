"""Messages come out as they went in, and nothing else comes out."""

from __future__ import annotations

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus.errors import WireError
from ludus_inference_server import protocol
from ludus_inference_server.protocol import (
    AssignModel,
    ClearSlot,
    ClientLeft,
    ClientRegistered,
    EvaluateRequest,
    EvaluateResult,
    ModelStatus,
    RegisterClient,
    RequestRejected,
    UnknownClient,
    UploadModel,
    decode,
    decode_spans,
    encode,
    pack_specs,
    unpack_specs,
)
from ludus_local.memory import ArraySpec

SPECS = (("observation/x", "<f4", (8, 3)), ("heads/y", "|b1", (8,)))
MESSAGES = [
    RegisterClient(1, "main", "architecture", "file", SPECS, 8),
    AssignModel(2, 0, "key"),
    UploadModel(3, 5, "key", "file", SPECS),
    ClearSlot(4, 5),
    ClientLeft(4),
    EvaluateRequest(5, 8, np.array([[0, 0, 8]]).tobytes(), True, False),
    ClientRegistered(6, "file", SPECS),
    ModelStatus(7, False),
    EvaluateResult(8, ("heads/y",)),
    UnknownClient(9),
    RequestRejected(10, "it is Sunday"),
]


def frame(*content):
    """Return a frame of anything."""
    return b"LUDI\x01" + msgpack.packb(content)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_are_decoded_as_encoded(message):
    """All kinds."""
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "bad",
    [
        frame(),
        frame("Nothing", 1),
        frame(3, 1),
        frame("UnknownClient"),
        frame("UnknownClient", 1, 2),
        frame("UnknownClient", -1),
        frame("UnknownClient", 2**63),
        frame("UnknownClient", True),
        frame("UnknownClient", "1"),
        frame("AssignModel", 1, 0, b"key"),
        frame("AssignModel", 1, 0, "k" * 5000),
        frame("ModelStatus", 1, 1),
        frame("EvaluateResult", 1, [1]),
        frame("RegisterClient", 1, "p", "a", "f", [["x", "|O", [2]]], 2),
        frame("RegisterClient", 1, "p", "a", "f", [["x", "<f4", [-2]]], 2),
        frame("RegisterClient", 1, "p", "a", "f", [["x", "<f4", [2.0]]], 2),
        frame("RegisterClient", 1, "p", "a", "f", [["x", "<f4", b"\x02\x03"]], 2),
        frame("RegisterClient", 1, "p", "a", "f", [["x", "<f4"]], 2),
        frame("RegisterClient", 1, "p", "a", "f", [[1, "<f4", [2]]], 2),
        frame("RegisterClient", 1, "p", "a", "f", 7, 2),
        b"LUDI\x02" + msgpack.packb(["UnknownClient", 1]),
        b"LUDI\x01" + b"\x00" * protocol.MAX_FRAME_BYTES,
    ],
    ids=range(22),
)
def test_invalid_frames_are_rejected(bad):
    """With WireError."""
    with pytest.raises(WireError):
        decode(bad)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes_are_rejected_or_decoded(data):
    """Nothing else can happen."""
    try:
        decode(b"LUDI\x01" + data)
    except WireError:
        return


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5) | st.binary(max_size=24),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(sorted(protocol._KINDS)), st.lists(ANYTHING, max_size=6))
def test_any_fields_are_rejected_or_encoded_again(kind, fields):
    """A decoded message is valid."""
    try:
        message = decode(frame(kind, *fields))
    except WireError:
        return
    assert decode(encode(message)) == message


def test_layouts_are_sent():
    """Names, dtypes and shapes."""
    specs = {"x": ArraySpec(dtype="<f4", shape=(8, 3))}
    assert unpack_specs(pack_specs(specs)).specs == specs


def test_spans_are_decoded():
    """In order, without gaps; a span may be empty."""
    spans = [[4, 0, 3], [1, 3, 3], [0, 3, 8]]
    run = EvaluateRequest(1, 8, np.array(spans).tobytes(), True, False)
    assert decode_spans(run).tolist() == spans
