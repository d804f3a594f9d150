"""Networks ``mlp`` and ``conv``: options of ``modular``, filled in."""

from __future__ import annotations

from ludus.errors import ContractError
from ludus.network import NetworkRequest
from ludus.spaces import is_image

from ludus_networks.config import ConvConfig, ImagePart, MLPConfig, ModularConfig, VectorPart
from ludus_networks.modular import ModularNetwork, build


def make_mlp(config: MLPConfig, *, request: NetworkRequest) -> ModularNetwork:
    """Return a multi-layer perceptron over all leaves."""
    options = ModularConfig(
        vectors=_privileged_vectors(request, config.hidden),
        torso=config.hidden,
        activation=config.activation,
        separate_critic=config.separate_critic,
        scale=config.scale,
    )
    return build(options, request, name="mlp")


def make_conv(config: ConvConfig, *, request: NetworkRequest) -> ModularNetwork:
    """Return a convolutional network; privileged leaves pass through hidden layers only.

    Raises:
        ContractError: No observation leaf is an image.
    """
    images = [leaf for leaf, space in request.observation.items() if is_image(space)]
    if not images:
        leaves = ", ".join(f"{leaf} {space.shape}" for leaf, space in request.observation.items())
        raise ContractError(
            f"network 'conv': expected a Box leaf of shape (height, width, channels), got {leaves}; use network 'mlp'"
        )
    options = ModularConfig(
        vectors=_privileged_vectors(request, config.hidden),
        images={
            str(i): ImagePart(
                leaf=leaf,
                kind="conv",
                channels=config.channels,
                kernel=config.kernel,
                stride=config.stride,
                pool="flatten",
            )
            for i, leaf in enumerate(images)
        },
        torso=config.hidden,
        activation=config.activation,
        separate_critic=config.separate_critic,
        scale=config.scale,
    )
    return build(options, request, name="conv")


def _privileged_vectors(request: NetworkRequest, hidden: tuple[int, ...]) -> dict[str, VectorPart]:
    """Return one encoder for all privileged leaves."""
    if not request.privileged:
        return {}
    return {"privileged": VectorPart(leaves=tuple(request.privileged), hidden=hidden)}
