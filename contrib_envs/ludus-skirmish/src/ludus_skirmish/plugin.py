"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the game."""
    return [
        Component(
            name="skirmish",
            factory="ludus_skirmish.environment:Skirmish",
            config="ludus_skirmish.config:SkirmishConfig",
            summary="battles of two armies of units on the ground and in the air; a seat per army or per unit",
        )
    ]


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register opponents for the game."""
    return [
        Component(
            name="skirmish-bot",
            factory="ludus_skirmish.bot:SkirmishBot",
            config="ludus_skirmish.config:BotConfig",
            summary="a scripted army or unit; strength 1 attacks what is near, 2 focuses fire, 3 also retreats to wait",
            environments=("skirmish",),
        )
    ]


@hookimpl
def ludus_register_interfaces() -> list[Component]:
    """Register the interfaces of Arena by the names of the paper."""
    observations = {
        "img-5i-obs": ("make_5i", "Both armies on a grid of 8 x 8 x 6: health, shield, time until the next attack"),
        "img-3i2z-obs": ("make_3i2z", "Both armies on a grid of 8 x 8 x 16: the same and damage, by kind"),
        "img-mab-obs": ("make_mab", "Both armies on a grid of 16 x 16 x 18: health by kind, attacks of all kinds"),
    }
    actions = {
        "img-act": ("make_act", "Nine actions: eight moves, the nearest enemy; for armies a map of 8 x 8 cells"),
        "img-mab-act": (
            "make_mab_act",
            "Ten actions: eight moves, the nearest enemy on the ground or in the air first; two maps of 16 x 16 cells",
        ),
    }
    return [
        *(
            Component(name=name, factory=f"ludus_skirmish.interfaces:{factory}", config=None, summary=summary)
            for name, (factory, summary) in observations.items()
        ),
        *(
            Component(
                name=name,
                factory=f"ludus_skirmish.action_maps:{factory}",
                config="ludus_skirmish.config:ActionMapConfig",
                summary=summary,
            )
            for name, (factory, summary) in actions.items()
        ),
    ]
