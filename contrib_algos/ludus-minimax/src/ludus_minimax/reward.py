"""The minimax reward: the reward of an exploiter, reduced by the opponent's own evaluation [Minimax §4.2]."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from ludus.errors import ContractError
from ludus.segment import Field

if TYPE_CHECKING:
    from ludus.segment import SegmentBatch
    from torch import Tensor


#: Field that samplers fill with the opponents' evaluation, NaN where there is none.
OPPONENT_VALUE = "opponent_value"
#: Field that samplers fill with the lowest evaluation of these opponents.
_LOWEST = "opponent_lowest"
#: What an algorithm with the minimax reward declares among its fields.
MINIMAX_FIELDS = (Field(OPPONENT_VALUE, source="opponents"), Field(_LOWEST, source="opponent-minima"))

_Array = TypeVar("_Array", "np.ndarray", "Tensor")


def minimax_term(opponent_value: _Array, shift: _Array, *, alpha: float, gamma: float) -> _Array:
    """Return the term that is added to the reward: -alpha gamma (V_opp(s_{t+1}) + |R_min|) [Minimax eq. 3, 4].

    It is at most 0 where V_opp ≥ R_min, for R_min of either sign. The term is linear: weighted sums of both arrays over
    several decisions give the weighted sum of the terms.

    Args:
        opponent_value: V_opp(s_{t+1}), ``[…]``; 0 where there is none (d = 1 in the paper).
        shift: |R_min|, ``[…]``; 0 where there is no evaluation.
        alpha: Weight of the opponent's evaluation, ≥ 0.
        gamma: Discount of eq. 3, which may differ from that of the learner.
    """
    term: _Array = -alpha * gamma * (opponent_value + shift)
    return term


def minimax_reward(
    reward: np.ndarray, opponent_value: np.ndarray, shift: np.ndarray, *, alpha: float, gamma: float
) -> np.ndarray:
    """Return R' = R - alpha gamma (1 - d) (V_opp(s_{t+1}) + |R_min|) [Minimax eq. 3, 4].

    Args:
        reward: R(s_t, a_t), ``[…] float32``.
        opponent_value: V_opp(s_{t+1}), ``[…] float32``; NaN where no opponent evaluated the next position, usually
            because the decision ended the match. The reward does not change there.
        shift: As for `minimax_term`.
        alpha: As for `minimax_term`.
        gamma: As for `minimax_term`.

    Returns:
        ``[…] float32``.
    """
    value = np.nan_to_num(opponent_value, nan=0.0)
    return np.asarray(reward + minimax_term(value, shift, alpha=alpha, gamma=gamma), np.float32)


def opponent_value(batch: SegmentBatch, *, algorithm: str) -> np.ndarray:
    """Return V_opp(s_{t+1}) ``[T+1, N] float32`` of a batch, NaN where there is none or the entry is not trainable.

    Args:
        batch: Segments with `MINIMAX_FIELDS`.
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


def shift(batch: SegmentBatch, value: np.ndarray, *, kind: str, fixed: float) -> np.ndarray:
    """Return |R_min| of eq. 4, ``[T+1, N] float32``; 0 where there is no evaluation.

    Args:
        batch: Segments with `MINIMAX_FIELDS`.
        value: The result of `opponent_value`.
        kind: ``"tracked"``: the lowest evaluation of the opponents that were met, 0 where it is unknown; ``"fixed"``;
            ``"none"``: 0.
        fixed: R_min of the kind ``"fixed"``.
    """
    r_min: np.ndarray | float = fixed if kind == "fixed" else 0.0
    if kind == "tracked":
        r_min = np.nan_to_num(batch.extras[_LOWEST], nan=0.0)
    return np.where(np.isnan(value), 0.0, np.abs(r_min)).astype(np.float32)
