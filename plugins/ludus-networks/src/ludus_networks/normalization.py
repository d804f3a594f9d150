"""Running normalisation of observations, carried with the weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["RunningNorm"]

_HORIZON = 1e7  # rows; statistics follow later changes at this pace, and 32 bits still count single rows
_EPSILON = 1e-8


class RunningNorm(nn.Module):
    """Brings columns to mean 0 and deviation 1 by the statistics of all rows learned from so far.

    Mean, variance and the number of rows are buffers, so they travel, are saved and are loaded as weights. A call in
    training mode that records gradients uses the statistics as they are and adds its rows to them after that: the
    first pass over fresh rows sees the numbers that their decisions saw. No other call changes them.

    Args:
        columns: For each column whether it is normalised; the others pass unchanged.
        clip: Largest absolute value of a normalised number; > 0.
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

    def forward(self, rows: Tensor, present: Tensor | None = None) -> Tensor:
        """Return the normalised rows.

        Args:
            rows: ``[…, size] float32``.
            present: ``[…] bool``: which rows count; None: all.
        """
        normal = (rows - self.mean) * torch.rsqrt(self.variance + _EPSILON)
        normal = torch.where(self._chosen, normal.clamp(-self._clip, self._clip), rows)
        if self.training and torch.is_grad_enabled():
            self._add(rows.detach().flatten(0, -2), None if present is None else present.flatten())
        return normal

    @torch.no_grad()
    def _add(self, rows: Tensor, present: Tensor | None) -> None:
        weight = rows.new_ones(len(rows)) if present is None else present.to(rows.dtype)  # [n]
        fresh = weight.sum()
        mean = (rows * weight.unsqueeze(1)).sum(0) / fresh.clamp(min=1)
        variance = ((rows - mean).square() * weight.unsqueeze(1)).sum(0) / fresh.clamp(min=1)
        share = fresh / (self.count + fresh).clamp(min=1)
        step = mean - self.mean
        variance = torch.lerp(self.variance, variance, share) + step.square() * share * (1 - share)
        self.variance.copy_(torch.where(self._chosen, variance, self.variance))
        self.mean.add_(torch.where(self._chosen, step * share, 0.0))
        self.count.copy_((self.count + fresh).clamp(max=_HORIZON))
