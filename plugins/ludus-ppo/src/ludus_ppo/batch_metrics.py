"""Metrics that describe a batch as it was played."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from ludus.group import Group
from ludus.segment import SegmentBatch
from torch import Tensor

from ludus_ppo.advantages import RewardSignal, Targets
from ludus_ppo.group_moments import group_moments

_NO_VARIANCE = 1e-8  # rounding gives equal returns as much


def batch_metrics(
    batch: SegmentBatch, targets: Targets, signals: Sequence[RewardSignal], *, trainable: np.ndarray, group: Group
) -> dict[str, float]:
    """Return explained variance, mean value and mean return of every reward signal, over the whole group."""
    metrics, mask = {}, torch.from_numpy(trainable)
    for signal in signals:
        value = torch.from_numpy(batch.extras[signal.head][trainable]).double()
        returns = targets.returns[signal.head][mask].double()
        return_mean, variance = group_moments(returns, group)
        error_mean, unexplained = group_moments(returns - value, group)
        prefix = signal.metric_prefix
        metrics[f"{prefix}explained_variance"] = explained_variance(unexplained, variance).item()
        metrics[f"{prefix}value_mean"] = (return_mean - error_mean).item()
        metrics[f"{prefix}return_mean"] = return_mean.item()
    return metrics


def explained_variance(unexplained: Tensor, variance: Tensor) -> Tensor:
    """Return the share of the variance of returns that values predict, ``[]`` ≤ 1; 0 if returns do not vary.

    Args:
        unexplained: Variance of returns less values, ``[]``.
        variance: Variance of returns, ``[]``.
    """
    return torch.where(variance > _NO_VARIANCE, 1 - unexplained / variance, torch.zeros_like(variance))
