"""Valid messages are decoded as they were encoded; anything else raises WireError."""

from __future__ import annotations

import collections.abc
import math
import struct
import sys
import tracemalloc
import typing
from functools import reduce

import attrs
import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from ludus._messaging.messages import CheckpointAck, Credit, Fixtures, Heartbeat, MetricsReport, Results, Segments, Stop
from ludus.environment import Scenario
from ludus.errors import WireError
from ludus.records import Fixture
from ludus.wire import MESSAGES, PROTOCOL
from ludus_local import codec
from ludus_local.codec import check_limits, decode, encode

SETTINGS = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
PREFIX = b"LUDS" + struct.pack("<H", PROTOCOL)
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ARRAYS = st.one_of(
    [hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)) for dtype in DTYPES]
)


def values(hint):
    """Return a strategy for all values of a field type."""
    simple = {
        str: TEXT,
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(),
        bool: st.booleans(),
        np.ndarray: ARRAYS,
    }
    if hint in simple:
        return simple[hint]
    if hint is Scenario:
        return st.builds(Scenario, name=st.from_regex(r"[a-z0-9][a-z0-9._-]{0,9}", fullmatch=True))
    if attrs.has(hint):
        hints = typing.get_type_hints(hint, localns={"np": np})
        return st.builds(hint, **{name: values(inner) for name, inner in hints.items()})
    inner = values(typing.get_args(hint)[0 if typing.get_origin(hint) is tuple else 1])
    if typing.get_origin(hint) is tuple:
        return st.lists(inner, max_size=3).map(tuple)
    assert typing.get_origin(hint) is collections.abc.Mapping
    return st.dictionaries(TEXT, inner, max_size=3)


messages = st.one_of([values(message_class) for message_class in MESSAGES])


def same(left, right):
    """Return whether two messages are equal, with NaN equal to itself and arrays compared by value and dtype."""
    if type(left) is not type(right):
        return False
    if attrs.has(type(left)):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in attrs.fields(type(left)))
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))


def well_typed(message):
    """Return whether every field of a message has the type of its hint."""
    hints = typing.get_type_hints(type(message), localns={"np": np})
    return all(fits_hint(getattr(message, name), hint) for name, hint in hints.items())


def fits_hint(value, hint):
    """Return whether a value has exactly the type of a hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return type(value) is tuple and all(fits_hint(entry, arguments[0]) for entry in value)
    if origin is not None:
        return type(value) is dict and all(type(k) is str and fits_hint(v, arguments[1]) for k, v in value.items())
    return type(value) is hint and (not attrs.has(hint) or well_typed(value))


def raw(kind, fields, *buffers, prefix=PREFIX):
    """Build frames by hand."""
    return [prefix + msgpack.packb([kind, fields]), *buffers]


def segments(**arrays):
    """Return a message with the given arrays."""
    return Segments(player="main_agent", block=1, arrays=arrays)


def segments_frames(arrays, *buffers):
    """Build frames of such a message by hand."""
    rest = {"pid": 1}
    return raw("Segments", {"player": "p", "block": 1, "arrays": arrays, **rest}, *buffers)


@SETTINGS
@given(messages)
def test_every_message_is_decoded_equal(message):
    """Whatever its fields contain."""
    assert same(decode(encode(message)), message)


@SETTINGS
@given(messages)
def test_messages_survive_joining_and_splitting_as_bytes(message):
    """Frames are plain bytes."""
    assert same(decode([bytes(frame) for frame in encode(message)]), message)


@SETTINGS
@given(st.lists(st.binary(max_size=200), max_size=4))
def test_random_frames_are_rejected(frames):
    """With WireError."""
    with pytest.raises(WireError):
        decode(frames)


@SETTINGS
@given(st.binary(max_size=200), st.lists(st.binary(max_size=20), max_size=2))
def test_random_headers_with_a_valid_prefix_are_rejected(header, buffers):
    """With WireError."""
    with pytest.raises(WireError):
        decode([PREFIX + header, *buffers])


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | TEXT | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@SETTINGS
@given(st.sampled_from(MESSAGES), st.data(), st.lists(st.binary(max_size=16), max_size=2))
def test_fields_of_arbitrary_content_never_break_the_decoder(message_class, data, buffers):
    """Right field names with any content give a well-typed message or a WireError."""
    fields = data.draw(st.fixed_dictionaries({f.name: _json for f in attrs.fields(message_class)}))
    try:
        message = decode(raw(message_class.__name__, fields, *buffers))
    except WireError:
        return
    assert well_typed(message)


@settings(SETTINGS, max_examples=200)
@given(messages, st.data())
def test_flipped_bits_give_a_well_typed_message_or_a_wire_error(message, data):
    """Damage anywhere in a valid message never leads to another exception or a wrong type."""
    frames = [bytearray(frame) for frame in encode(message)]
    target = data.draw(st.sampled_from([frame for frame in frames if frame]))
    for _ in range(data.draw(st.integers(1, 3))):
        target[data.draw(st.integers(0, len(target) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        damaged = decode([bytes(frame) for frame in frames])
    except WireError:
        return
    assert well_typed(damaged)


@SETTINGS
@given(messages, st.data())
def test_missing_and_additional_frames_are_rejected(message, data):
    """The header declares the number of frames."""
    frames = encode(message)
    with pytest.raises(WireError):
        decode([*frames, b"x"])
    with pytest.raises(WireError):
        decode(frames[: data.draw(st.integers(0, len(frames) - 1))])


def test_the_bytes_are_as_documented():
    """The layout is a contract between versions; a change requires a new PROTOCOL."""
    frames = encode(Results(report=3, arrays={"ticks": np.int32([[1, 2]])}))
    assert frames[0][:6] == b"LUDS" + struct.pack("<H", 17)
    assert msgpack.unpackb(frames[0][6:]) == [
        "Results",
        {"report": 3, "arrays": {"ticks": ["<i4", [1, 2]]}},
    ]
    assert bytes(frames[1]) == struct.pack("<ii", 1, 2)


def test_decoded_arrays_are_read_only_views_of_the_frames():
    """Nothing is copied."""
    buffer = bytearray(struct.pack("<ff", 1.0, 2.0))
    array = decode(segments_frames({"x": ["<f4", [2]]}, memoryview(buffer))).arrays["x"]
    assert not array.flags.writeable
    buffer[:4] = struct.pack("<f", 9.0)
    assert array[0] == 9.0


def test_large_contiguous_arrays_are_not_copied_by_encode():
    """The frame is the array's own memory."""
    array = np.zeros(1000)
    assert np.shares_memory(np.frombuffer(encode(segments(x=array))[1], np.uint8), array)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12).reshape(3, 4).T,
        np.arange(10)[::2],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.broadcast_to(np.float32(2), (2, 3)),
    ],
    ids=["transposed", "strided", "fortran", "broadcast"],
)
def test_arrays_of_any_memory_layout_are_encoded(array):
    """They become contiguous."""
    np.testing.assert_array_equal(decode(encode(segments(x=array))).arrays["x"], array)


def test_a_decoded_message_can_be_passed_on():
    """Read-only arrays encode like any other."""
    once = decode(encode(segments(x=np.arange(4), y=np.zeros((0, 2)))))
    assert same(decode(encode(once)), once)


@pytest.mark.parametrize("three", [3, np.float64(3)])
def test_integers_are_accepted_for_floats(three):
    """They are converted."""
    arrived = decode(encode(MetricsReport(values={"a": three})))
    assert type(arrived.values["a"]) is float


def test_lists_are_accepted_for_tuples_by_the_sender():
    """They are decoded as tuples."""
    assert decode(encode(Fixtures(fixtures=[]))) == Fixtures(fixtures=())


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (Heartbeat(count=np.int64(1)), r"Heartbeat cannot be sent: np\.int64\(1\) of type int64"),
        (Heartbeat(count=2**64), "18446744073709551616 of type int cannot be encoded"),
        (Stop(reason="\ud800"), "surrogate"),
        (MetricsReport(values={1: 2.0}), "int is not allowed for map key"),
        (segments(x=np.array(["a"])), "dtype <U1"),
        (segments(x=np.array([None])), r"dtype \|O"),
        (segments(x=np.zeros(2, ">f4")), "dtype >f4"),
        (segments(x=np.zeros(2, "M8[s]")), r"dtype <M8\[s\]"),
        (segments(x=np.zeros((1,) * 33)), "33 dimensions"),
        (Scenario(), "Scenario is not a message"),
        ("text", "str is not a message"),
    ],
)
def test_values_that_cannot_be_encoded_raise(message, problem):
    """In the sender."""
    with pytest.raises(WireError, match=problem):
        encode(message)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (Heartbeat(count=True), r"Heartbeat\.count: expected an integer, got True"),
        (Heartbeat(count=1.0), r"Heartbeat\.count: expected an integer, got 1\.0"),
        (Stop(reason=b"w"), r"Stop\.reason: expected a string, got b'w'"),
        (Fixtures(fixtures="ab"), r"Fixtures\.fixtures: expected a list, got 'ab'"),
        (Fixtures(fixtures=(Stop(),)), r"Fixtures\.fixtures\.0\.\w+: "),
        (MetricsReport(values={"a": "b"}), r"MetricsReport\.values\.a: expected a number, got 'b'"),
        (MetricsReport(values=None), "expected a table, got None"),
        (segments(x=[1, 2]), r"Segments\.arrays: expected \[dtype, shape\] of an array, got \[1, 2\]"),
    ],
)
def test_wrong_types_are_rejected_by_the_receiver(message, problem):
    """The error names the field."""
    with pytest.raises(WireError, match=problem):
        decode(encode(message))


@pytest.mark.parametrize(
    ("frames", "problem"),
    [
        ([], "no frames"),
        ([b"LUDS"], "too short"),
        (raw("Stop", {"reason": ""}, prefix=b"LUDX\x01\x00"), "not a ludus message"),
        (raw("Stop", {"reason": ""}, prefix=b"LUDS\x01\x00"), f"protocol 1, this process {PROTOCOL}"),
        ([PREFIX + b"\xc1"], "not valid msgpack"),
        ([PREFIX + b"\x91" * 3000 + b"\x00"], "StackError"),
        ([PREFIX + msgpack.packb([1, 2]) + b"\x00"], "ExtraData"),
        ([PREFIX + msgpack.packb({"kind": "Stop"})], r"not \[kind, fields\]"),
        (raw("stop", {"reason": ""}), "unknown message kind 'stop'"),
        (raw("Scenario", {"name": "a", "parameters": {}}), "unknown message kind 'Scenario'"),
        (raw("Mapping", {}), "unknown message kind 'Mapping'"),
        (raw("Stop", {}), "expected exactly the fields reason"),
        (raw("Stop", {"reason": "", "more": 1}), r"Stop has \['more', 'reason'\], expected exactly the fields reason"),
        (raw("Stop", ["reason"]), r"Stop has \['reason'\], expected exactly"),
        (raw("Stop", {"reason": None}), r"Stop\.reason: expected a string, got None"),
        (raw("Stop", {"reason": [[[["x"]]]]}), r"Stop\.reason: expected a string, got \[\["),
        (raw("Heartbeat", {"count": True}), r"Heartbeat\.count: expected an integer, got True"),
        (raw("Fixtures", {"fixtures": {}}), r"Fixtures\.fixtures: expected a list, got {}"),
        (raw("MetricsReport", {"values": []}), r"expected a table, got \[\]"),
        (raw("Stop", {"reason": ""}, b"x"), "more frames than declared"),
    ],
)
def test_errors_describe_the_damage(frames, problem):
    """One line for every kind."""
    with pytest.raises(WireError, match=problem):
        decode(frames)


@pytest.mark.parametrize(
    ("spec", "buffer", "problem"),
    [
        (["<f4", [2]], b"1234567", "takes 8 bytes, the frame has 7"),
        (["<f4", [2]], b"123456789", "takes 8 bytes, the frame has 9"),
        (["<f4", [-1, -2]], b"12345678", r"expected \[dtype, shape\]"),
        (["<f4", [2.0]], b"12345678", r"expected \[dtype, shape\]"),
        (["<f4", [True, 2]], b"12345678", r"expected \[dtype, shape\]"),
        (["<f4", 2], b"12345678", r"expected \[dtype, shape\]"),
        (["<f4"], b"12345678", r"expected \[dtype, shape\]"),
        (["|O", [1]], b"12345678", r"expected \[dtype, shape\]"),
        (["|V8", [1]], b"12345678", r"expected \[dtype, shape\]"),
        (["f4", [2]], b"12345678", r"expected \[dtype, shape\]"),
        ([[], [2]], b"12345678", r"expected \[dtype, shape\]"),
        (["<f8", [1] * 33], b"12345678", r"expected \[dtype, shape\]"),
        (["<f8", [2**63] * 300], b"", r"expected \[dtype, shape\]"),
        (["<f8", [2**62, 2**62]], b"", "the frame has 0"),
        (["<f8", [0, 2**62, 2**62]], b"", "impossible shape"),
        (["<f8", [0, 2**64 - 1]], b"", "impossible shape"),
        (["<f8", [0]], b"x", "takes 0 bytes, the frame has 1"),
        (["|b1", [3]], b"\x00\x01\x02", "bytes other than 0 and 1"),
    ],
)
def test_arrays_are_checked_against_their_frames(spec, buffer, problem):
    """Dtype and shape are verified before an array is made."""
    with pytest.raises(WireError, match=problem):
        decode(segments_frames({"x": spec}, buffer))


def test_a_missing_frame_is_named():
    """An array that was declared but not sent is an error of that field."""
    with pytest.raises(WireError, match=r"Segments\.arrays: its frame is missing"):
        decode(segments_frames({"x": ["<f4", [1]], "y": ["<f4", [1]]}, b"1234"))


def test_validators_of_classes_apply():
    """Such as that of a scenario's name."""
    fixture = Fixture(id=1, kind="train", player="p", participants=("p", "p"), seed=0, matches=1, reason="test")
    frames = encode(Fixtures(fixtures=(fixture,)))
    with pytest.raises(WireError, match=r"Fixtures\.fixtures\.0\.scenario\.name: expected a name"):
        decode([frames[0].replace(b"\xa7default", b"\xa7../../x")])


def test_the_header_is_limited():
    """To 512 KiB, for sender and receiver."""
    message = CheckpointAck(path="x" * 525_000)
    with pytest.raises(WireError, match="at most 524288"):
        encode(message)
    with pytest.raises(WireError, match="at most 524288"):
        decode(raw("CheckpointAck", {"path": "x" * 525_000}))


def test_the_number_of_arrays_is_limited():
    """To `MAX_ARRAYS`."""
    weights = {str(number): np.zeros(1) for number in range(codec.MAX_ARRAYS)}
    credit = Credit(player="p", acked=0, credits=1, version=1, weights=weights)
    assert len(decode(encode(credit)).weights) == codec.MAX_ARRAYS
    with pytest.raises(WireError, match=f"{codec.MAX_ARRAYS + 1} arrays"):
        encode(attrs.evolve(credit, weights={**weights, "more": np.zeros(1)}))


def test_the_number_of_items_is_limited():
    """In lists and maps, while the receiver parses them."""
    with pytest.raises(WireError, match="4097 exceeds"):
        encode(MetricsReport(values={str(number): 0.0 for number in range(4097)}))
    with pytest.raises(WireError, match="not valid msgpack"):
        decode(raw("Fixtures", {"fixtures": [0] * 4097}))


@pytest.mark.parametrize(("limit", "problem"), [("MAX_FRAME_BYTES", "array of 808"), ("MAX_TOTAL_BYTES", "in all")])
def test_the_size_of_arrays_is_limited(monkeypatch, limit, problem):
    """For sender and receiver; `check_limits` distinguishes it from other damage."""
    frames = encode(segments(x=np.zeros(101)))
    check_limits(frames, "message")
    monkeypatch.setattr(codec, limit, 800)
    with pytest.raises(WireError, match=r"^message: .* allowed"):
        check_limits(frames, "message")
    with pytest.raises(WireError, match=problem):
        encode(segments(x=np.zeros(101)))
    with pytest.raises(WireError, match=problem):
        decode(frames)


def test_headers_nested_too_deeply_are_rejected():
    """By the recursion limit of Python."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        with pytest.raises(WireError, match="nested too deeply"):
            decode(raw("Stop", {"reason": reduce(lambda inner, _: [inner], range(1000), "x")}))
    finally:
        sys.setrecursionlimit(limit)


def test_false_lengths_allocate_little():
    """A header that declares huge nested lists does not make the parser allocate memory."""
    liar = PREFIX + b"\xdc\x0f\xff" * 900
    tracemalloc.start()
    with pytest.raises(WireError):
        decode([liar])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 1024**2


def test_records_inside_messages_are_no_messages():
    """Classes that the module imports cannot be sent on their own."""
    with pytest.raises(WireError, match="Scenario is not a message"):
        encode(Scenario())
    with pytest.raises(WireError, match="Scenario"):
        decode(raw("Scenario", attrs.asdict(Scenario())))


def test_further_messages_can_be_registered(monkeypatch):
    """Unregistered classes are rejected."""

    @attrs.frozen
    class Whisper:
        loudness: float
        sound: collections.abc.Mapping[str, np.ndarray]

    monkeypatch.setattr(codec, "_kinds", dict(codec._kinds))
    message = Whisper(0.5, {"a": np.arange(3)})
    with pytest.raises(WireError, match="Whisper is not a message"):
        encode(message)
    codec.register(Whisper)
    received = decode(encode(message))
    assert (received.loudness, received.sound["a"].tolist()) == (0.5, [0, 1, 2])
