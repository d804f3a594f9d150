"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the game, and teams as joint seats by the name of Arena."""
    return [
        Component(
            name="soccer",
            factory="ludus_soccer.game:make_environment",
            config="ludus_soccer.config:SoccerConfig",
            summary="MuJoCo soccer of dm_control, one against one and larger teams",
        ),
        Component(
            name="make-team",
            factory="ludus_interfaces.factories:team_environment",
            config="ludus_interfaces.config:AsTeamConfig",
            summary="as-team by its name in Arena: the seats of a team are one joint seat",
        ),
    ]


@hookimpl
def ludus_register_interfaces() -> list[Component]:
    """Register the interface ``flatten`` by the names that Arena gives to its uses."""
    summaries = {
        "dict2vec": "flatten by its name in Arena: all observation leaves of a player as one vector",
        "concat-obs-act": "flatten by its name in Arena: the observations of a joint seat as one vector",
    }
    factory = "ludus_interfaces.factories:flatten"
    return [Component(name=name, factory=factory, summary=summary) for name, summary in summaries.items()]
