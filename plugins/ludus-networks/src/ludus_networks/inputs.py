"""From observation leaves in the environment's dtypes to float32 tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor
from torch.nn import functional

__all__ = ["FlatInput", "is_image", "scale_of", "width_of"]

_Widen = Callable[[Tensor], Tensor]


def is_image(space: Space[Any]) -> bool:
    """Return whether a leaf is a channel-last board or image."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3


def scale_of(space: Space[Any], *, scale: bool) -> float:
    """Return the factor that brings an 8-bit Box leaf into [-1, 1]; 1 for every other leaf."""
    if not scale or not isinstance(space, spaces.Box) or space.dtype not in (np.uint8, np.int8):
        return 1.0
    largest = max(float(np.abs(space.low.astype(np.float64)).max()), float(np.abs(space.high.astype(np.float64)).max()))
    return 1.0 / largest if largest > 0 else 1.0


class FlatInput:
    """Turns leaves ``[n, …]`` into one matrix ``[n, size] float32``; Discrete parts become one-hot.

    Args:
        leaves: The spaces of the leaves, joined in this order.
        scale: Whether to scale 8-bit Box leaves, see `scale_of`.
    """

    def __init__(self, leaves: Mapping[str, Space[Any]], *, scale: bool) -> None:
        self._parts = [(name, _widen(space, scale_of(space, scale=scale))) for name, space in leaves.items()]
        self.size = sum(width_of(space) for space in leaves.values())

    def __call__(self, leaves: Mapping[str, Tensor]) -> Tensor:
        """Return ``[n, size] float32``."""
        parts = [widen(leaves[name]) for name, widen in self._parts]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def width_of(space: Space[Any]) -> int:
    """Return how many columns a leaf becomes."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    return int(np.prod(space.shape or ()))


def _widen(space: Space[Any], factor: float) -> _Widen:
    if isinstance(space, spaces.Discrete):
        return _one_hot([int(space.n)], [int(space.start)])
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hot([int(n) for n in space.nvec.ravel()], [int(n) for n in space.start.ravel()])
    if not space.shape:
        return lambda leaf: leaf.unsqueeze(1).float() * factor
    return lambda leaf: leaf.flatten(1).float() * factor if factor != 1.0 else leaf.flatten(1).float()


def _one_hot(sizes: list[int], starts: list[int]) -> _Widen:
    def widen(leaf: Tensor) -> Tensor:  # [n] or [n, …] integers
        columns = leaf.reshape(leaf.shape[0], -1).long()
        hot = [functional.one_hot(columns[:, i] - starts[i], size) for i, size in enumerate(sizes)]
        return torch.cat(hot, dim=1).float()

    return widen
