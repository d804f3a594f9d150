"""Running normalization of observations, stored with the weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from ludus.errors import ContractError
from torch import Tensor, nn

__all__ = ["RunningNorm"]

_MAX_COUNT = 1e7  # rows; limits the weight of old rows, and keeps single rows countable in float32
_EPSILON = 1e-8


class RunningNorm(nn.Module):
    """Normalizes columns to mean 0 and standard deviation 1 by the statistics of all rows added so far.

    Mean, variance and the number of rows are buffers, so they are saved and sent as weights. Only `add` changes them.

    Args:
        columns: Whether each column is normalized; other columns are unchanged.
        clip: Largest absolute value of a normalized number; > 0.
    """

    mean: Tensor
    variance: Tensor
    count: Tensor
    _chosen: Tensor

    def __init__(self, columns: Sequence[bool], *, clip: float) -> None:
        super().__init__()
        size = len(columns)
        self._clip = clip
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("_chosen", torch.tensor(columns), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows ``[…, size] float32`` normalized."""
        normal = (rows - self.mean) * torch.rsqrt(self.variance + _EPSILON)
        return torch.where(self._chosen, normal.clamp(-self._clip, self._clip), rows)

    @torch.no_grad()
    def add(self, rows: Tensor) -> None:
        """Add rows ``[n, size] float32`` to the statistics.

        Raises:
            ContractError: The statistics would not be finite; they are unchanged.
        """
        if not len(rows):
            return
        variance, mean = torch.var_mean(rows, dim=0, correction=0)
        share = len(rows) / (self.count + len(rows))
        step = torch.where(self._chosen, mean - self.mean, 0.0)
        variance = torch.lerp(self.variance, variance, share) + step.square() * share * (1 - share)
        variance = torch.where(self._chosen, variance, self.variance)
        if not variance.isfinite().all():  # a mean that is not finite makes the variance not finite
            raise ContractError("an observation to normalize is not finite, or too large for statistics in float32")
        self.variance.copy_(variance)
        self.mean.add_(step * share)
        self.count.copy_((self.count + len(rows)).clamp(max=_MAX_COUNT))
