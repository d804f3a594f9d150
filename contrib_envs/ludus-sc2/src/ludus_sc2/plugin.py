"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the game."""
    return [
        Component(
            name="sc2",
            factory="ludus_sc2.environment:make_environment",
            config="ludus_sc2.config:Sc2Config",
            summary="StarCraft II, Zerg against Zerg or the built-in AI, for users who have the game",
        )
    ]


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register an opponent for the game."""
    return [
        Component(
            name="sc2-rules",
            factory="ludus_sc2.agents:RulesAgent",
            summary="leaves production, harvesting and combat to rules",
            environments=("sc2",),
        )
    ]


@hookimpl
def ludus_register_interfaces() -> list[Component]:
    """Register the interfaces of Arena by the names of the paper."""
    kinds = {
        "zerg-sc2-learner-obs": (
            "observations:make_learner",
            "LearnerConfig",
            "Appends an image of units by kind, and a vector of counts, resources, time, workers and scores",
        ),
        "zerg-area-obs": ("observations:make_area", "", "Appends a vector of units and resources by resource area"),
        "zerg-tech-obs": ("observations:make_tech", "", "Appends a vector of researched technologies"),
        "zerg-unit-prog-obs": (
            "observations:make_unit_progress",
            "",
            "Appends a vector of buildings and technologies in progress",
        ),
        "zerg-flat-act": ("actions:make_flat", "", "One label of 165 macro actions"),
        "zerg-data": ("actions:make_data", "DataConfig", "Leaves the labels of some managers to rules"),
        "zerg-prod-act": ("actions:make_production", "", "The production label without rules: nothing, or an item"),
        "zerg-resource-act": ("actions:make_resource", "", "The resource label: gas first, minerals first, no change"),
        "zerg-combat-act": (
            "actions:make_combat",
            "",
            "The combat label: attack an area or the nearest enemy, defend, rally around the own or rival base",
        ),
    }
    return [
        Component(
            name=name,
            factory=f"ludus_sc2.{factory}",
            config=f"ludus_sc2.config:{config}" if config else None,
            summary=f"{summary} (sc2)",
        )
        for name, (factory, config, summary) in kinds.items()
    ]
