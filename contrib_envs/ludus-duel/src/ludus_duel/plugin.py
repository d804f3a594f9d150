"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the game."""
    return [
        Component(
            name="duel",
            factory="ludus_duel.environment:Duel",
            config="ludus_duel.config:DuelConfig",
            summary="asynchronous melee duel: stances, feints, parries, guard breaks, dodges; 160 numbers, 36 actions",
        )
    ]


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register opponents for the game."""
    return [
        Component(
            name="duel-bot",
            factory="ludus_duel.bot:DuelBot",
            config="ludus_duel.config:BotConfig",
            summary="blocks, parries, punishes and mixes its attacks; strength weak or strong",
            environments=("duel",),
        ),
        Component(
            name="duel-random",
            factory="ludus_duel.bot:RandomAgent",
            config="ludus_duel.config:RandomConfig",
            summary="any legal action, waiting most of the time it could act",
            environments=("duel",),
        ),
    ]
