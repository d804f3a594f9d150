"""Register the networks. Imports neither torch nor NumPy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


def _network(name: str, module: str, config: str, summary: str) -> Component:
    factory = f"ludus_networks.{module}:make_{name}"
    return Component(name=name, factory=factory, config=f"ludus_networks.config:{config}", summary=summary)


@hookimpl
def ludus_register_networks() -> list[Component]:
    """Register ``mlp``, ``conv``, ``modular``, and the networks of papers ``aet``, ``dis`` and ``hok``."""
    return [
        _network("mlp", "network", "MLPConfig", "multi-layer perceptron over all observation leaves, flattened"),
        _network(
            "conv", "network", "ConvConfig", "convolutions over board or image leaves, joined with all other leaves"
        ),
        _network(
            "modular",
            "modular",
            "ModularConfig",
            "encoders of vectors, images, entities; torso, recurrent core, heads, attention; all optional",
        ),
        _network(
            "aet",
            "presets",
            "AETConfig",
            "residual image encoder, an encoder per leaf, pooled entities [Asymmetric-Evolution Training]",
        ),
        _network(
            "dis", "presets", "DISConfig", "six dense layers, three shared by policy and value [Diversity is Strength]"
        ),
        _network("hok", "presets", "HoKConfig", "image, units by type, LSTM, target attention [Honor of Kings]"),
    ]
