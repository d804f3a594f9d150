"""Targets and losses of Q-learning as pure functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def masked(q: Tensor, mask: Tensor | None) -> Tensor:
    """Return ``q [n, A]`` with -inf for illegal actions."""
    return q if mask is None else q.masked_fill(~mask, -torch.inf)


def dueling_q(value: Tensor, advantage: Tensor) -> Tensor:
    """Return Q(s, a) = V(s) + A(s, a) - mean of A(s, ·) over all actions.

    Args:
        value: ``[n, 1]``.
        advantage: ``[n, A]``.
    """
    return value + advantage - advantage.mean(dim=1, keepdim=True)  # [n, A]


def td_target(
    reward: Tensor, discount: Tensor, *, next_target_q: Tensor, next_online_q: Tensor | None, next_mask: Tensor | None
) -> Tensor:
    """Return the target of Q(s, a): reward + discount · Q_target(s', a') with the best legal action a'.

    Args:
        reward: ``[n]``, summed over the decisions of a transition.
        discount: ``[n]``; 0 where the seat terminated.
        next_target_q: ``[n, A]``, Q-values of s' by the target network.
        next_online_q: ``[n, A]``, Q-values that choose a' (double Q-learning); None: those of the target network.
        next_mask: ``[n, A] bool``, with a legal action in every row; None: all legal.

    Returns:
        ``[n]``.
    """
    choosing_q = next_target_q if next_online_q is None else next_online_q
    best = masked(choosing_q, next_mask).argmax(dim=1, keepdim=True)  # [n, 1]
    return reward + discount * next_target_q.gather(1, best).squeeze(1)


def td_loss(q: Tensor, target: Tensor, *, kind: str, weight: Tensor | None = None) -> Tensor:
    """Return the mean loss of the TD errors.

    Args:
        q: ``[n]``, Q(s, a) of the actions taken.
        target: ``[n]``, without gradient.
        kind: ``"huber"`` (½ x² up to 1, |x| - ½ beyond) or ``"mse"`` (x²).
        weight: ``[n]``, importance weights; None: all 1.
    """
    losses = functional.smooth_l1_loss if kind == "huber" else functional.mse_loss
    if weight is None:
        return losses(q, target)
    return (weight * losses(q, target, reduction="none")).mean()
