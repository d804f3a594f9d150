"""Connect Four positions as bitboards: seven bits per column, the lowest at the bottom, the seventh always empty."""

from __future__ import annotations

import numpy as np

_BOTTOM = np.int64(sum(1 << 7 * column for column in range(7)))
_BOARD = _BOTTOM * 63  # the 42 squares
#: ``[7] int64``: the six squares of each column.
COLUMNS = np.int64(63) << (7 * np.arange(7))

# Weight of each observation entry (row from the top, column, plane) in the two bitboards; sums stay below 2^53, so
# that a float64 product is exact.
_SQUARES = 2.0 ** (7 * np.arange(7) + (5 - np.arange(6))[:, None]).reshape(42, 1)
_WEIGHTS = np.kron(_SQUARES, np.eye(2))


def decode(board: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return own and opponent's stones, ``[n] int64`` each, of observations ``[n, 6, 7, 2]`` (row 0 on top)."""
    both = (board.reshape(-1, 84).astype(np.float64) @ _WEIGHTS).astype(np.int64)
    return both[:, 0], both[:, 1]


def playable(occupied: np.ndarray) -> np.ndarray:
    """Return ``[n] int64``, the squares where the next stone can land."""
    squares: np.ndarray = (occupied + _BOTTOM) & _BOARD
    return squares


def moves(occupied: np.ndarray) -> np.ndarray:
    """Return ``[n, 7] int64``, the square of a stone dropped into each column, 0 where it is full."""
    squares: np.ndarray = playable(occupied)[:, None] & COLUMNS
    return squares


def winning_squares(stones: np.ndarray, occupied: np.ndarray) -> np.ndarray:
    """Return ``[n] int64``, the empty squares, playable or not, that complete four in a row for `stones`."""
    found: np.ndarray = (stones << 1) & (stones << 2) & (stones << 3)
    for step in (7, 6, 8):  # a row has the empty square at an end (…○○○_ or _○○○…) or inside (○_○○, ○○_○)
        ahead, behind = stones << step, stones >> step
        pair = ahead & (stones << 2 * step)
        found |= pair & ((stones << 3 * step) | behind)
        pair = behind & (stones >> 2 * step)
        found |= pair & ((stones >> 3 * step) | ahead)
    found &= _BOARD & ~occupied
    return found


def safe_squares(threats: np.ndarray, playable: np.ndarray) -> np.ndarray:
    """Return ``[n] int64``, the playable squares after which the opponent cannot win at once.

    Args:
        threats: ``[n] int64``, the opponent's winning squares.
        playable: ``[n] int64``.
    """
    forced = threats & playable
    safe: np.ndarray = np.where(forced != 0, forced, playable)
    safe &= ~(threats >> 1)  # not right below a threat
    safe[(forced & (forced - 1)) != 0] = 0  # two threats cannot both be blocked
    return safe


def open_rows(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return a heuristic value ``[n] float32`` in (-1, 1) from the 69 rows of four of the board.

    A row with stones of one side only counts 5 for three stones and 2 for two, and a stone in the middle column counts
    3; the difference x of the two sides gives x / (|x| + 50). A full board is worth 0.
    """
    middle = COLUMNS[3]
    score = 3 * (_count(own & middle) - _count(other & middle))
    empty = _BOARD & ~(own | other)
    for step in (1, 7, 6, 8):
        score += _row_score(own, empty, step) - _row_score(other, empty, step)
    value = score / (np.abs(score) + 50.0)
    return np.where(empty == 0, 0.0, value).astype(np.float32)


def _row_score(stones: np.ndarray, empty: np.ndarray, step: int) -> np.ndarray:
    """Return ``[n] int64``, the score of one side's open rows in one direction."""
    a, b, c, d = (stones >> (i * step) for i in range(4))
    usable = stones | empty
    usable = usable & (usable >> step)
    usable &= usable >> (2 * step)  # starts of rows without an opponent's stone
    either, both, either_2, both_2 = a ^ b, a & b, c ^ d, c & d
    three = (both & either_2) | (either & both_2)
    two = (both & ~(c | d)) | (both_2 & ~(a | b)) | (either & either_2)
    score: np.ndarray = 5 * _count(three & usable) + 2 * _count(two & usable)
    return score


def _count(bits: np.ndarray) -> np.ndarray:
    """Return the number of set bits of each entry."""
    bits = bits - ((bits >> 1) & 0x5555555555555555)
    bits = (bits & 0x3333333333333333) + ((bits >> 2) & 0x3333333333333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0F
    bits = bits + (bits >> 8)
    bits = bits + (bits >> 16)
    count: np.ndarray = (bits + (bits >> 32)) & 0x7F
    return count
