"""Advantages of segments: generalized advantage estimation and V-trace.

Shapes: T + 1 entries of N segments. The successor of entry t is entry t + 1 unless ``terminated[t]``. Entries that are
    not
trainable (bootstrap entries, final observations) contribute their value to the entry before them and have advantage 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MAX_LOG_RATIO = 20.0  # ratios are clipped far below its exponential, which does not overflow


def gae(
    reward: Tensor, value: Tensor, *, terminated: Tensor, trainable: Tensor, discount: Tensor, gae_lambda: float
) -> Tensor:
    """Return generalized advantage estimates, ``[T+1, N] float32``.

    With follows[t] = 1 where entry t + 1 is the successor of entry t and 0 elsewhere::

        delta[t] = reward[t] + discount[t] · follows[t] · value[t+1] - value[t]
        advantage[t] = delta[t] + discount[t] · gae_lambda · follows[t] · advantage[t+1]

    Args:
        reward: ``[T+1, N] float32``.
        value: ``[T+1, N] float32``; undefined entries may hold anything.
        terminated: ``[T+1, N] bool``.
        trainable: ``[T+1, N] bool``; False in the last entry.
        discount: ``[T+1, N] float32``: gamma, or gamma to the power of the elapsed ticks.
        gae_lambda: λ.
    """
    zero = value.new_zeros(())
    follows = trainable[:-1] & ~terminated[:-1]
    next_value = torch.where(follows, value[1:], zero)
    delta = torch.where(trainable[:-1], reward[:-1] + discount[:-1] * next_value - value[:-1], zero)
    return _accumulate(delta, torch.where(follows, discount[:-1] * gae_lambda, zero))


def vtrace(
    reward: Tensor,
    value: Tensor,
    *,
    log_ratio: Tensor,
    terminated: Tensor,
    trainable: Tensor,
    discount: Tensor,
    gae_lambda: float,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return advantages and returns corrected for decisions of older weights: V-trace [IMPALA, eq. 1].

    With r = exp(log_ratio), rho = min(rho_clip, r), c = gae_lambda · min(c_clip, r) and follows as in `gae`::

        delta[t] = rho[t] · (reward[t] + discount[t] · follows[t] · value[t+1] - value[t])
        correction[t] = delta[t] + discount[t] · c[t] · follows[t] · correction[t+1]
        returns[t] = value[t] + correction[t]
        advantage[t] = reward[t] + discount[t] · follows[t] · returns[t+1] - value[t]

    The advantage is not weighted by rho: the ratio in the objective of PPO does that.

    Args:
        reward: ``[T+1, N] float32``.
        value: ``[T+1, N] float32`` of the current weights; undefined entries may hold anything.
        log_ratio: ``[T+1, N] float32``; log π(a|s) - log π_old(a|s) of whole actions.
        terminated: As for `gae`.
        trainable: As for `gae`.
        discount: As for `gae`.
        gae_lambda: λ; 1 is V-trace as published.
        rho_clip: Decides which values the value head converges to.
        c_clip: Decides how far corrections reach back.

    Returns:
        ``[T+1, N] float32`` each. Where nothing is trainable, advantages are 0 and returns are the values.
    """
    zero = value.new_zeros(())
    value = torch.where(trainable | torch.isfinite(value), value, zero)
    follows = trainable[:-1] & ~terminated[:-1]
    ratio = log_ratio[:-1].clamp(max=_MAX_LOG_RATIO).exp()
    rho, c = ratio.clamp(max=rho_clip), gae_lambda * ratio.clamp(max=c_clip)
    next_value = torch.where(follows, value[1:], zero)
    delta = rho * (reward[:-1] + discount[:-1] * next_value - value[:-1])
    delta = torch.where(trainable[:-1], delta, zero)
    returns = value + _accumulate(delta, torch.where(follows, discount[:-1] * c, zero))
    next_return = torch.where(follows, returns[1:], zero)
    advantage = torch.zeros_like(value)
    advantage[:-1] = torch.where(trainable[:-1], reward[:-1] + discount[:-1] * next_return - value[:-1], zero)
    return advantage, returns


def _accumulate(delta: Tensor, decay: Tensor) -> Tensor:
    """Return ``sums [T+1, N]`` with ``sums[t] = delta[t] + decay[t] · sums[t+1]`` and ``sums[T] = 0``."""
    sums = [torch.zeros_like(delta[0])]
    for delta_t, decay_t in zip(reversed(delta.unbind()), reversed(decay.unbind()), strict=True):
        sums.append(torch.addcmul(delta_t, decay_t, sums[-1]))
    return torch.stack(sums[::-1])
