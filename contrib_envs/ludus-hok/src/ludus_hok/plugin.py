"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the game."""
    return [
        Component(
            name="hok",
            factory="ludus_hok.game:make_environment",
            config="ludus_hok.config:HokConfig",
            summary="Honor of Kings 1v1, for users who hold the licensed hok_env",
        )
    ]
