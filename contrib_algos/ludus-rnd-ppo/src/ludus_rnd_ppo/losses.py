"""The formulas of random network distillation as pure functions of tensors.

Shapes: n rows, K features of the random network, T + 1 entries of N segments.
"""

from __future__ import annotations

import torch
from ludus_ppo.losses import gae
from torch import Tensor

__all__ = ["discounted_sums", "intrinsic_reward", "normalised", "prediction_error"]


def prediction_error(predicted: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared error over features of every row, ``[n]``; both arguments are ``[n, K]``."""
    return (predicted - target).square().mean(dim=1)


def normalised(leaf: Tensor, *, mean: Tensor, deviation: Tensor, clip: float) -> Tensor:
    """Return ``(leaf - mean) / deviation`` within ±clip, ``[n, …] float32``."""
    return ((leaf.float() - mean) / deviation).clamp(-clip, clip)


def intrinsic_reward(error: Tensor, *, decided: Tensor, terminated: Tensor) -> Tensor:
    """Return what each decision earns: the error at the observation that it led to.

    That is the next entry's. Where the match ended there is none that is ever decided at, so that the predictor would
    learn it; such a decision earns the error at its own observation, which makes ends neither good nor bad.

    Args:
        error: ``[T+1, N] float32``, the predictor's at every observation.
        decided: ``[T+1, N] bool``: entries at which somebody decided.
        terminated: ``[T+1, N] bool``.

    Returns:
        ``[T+1, N] float32``.
    """
    reward = error.clone()
    leads_on = decided[1:] & ~terminated[:-1]
    reward[:-1] = torch.where(leads_on, error[1:], error[:-1])
    return reward


def discounted_sums(reward: Tensor, *, terminated: Tensor, trainable: Tensor, discount: Tensor) -> Tensor:
    """Return the discounted sum of rewards from each decision to the last one of its segment or match.

    Args:
        reward: ``[T+1, N] float32``.
        terminated: ``[T+1, N] bool``: sums end there.
        trainable: ``[T+1, N] bool``; the sum is 0 elsewhere.
        discount: ``[T+1, N] float32``.

    Returns:
        ``[T+1, N] float32``.
    """
    nothing = torch.zeros_like(reward)
    return gae(reward, nothing, terminated=terminated, trainable=trainable, discount=discount, gae_lambda=1.0)
