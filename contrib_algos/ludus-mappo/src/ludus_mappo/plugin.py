"""Registers MAPPO; imports nothing heavy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_algorithms() -> list[Component]:
    """Register ``mappo``."""
    return [
        Component(
            name="mappo",
            factory="ludus_mappo.algorithm:make_mappo",
            config="ludus_mappo.config:MAPPOConfig",
            summary="PPO with a separate critic that reads global information",
        )
    ]
