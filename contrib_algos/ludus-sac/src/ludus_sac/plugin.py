"""Registers soft actor-critic; imports nothing heavy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_algorithms() -> list[Component]:
    """Register ``sac``."""
    return [
        Component(
            name="sac",
            factory="ludus_sac.algorithm:SAC",
            config="ludus_sac.config:SACConfig",
            summary="soft actor-critic with replay for Box and Discrete actions: twin critics, learned temperature",
        )
    ]
