"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register one environment for all single-agent Gymnasium environments."""
    return [
        Component(
            name="gymnasium",
            factory="ludus_gymnasium.environment:make_environment",
            config="ludus_gymnasium.config:GymnasiumConfig",
            summary="any single-agent Gymnasium environment, by its id",
        )
    ]
