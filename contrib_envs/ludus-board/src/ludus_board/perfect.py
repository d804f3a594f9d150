"""Perfect play at Tic-Tac-Toe by table."""

from __future__ import annotations

from functools import cache

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves

from ludus_board.rules import TicTacToe

_POWERS = 3 ** np.arange(9)  # a position's code: the sum over cells of 3^cell times 0 (empty), 1 (own stone) or 2
_DIGITS = np.arange(3**9)[:, None] // _POWERS % 3


@cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """Return the value of each position to the seat to move, ``[19683] int8``, and its best moves, ``[19683, 9] bool``.

    Computed backwards from full boards: the value of a move is minus the value of the next position.
    """
    bits = 1 << np.arange(9)
    lost = TicTacToe().won((_DIGITS == 2) @ bits)
    turned = ((3 - _DIGITS) % 3) @ _POWERS  # the same position from the opponent's side
    count = (_DIGITS > 0).sum(axis=1)
    value = np.where(lost, -1, 0).astype(np.int8)
    best = np.zeros((3**9, 9), bool)
    for stones in range(8, -1, -1):
        codes = np.flatnonzero((count == stones) & ~lost)
        empty = _DIGITS[codes] == 0
        after = turned[codes[:, None] + np.where(empty, _POWERS, 0)]
        worth = np.where(empty, -value[after], -2)
        value[codes] = worth.max(axis=1)
        best[codes] = worth == value[codes, None]
    return value, best


class PerfectAgent:
    """Plays a move of best game value, chosen uniformly among those.

    Args:
        config: None; there are no options.
        spec: Spec of Tic-Tac-Toe.
        role: Role that the agent plays.
    """

    def __init__(self, config: None, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - one game, one role
        self._value, self._best = _tables()

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
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Decide and evaluate; see `ludus.agent.EvaluatingAgent`."""
        codes = _codes(observation)
        keys = rng.random((len(seat_ids), 9), dtype=np.float32)
        chosen: np.ndarray = np.argmax(keys * self._best[codes], axis=1)
        return chosen[:, None], self._value[codes].astype(np.float32)

    def evaluate(self, observation: Leaves, action_mask: np.ndarray | None) -> np.ndarray:  # noqa: ARG002 - as in act
        """Return ``[n] float32``: 1 where the seat to move wins under perfect play, 0 for a draw, -1 for a loss."""
        value: np.ndarray = self._value[_codes(observation)]
        return value.astype(np.float32)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""


def _codes(observation: Leaves) -> np.ndarray:
    board = observation["obs"].reshape(-1, 9, 2)
    codes: np.ndarray = (board[:, :, 0] + 2 * board[:, :, 1]).astype(np.int64) @ _POWERS
    return codes
