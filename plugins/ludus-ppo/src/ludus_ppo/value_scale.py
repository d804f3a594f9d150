"""The scale of value heads that learn normalized returns."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from ludus.group import Group
from torch import Tensor

_DECAY = 0.99  # of the moments, per update
_MIN_VARIANCE = 1e-4


def make_value_moments(heads: int) -> Tensor:
    """Return zeros ``[heads, 3] float64``: the running sums of weight·mean, weight·mean square and weight."""
    return torch.zeros(heads, 3, dtype=torch.float64)  # the variance is a small difference of large numbers


def update_value_scale(scale: Tensor, moments: Tensor, returns: Iterable[Tensor], group: Group) -> None:
    """Set the scale to mean and deviation of returns, as an exponential moving average over updates.

    Args:
        scale: ``[heads, 2] float32``: mean and deviation of every head; changed in place.
        moments: As made by `make_value_moments`; changed in place.
        returns: Returns of the trainable decisions, ``[n]`` for every head.
        group: Process group of the trainer.
    """
    for head, head_returns in enumerate(returns):
        latest = head_returns.double()
        sums = torch.stack([latest.mean(), latest.square().mean(), latest.new_ones(())])
        group.mean([sums], weight=len(latest))
        moments[head] = _DECAY * moments[head] + (1 - _DECAY) * sums
        mean, mean_square = moments[head, :2] / moments[head, 2]
        scale[head, 0] = mean
        scale[head, 1] = (mean_square - mean.square()).clamp(min=_MIN_VARIANCE).sqrt()
