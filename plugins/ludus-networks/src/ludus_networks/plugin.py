"""Register the networks. Imports neither torch nor NumPy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_networks() -> list[Component]:
    """Register ``mlp``, ``conv``, ``modular``, and the networks of papers ``aet``, ``dis`` and ``hok``."""
    return [
        Component(
            name="mlp",
            factory="ludus_networks.network:make_mlp",
            config="ludus_networks.config:MLPConfig",
            summary="multi-layer perceptron over all observation leaves, flattened",
        ),
        Component(
            name="conv",
            factory="ludus_networks.network:make_conv",
            config="ludus_networks.config:ConvConfig",
            summary="convolutions over board or image leaves, joined with all other leaves",
        ),
        Component(
            name="modular",
            factory="ludus_networks.modular:make_modular",
            config="ludus_networks.config:ModularConfig",
            summary="encoders of vectors, images, entities; torso, recurrent core, heads, attention; all optional",
        ),
        Component(
            name="aet",
            factory="ludus_networks.presets:make_aet",
            config="ludus_networks.config:AETConfig",
            summary="residual image encoder, an encoder per leaf, pooled entities [Asymmetric-Evolution Training]",
        ),
        Component(
            name="dis",
            factory="ludus_networks.presets:make_dis",
            config="ludus_networks.config:DISConfig",
            summary="six dense layers, three shared by policy and value [Diversity is Strength]",
        ),
        Component(
            name="hok",
            factory="ludus_networks.presets:make_hok",
            config="ludus_networks.config:HoKConfig",
            summary="image, units by type, LSTM, target attention [Honor of Kings]",
        ),
    ]
