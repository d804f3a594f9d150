"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register scenarios of one player, and deathmatches."""
    return [
        Component(
            name="vizdoom",
            factory="ludus_vizdoom.scenario_game:make_environment",
            config="ludus_vizdoom.config:ScenarioConfig",
            summary="Doom scenarios of ViZDoom for one player",
        ),
        Component(
            name="vizdoom-deathmatch",
            factory="ludus_vizdoom.deathmatch:make_environment",
            config="ludus_vizdoom.config:DeathmatchConfig",
            summary="Doom deathmatches of ViZDoom, against bots or between players",
        ),
    ]


@hookimpl
def ludus_register_interfaces() -> list[Component]:
    """Register the interfaces of Arena by the names of the paper."""
    kinds = {
        "screen-as-obs": ("make_screen", "ScreenConfig", "The screen, without depth and classes of objects"),
        "segmentation-as-obs": (
            "make_segmentation",
            "SegmentationConfig",
            "The classes of objects as an image with a channel for each class",
        ),
        "discrete-action-7": ("make_actions", "ActionConfig", "Seven actions, each of which presses one button"),
        "post-rule-action": (
            "make_post_rules",
            "PostRuleConfig",
            "Rules that change actions: run, turn faster, hold fire, step aside from barrels",
        ),
    }
    return [
        Component(
            name=name,
            factory=f"ludus_vizdoom.interfaces:{factory}",
            config=f"ludus_vizdoom.config:{config}",
            summary=summary,
        )
        for name, (factory, config, summary) in kinds.items()
    ]
