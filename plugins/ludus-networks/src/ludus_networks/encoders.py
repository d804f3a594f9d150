"""Encoders: from observation leaves to one feature vector per row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from gymnasium import Space
from ludus.errors import ContractError
from torch import Tensor, nn
from torch.nn import functional

from ludus_networks.config import ConvConfig, ImagePart, MLPConfig
from ludus_networks.inputs import FlatInput, is_image, scale_of

__all__ = [
    "ACTIVATIONS",
    "ConvEncoder",
    "Convolution",
    "MLPEncoder",
    "convolutions",
    "hidden_layers",
    "initialised",
    "shrunk",
]

#: Activations by the names that options give them.
ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "leaky_relu": nn.LeakyReLU}


class Convolution(nn.Conv2d):
    """A convolution that leaves out the cells that kernels of one cell, without padding, step over before it computes.

    The result is the same. With those cells, oneDNN's gradient of the weights writes beyond its memory on x86 without
    AVX-512 (oneDNN 3.12 of torch 2.13, images with few channels, channels last).
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return ``[n, channels, height, width]``."""
        if self.kernel_size == (1, 1) and self.padding == (0, 0):
            down, right = self.stride
            return functional.conv2d(input[:, :, ::down, ::right], self.weight, self.bias, groups=self.groups)
        return super().forward(input)


def initialised(layer: nn.Linear | nn.Conv2d, gain: float) -> nn.Linear | nn.Conv2d:
    """Fill `layer` with orthogonal weights of the given gain and zero biases, and return it."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def hidden_layers(size: int, hidden: Sequence[int], activation: str) -> nn.Sequential:
    """Return linear layers from `size` features on, each with an activation behind it; none for no `hidden`."""
    gain = nn.init.calculate_gain(activation)  # type: ignore[arg-type]
    layers: list[nn.Module] = []
    for units in hidden:
        layers += [initialised(nn.Linear(size, units), gain), ACTIVATIONS[activation]()]
        size = units
    return nn.Sequential(*layers)


class MLPEncoder(nn.Module):
    """All leaves flattened and joined, then hidden layers.

    Args:
        leaves: The spaces of the leaves.
        config: Sizes and activation.
    """

    def __init__(self, leaves: Mapping[str, Space[Any]], config: MLPConfig) -> None:
        super().__init__()
        self.width = config.hidden[-1]
        self._input = FlatInput(leaves, scale=config.scale)
        self.layers = hidden_layers(self._input.size, config.hidden, config.activation)

    def forward(self, leaves: Mapping[str, Tensor]) -> Tensor:
        """Return features ``[n, width] float32``."""
        features: Tensor = self.layers(self._input(leaves))
        return features


class ConvEncoder(nn.Module):
    """Convolutions over every image leaf; their outputs and all other leaves pass through hidden layers.

    Args:
        leaves: The spaces of the leaves; at least one must be ``[height, width, channels]``.
        config: Sizes and activation.

    Raises:
        ContractError: No leaf is an image.
    """

    def __init__(self, leaves: Mapping[str, Space[Any]], config: ConvConfig) -> None:
        super().__init__()
        images = {name: space for name, space in leaves.items() if is_image(space)}
        if not images:
            raise ContractError(
                f"network 'conv' needs a Box leaf of shape (height, width, channels), got "
                f"{', '.join(f'{name} {space.shape}' for name, space in leaves.items())}; use network 'mlp'"
            )
        self.width = config.hidden[-1]
        self._images = {name: scale_of(space, scale=config.scale) for name, space in images.items()}
        others = {name: space for name, space in leaves.items() if name not in images}
        self._others = FlatInput(others, scale=config.scale) if others else None
        self.towers = nn.ModuleList(convolutions(space, config, config.activation) for space in images.values())
        size = sum(math.prod(shrunk(space, config)) * config.channels[-1] for space in images.values())
        size += self._others.size if self._others else 0
        self.layers = hidden_layers(size, config.hidden, config.activation)

    def forward(self, leaves: Mapping[str, Tensor]) -> Tensor:
        """Return features ``[n, width] float32``."""
        parts = []
        for (name, factor), tower in zip(self._images.items(), self.towers, strict=True):
            image = leaves[name].permute(0, 3, 1, 2).float()  # [n, C, H, W]
            parts.append(tower(image * factor if factor != 1.0 else image).flatten(1))
        if self._others is not None:
            parts.append(self._others(leaves))
        features: Tensor = self.layers(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))
        return features


def convolutions(space: Space[Any], config: ConvConfig | ImagePart, activation: str) -> nn.Sequential:
    """Return convolutions over ``[n, channels, height, width]``, each with an activation behind it."""
    gain = nn.init.calculate_gain(activation)  # type: ignore[arg-type]
    before = (space.shape or ())[-1]
    layers: list[nn.Module] = []
    for channels in config.channels:
        convolution = Convolution(before, channels, config.kernel, config.stride, padding=config.kernel // 2)
        layers += [initialised(convolution, gain), ACTIVATIONS[activation]()]
        before = channels
    return nn.Sequential(*layers)


def shrunk(space: Space[Any], config: ConvConfig | ImagePart) -> tuple[int, int]:
    """Return height and width of an image behind all of its convolutions."""
    height, width, _ = space.shape or ()
    for _ in config.channels:
        height, width = (
            (side + 2 * (config.kernel // 2) - config.kernel) // config.stride + 1 for side in (height, width)
        )
    return height, width
