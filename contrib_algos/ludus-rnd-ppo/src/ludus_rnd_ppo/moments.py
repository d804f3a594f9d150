"""Running mean and deviation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

_MIN_VARIANCE = 1e-8


class RunningMoments(nn.Module):
    """The number of rows so far, their mean and their variance, in 64-bit buffers that change in place.

    Args:
        shape: Shape of a row.
    """

    count: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, shape: Sequence[int] = ()) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(tuple(shape), dtype=torch.float64))
        self.register_buffer("variance", torch.zeros(tuple(shape), dtype=torch.float64))

    @torch.no_grad()
    def add(self, rows: Tensor) -> None:
        """Add rows ``[n, …]``, n ≥ 1."""
        variance, mean = torch.var_mean(rows.float(), dim=0, correction=0)
        total = self.count + len(rows)
        share = len(rows) / total
        difference = mean.double() - self.mean
        self.variance.mul_(1 - share).add_(share * (variance.double() + (1 - share) * difference.square()))
        self.mean.add_(share * difference)
        self.count.copy_(total)

    @property
    def deviation(self) -> Tensor:
        """Return the standard deviation ``[…] float64``, slightly above 0 even if nothing varies."""
        return (self.variance + _MIN_VARIANCE).sqrt()
