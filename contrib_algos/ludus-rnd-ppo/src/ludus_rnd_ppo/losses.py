"""The formulas of random network distillation as pure functions of tensors.

Shapes: n rows, K features of the random network, T + 1 entries of N segments.
"""

from __future__ import annotations

import torch
from ludus_ppo.estimators import gae
from torch import Tensor


def prediction_error(predicted: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared error over features of every row, ``[n]``; both arguments are ``[n, K]``."""
    return (predicted - target).square().mean(dim=1)


def normalized(leaf: Tensor, *, mean: Tensor, deviation: Tensor, clip: float) -> Tensor:
    """Return ``(leaf - mean) / deviation`` within ±clip, ``[n, …] float32``."""
    return ((leaf.float() - mean) / deviation).clamp(-clip, clip)


def intrinsic_reward(error: Tensor, *, decided: Tensor, terminated: Tensor) -> Tensor:
    """Return the intrinsic reward of each decision: the error at the observation that it led to.

    That is the observation of the next entry. The predictor never learns final observations, as no decision is made
    there; so the last decision of a seat gets the error at its own observation, which makes ends neither good nor bad.

    Args:
        error: ``[T+1, N] float32``, the predictor's error at every observation.
        decided: ``[T+1, N] bool``: entries that hold a decision.
        terminated: ``[T+1, N] bool``.

    Returns:
        ``[T+1, N] float32``.
    """
    reward = error.clone()
    continues = decided[1:] & ~terminated[:-1]
    reward[:-1] = torch.where(continues, error[1:], error[:-1])
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
    zero = torch.zeros_like(reward)
    return gae(reward, zero, terminated=terminated, trainable=trainable, discount=discount, gae_lambda=1.0)
