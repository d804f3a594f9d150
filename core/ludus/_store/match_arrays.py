"""Finished matches of one fixture as arrays, and their packed form in a row of the match log.

A row holds matches of one fixture whose numbers lie in one range of `NUMBERS_PER_ROW`. Its columns are:

``played``      how many matches these are
``numbers``     one bit per number of the range, lowest bit first, up to the last match; empty if the first ``played``
``outcomes``    number of distinct outcomes - 1 as one byte, these outcomes as float32, and an index into them per match
``ticks``       the smallest as four bytes, the bits of a difference as one byte, and the difference from it per match
``statistics``  empty, or zlib data: the number of seats by name as JSON, a newline, and the
                values of each name as float32

Indices and differences have as many bits as the largest one needs. Numbers are little-endian.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import attrs
import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

NUMBERS_PER_ROW = 256

_MAX_TICK_BITS = 31  # of a positive int32


@frozen(kw_only=True, eq=False)
class MatchArrays:
    """n finished matches of one fixture.

    Attributes:
        number: ``[n] int64``: the number of each match within its fixture.
        ticks: ``[n] int32``.
        outcome: ``[n, teams] float32``.
        statistics: ``[n, S] float32`` by ``"ROLE/NAME"``; NaN where a match has no such statistic.
    """

    number: NDArray[np.int64]
    ticks: NDArray[np.int32]
    outcome: NDArray[np.float32]
    statistics: Mapping[str, NDArray[np.float32]] = field(factory=dict)

    def __len__(self) -> int:
        return int(self.number.size)

    def take(self, rows: NDArray[Any] | slice) -> MatchArrays:
        """Return the matches that an index of arrays selects."""
        return MatchArrays(
            number=self.number[rows],
            ticks=self.ticks[rows],
            outcome=self.outcome[rows],
            statistics={name: values[rows] for name, values in self.statistics.items()},
        )

    def below(self, end: int) -> MatchArrays:
        """Return the matches with 0 ≤ number < `end`; the numbers must ascend."""
        if not len(self) or (self.number[0] >= 0 and self.number[-1] < end):
            return self
        return self.take((self.number >= 0) & (self.number < end))

    @staticmethod
    def join(parts: Sequence[MatchArrays]) -> MatchArrays:
        """Return the matches of parts that have the same statistics."""
        if len(parts) == 1:
            return parts[0]
        return MatchArrays(
            number=np.concatenate([part.number for part in parts]),
            ticks=np.concatenate([part.ticks for part in parts]),
            outcome=np.concatenate([part.outcome for part in parts]),
            statistics={
                name: np.concatenate([part.statistics[name] for part in parts]) for name in parts[0].statistics
            },
        )

    def merge(self, other: MatchArrays) -> MatchArrays:
        """Return the matches of both, ordered by number."""
        joined = MatchArrays.join([_with_statistics(self, other), _with_statistics(other, self)])
        return joined.take(np.argsort(joined.number))


def _with_statistics(matches: MatchArrays, other: MatchArrays) -> MatchArrays:
    """Return matches with the statistics of others, which are NaN where they were missing."""
    if matches.statistics.keys() == other.statistics.keys():
        return matches
    missing = {
        name: np.full((len(matches), values.shape[1]), np.nan, np.float32)
        for name, values in other.statistics.items()
        if name not in matches.statistics
    }
    return attrs.evolve(matches, statistics={**matches.statistics, **missing})


class PackedMatches(NamedTuple):
    """The columns of a row of the match log, see the module's documentation."""

    played: int
    numbers: bytes
    outcomes: bytes
    ticks: bytes
    statistics: bytes


def pack(matches: MatchArrays, *, first: int) -> PackedMatches:
    """Return the row of matches with different ascending numbers.

    Args:
        matches: At least one match.
        first: First number of the range of the row.
    """
    return PackedMatches(
        played=len(matches),
        numbers=_pack_numbers(matches.number - first),
        outcomes=_pack_outcomes(matches.outcome),
        ticks=_pack_ticks(matches.ticks),
        statistics=_pack_statistics(matches.statistics),
    )


def unpack(packed: PackedMatches, *, first: int, num_teams: int) -> MatchArrays:
    """Return the matches of a row; the inverse of `pack`.

    Raises:
        ValueError: The row is malformed.
    """
    return MatchArrays(
        number=first + unpack_numbers(packed),
        ticks=unpack_ticks(packed),
        outcome=unpack_outcomes(packed, num_teams=num_teams),
        statistics=unpack_statistics(packed),
    )


def _pack_numbers(offset: NDArray[np.int64]) -> bytes:
    if offset[-1] == len(offset) - 1:
        return b""
    played = np.zeros(offset[-1] + 1, np.uint8)
    played[offset] = 1
    return np.packbits(played, bitorder="little").tobytes()


def unpack_numbers(packed: PackedMatches) -> NDArray[np.int64]:
    """Return ``[n] int64``: the numbers of the matches of a row, counted from the first of its range.

    Raises:
        ValueError: The row is malformed.
    """
    offset = np.arange(packed.played)
    if packed.numbers:
        offset = np.flatnonzero(np.unpackbits(np.frombuffer(packed.numbers, np.uint8), bitorder="little"))
    if not 0 < len(offset) == packed.played or offset[-1] >= NUMBERS_PER_ROW:
        raise ValueError(f"expected the numbers of {packed.played} matches below {NUMBERS_PER_ROW}")
    return offset


def _pack_outcomes(outcome: NDArray[np.float32]) -> bytes:
    # Bytes are compared, so that equal outcomes of different bits stay different.
    rows = np.ascontiguousarray(outcome, "<f4").view(f"V{4 * outcome.shape[1]}").ravel().tolist()
    index = {row: i for i, row in enumerate(sorted(set(rows)))}
    codes = np.array([index[row] for row in rows])
    return bytes([len(index) - 1]) + b"".join(index) + _pack_bits(codes, (len(index) - 1).bit_length())


def unpack_outcomes(packed: PackedMatches, *, num_teams: int) -> NDArray[np.float32]:
    """Return ``[n, teams] float32``: the outcomes of the matches of a row.

    Raises:
        ValueError: The row is malformed.
    """
    count = 1 + int.from_bytes(packed.outcomes[:1], "little")
    end = 1 + count * num_teams * 4
    distinct = np.frombuffer(packed.outcomes[1:end], "<f4").reshape(count, num_teams)
    (codes,) = unpack_bits([packed.outcomes[end:]], (count - 1).bit_length(), packed.played)
    if codes.max(initial=0) >= count:
        raise ValueError("expected indices of outcomes")
    outcome: NDArray[np.float32] = distinct[codes]
    return outcome


def _pack_ticks(ticks: NDArray[np.int32]) -> bytes:
    low = int(ticks.min())
    bits = (int(ticks.max()) - low).bit_length()
    return low.to_bytes(4, "little") + bytes([bits]) + _pack_bits(ticks - low, bits)


def unpack_ticks(packed: PackedMatches) -> NDArray[np.int32]:
    """Return ``[n] int32``: the ticks of the matches of a row.

    Raises:
        ValueError: The row is malformed.
    """
    if len(packed.ticks) < 5 or packed.ticks[4] > _MAX_TICK_BITS:
        raise ValueError("expected ticks")
    low = int.from_bytes(packed.ticks[:4], "little")
    (more,) = unpack_bits([packed.ticks[5:]], packed.ticks[4], packed.played)
    ticks: NDArray[np.int32] = (low + more.astype(np.int64)).astype(np.int32)
    return ticks


def _pack_statistics(statistics: Mapping[str, NDArray[np.float32]]) -> bytes:
    if not statistics:
        return b""
    seats = json.dumps({name: values.shape[1] for name, values in statistics.items()})
    values = b"".join(np.ascontiguousarray(values, "<f4").tobytes() for values in statistics.values())
    return zlib.compress(seats.encode() + b"\n" + values)


def unpack_statistics(packed: PackedMatches) -> dict[str, NDArray[np.float32]]:
    """Return ``[n, S] float32`` by name: the statistics of the matches of a row, as in `MatchArrays`.

    Raises:
        ValueError: The row is malformed.
    """
    if not packed.statistics:
        return {}
    try:
        header, _, data = zlib.decompress(packed.statistics).partition(b"\n")
    except zlib.error as error:
        raise ValueError(f"statistics: {error}") from error
    seats = json.loads(header)
    values = np.frombuffer(data, "<f4").reshape(-1)
    ends = np.cumsum([packed.played * count for count in seats.values()])
    parts = np.split(values, ends)
    if parts.pop().size:
        raise ValueError("statistics: expected fewer values")
    return {name: part.reshape(packed.played, count) for (name, count), part in zip(seats.items(), parts, strict=True)}


def _pack_bits(values: NDArray[Any], bits: int) -> bytes:
    """Return the lowest `bits` ≤ 32 bits of all values, without gaps."""
    data = values.astype("<u4").view(np.uint8).reshape(-1, 4)
    return np.packbits(np.unpackbits(data, axis=1, count=bits, bitorder="little"), bitorder="little").tobytes()


def unpack_bits(rows: Sequence[bytes], bits: int, count: int) -> NDArray[Any]:
    """Return ``[rows, count]`` unsigned integers: the values of rows that hold `count` values of `bits` ≤ 32 bits each.

    Raises:
        ValueError: The rows have another length.
    """
    num_bytes = -(-count * bits // 8)
    data = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), num_bytes)
    values = np.unpackbits(data, axis=1, count=count * bits, bitorder="little").reshape(len(rows), count, bits)
    if bits <= 8:
        return np.packbits(values, axis=2, bitorder="little")[:, :, 0] if bits else np.zeros(values.shape[:2], np.uint8)
    words = np.zeros((*values.shape[:2], 32), np.uint8)
    words[:, :, :bits] = values
    return np.packbits(words, axis=2, bitorder="little").view("<u4")[:, :, 0]
