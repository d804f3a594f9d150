"""Blocks of replays and their bytes.

A block holds the replays that a worker writes at once. Its bytes are a header of fixed size, an index and a payload.
The header has the sizes of both parts and their hashes; index and payload are safetensors data compressed by zlib. A
reader checks every size against a limit and against the file before it allocates memory, and the hash before it parses
a part. docs/running.md#format-of-replay-files describes the arrays.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import cattrs
import numpy as np
import safetensors.numpy
from attrs import frozen

from ludus._replays.streams import (
    CONVERTER,
    BlockStreams,
    MatchStream,
    check_streams,
    parse_streams,
    split_arrays,
    split_streams,
    stream_arrays,
    stream_meta,
)
from ludus.environment import EnvironmentSpec
from ludus.errors import ReplayError
from ludus.records import Fixture

VERSION = 2
MAX_PART_BYTES = 256 * 2**20  #: Size of an index or payload, compressed or not.
MAX_MATCHES = 2**20  #: Replays of a block.

_READ_VERSIONS = (1, VERSION)  # blocks of version 1 have no streams
_MAGIC = b"LRPL"
_DIGEST_BYTES = 16
_SIZES = struct.Struct("<4sHHIIII")  # magic, version, 0, index and payload: compressed and original size of each
HEADER_BYTES = _SIZES.size + 2 * _DIGEST_BYTES

_META = "replays"
_INDEX_DTYPES = {"fixture": np.int64, "number": np.int64, "ticks": np.int32, "outcome": np.float32}
_PAYLOAD_DTYPES = {"first_hash": np.uint8, "hashes": np.uint32, "final_hash": np.uint32, "decisions": np.int32}
_ACTIONS = "actions/"


@frozen(eq=False, kw_only=True)
class BlockIndex:
    """Which matches a block holds.

    Attributes:
        fixture: ``[n] int64`` ids of fixtures.
        number: ``[n] int64`` numbers of matches in their fixtures.
        ticks: ``[n] int32``, at least 1.
        outcome: ``[n, teams] float32``.
    """

    fixture: np.ndarray
    number: np.ndarray
    ticks: np.ndarray
    outcome: np.ndarray


@frozen(eq=False, kw_only=True)
class ReplayBlock:
    """The replays of n matches.

    Attributes:
        index: The matches.
        environment: Name of the environment.
        hash_interval: Ticks between two hashes of a match.
        fixtures: The fixtures of the matches, by id; scenarios name the built-in bots.
        first_hash: ``[n] uint8``, the tick of the first hash of each match.
        hashes: ``[h] uint32``, the hashes of all matches, match by match, see `count_hashes`.
        final_hash: ``[n] uint32``, of the final observations and the returns.
        decisions: ``[n, roles] int32``, the number of decisions of each match by role, in alphabetical order.
        actions: ``[d, L]`` by role, in alphabetical order: the actions of all decisions, by match, tick and seat.
        streams: Their streams, if they cannot be played again; else None.
    """

    index: BlockIndex
    environment: str
    hash_interval: int
    fixtures: Mapping[int, Fixture]
    first_hash: np.ndarray
    hashes: np.ndarray
    final_hash: np.ndarray
    decisions: np.ndarray
    actions: Mapping[str, np.ndarray]
    streams: BlockStreams | None = None


@frozen(eq=False, kw_only=True)
class Replay:
    """The record of one match.

    Attributes:
        fixture: Its fixture; the scenario names the built-in bots.
        number: Number of the match in the fixture.
        ticks: Length.
        outcome: Points per team.
        actions: ``[d, L]`` by role: the actions of all decisions, ordered by tick and seat.
        hashes: Hash of the state by tick.
        final_hash: Hash of the final observations and the returns.
        stream: What is shown of a match that cannot be played again; else None.
        place: File and position, for messages.
    """

    fixture: Fixture
    number: int
    ticks: int
    outcome: tuple[float, ...]
    actions: Mapping[str, np.ndarray]
    hashes: Mapping[int, int]
    final_hash: int
    stream: MatchStream | None = None
    place: str = ""

    @property
    def name(self) -> str:
        """Return ``FIXTURE.NUMBER``, the name of the match in commands."""
        return f"{self.fixture.id}.{self.number}"


def count_hashes(ticks: np.ndarray, first_hash: np.ndarray, interval: int) -> np.ndarray:
    """Return ``[n]``: the number of hashes of matches of `ticks` ticks, whose first hash is at tick `first_hash`."""
    counts: np.ndarray = np.maximum(0, -((first_hash.astype(np.int64) - ticks) // interval))
    return counts


# -- writing ---------------------------------------------------------------------------------------------------------


def encode_block(block: ReplayBlock) -> bytes:
    """Return the bytes of a block.

    Raises:
        ReplayError: A part is larger than `MAX_PART_BYTES`.
    """
    index = {name: getattr(block.index, name) for name in _INDEX_DTYPES}
    payload = {name: getattr(block, name) for name in _PAYLOAD_DTYPES}
    payload |= {f"{_ACTIONS}{role}": actions for role, actions in block.actions.items()}
    meta: dict[str, Any] = {
        "environment": block.environment,
        "hash_interval": block.hash_interval,
        "fixtures": [_fixture_values(fixture) for fixture in block.fixtures.values()],
    }
    if block.streams is not None:
        payload |= stream_arrays(block.streams)
        meta["streams"] = stream_meta(block.streams)
    parts = [
        safetensors.numpy.save(_contiguous(index)),
        safetensors.numpy.save(_contiguous(payload), metadata={_META: json.dumps(meta)}),
    ]
    if max(map(len, parts)) > MAX_PART_BYTES:
        raise ReplayError(f"replays of {max(map(len, parts))} bytes: expected at most {MAX_PART_BYTES} in one block")
    packed = [zlib.compress(part, 1) for part in parts]
    sizes = [size for pair in zip(map(len, packed), map(len, parts), strict=True) for size in pair]
    fixed = _SIZES.pack(_MAGIC, VERSION, 0, *sizes)
    return b"".join([fixed, _digest(fixed + packed[0]), _digest(packed[1]), *packed])


def _fixture_values(fixture: Fixture) -> dict[str, Any]:
    """Return the JSON values of a fixture; the league has the hashes of its models."""
    values: dict[str, Any] = cattrs.unstructure(fixture)
    del values["models"]
    return values


def _contiguous(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


# -- reading ---------------------------------------------------------------------------------------------------------


@frozen
class BlockHeader:
    """The parsed header of a block.

    Attributes:
        fixed: The header without its hashes.
        sizes: Compressed and original size of the index, then of the payload, in bytes.
        digests: Hashes of index and payload.
    """

    fixed: bytes
    sizes: tuple[int, ...]
    digests: tuple[bytes, bytes]

    @property
    def index_bytes(self) -> int:
        """Return the size of the compressed index."""
        return self.sizes[0]

    @property
    def payload_bytes(self) -> int:
        """Return the size of the compressed payload."""
        return self.sizes[2]


def decode_header(data: bytes, *, remaining: int) -> BlockHeader:
    """Parse the header of a block.

    Args:
        data: ``HEADER_BYTES`` bytes.
        remaining: Bytes of the file behind the header.

    Raises:
        ReplayError: It is no header, of another version, or its sizes exceed a limit or the file.
    """
    magic, version, _, *sizes = _SIZES.unpack(data[: _SIZES.size])
    if magic != _MAGIC:
        raise ReplayError("no block of replays starts here")
    if version not in _READ_VERSIONS:
        raise ReplayError(f"version {version} of the format; expected {VERSION} — update ludus")
    if max(sizes) > MAX_PART_BYTES:
        raise ReplayError(f"declares a part of {max(sizes)} bytes; expected at most {MAX_PART_BYTES}")
    if sizes[0] + sizes[2] > remaining:
        raise ReplayError(f"declares {sizes[0] + sizes[2]} bytes, but the file has {remaining} more: it was cut")
    hashes = data[_SIZES.size :]
    return BlockHeader(data[: _SIZES.size], tuple(sizes), (hashes[:_DIGEST_BYTES], hashes[_DIGEST_BYTES:]))


def decode_index(header: BlockHeader, data: bytes) -> BlockIndex:
    """Parse the index of a block.

    Raises:
        ReplayError: It does not match its hash, or is malformed.
    """
    if _digest(header.fixed + data) != header.digests[0]:
        raise ReplayError("the header or the index was changed: it does not match its hash")
    arrays, _ = _parse_part(data, header.sizes[1])
    _check_dtypes(arrays, _INDEX_DTYPES)
    n, outcome = arrays["fixture"].size, arrays["outcome"]
    vectors = [arrays[name].shape for name in ("fixture", "number", "ticks")]
    if vectors != [(n,)] * 3 or outcome.ndim != 2 or len(outcome) != n or not 0 < n <= MAX_MATCHES:
        raise ReplayError("the index has arrays of wrong shapes")
    if arrays["ticks"].min() < 1:
        raise ReplayError("the index has a match without ticks")
    return BlockIndex(**arrays)


def decode_payload(header: BlockHeader, index: BlockIndex, data: bytes) -> ReplayBlock:
    """Parse the payload of a block.

    Raises:
        ReplayError: It does not match its hash, or is malformed.
    """
    if _digest(data) != header.digests[1]:
        raise ReplayError("the payload was changed: it does not match its hash")
    arrays, meta = _parse_part(data, header.sizes[3])
    own, arrays = split_arrays(arrays)
    roles = sorted(name for name in arrays if name.startswith(_ACTIONS))
    actions = {name.removeprefix(_ACTIONS): arrays[name] for name in roles}
    plain = {name: array for name, array in arrays.items() if not name.startswith(_ACTIONS)}
    _check_dtypes(plain, _PAYLOAD_DTYPES)
    streams_meta = meta.pop("streams", None) if isinstance(meta, dict) else None
    fields: dict[str, Any] = {**plain, **_parse_meta(meta)}
    block = ReplayBlock(index=index, actions=actions, streams=parse_streams(own, streams_meta), **fields)
    _check_payload(block)
    return block


def _parse_part(data: bytes, size: int) -> tuple[dict[str, np.ndarray], Any]:
    """Return the arrays and the metadata of a compressed part, whose original size is `size`."""
    try:
        unpacker = zlib.decompressobj()
        part = unpacker.decompress(data, size + 1)
        if len(part) != size or not unpacker.eof:
            raise ReplayError("a part has another size than declared")
        arrays = safetensors.numpy.load(part)
        header = json.loads(part[8 : 8 + int.from_bytes(part[:8], "little")])
        return arrays, json.loads((header.get("__metadata__") or {}).get(_META, "null"))
    except (zlib.error, safetensors.SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise error if isinstance(error, ReplayError) else ReplayError(f"a part is malformed ({error})") from error


def _check_dtypes(arrays: Mapping[str, np.ndarray], dtypes: Mapping[str, Any]) -> None:
    if {name: array.dtype for name, array in arrays.items()} != {name: np.dtype(kind) for name, kind in dtypes.items()}:
        raise ReplayError(f"expected the arrays {', '.join(dtypes)}, got {', '.join(arrays)}")


def _parse_meta(meta: Any) -> dict[str, Any]:
    try:
        fixtures = CONVERTER.structure(meta.pop("fixtures"), list[Fixture])
        environment, interval = meta.pop("environment"), meta.pop("hash_interval")
        if meta or type(environment) is not str or type(interval) is not int or not 0 < interval < 256:
            raise ValueError("environment, hash_interval and fixtures")
    except Exception as error:  # cattrs raises errors of several kinds
        raise ReplayError(f"its metadata are malformed ({type(error).__name__})") from error
    return {
        "environment": environment,
        "hash_interval": interval,
        "fixtures": {fixture.id: fixture for fixture in fixtures},
    }


def _check_payload(block: ReplayBlock) -> None:
    """Check that the arrays of a block fit each other.

    Raises:
        ReplayError: They do not.
    """
    index = block.index
    if not _shapes_fit(block, index.ticks.size) or block.decisions.min(initial=0) < 0:
        raise ReplayError("its arrays have wrong shapes")
    if block.hashes.shape != (count_hashes(index.ticks, block.first_hash, block.hash_interval).sum(),):
        raise ReplayError("its number of hashes does not fit the lengths of its matches")
    if block.decisions.sum(axis=0, dtype=np.int64).tolist() != [len(actions) for actions in block.actions.values()]:
        raise ReplayError("its numbers of decisions and actions differ")
    if not set(index.fixture.tolist()) <= block.fixtures.keys():
        raise ReplayError("it lacks the fixture of a match")
    if block.streams is not None:
        check_streams(block.streams, index.ticks, dict(zip(block.actions, block.decisions.T, strict=True)))


def _shapes_fit(block: ReplayBlock, n: int) -> bool:
    return (
        block.first_hash.shape == block.final_hash.shape == (n,)
        and block.decisions.shape == (n, len(block.actions))
        and all(actions.ndim == 2 for actions in block.actions.values())
    )


# -- single replays --------------------------------------------------------------------------------------------------


def split_block(block: ReplayBlock, *, place: str = "") -> Iterator[Replay]:
    """Yield the replays of a block.

    Args:
        block: The block.
        place: File and position of the block, for messages.
    """
    index, interval = block.index, block.hash_interval
    hash_ends = np.cumsum(count_hashes(index.ticks, block.first_hash, interval)).tolist()
    action_ends = np.cumsum(block.decisions, axis=0, dtype=np.int64).tolist()
    hash_start, starts = 0, [0] * len(block.actions)
    streams = split_streams(block.streams, block.decisions)
    for i, fixture in enumerate(index.fixture.tolist()):
        first, hashes = int(block.first_hash[i]), block.hashes[hash_start : hash_ends[i]].tolist()
        bounds = zip(block.actions.items(), starts, action_ends[i], strict=True)
        yield Replay(
            fixture=block.fixtures[fixture],
            number=int(index.number[i]),
            ticks=int(index.ticks[i]),
            outcome=tuple(index.outcome[i].tolist()),
            actions={role: actions[start:stop] for (role, actions), start, stop in bounds},
            hashes={first + interval * k: value for k, value in enumerate(hashes)},
            final_hash=int(block.final_hash[i]),
            stream=streams[i] if streams else None,
            place=place,
        )
        hash_start, starts = hash_ends[i], action_ends[i]


def check_roles(replay: Replay, spec: EnvironmentSpec) -> str:
    """Return how the actions of a replay do not fit an environment, in words; empty if they fit."""
    expected = {role.name for role in spec.roles}
    if replay.actions.keys() != expected:
        return f"it has the roles {', '.join(sorted(replay.actions))}, {spec.name} has {', '.join(sorted(expected))}"
    if len(replay.fixture.participants) != len(spec.seats) or len(replay.outcome) != spec.num_teams:
        return f"it has other numbers of seats or teams than {spec.name}"
    return ""
