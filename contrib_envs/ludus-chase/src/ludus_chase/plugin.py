"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the game."""
    return [
        Component(
            name="chase",
            factory="ludus_chase.environment:Chase",
            config="ludus_chase.config:ChaseConfig",
            summary="one cat against four mice: push five cheeses into holes, break a wall, escape; 18 x 16 actions",
        )
    ]


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register opponents for the game."""
    return [
        Component(
            name="chase-bot",
            factory="ludus_chase.bot:make_bot",
            config="ludus_chase.config:BotConfig",
            summary="a scripted cat or mouse, by its role; strength weak, medium or strong",
            environments=("chase",),
        ),
        Component(
            name="chase-random",
            factory="ludus.agent:RandomAgent",
            summary="any legal action",
            environments=("chase",),
        ),
    ]


@hookimpl
def ludus_register_interfaces() -> list[Component]:
    """Register an interface of the game."""
    return [
        Component(
            name="chase-nearest",
            factory="ludus_chase.nearest:make_nearest",
            config="ludus_chase.config:NearestConfig",
            summary="the nearest things of each group first, and few of them",
            environments=("chase",),
        )
    ]
