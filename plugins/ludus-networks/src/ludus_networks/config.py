"""Options of the networks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import frozen
from ludus.option import Check, above, at_least, each, one_of, option

__all__ = [
    "AETConfig",
    "AttentionPart",
    "ConvConfig",
    "DISConfig",
    "EntityPart",
    "HoKConfig",
    "ImagePart",
    "MLPConfig",
    "ModularConfig",
    "VectorPart",
]


_ACTIVATIONS = one_of("tanh", "relu", "leaky_relu")
_SCALE = "divide 8-bit Box leaves by their largest absolute bound (bytes become 0 to 1, boards stay as is)"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def _is_sizes(value: object) -> bool:
    return isinstance(value, Sequence) and all(at_least(1).accepts(units) for units in value)


_SIZES = Check("a list of numbers ≥ 1, which may be empty", _is_sizes)
_PARTS = Check(
    "tables whose names are made of letters, digits, _ and -",
    lambda value: isinstance(value, Mapping) and all(_NAME.fullmatch(name) for name in value),
)


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
    scale: bool = option(True, help=_SCALE)


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
    scale: bool = option(True, help=_SCALE)


@frozen(kw_only=True)
class VectorPart:
    """An encoder of leaves as one vector: flattened, joined, hidden layers."""

    leaves: tuple[str, ...] = option(check=each(Check("a leaf", bool)), help="the leaves, joined in this order")
    hidden: tuple[int, ...] = option(
        (256, 128), _SIZES, help="units of the hidden layers, first to last; empty: joined only"
    )


@frozen(kw_only=True)
class ImagePart:
    """An encoder of one leaf ``[height, width, channels]``."""

    leaf: str = option(help="the leaf")
    kind: str = option(
        "residual",
        one_of("residual", "conv"),
        help="residual: one block of two convolutions and a shortcut per entry of channels; conv: one convolution each",
    )
    channels: tuple[int, ...] = option(
        (32, 64, 128), each(at_least(1)), help="channels, first to last; ≥ 1 each; AET: 32, 64, 128"
    )
    kernel: int = option(3, at_least(1), help="side of the square kernels in cells; ≥ 1, odd for residual")
    stride: int = option(2, at_least(1), help="step of each block or convolution in cells; ≥ 1; 2 halves the image")
    pool: str = option(
        "mean", one_of("mean", "max", "flatten"), help="what is kept of the last cells: mean, max, or flatten for all"
    )
    hidden: tuple[int, ...] = option((), _SIZES, help="units of the hidden layers behind; may be empty")


@frozen(kw_only=True)
class EntityPart:
    """An encoder of a variable number of entities ``[E, f]`` by the same hidden layers for each."""

    leaf: str = option(help="the leaf of shape (E, f): a row of features for each entity")
    present: str = option("", help='the leaf of shape (E,) that is 0 where there is no entity; "": all are there')
    hidden: tuple[int, ...] = option(
        (256, 128), each(at_least(1)), help="units of the hidden layers, first to last; ≥ 1 each"
    )
    pool: str = option(
        "max",
        one_of("max", "mean", "attention", "concat"),
        help="how those present become one vector: max, mean, attention (learned weights); concat keeps all, in order",
    )
    key: int = option(
        0, at_least(0), help="units that the last hidden layer has in addition, an entity's key for attention; ≥ 0"
    )


@frozen(kw_only=True)
class AttentionPart:
    """A label whose choices are entities: p(t|a) = softmax(FC(h) · keys) over those present [HoK eq. 1]."""

    head: str = option("policy", help="the head in which the label lies")
    label: int = option(check=at_least(0), help="the position of the label in the head; ≥ 0")
    entities: tuple[str, ...] = option(
        check=each(Check("a table below entities", bool)), help="tables below `entities`, in the order of the choices"
    )
    plain: int = option(0, at_least(0), help="choices before the entities that are none, such as no target; ≥ 0")


@frozen(kw_only=True)
class ModularConfig:
    """Encoders side by side, a torso, a memory, and heads with hidden layers of their own."""

    vectors: Mapping[str, VectorPart] = option({}, _PARTS, help="encoders of vectors, by names of your choice")
    images: Mapping[str, ImagePart] = option({}, _PARTS, help="encoders of images, by names of your choice")
    entities: Mapping[str, EntityPart] = option({}, _PARTS, help="encoders of entities, by names of your choice")
    rest: tuple[int, ...] = option(
        (), _SIZES, help="units of the hidden layers over all leaves that no encoder names; empty: joined only"
    )
    torso: tuple[int, ...] = option(
        (256, 256), _SIZES, help="units of the hidden layers over what the encoders found, joined; may be empty"
    )
    core: str = option("none", one_of("none", "lstm", "gru"), help="the memory behind the torso: none, lstm, gru")
    core_size: int = option(256, at_least(1), help="units of the memory; ≥ 1")
    heads: tuple[int, ...] = option((), _SIZES, help="units of the hidden layers of every head that is no critic's")
    critic_heads: tuple[int, ...] = option((), _SIZES, help="units of the hidden layers of every critic head")
    attention: tuple[AttentionPart, ...] = option((), help="labels whose choices are entities")
    separate_critic: bool = option(
        False, help="critic heads get encoders, torso and memory of their own instead of sharing the policy's"
    )
    activation: str = option("relu", _ACTIVATIONS, help="activation after every layer: tanh, relu, leaky_relu")
    normalize: bool = option(
        False, help="bring vectors and entities to mean 0 and deviation 1 by running statistics that learners update"
    )
    normalize_clip: float = option(10.0, above(0), help="largest absolute value after normalisation; > 0")
    scale: bool = option(True, help=_SCALE)


@frozen(kw_only=True)
class AETConfig:
    """The network of Asymmetric-Evolution Training [AET §3.2.3, table 3]."""

    channels: tuple[int, ...] = option(
        (32, 64, 128), each(at_least(1)), help="channels of the residual blocks over images; paper: 32, 64, 128"
    )
    encoder: tuple[int, ...] = option(
        (256, 128), each(at_least(1)), help="units of the hidden layers over each other leaf; paper: 256, 128"
    )
    torso: tuple[int, ...] = option(
        (1024,), _SIZES, help="units of the hidden layers over all of it; paper: from 1,280 to 1024"
    )
    heads: tuple[int, ...] = option(
        (512, 256), _SIZES, help="units of the hidden layers of policy and value each; paper: 512, 256"
    )
    concat: tuple[str, ...] = option(
        (), help="entity leaves that are kept one by one instead of pooled, such as teammates of a fixed order"
    )
    present: str = option("_present", help="the mask of the entities of leaf X is the leaf X with this behind it")
    normalize: bool = option(False, help="running normalisation of vectors and entities")


@frozen(kw_only=True)
class DISConfig:
    """The network of Diversity is Strength: six dense layers, three of them shared [DIS appendix C]."""

    shared: tuple[int, ...] = option(
        (256, 256, 256), _SIZES, help="units of the layers that policy and value share; paper: three, sizes not given"
    )
    heads: tuple[int, ...] = option(
        (256, 256), _SIZES, help="units of the hidden layers of policy and value each; paper: two, sizes not given"
    )
    separate_critic: bool = option(False, help="policy and value share nothing, as in the paper's MAPPO")
    normalize: bool = option(False, help="running normalisation of all leaves")


@frozen(kw_only=True)
class HoKConfig:
    """The network of the Honor of Kings paper: units, LSTM, target attention [HoK §4, figure 2]."""

    channels: tuple[int, ...] = option(
        (16, 32), each(at_least(1)), help="channels of the convolutions over images; ≥ 1 each"
    )
    units: tuple[int, ...] = option(
        (128, 128), each(at_least(1)), help="units of the layers over each unit of the game; ≥ 1 each"
    )
    key: int = option(32, at_least(1), help="units of a key; ≥ 1")
    vector: tuple[int, ...] = option((128, 128), _SIZES, help="units of the layers over all other leaves, joined")
    torso: tuple[int, ...] = option((256,), _SIZES, help="units of the layers between the encoders and the LSTM")
    core: str = option("lstm", one_of("none", "lstm", "gru"), help="the memory; paper: lstm")
    core_size: int = option(256, at_least(1), help="units of the memory; ≥ 1")
    heads: tuple[int, ...] = option((), _SIZES, help="units of the hidden layers of policy and value each")
    target: int = option(
        5, at_least(-1), help="position of the label that chooses a unit by attention; -1: there is none; paper: 5"
    )
    targets: tuple[str, ...] = option(
        (), help="entity leaves that the label chooses from, in its order; empty: all in the order of the observation"
    )
    plain: int = option(0, at_least(0), help="choices of that label before the units, such as no target; ≥ 0")
    present: str = option("_present", help="the mask of the entities of leaf X is the leaf X with this behind it")
    normalize: bool = option(False, help="running normalisation of vectors and units")
