"""Tests of the sizes and presets of convolutional networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import ContractError
from ludus.network import NetworkRequest
from ludus_networks.config import ConvConfig, HoKConfig, ImagePart, ModularConfig
from ludus_networks.images import ImageEncoder, cells_after, grid_factor
from ludus_networks.layers import EncoderSettings
from ludus_networks.modular import make_modular
from ludus_networks.network import choose_structure, make_conv
from ludus_networks.presets import make_hok
from torch.nn import functional

SETTINGS = EncoderSettings(activation="relu", scale=False, clip=None)


def image(*shape):
    """Return the space of an image."""
    return spaces.Box(0, 255, shape, np.uint8)


def make_request(observation, privileged=None):
    """Return a request for a value only, whose head has one weight per unit."""
    return NetworkRequest(observation=observation, privileged=privileged or {}, heads={}, critic_heads={"value": 1})


def make(observation, privileged=None, **options):
    """Return a convolutional network without memory."""
    with torch.device("meta"):
        return make_conv(ConvConfig(**options), request=make_request(observation, privileged))


def preset(name):
    """Return the options of a preset."""
    return ConvConfig.PRESETS[name]


def num_weights(module):
    """Return the number of weights."""
    return sum(parameter.numel() for parameter in module.parameters())


SHAPES = [
    (1, 1, 1),
    (3, 3, 2),
    (6, 7, 2),
    (8, 8, 111),
    (9, 9, 4),
    (13, 13, 5),
    (19, 19, 17),
    (20, 300, 3),
    (21, 21, 3),
    (42, 42, 4),
    (63, 64, 1),
    (64, 64, 3),
    (84, 84, 4),
    (120, 160, 1),
    (210, 160, 3),
    (512, 512, 3),
    (720, 1280, 3),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "options", [{}, preset("small"), preset("medium"), preset("impala"), {"channels": (8,)}, {"dense_weights": 100_000}]
)
def test_the_first_dense_layer_is_limited(shape, options):
    """Whatever the size of the image and the layers."""
    network = make({"obs": image(*shape)}, **options)
    assert network.trunk.layers[0].weight.numel() <= options.get("dense_weights", 2_000_000)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_layers_for_atari_need_36_cells(shape):
    """They have no padding; smaller images raise one line."""
    if min(shape[:2]) >= 36:
        assert make({"obs": image(*shape)}, **preset("atari")).trunk.layers[0].weight.numel() <= 2_000_000
    else:
        with pytest.raises(ContractError, match=r"fewer than its kernel of \d; choose smaller kernels or strides"):
            make({"obs": image(*shape)}, **preset("atari"))


def test_the_limit_holds_for_all_images_together():
    """Each image gets an equal part."""
    network = make({"near": image(84, 84, 3), "far": image(210, 160, 3)}, {"all": image(600, 400, 3)})
    assert network.trunk.layers[0].weight.numel() <= 2_000_000
    hidden = network.privileged["image-privileged-0"]
    assert hidden.layers[0].weight.numel() <= 2_000_000
    assert hidden.width == 512


@pytest.mark.parametrize(
    ("sides", "name"),
    [
        ((3, 3), "small"),
        ((20, 400), "small"),
        ((400, 20), "small"),
        ((21, 21), "medium"),
        ((63, 84), "medium"),
        ((64, 64), "atari"),
        ((210, 160), "atari"),
    ],
)
def test_the_shorter_side_chooses_the_layers(sides, name):
    """Up to 20 cells a board, from 64 on the layers for Atari."""
    chosen = choose_structure(image(*sides, 3), ConvConfig())
    assert {key: getattr(chosen, key) for key in preset(name)} == preset(name)


def test_given_options_replace_the_chosen_ones():
    """With `channels`, kernels of 3 and steps of 1 follow."""
    chosen = choose_structure(image(84, 84, 3), ConvConfig(hidden=(7,), stride=(2, 2, 1)))
    assert (chosen.channels, chosen.kernel, chosen.stride, chosen.hidden) == ((32, 64, 64), (8, 4, 3), (2, 2, 1), (7,))
    chosen = choose_structure(image(84, 84, 3), ConvConfig(channels=(5,), kernel=5))
    assert (chosen.channels, chosen.kernel, chosen.stride, chosen.padding) == ((5,), 5, 1, "same")


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        # 8·8·4·32 + 32, 4·4·32·64 + 64, 3·3·64·64 + 64, and 7·7·64·512 + 512 weights [Mnih et al. 2015]
        ("atari", (84, 84, 4), 8_224 + 32_832 + 36_928 + 1_606_144),
        # IMPALA's deep network, as used for Procgen
        ("impala", (64, 64, 3), 448 + 4 * 2_320 + 4_640 + 4 * 9_248 + 9_248 + 4 * 9_248 + 524_544),
        ("small", (3, 3, 2), 608 + 18_496 + 9 * 64 * 128 + 128),
    ],
)
def test_presets_have_the_known_numbers_of_weights(name, shape, expected):
    """Besides the value head."""
    network = make({"obs": image(*shape)}, **preset(name))
    assert num_weights(network.trunk) == expected


def test_atari_layers_are_those_of_the_paper():
    """An image of 84 by 84 becomes 20, 9 and 7 cells wide, by convolutions without padding."""
    network = make_conv(ConvConfig(**preset("atari")), request=make_request({"obs": image(84, 84, 4)}))
    encoder = network.trunk.encoders["image-0"]
    cells = torch.rand(2, 84, 84, 4)
    x = cells.permute(0, 3, 1, 2)
    for index, stride in ((0, 4), (2, 2), (4, 1)):
        layer = encoder.tower[index]
        x = functional.relu(functional.conv2d(x, layer.weight, layer.bias, stride))
    assert x.shape == (2, 64, 7, 7)
    encoder._factor = 1.0
    torch.testing.assert_close(encoder({"obs": cells})[0], x.flatten(1))


def test_impala_blocks_are_those_of_the_paper():
    """A convolution, a maximum over 3 by 3 cells with a step of 2, and two residual blocks."""
    part = ImagePart(leaf="obs", kind="impala", channels=(4,), pool="flatten")
    encoder = ImageEncoder({"obs": spaces.Box(0, 1, (7, 6, 2))}, part, SETTINGS)
    cells = torch.rand(2, 7, 6, 2)

    def convolve(layer, x):
        return functional.conv2d(x, layer.weight, layer.bias, padding=1)

    block = encoder.tower[0]
    x = functional.max_pool2d(convolve(block.first, cells.permute(0, 3, 1, 2)), 3, 2, 1)
    for i in (0, 2):
        x = x + convolve(block.residual[i + 1], functional.relu(convolve(block.residual[i], functional.relu(x))))
    assert x.shape == (2, 4, 4, 3)
    torch.testing.assert_close(encoder({"obs": cells})[0], functional.relu(x).flatten(1))


def test_a_grid_holds_the_means_of_blocks():
    """Blocks at the border may be smaller."""
    part = ImagePart(leaf="obs", kind="conv", channels=(1,), kernel=1, stride=1, pool="grid", cells=4)
    encoder = ImageEncoder({"obs": spaces.Box(0, 1, (3, 4, 1))}, part, SETTINGS)
    with torch.no_grad():
        encoder.tower[0].weight.fill_(1.0)
    cells = torch.arange(12.0).reshape(1, 3, 4, 1)
    assert encoder({"obs": cells})[0].tolist() == [[2.5, 4.5, 8.5, 10.5]]
    assert encoder.width == 4


@pytest.mark.parametrize(
    ("cells", "most", "factor"), [((7, 7), 49, 1), ((7, 7), 48, 2), ((22, 16), 61, 3), ((1, 90), 1, 90), ((5, 5), 1, 5)]
)
def test_grid_factor(cells, most, factor):
    """The smallest one that leaves few enough cells."""
    assert grid_factor(cells, most) == factor


@pytest.mark.parametrize("part", [{"kind": "conv"}, {"kind": "residual"}, {"kind": "impala"}])
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 4, 2), (30, 31, 3)])
def test_cells_after_agrees_with_the_layers(part, shape):
    """The number of features is that of the cells."""
    config = ImagePart(leaf="obs", channels=(2, 3), pool="flatten", **part)
    encoder = ImageEncoder({"obs": image(*shape)}, config, SETTINGS)
    height, width = cells_after(image(*shape), config)
    features, _ = encoder({"obs": torch.zeros(1, *shape)})
    assert features.shape == (1, 3 * height * width)


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"kernel": (3,)}, r"images.eye.kernel: expected one number, or one per entry of channels \(2\), got \[3\]"),
        ({"kind": "impala", "kernel": 4}, "images.eye.kernel: expected odd numbers for impala blocks, got 4"),
        ({"padding": "none"}, 'images.eye.padding: expected "same" for residual blocks, got "none"'),
        (
            {"kind": "conv", "kernel": (8, 8), "stride": 2, "padding": "none"},
            "images.eye: layer 1 reads 7 by 8 cells of obs, fewer than its kernel of 8",
        ),
    ],
)
def test_layers_that_do_not_fit_raise(part, problem):
    """One line with the option."""
    config = ModularConfig(images={"eye": ImagePart(leaf="obs", channels=(2, 3), **part)})
    with pytest.raises(ContractError, match=problem):
        make_modular(config, request=make_request({"obs": image(20, 22, 3)}))


def test_networks_of_papers_are_limited_too():
    """The layer of `hok` over a large image."""
    request = NetworkRequest(observation={"obs": image(512, 512, 3)}, privileged={}, heads={"policy": 3})
    with torch.device("meta"):
        network = make_hok(HoKConfig(target=-1), request=request)
    assert network.trunk.encoders["image-obs"].layers[0].weight.numel() <= 2_000_000
