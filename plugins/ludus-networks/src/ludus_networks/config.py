"""Options of the networks."""

from __future__ import annotations

from attrs import frozen
from ludus.option import at_least, each, one_of, option

__all__ = ["ConvConfig", "MLPConfig"]


_ACTIVATIONS = one_of("tanh", "relu", "leaky_relu")


@frozen(kw_only=True)
class MLPConfig:
    """A multi-layer perceptron."""

    hidden: tuple[int, ...] = option(
        (256, 256), each(at_least(1)), help="units of the hidden layers, first to last; ≥ 1 each"
    )
    activation: str = option("tanh", _ACTIVATIONS, help="activation after every hidden layer: tanh, relu, leaky_relu")
    separate_critic: bool = option(
        False, help="critic heads get hidden layers of their own instead of sharing those of the policy"
    )
    scale: bool = option(
        True, help="divide 8-bit Box leaves by their largest absolute bound (bytes become 0 to 1, boards stay as is)"
    )


@frozen(kw_only=True)
class ConvConfig:
    """Convolutions over channel-last leaves ``[height, width, channels]``, then hidden layers."""

    channels: tuple[int, ...] = option(
        (32, 64), each(at_least(1)), help="channels of the convolutions, first to last; ≥ 1 each"
    )
    kernel: int = option(3, at_least(1), help="side of the square kernels in cells; ≥ 1; odd keeps the board's size")
    stride: int = option(1, at_least(1), help="step of the kernels in cells; ≥ 1; 2 halves images at every convolution")
    hidden: tuple[int, ...] = option(
        (128,), each(at_least(1)), help="units of the hidden layers after the convolutions; ≥ 1 each"
    )
    activation: str = option("relu", _ACTIVATIONS, help="activation after every layer: tanh, relu, leaky_relu")
    separate_critic: bool = option(
        False, help="critic heads get convolutions and hidden layers of their own instead of sharing the policy's"
    )
    scale: bool = option(
        True, help="divide 8-bit Box leaves by their largest absolute bound (bytes become 0 to 1, boards stay as is)"
    )
