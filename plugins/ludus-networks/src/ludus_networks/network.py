"""Networks ``mlp`` and ``conv``: options of ``modular``, filled in."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import attrs
from gymnasium import Space
from ludus.errors import ContractError
from ludus.network import NetworkRequest
from ludus.spaces import is_image

from ludus_networks.config import ConvConfig, ImagePart, MLPConfig, ModularConfig, VectorPart
from ludus_networks.images import cells_to_keep
from ludus_networks.modular import ModularNetwork, build

_SMALL_SIDE, _LARGE_SIDE = 20, 64  # cells; boards have at most 19


def make_mlp(config: MLPConfig, *, request: NetworkRequest) -> ModularNetwork:
    """Return a multi-layer perceptron over all leaves."""
    options = ModularConfig(
        vectors=_privileged_vectors(request, config.hidden),
        torso=config.hidden,
        activation=config.activation,
        separate_critic=config.separate_critic,
        scale=config.scale,
    )
    network = build(options, request, name="mlp")
    for leaf, space in request.observation.items():
        if is_image(space) and min((space.shape or ())[:2]) > _SMALL_SIDE:  # boards are smaller
            text = f"each unit reads all numbers of the image {leaf} {list(space.shape or ())}"
            network.advise(f'{text}; network = "conv" learns from images with far fewer weights')
    return network


def choose_structure(space: Space[Any], config: ConvConfig) -> ConvConfig:
    """Return the options for one image, with those that are not given filled in.

    They are those of a preset: by the shorter side of the image ``small`` up to 20 cells, ``medium`` below 64, and
    ``atari`` from 64 on. If `channels` are given, the others are those of ``small``.
    """
    height, width, _ = space.shape or ()
    side = min(height, width)
    name = "small" if config.channels or side <= _SMALL_SIDE else "medium" if side < _LARGE_SIDE else "atari"
    given = {key: value for key, value in attrs.asdict(config).items() if value not in ((), "")}
    return ConvConfig(**{"padding": "same", **ConvConfig.PRESETS[name], **given})


def make_conv(config: ConvConfig, *, request: NetworkRequest) -> ModularNetwork:
    """Return a convolutional network.

    Raises:
        ContractError: No observation leaf is an image, or an image is smaller than a kernel.
    """
    images = {leaf: space for leaf, space in request.observation.items() if is_image(space)}
    if not images:
        leaves = ", ".join(f"{leaf} {space.shape}" for leaf, space in request.observation.items())
        raise ContractError(
            f"network 'conv': expected a Box leaf of shape (height, width, channels), got {leaves}; use network 'mlp'"
        )
    chosen = {leaf: choose_structure(space, config) for leaf, space in images.items()}
    hidden = max(chosen.values(), key=lambda structure: structure.hidden[0]).hidden
    hidden_images = {leaf: space for leaf, space in request.privileged.items() if is_image(space)}
    parts = {
        str(i): _image_part(leaf, structure, units=hidden[0], images=len(images))
        for i, (leaf, structure) in enumerate(chosen.items())
    }
    for i, (leaf, space) in enumerate(hidden_images.items()):
        structure = choose_structure(space, config)
        part = _image_part(leaf, structure, units=structure.hidden[0], images=1)
        parts[f"privileged-{i}"] = attrs.evolve(part, hidden=structure.hidden)
    options = ModularConfig(
        vectors=_privileged_vectors(request, hidden, exclude=hidden_images),
        images=parts,
        torso=hidden,
        activation=config.activation,
        separate_critic=config.separate_critic,
        scale=config.scale,
    )
    return build(options, request, name="conv")


def _image_part(leaf: str, structure: ConvConfig, *, units: int, images: int) -> ImagePart:
    """Return the encoder of one of several images, whose cells `units` units read."""
    return ImagePart(
        leaf=leaf,
        kind=structure.kind,
        channels=structure.channels,
        kernel=structure.kernel,
        stride=structure.stride,
        padding=structure.padding,
        pool="grid",
        cells=cells_to_keep(units * structure.channels[-1], images=images, dense_weights=structure.dense_weights),
    )


def _privileged_vectors(
    request: NetworkRequest, hidden: tuple[int, ...], *, exclude: Collection[str] = ()
) -> dict[str, VectorPart]:
    """Return one encoder for all privileged leaves except some."""
    leaves = tuple(leaf for leaf in request.privileged if leaf not in exclude)
    return {"privileged": VectorPart(leaves=leaves, hidden=hidden)} if leaves else {}
