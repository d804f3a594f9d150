"""The rules of both games as pure functions on bitboards: one int64 per player and position.

Tic-Tac-Toe: bit = action = 3·row + column. Connect Four: bit = 7·column + height, six playable bits per
column and a seventh that stays empty, so that a row of four cannot run over into the next column.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Rules(Protocol):
    """Rules of a game of placing stones, for `BoardEnvironment`."""

    name: str
    shape: tuple[int, int]
    num_actions: int

    def legal(self, occupied: np.ndarray) -> np.ndarray:
        """Return ``[n, A] bool``: the legal actions on boards with the stones ``occupied [n]``."""

    def place(self, occupied: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the stone's bit and its cell (row-major from the top left), ``[n] int64`` each, of legal actions."""

    def won(self, stones: np.ndarray) -> np.ndarray:
        """Return ``bool`` in the shape of `stones`: the stones of one player contain a winning row."""


class TicTacToe:
    """Three in a row on a board of 3 by 3; action = 3·row + column."""

    name = "tictactoe"
    shape = (3, 3)
    num_actions = 9

    def __init__(self) -> None:
        boards = np.arange(512)
        lines = [0b111, 0b111000, 0b111000000, 0b1001001, 0b10010010, 0b100100100, 0b100010001, 0b1010100]
        self._won = np.any([boards & line == line for line in lines], axis=0)
        self._bits = np.int64(1) << np.arange(9)

    def legal(self, occupied: np.ndarray) -> np.ndarray:
        """Return ``[n, 9] bool``: the empty cells."""
        legal: np.ndarray = (occupied[:, None] & self._bits) == 0
        return legal

    def place(self, occupied: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: ARG002 - the contract's
        """Return bit and cell of each stone."""
        return self._bits[actions], actions

    def won(self, stones: np.ndarray) -> np.ndarray:
        """Return whether the stones contain three in a row."""
        won: np.ndarray = self._won[stones]
        return won


class ConnectFour:
    """Four in a row on six rows of seven columns; action = column."""

    name = "connect4"
    shape = (6, 7)
    num_actions = 7

    def __init__(self) -> None:
        columns = np.arange(7)
        self._tops = np.int64(1) << (7 * columns + 5)
        filled = (1 << np.arange(7)) - 1  # the six bits of a column holding 0…6 stones
        self._cell = np.zeros((64, 7), np.int64)
        self._cell[filled[:6]] = (5 - np.arange(6))[:, None] * 7 + columns

    def legal(self, occupied: np.ndarray) -> np.ndarray:
        """Return ``[n, 7] bool``: the columns that are not full."""
        legal: np.ndarray = (occupied[:, None] & self._tops) == 0
        return legal

    def place(self, occupied: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return bit and cell of each stone dropped into a column."""
        shift = actions * 7
        column = (occupied >> shift) & 63
        return (column + 1) << shift, self._cell[column, actions]

    def won(self, stones: np.ndarray) -> np.ndarray:
        """Return whether the stones contain four in a row."""
        found = np.zeros_like(stones)
        for step in (1, 7, 6, 8):  # up, right, and the two diagonals
            pairs = stones & (stones >> step)
            found |= pairs & (pairs >> (2 * step))
        won: np.ndarray = found != 0
        return won
