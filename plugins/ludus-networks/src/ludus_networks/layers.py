"""Layers and their initialization: normalized inputs, linear layers, convolutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from attrs import frozen
from gymnasium import Space, spaces
from ludus.errors import ContractError
from torch import Tensor, nn
from torch.nn import functional

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


@frozen(kw_only=True)
class EncoderSettings:
    """Settings that all encoders of a network share.

    Args:
        activation: Activation after every hidden layer.
        scale: Whether 8-bit leaves are scaled, see `scale_factor`.
        clip: Largest absolute value after running normalization; None: no normalization.
    """

    activation: str
    scale: bool
    clip: float | None

    def make_norm(self, columns: list[bool]) -> RunningNorm | None:
        """Return the normalization of columns; None without normalization."""
        return None if self.clip is None or not any(columns) else RunningNorm(columns, clip=self.clip)


_Flatten = Callable[[Tensor], Tensor]


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


#: Activations by the names of the options.
ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "leaky_relu": nn.LeakyReLU}


def init_orthogonal(layer: nn.Linear | nn.Conv2d, gain: float) -> nn.Linear | nn.Conv2d:
    """Fill `layer` with orthogonal weights of the given gain and zero biases, and return it."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def hidden_layers(size: int, hidden: Sequence[int], activation: str) -> nn.Sequential:
    """Return linear layers with activations, the first of which reads `size` features.

    Args:
        size: Number of input features.
        hidden: Units of the layers, first to last; may be empty.
        activation: Name of the activation after each layer.
    """
    gain = nn.init.calculate_gain(activation)  # type: ignore[arg-type]
    layers: list[nn.Module] = []
    for units in hidden:
        layers += [init_orthogonal(nn.Linear(size, units), gain), ACTIVATIONS[activation]()]
        size = units
    return nn.Sequential(*layers)
