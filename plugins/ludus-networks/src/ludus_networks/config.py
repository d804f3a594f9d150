"""Options of the networks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from attrs import frozen
from ludus.option import Check, Presets, above, each, one_of, option, whole

_ACTIVATIONS = one_of("tanh", "relu", "leaky_relu")
_SCALE = "divide 8-bit Box leaves by their largest absolute bound (bytes become 0 to 1, boards stay as is)"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


#: Limits far above any useful network, so that a mistake is reported before memory is allocated.
_MOST_UNITS, _MOST_LAYERS, _MOST_PARTS, _MOST_CELLS = 65_536, 256, 256, 1024
_UNITS = whole(1, _MOST_UNITS)
_CELLS = whole(1, _MOST_CELLS)
_LAYERS = each(_UNITS, most=_MOST_LAYERS)
_SIZES = each(_UNITS, least=0, most=_MOST_LAYERS)
#: Largest number of weights from the last cells of all images to the first dense layer, by default.
DENSE_WEIGHTS = 2_000_000
#: One number for all layers, or one per layer.
_CELLS_OF_LAYERS = Check(
    f"{_CELLS.expected}, or a list of one per entry of channels",
    lambda value: _CELLS.accepts(value) or each(_CELLS, least=0, most=_MOST_LAYERS).accepts(value),
)
_PARTS = Check(
    f"at most {_MOST_PARTS} tables whose names are made of letters, digits, _ and -",
    lambda value: (
        isinstance(value, Mapping) and len(value) <= _MOST_PARTS and all(_NAME.fullmatch(name) for name in value)
    ),
)


@frozen(kw_only=True)
class MLPConfig:
    """A multi-layer perceptron."""

    PRESETS: ClassVar[Presets] = {  # [Minimax §5.1, §5.3]
        "minimax": {"hidden": (512, 512)},
        "minimax-tictactoe": {"hidden": (64, 64)},
    }

    hidden: tuple[int, ...] = option((256, 256), _LAYERS, help="units of the hidden layers, first to last; ≥ 1 each")
    activation: str = option("tanh", _ACTIVATIONS, help="activation after every hidden layer: tanh, relu, leaky_relu")
    separate_critic: bool = option(
        False, help="critic heads have their own hidden layers instead of sharing the policy's"
    )
    scale: bool = option(True, help=_SCALE)


@frozen(kw_only=True)
class ConvConfig:
    """Convolutions over channel-last leaves ``[height, width, channels]``, then hidden layers.

    Options that are not given are chosen by the size of each image, see `choose_structure`.
    """

    PRESETS: ClassVar[Presets] = {
        "small": {"kind": "conv", "channels": (32, 64), "kernel": 3, "stride": 1, "hidden": (128,)},
        "medium": {"kind": "conv", "channels": (32, 64, 64), "kernel": 3, "stride": 2, "hidden": (256,)},
        "atari": {  # [Mnih et al. 2015]
            "kind": "conv",
            "channels": (32, 64, 64),
            "kernel": (8, 4, 3),
            "stride": (4, 2, 1),
            "padding": "none",
            "hidden": (512,),
        },
        "impala": {  # [Espeholt et al. 2018, figure 3]
            "kind": "impala",
            "channels": (16, 32, 32),
            "kernel": 3,
            "stride": 2,
            "hidden": (256,),
        },
    }

    kind: str = option(
        "",
        one_of("", "conv", "residual", "impala"),
        help="conv: one convolution per entry of channels; residual, impala: one block each",
    )
    channels: tuple[int, ...] = option(
        (),
        _SIZES,
        help="channels of the convolutions, first to last; ≥ 1 each; empty: those of the preset that fits the image",
    )
    kernel: int | tuple[int, ...] = option(
        (), _CELLS_OF_LAYERS, help="side of the square kernels in cells, one for all or one per layer; ≥ 1"
    )
    stride: int | tuple[int, ...] = option(
        (), _CELLS_OF_LAYERS, help="step of the kernels in cells, one for all or one per layer; ≥ 1; 2 halves images"
    )
    padding: str = option(
        "", one_of("", "same", "none"), help="cells around the image: same: half a kernel; none: no cells"
    )
    dense_weights: int = option(
        DENSE_WEIGHTS,
        whole(1, 10**9),
        help="largest number of weights from the last cells to the first hidden layer; cells are averaged to keep it",
    )
    hidden: tuple[int, ...] = option(
        (), _SIZES, help="units of the hidden layers after the convolutions; ≥ 1 each; empty: as for channels"
    )
    activation: str = option("relu", _ACTIVATIONS, help="activation after every layer: tanh, relu, leaky_relu")
    separate_critic: bool = option(
        False, help="critic heads have their own convolutions and hidden layers instead of sharing the policy's"
    )
    scale: bool = option(True, help=_SCALE)


@frozen(kw_only=True)
class VectorPart:
    """Encoder of leaves as one vector: flattened, joined, hidden layers."""

    leaves: tuple[str, ...] = option(check=each(Check("a leaf", bool)), help="leaves to read, joined in this order")
    hidden: tuple[int, ...] = option(
        (256, 128), _SIZES, help="units of the hidden layers, first to last; empty: no layers"
    )


@frozen(kw_only=True)
class ImagePart:
    """Encoder of one leaf ``[height, width, channels]``."""

    leaf: str = option(help="leaf to read")
    kind: str = option(
        "residual",
        one_of("residual", "conv", "impala"),
        help="residual: one block of two convolutions and a shortcut per entry of channels; conv: one convolution; "
        "impala: one block of a convolution, a maximum and two residual blocks",
    )
    channels: tuple[int, ...] = option(
        (32, 64, 128), _LAYERS, help="channels, first to last; ≥ 1 each; AET: 32, 64, 128"
    )
    kernel: int | tuple[int, ...] = option(
        3,
        _CELLS_OF_LAYERS,
        help="side of the square kernels in cells, one for all or one per layer; ≥ 1, odd for blocks",
    )
    stride: int | tuple[int, ...] = option(
        2,
        _CELLS_OF_LAYERS,
        help="step of each block or convolution in cells, one for all or one per layer; ≥ 1; 2 halves the image",
    )
    padding: str = option(
        "same", one_of("same", "none"), help="cells around the image: same: half a kernel; none: no cells, conv only"
    )
    pool: str = option(
        "mean",
        one_of("mean", "max", "flatten", "grid"),
        help="pooling of the last cells: mean, max, flatten for no pooling, or grid: means of blocks of cells",
    )
    cells: int = option(64, whole(1, 2**31), help="largest number of cells after the pooling grid; ≥ 1")
    hidden: tuple[int, ...] = option((), _SIZES, help="units of the hidden layers after pooling; may be empty")


@frozen(kw_only=True)
class EntityPart:
    """Encoder of a variable number of entities ``[E, f]`` with the same hidden layers for each."""

    leaf: str = option(help="leaf of shape (E, f): a row of features for each entity")
    present: str = option("", help='leaf of shape (E,) that is 0 for absent entities; "": all are present')
    hidden: tuple[int, ...] = option((256, 128), _LAYERS, help="units of the hidden layers, first to last; ≥ 1 each")
    pool: str = option(
        "max",
        one_of("max", "mean", "attention", "concat"),
        help="pooling of the entities present: max, mean, attention (learned weights); concat: all entities, in order",
    )
    key: int = option(
        0, whole(0, _MOST_UNITS), help="additional units of the last hidden layer, the entity's key for attention; ≥ 0"
    )


@frozen(kw_only=True)
class AttentionPart:
    """An action label whose choices are entities: p(t|a) = softmax(FC(h) · keys) over entities present [HoK eq. 1]."""

    head: str = option("policy", help="head that contains the label")
    label: int = option(check=whole(0, _MOST_UNITS), help="position of the label in the head; ≥ 0")
    entities: tuple[str, ...] = option(
        check=each(Check("a table below entities", bool)), help="tables below `entities`, in the order of the choices"
    )
    plain: int = option(0, whole(0, _MOST_UNITS), help="choices before the entities, such as no target; ≥ 0")


@frozen(kw_only=True)
class ModularConfig:
    """Encoders side by side, a torso, a recurrent core, and heads with hidden layers."""

    vectors: Mapping[str, VectorPart] = option({}, _PARTS, help="encoders of vectors, by names of your choice")
    images: Mapping[str, ImagePart] = option({}, _PARTS, help="encoders of images, by names of your choice")
    entities: Mapping[str, EntityPart] = option({}, _PARTS, help="encoders of entities, by names of your choice")
    rest: tuple[int, ...] = option(
        (), _SIZES, help="units of the hidden layers over all leaves that no encoder reads; empty: no layers"
    )
    torso: tuple[int, ...] = option(
        (256, 256), _SIZES, help="units of the hidden layers over the joined features of the encoders; may be empty"
    )
    core: str = option("none", one_of("none", "lstm", "gru"), help="recurrent core after the torso: none, lstm, gru")
    core_size: int = option(256, _UNITS, help="units of the core; ≥ 1")
    heads: tuple[int, ...] = option((), _SIZES, help="units of the hidden layers of every head except critic heads")
    critic_heads: tuple[int, ...] = option((), _SIZES, help="units of the hidden layers of every critic head")
    attention: tuple[AttentionPart, ...] = option((), help="action labels whose choices are entities")
    separate_critic: bool = option(
        False, help="critic heads have their own encoders, torso and core instead of sharing the policy's"
    )
    activation: str = option("relu", _ACTIVATIONS, help="activation after every layer: tanh, relu, leaky_relu")
    normalize: bool = option(
        False, help="normalize vectors and entities to mean 0 and deviation 1 by running statistics"
    )
    normalize_clip: float = option(10.0, above(0), help="largest absolute value after normalization; > 0")
    scale: bool = option(True, help=_SCALE)


@frozen(kw_only=True)
class AETConfig:
    """The network of Asymmetric-Evolution Training [AET §3.2.3, table 3]."""

    PRESETS: ClassVar[Presets] = {  # [AET table 3]
        "aet": {"channels": (32, 64, 128), "encoder": (256, 128), "torso": (1024,), "heads": (512, 256)}
    }

    channels: tuple[int, ...] = option(
        (32, 64, 128), _LAYERS, help="channels of the residual blocks over images; paper: 32, 64, 128"
    )
    encoder: tuple[int, ...] = option(
        (256, 128), _LAYERS, help="units of the hidden layers over each other leaf; paper: 256, 128"
    )
    torso: tuple[int, ...] = option(
        (1024,), _SIZES, help="units of the hidden layers over the joined encodings; paper: from 1,280 to 1024"
    )
    heads: tuple[int, ...] = option(
        (512, 256), _SIZES, help="units of the hidden layers of policy and value each; paper: 512, 256"
    )
    concat: tuple[str, ...] = option(
        (), help="entity leaves that are concatenated instead of pooled, such as teammates of a fixed order"
    )
    present: str = option(
        "_present", help="suffix of the mask of an entity leaf: the mask of leaf X is leaf X + suffix"
    )
    normalize: bool = option(False, help="running normalization of vectors and entities")


@frozen(kw_only=True)
class DISConfig:
    """The network of Diversity is Strength: six dense layers, three of them shared [DIS appendix C]."""

    PRESETS: ClassVar[Presets] = {  # the paper gives the numbers of layers, not their sizes
        "dis": {"shared": (256, 256, 256), "heads": (256, 256)},
        "dis-mappo": {"shared": (256, 256, 256), "heads": (256, 256), "separate_critic": True},
    }

    shared: tuple[int, ...] = option(
        (256, 256, 256), _SIZES, help="units of the layers that policy and value share; paper: three, sizes not given"
    )
    heads: tuple[int, ...] = option(
        (256, 256), _SIZES, help="units of the hidden layers of policy and value each; paper: two, sizes not given"
    )
    separate_critic: bool = option(False, help="policy and value share no layers, as in the paper's MAPPO")
    normalize: bool = option(False, help="running normalization of all leaves")


@frozen(kw_only=True)
class HoKConfig:
    """The network of the Honor of Kings paper: units, LSTM, target attention [HoK §4, figure 2]."""

    PRESETS: ClassVar[Presets] = {"hok": {"core": "lstm", "target": 5}}  # [HoK §4]; the paper gives no sizes

    channels: tuple[int, ...] = option((16, 32), _LAYERS, help="channels of the convolutions over images; ≥ 1 each")
    units: tuple[int, ...] = option(
        (128, 128), _LAYERS, help="units of the layers over each unit of the game; ≥ 1 each"
    )
    key: int = option(32, _UNITS, help="units of a key; ≥ 1")
    vector: tuple[int, ...] = option((128, 128), _SIZES, help="units of the layers over all other leaves, joined")
    torso: tuple[int, ...] = option((256,), _SIZES, help="units of the layers between the encoders and the LSTM")
    core: str = option("lstm", one_of("none", "lstm", "gru"), help="recurrent core; paper: lstm")
    core_size: int = option(256, _UNITS, help="units of the core; ≥ 1")
    heads: tuple[int, ...] = option((), _SIZES, help="units of the hidden layers of policy and value each")
    target: int = option(
        5,
        whole(-1, _MOST_UNITS),
        help="position of the label that chooses a unit by attention; -1: no such label; paper: 5",
    )
    targets: tuple[str, ...] = option(
        (), help="entity leaves of the label's choices, in order; empty: all, in the order of the observation"
    )
    plain: int = option(0, whole(0, _MOST_UNITS), help="choices of the label before the units, such as no target; ≥ 0")
    present: str = option(
        "_present", help="suffix of the mask of an entity leaf: the mask of leaf X is leaf X + suffix"
    )
    normalize: bool = option(False, help="running normalization of vectors and units")
