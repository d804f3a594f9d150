"""Damage of the write-ahead log of a league database, which SQLite does not report.

A run that was killed leaves its newest commits in the log. SQLite reads the log up to the first frame whose checksum is
wrong, and drops the rest in silence: a crash leaves half a transaction there. That transaction holds one commit at
most, since every commit is synced before the next one begins. If more follow a wrong frame, the log is damaged.

The format is that of https://www.sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import functools
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

JOURNAL = "league.sqlite-wal"

_HEADER = struct.Struct(">8I")  # magic, version, page size, number of the log, 2 salts, 2 checksums
_FRAME = struct.Struct(">6I")  # page, pages of the database if it commits, 2 salts, 2 checksums
_MAGIC = 0x377F0682  # the lowest bit: checksums are of big-endian words
_MASK = 0xFFFFFFFF
_HEADER_WORDS = 6  # of which its checksums are
_READS = 3  # a writer may be writing the log; damage is there at every read
_PAUSE_S = 0.1


def lost_commits(path: Path) -> int:
    """Return the number of commits in a write-ahead log that SQLite drops because of damage.

    Args:
        path: The log, ``league.sqlite-wal``; it may be missing.
    """
    lost = 0
    for attempt in range(_READS):
        time.sleep(_PAUSE_S if attempt else 0)
        try:
            lost = _count_lost(path.read_bytes())
        except FileNotFoundError:
            return 0
        if not lost:
            return 0
    return lost


def _count_lost(data: bytes) -> int:
    if len(data) < _HEADER.size + _FRAME.size:
        return 0
    magic, _, page_size, _, *salts, first, second = _HEADER.unpack_from(data)
    size = _FRAME.size + page_size
    if magic & ~1 != _MAGIC or not 512 <= page_size <= 65536:
        return 0
    frames = np.frombuffer(data, np.uint8, (len(data) - _HEADER.size) // size * size, _HEADER.size).reshape(-1, size)
    fields = frames[:, : _FRAME.size].copy().view(">u4")  # as in `_FRAME`
    words = np.dtype(">u4" if magic & 1 else "<u4")
    head = np.frombuffer(data, words, _HEADER_WORDS).reshape(1, -1)
    sums = next(_running_sums(head, np.zeros(2, np.uint32)))
    has_salt, is_sound = fields[:, 2:4] == salts, sums.tolist() == [first, second]
    content = np.concatenate([frames[:, :8], frames[:, _FRAME.size :]], axis=1).view(words)
    found = zip(_running_sums(content, sums), fields[:, 4:6].tolist(), has_salt.all(axis=1), strict=True)
    read = [ours and got.tolist() == own for got, own, ours in found] if is_sound else []  # none after a wrong header
    valid = [*read, False].index(False)  # frames that SQLite reads
    of_log = has_salt.any(axis=1)  # one of the two may be damaged; frames of an earlier log have others
    lost = int(np.count_nonzero(of_log[valid:] & (fields[valid:, 1] != 0)))
    return lost if lost > 1 or not is_sound else 0


def _running_sums(blocks: np.ndarray, start: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the two checksums ``[2] uint32`` after each block.

    SQLite adds pairs of words (x, y) one after another: s ← s + x + t, then t ← t + y + s. With M = ((1, 1), (1, 2)),
    the sums after n pairs are M^n (s, t) + Σ M^(n-1-i) (x_i, x_i + y_i).

    Args:
        blocks: ``[B, 2n]`` words.
        start: The sums before the first block.
    """
    power, weights = _weights(blocks.shape[1] // 2)
    added = blocks.astype(np.uint32) @ weights
    sums = start
    for addend in added:
        sums = power @ sums + addend
        yield sums


@functools.cache
def _weights(pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``M^n [2, 2]`` and the weights ``[2n, 2]`` of n pairs of words in the two sums, all uint32."""
    a, b, d = 1, 0, 1  # M^k = ((a, b), (b, d))
    rows = []
    for _ in range(pairs):
        rows += [(b, d), (a + b, b + d)]  # y, x: the last pair is the first row
        a, b, d = (a + b) & _MASK, (b + d) & _MASK, (b + 2 * d) & _MASK
    return np.array([(a, b), (b, d)], np.uint32), np.array(rows[::-1], np.uint64).astype(np.uint32)


def describe_loss(lost: int) -> str:
    """Return a line about lost commits."""
    return f"{JOURNAL} is damaged: the newest {lost} commits, of some seconds of the run, are lost"
