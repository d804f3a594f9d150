"""Convert observation leaves from the environment's dtypes to float32 tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor
from torch.nn import functional

__all__ = ["FlatInput", "flat_width", "is_image", "scale_factor"]

_Flatten = Callable[[Tensor], Tensor]


def is_image(space: Space[Any]) -> bool:
    """Return whether a leaf is a channel-last board or image."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3


def scale_factor(space: Space[Any], *, scale: bool) -> float:
    """Return the factor that scales an 8-bit Box leaf to [-1, 1]; 1 for every other leaf and without `scale`."""
    if not scale or not isinstance(space, spaces.Box) or space.dtype not in (np.uint8, np.int8):
        return 1.0
    largest = max(float(np.abs(space.low.astype(np.float64)).max()), float(np.abs(space.high.astype(np.float64)).max()))
    return 1.0 / largest if largest > 0 else 1.0


class FlatInput:
    """Joins leaves ``[n, …]`` to one matrix ``[n, size] float32``; Discrete and MultiDiscrete leaves become one-hot.

    Args:
        leaves: Spaces of the leaves, in the order of the columns.
        scale: Whether to scale 8-bit Box leaves, see `scale_factor`.

    Attributes:
        size: Number of columns.
    """

    def __init__(self, leaves: Mapping[str, Space[Any]], *, scale: bool) -> None:
        self._flatten = [(name, _flatten(space, scale_factor(space, scale=scale))) for name, space in leaves.items()]
        self.size = sum(flat_width(space) for space in leaves.values())

    def __call__(self, leaves: Mapping[str, Tensor]) -> Tensor:
        """Return ``[n, size] float32``."""
        columns = [flatten(leaves[name]) for name, flatten in self._flatten]
        return columns[0] if len(columns) == 1 else torch.cat(columns, dim=1)


def flat_width(space: Space[Any]) -> int:
    """Return the number of columns of a leaf."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    return int(np.prod(space.shape or ()))


def _flatten(space: Space[Any], factor: float) -> _Flatten:
    """Return the function that converts a leaf to columns ``[n, width] float32``."""
    if isinstance(space, spaces.Discrete):
        return _one_hot([int(space.n)], [int(space.start)])
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hot([int(n) for n in space.nvec.ravel()], [int(n) for n in space.start.ravel()])
    if not space.shape:
        return lambda leaf: leaf.unsqueeze(1).float() * factor
    return lambda leaf: leaf.flatten(1).float() * factor if factor != 1.0 else leaf.flatten(1).float()


def _one_hot(sizes: list[int], starts: list[int]) -> _Flatten:
    def flatten(leaf: Tensor) -> Tensor:  # [n] or [n, …] integers
        columns = leaf.reshape(leaf.shape[0], -1).long()
        hot = [functional.one_hot(columns[:, i] - starts[i], size) for i, size in enumerate(sizes)]
        return torch.cat(hot, dim=1).float()

    return flatten
