"""Layers and their initialization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium import Space
from torch import Tensor, nn
from torch.nn import functional

from ludus_networks.config import ImagePart

__all__ = ["ACTIVATIONS", "Convolution", "conv_layers", "conv_output_size", "hidden_layers", "init_orthogonal"]

#: Activations by the names of the options.
ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "leaky_relu": nn.LeakyReLU}


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


def conv_layers(space: Space[Any], config: ImagePart, activation: str) -> nn.Sequential:
    """Return convolutions over ``[n, channels, height, width]`` with activations."""
    gain = nn.init.calculate_gain(activation)  # type: ignore[arg-type]
    in_channels = (space.shape or ())[-1]
    layers: list[nn.Module] = []
    for channels in config.channels:
        convolution = Convolution(in_channels, channels, config.kernel, config.stride, padding=config.kernel // 2)
        layers += [init_orthogonal(convolution, gain), ACTIVATIONS[activation]()]
        in_channels = channels
    return nn.Sequential(*layers)


def conv_output_size(space: Space[Any], config: ImagePart) -> tuple[int, int]:
    """Return height and width of an image after all convolutions."""
    height, width, _ = space.shape or ()
    padded = 2 * (config.kernel // 2)
    for _ in config.channels:
        height, width = ((side + padded - config.kernel) // config.stride + 1 for side in (height, width))
    return height, width
