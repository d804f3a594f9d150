"""Depth-limited minimax at Connect Four, many positions at once."""

from __future__ import annotations

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves

from ludus_board import bitboard
from ludus_board.config import MinimaxConfig

_WIN = 100.0  # minus one per ply until the win; a value from `bitboard.open_rows` is below 1
_ILLEGAL = -1000.0
_CHUNK = 4096  # positions searched at once: bounds memory at depth 8 and keeps the arrays of a level in the cache


class MinimaxAgent:
    """Plays a move of best minimax value, chosen uniformly among those; prefers early wins and late losses.

    Args:
        config: Options of the agent.
        spec: Spec of Connect Four.
        role: Role that the agent plays.
    """

    def __init__(self, config: MinimaxConfig, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - one game, one role
        self._depth = config.depth
        self._windows = config.evaluate == "windows"

    def act(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        return self.act_and_evaluate(observation, action_mask=action_mask, seat_ids=seat_ids, rng=rng)[0]

    def act_and_evaluate(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - the board defines legal moves
        seat_ids: np.ndarray,  # noqa: ARG002 - it has no state
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Decide and evaluate; see `ludus.agent.EvaluatingAgent`."""
        values = self._values(observation)
        best = values.max(axis=1, keepdims=True)
        keys = rng.random(values.shape, dtype=np.float32)
        keys[values < best] = -1.0
        return np.expand_dims(keys.argmax(axis=1), 1), _game_value(best[:, 0])

    def evaluate(self, observation: Leaves, action_mask: np.ndarray | None) -> np.ndarray:  # noqa: ARG002 - as in act
        """Return ``[n] float32`` in [-1, 1], the minimax value of the seat to move: ±1 where it wins or loses.

        Positions without a legal move, and positions that are already lost, have no value.
        """
        return _game_value(self._values(observation).max(axis=1))

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""

    def _values(self, observation: Leaves) -> np.ndarray:
        own, other = bitboard.decode(observation["obs"])
        return move_values(own, other, depth=self._depth, windows=self._windows)


def _game_value(best: np.ndarray) -> np.ndarray:
    """Return the game value ``[n] float32`` of positions whose best move has the value `best`."""
    return np.asarray(np.clip(best, -1.0, 1.0), np.float32)


def move_values(own: np.ndarray, other: np.ndarray, *, depth: int, windows: bool = False) -> np.ndarray:
    """Return the minimax value of each column to the side to move.

    Args:
        own: ``[n] int64``, stones of the side to move.
        other: ``[n] int64``, stones of the opponent.
        depth: Number of plies to search, at least 1.
        windows: Whether positions at the horizon have the value `bitboard.open_rows` instead of 0.

    Returns:
        ``[n, 7] float32``: 100 - k for a win in k plies, k - 100 for a loss in k plies, else a value in (-1, 1);
        -1000 where the column is full.
    """
    moves = bitboard.moves(own | other)
    wins = bitboard.winning_squares(own, own | other)[:, None] & moves != 0
    values = np.where(wins, np.float32(_WIN - 1), np.float32(0))
    at, column = np.nonzero((moves != 0) & ~wins)
    children = own[at] | moves[at, column]
    values[at, column] = -_search(other[at], children, depth - 1, windows=windows)
    values[moves == 0] = _ILLEGAL
    # `_search` counts plies from the child position, which is one ply later
    decided = np.abs(values) > 1
    later = decided & ~wins & (moves != 0)
    values -= np.sign(values) * later
    return values


def _search(own: np.ndarray, other: np.ndarray, depth: int, *, windows: bool) -> np.ndarray:
    """Return the value of undecided positions to the side to move, ``[n] float32`` as in `move_values`."""
    if len(own) > _CHUNK:
        parts = range(0, len(own), _CHUNK)
        return np.concatenate(
            [_search(own[i : i + _CHUNK], other[i : i + _CHUNK], depth, windows=windows) for i in parts]
        )
    if depth == 0:
        return bitboard.open_rows(own, other) if windows else np.zeros(len(own), np.float32)
    occupied = own | other
    playable = bitboard.playable(occupied)
    wins = (bitboard.winning_squares(own, occupied) & playable) != 0
    values = np.where(wins, np.float32(_WIN - 1), np.float32(0))
    if depth == 1 and not windows:
        return values
    candidates = playable
    if depth >= 2:
        candidates = bitboard.safe_squares(bitboard.winning_squares(other, occupied), playable)
        values[~wins & (candidates == 0) & (playable != 0)] = 2 - _WIN
        if depth == 2 and not windows:
            return values
    at = np.flatnonzero(~wins & (candidates != 0))
    values[at] = _best_child(own[at], other[at], candidates[at], depth, windows=windows)
    return values


def _best_child(own: np.ndarray, other: np.ndarray, candidates: np.ndarray, depth: int, *, windows: bool) -> np.ndarray:
    """Return the value of the best candidate square, ``[n] float32``; no candidate wins at once."""
    squares = candidates[:, None] & bitboard.COLUMNS
    at, column = np.nonzero(squares)
    found = -_search(other[at], own[at] | squares[at, column], depth - 1, windows=windows)
    found -= np.sign(found) * (np.abs(found) > 1)
    values = np.full(squares.shape, np.float32(_ILLEGAL))
    values[at, column] = found
    best: np.ndarray = values.max(axis=1)
    return best
