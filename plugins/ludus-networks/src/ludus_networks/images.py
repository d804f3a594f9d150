"""Encoder of images: convolutions or residual blocks, pooling, hidden layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen
from gymnasium import Space
from ludus.errors import ContractError
from ludus.network import InputColumns
from torch import Tensor, nn
from torch.nn import functional

from ludus_networks.config import DENSE_WEIGHTS, ImagePart
from ludus_networks.layers import ACTIVATIONS, EncoderSettings, hidden_layers, init_orthogonal, scale_factor


class Convolution(nn.Conv2d):
    """A convolution that drops skipped cells first if its kernel is one cell without padding.

    The result is the same. With those cells, oneDNN's gradient of the weights writes beyond its memory on x86 without
    AVX-512 (oneDNN 3.12 of torch 2.13, images with few channels, channels last).
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return ``[n, channels, height, width]``."""
        if self.kernel_size == (1, 1) and self.padding == (0, 0):
            down, right = self.stride
            return functional.conv2d(input[:, :, ::down, ::right], self.weight, self.bias, groups=self.groups)
        return super().forward(input)


@frozen
class _Layer:
    """Sizes of one convolution or block of an encoder."""

    in_channels: int
    channels: int
    kernel: int
    stride: int
    padding: int

    def make_convolution(self, activation: str) -> Convolution:
        """Return the convolution, initialized for an activation after it."""
        gain = nn.init.calculate_gain(activation)  # type: ignore[arg-type]
        convolution = Convolution(self.in_channels, self.channels, self.kernel, self.stride, self.padding)
        init_orthogonal(convolution, gain)
        return convolution


def _layers(in_channels: int, part: ImagePart) -> Iterator[_Layer]:
    """Yield the sizes of the convolutions or blocks of an encoder, first to last."""
    count = len(part.channels)
    kernels, strides = ((given,) * count if isinstance(given, int) else given for given in (part.kernel, part.stride))
    for channels, kernel, stride in zip(part.channels, kernels, strides, strict=True):
        padding = kernel // 2 if part.padding == "same" else 0
        yield _Layer(in_channels, channels, kernel, stride, padding)
        in_channels = channels


class _ResidualBlock(nn.Module):
    """Two convolutions and a shortcut [AET §3.2.3, after He et al. 2016], without batch normalization.

    Args:
        layer: Sizes of the first convolution.
        activation: Activation after the first convolution, and after the sum.
    """

    def __init__(self, layer: _Layer, activation: str) -> None:
        super().__init__()
        channels, stride = layer.channels, layer.stride
        self.first = layer.make_convolution(activation)
        self.second = _Layer(channels, channels, layer.kernel, 1, layer.padding).make_convolution(activation)
        if stride == 1 and layer.in_channels == channels:
            self.shortcut: nn.Module = nn.Identity()
        else:
            self.shortcut = init_orthogonal(Convolution(layer.in_channels, channels, 1, stride), 1.0)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, image: Tensor) -> Tensor:
        """Return ``[n, channels, height, width]``."""
        change = self.second(self.activation(self.first(image)))
        result: Tensor = self.activation(change + self.shortcut(image))
        return result


_POOL_KERNEL = 3  # of an IMPALA block


class _ImpalaBlock(nn.Module):
    """A convolution, a maximum over 3 by 3 cells, and two residual blocks of two convolutions [IMPALA, figure 3].

    Args:
        layer: Sizes of the first convolution; its stride is that of the maximum.
        activation: Activation before the convolutions of the residual blocks, and after the last block.
    """

    def __init__(self, layer: _Layer, activation: str) -> None:
        super().__init__()
        self._stride = layer.stride
        same = _Layer(layer.channels, layer.channels, layer.kernel, 1, layer.padding)
        self.first = _Layer(layer.in_channels, layer.channels, layer.kernel, 1, layer.padding).make_convolution(
            activation
        )
        self.residual = nn.ModuleList(same.make_convolution(activation) for _ in range(4))
        self.activation = ACTIVATIONS[activation]()

    def forward(self, image: Tensor) -> Tensor:
        """Return ``[n, channels, height, width]``."""
        cells = functional.max_pool2d(self.first(image), _POOL_KERNEL, self._stride, _POOL_KERNEL // 2)
        first, second, third, fourth = self.residual
        cells = cells + second(self.activation(first(self.activation(cells))))
        cells = cells + fourth(self.activation(third(self.activation(cells))))
        result: Tensor = self.activation(cells)
        return result


def _make_tower(in_channels: int, part: ImagePart, activation: str) -> nn.Sequential:
    layers = _layers(in_channels, part)
    if part.kind == "conv":
        pairs = ((layer.make_convolution(activation), ACTIVATIONS[activation]()) for layer in layers)
        return nn.Sequential(*(module for pair in pairs for module in pair))
    make = _ImpalaBlock if part.kind == "impala" else _ResidualBlock
    return nn.Sequential(*(make(layer, activation) for layer in layers))


def cells_after(space: Space[Any], part: ImagePart) -> tuple[int, int]:
    """Return height and width of an image after all convolutions, before pooling.

    Raises:
        ContractError: The image is smaller than a kernel.
    """
    height, width, channels = space.shape or ()
    sides = (height, width)
    for number, layer in enumerate(_layers(channels, part)):
        kernel, padding = (_POOL_KERNEL, _POOL_KERNEL // 2) if part.kind == "impala" else (layer.kernel, layer.padding)
        height, width = sides
        sides = (
            (height + 2 * padding - kernel) // layer.stride + 1,
            (width + 2 * padding - kernel) // layer.stride + 1,
        )
        if min(sides) < 1:
            raise ContractError(
                f"layer {number} reads {height} by {width} cells of {part.leaf}, fewer than its kernel of {kernel}; "
                'choose smaller kernels or strides, or padding = "same"'
            )
    return sides


def cells_to_keep(weights_per_cell: int, *, images: int = 1, dense_weights: int = DENSE_WEIGHTS) -> int:
    """Return the largest number of cells of each of several images that keeps the limit of weights, ≥ 1."""
    return max(1, dense_weights // (max(1, images) * weights_per_cell))


def grid_factor(cells: tuple[int, int], most: int) -> int:
    """Return by which number of cells both sides are divided, so that at most `most` cells are left."""
    height, width = cells
    factor = 1
    while -(-height // factor) * -(-width // factor) > most and factor < max(cells):
        factor += 1
    return factor


class ImageEncoder(nn.Module):
    """Convolutions or residual blocks over one leaf, pooling, then hidden layers.

    Args:
        leaves: Spaces of all leaves; that of the image is ``[height, width, channels]``.
        config: Name of the leaf, and sizes.
        settings: Settings of the network.
    """

    def __init__(self, leaves: Mapping[str, Space[Any]], config: ImagePart, settings: EncoderSettings) -> None:
        super().__init__()
        space = leaves[config.leaf]
        self._leaf, self._pool, self._channels = config.leaf, config.pool, (space.shape or ())[-1]
        self._factor = scale_factor(space, scale=settings.scale)
        self.tower = _make_tower(self._channels, config, settings.activation)
        height, width = cells_after(space, config)
        self._grid = grid_factor((height, width), config.cells) if config.pool == "grid" else 1
        cells = -(-height // self._grid) * -(-width // self._grid) if config.pool in ("flatten", "grid") else 1
        size = config.channels[-1] * cells
        self.layers = hidden_layers(size, config.hidden, settings.activation)
        self.width = config.hidden[-1] if config.hidden else size

    def forward(self, leaves: Mapping[str, Tensor]) -> tuple[Tensor, None]:
        """Return features ``[n, width]`` and None, as there are no entities."""
        image = leaves[self._leaf].permute(0, 3, 1, 2).float()  # [n, C, H, W]
        cells = self.tower(image * self._factor if self._factor != 1.0 else image)
        if self._grid > 1:
            cells = functional.avg_pool2d(cells, self._grid, ceil_mode=True)
        if self._pool in ("flatten", "grid"):
            return self.layers(cells.flatten(1)), None
        cells = cells.flatten(2)
        return self.layers(cells.mean(2) if self._pool == "mean" else cells.amax(2)), None

    def update_statistics(self, leaves: Mapping[str, Tensor]) -> None:
        """Do nothing: images are not normalized."""

    def input_columns(self) -> Mapping[str, Sequence[InputColumns]]:
        """Return the channels that the first convolutions read; see `ludus.network.NamedInputs`."""
        first = self.tower[0]
        names = ["tower.0.weight"]
        if isinstance(first, _ResidualBlock):
            names = ["tower.0.first.weight", "tower.0.shortcut.weight"]
        elif isinstance(first, _ImpalaBlock):
            names = ["tower.0.first.weight"]
        columns = [InputColumns(self._leaf, self._channels, (self._channels,))]
        return dict.fromkeys(names, columns)

    def feature_columns(self, name: str) -> Sequence[InputColumns]:
        """Return the columns of the features."""
        return [InputColumns(name, self.width)]
