"""The reward of an exploiter that reads its opponent's own evaluation [Minimax §4.2]."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from ludus.errors import ContractError

if TYPE_CHECKING:
    from ludus.segment import SegmentBatch
    from torch import Tensor

__all__ = ["OPPONENT_VALUE", "lowest", "minimax_reward", "minimax_term", "opponent_value", "shift"]

#: The field that samplers fill with the opponents' evaluation, NaN where there is none.
OPPONENT_VALUE = "opponent_value"

_Array = TypeVar("_Array", "np.ndarray", "Tensor")


def minimax_term(opponent_value: _Array, seen: _Array, *, alpha: float, gamma: float, r_min: float) -> _Array:
    """Return what is added to the reward: -alpha gamma (V_opp(s_{t+1}) + |R_min|) [Minimax eq. 3, 4].

    It is at most 0 wherever V_opp ≥ R_min, for R_min ≤ 0 as for R_min > 0. Sums over several decisions are as good as
    single ones, if both arguments are summed with the same weights.

    Args:
        opponent_value: ``[…]``: V_opp(s_{t+1}), 0 where there is none.
        seen: ``[…]`` of the same dtype: 1 where there is an evaluation, 0 where there is none (d = 1 in the paper).
        alpha: At least 0, how much the opponent's opinion counts.
        gamma: The discount of eq. 3, which need not be that of the learner.
        r_min: R_min, the least that the opponent may expect; 0 for no shift.
    """
    return -alpha * gamma * (opponent_value + abs(r_min) * seen)


def minimax_reward(
    reward: np.ndarray, opponent_value: np.ndarray, *, alpha: float, gamma: float, r_min: float
) -> np.ndarray:
    """Return R' = R - alpha gamma (1 - d) (V_opp(s_{t+1}) + |R_min|) [Minimax eq. 3, 4].

    Args:
        reward: ``[…] float32``: R(s_t, a_t).
        opponent_value: ``[…] float32``: V_opp(s_{t+1}); NaN where nobody evaluated the position that the decision led
            to, most of all because the decision ended the match. The reward stays as it is there.
        alpha: As for `minimax_term`.
        gamma: As for `minimax_term`.
        r_min: As for `minimax_term`.

    Returns:
        ``[…] float32``.
    """
    seen = ~np.isnan(opponent_value)
    value = np.where(seen, opponent_value, np.float32(0))
    added = minimax_term(value, seen.astype(np.float32), alpha=alpha, gamma=gamma, r_min=r_min)
    return np.asarray(reward + added, np.float32)


def opponent_value(batch: SegmentBatch, *, algorithm: str) -> np.ndarray:
    """Return V_opp(s_{t+1}) ``[T+1, N] float32`` of a batch, NaN where there is none or nothing is learned.

    Args:
        batch: With the field `OPPONENT_VALUE`.
        algorithm: Who asks, for messages.

    Raises:
        ContractError: Segments do not carry it, or a value is infinite.
    """
    if OPPONENT_VALUE not in batch.extras:
        raise ContractError(f"{algorithm}: the segments carry no {OPPONENT_VALUE}, which minimax_alpha > 0 needs")
    value = np.where(batch.trainable(), batch.extras[OPPONENT_VALUE], np.float32(np.nan))
    if np.isinf(value).any():
        raise ContractError(f"{algorithm}: {OPPONENT_VALUE} is infinite; the update was dropped")
    return value


def lowest(opponent_value: np.ndarray) -> float:
    """Return the least that an opponent expected, infinity where nobody evaluated anything.

    Args:
        opponent_value: ``[…]``, NaN where there is none.
    """
    return float(np.fmin.reduce(opponent_value, axis=None, initial=math.inf))


def shift(kind: str, *, fixed: float, tracked: float) -> float:
    """Return the R_min that `minimax_term` shifts by.

    Args:
        kind: ``"none"``, ``"fixed"`` or ``"tracked"``.
        fixed: R_min where it is known.
        tracked: The least evaluation so far; infinity before the first one, which shifts by nothing.
    """
    if kind == "fixed":
        return fixed
    return tracked if kind == "tracked" and math.isfinite(tracked) else 0.0
