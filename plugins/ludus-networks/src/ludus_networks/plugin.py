"""Registers the networks; imports nothing heavy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_networks() -> list[Component]:
    """Offer ``mlp``, ``conv``, ``modular``, and ``aet``, ``dis`` and ``hok`` made of the same parts."""
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
            summary="small convolutional network over board or image leaves, other leaves joined after",
        ),
        Component(
            name="modular",
            factory="ludus_networks.modular:make_modular",
            config="ludus_networks.config:ModularConfig",
            summary="encoders of vectors, images and entities, torso, memory, heads, target attention; all optional",
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
