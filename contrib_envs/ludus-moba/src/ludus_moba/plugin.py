"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the game."""
    return [
        Component(
            name="moba",
            factory="ludus_moba.environment:Moba",
            config="ludus_moba.config:MobaConfig",
            summary="1v1 MOBA on one lane: four heroes, minions, turrets, gold; six action labels, units as entities",
        )
    ]


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register opponents for the game."""
    return [
        Component(
            name="moba-bot",
            factory="ludus_moba.bot:MobaBot",
            config="ludus_moba.config:BotConfig",
            summary="a scripted hero; strength 1 wanders, 2 pushes, 3 fights with care, 4 kites and combines skills",
            environments=("moba",),
        )
    ]
