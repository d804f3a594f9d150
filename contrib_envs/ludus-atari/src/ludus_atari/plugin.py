"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register one environment for all two-player Atari games."""
    return [
        Component(
            name="atari",
            factory="ludus_atari.game:make_environment",
            config="ludus_atari.config:AtariConfig",
            summary="two-player Atari games such as boxing, pong and tennis, from RAM or images",
        )
    ]
