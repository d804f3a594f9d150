"""Registers the networks; imports nothing heavy."""

from __future__ import annotations

from ludus import Component, hookimpl


@hookimpl
def ludus_register_networks() -> list[Component]:
    """Offer ``mlp`` and ``conv``."""
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
    ]
