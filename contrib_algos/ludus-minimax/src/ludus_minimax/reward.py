"""The minimax reward: the reward of an exploiter, reduced by the opponent's own evaluation [Minimax §4.2]."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from ludus.errors import ContractError

if TYPE_CHECKING:
    from ludus.segment import SegmentBatch
    from torch import Tensor


#: Field that samplers fill with the opponents' evaluation, NaN where there is none.
OPPONENT_VALUE = "opponent_value"

_Array = TypeVar("_Array", "np.ndarray", "Tensor")


def minimax_term(opponent_value: _Array, evaluated: _Array, *, alpha: float, gamma: float, r_min: float) -> _Array:
    """Return the term that is added to the reward: -alpha gamma (V_opp(s_{t+1}) + |R_min|) [Minimax eq. 3, 4].

    It is at most 0 where V_opp ≥ R_min, for R_min of either sign. The term is linear: weighted sums of both arrays over
    several decisions give the weighted sum of the terms.

    Args:
        opponent_value: V_opp(s_{t+1}), ``[…]``; 0 where there is none.
        evaluated: 1 where there is an evaluation, 0 where there is none (d = 1 in the paper), ``[…]`` of the same
            dtype.
        alpha: Weight of the opponent's evaluation, ≥ 0.
        gamma: Discount of eq. 3, which may differ from that of the learner.
        r_min: R_min, the lowest evaluation that is possible; 0 for no shift.
    """
    return -alpha * gamma * (opponent_value + abs(r_min) * evaluated)


def minimax_reward(
    reward: np.ndarray, opponent_value: np.ndarray, *, alpha: float, gamma: float, r_min: float
) -> np.ndarray:
    """Return R' = R - alpha gamma (1 - d) (V_opp(s_{t+1}) + |R_min|) [Minimax eq. 3, 4].

    Args:
        reward: R(s_t, a_t), ``[…] float32``.
        opponent_value: V_opp(s_{t+1}), ``[…] float32``; NaN where no opponent evaluated the next position, usually
            because the decision ended the match. The reward does not change there.
        alpha: As for `minimax_term`.
        gamma: As for `minimax_term`.
        r_min: As for `minimax_term`.

    Returns:
        ``[…] float32``.
    """
    evaluated = ~np.isnan(opponent_value)
    value = np.where(evaluated, opponent_value, np.float32(0))
    term = minimax_term(value, evaluated.astype(np.float32), alpha=alpha, gamma=gamma, r_min=r_min)
    return np.asarray(reward + term, np.float32)


def opponent_value(batch: SegmentBatch, *, algorithm: str) -> np.ndarray:
    """Return V_opp(s_{t+1}) ``[T+1, N] float32`` of a batch, NaN where there is none or the entry is not trainable.

    Args:
        batch: Segments with the field `OPPONENT_VALUE`.
        algorithm: Name of the algorithm, for error messages.

    Raises:
        ContractError: The segments lack the field, or a value is infinite.
    """
    if OPPONENT_VALUE not in batch.extras:
        raise ContractError(f"{algorithm}: the segments carry no {OPPONENT_VALUE}, which minimax_alpha > 0 needs")
    value = np.where(batch.trainable(), batch.extras[OPPONENT_VALUE], np.float32(np.nan))
    if np.isinf(value).any():
        raise ContractError(f"{algorithm}: {OPPONENT_VALUE} is infinite; the update was dropped")
    return value


def lowest_value(opponent_value: np.ndarray) -> float:
    """Return the lowest evaluation, infinity if there is none.

    Args:
        opponent_value: ``[…]``, NaN where there is no evaluation.
    """
    return float(np.fmin.reduce(opponent_value, axis=None, initial=math.inf))


def choose_r_min(kind: str, *, fixed: float, tracked: float) -> float:
    """Return R_min for `minimax_term`.

    Args:
        kind: ``"none"``, ``"fixed"`` or ``"tracked"``.
        fixed: R_min of the kind ``"fixed"``.
        tracked: Lowest evaluation so far; infinity before the first one, for which R_min is 0.
    """
    if kind == "fixed":
        return fixed
    return tracked if kind == "tracked" and math.isfinite(tracked) else 0.0
