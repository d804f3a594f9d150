"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the game."""
    return [
        Component(
            name="football",
            factory="ludus_football.game:make_environment",
            config="ludus_football.config:FootballConfig",
            summary="Google Research Football: matches of teams of 1 to 11, and its academy",
        )
    ]


@hookimpl
def ludus_register_interfaces() -> list[Component]:
    """Register the rewards of single players, and local observations for MAPPO."""
    return [
        Component(
            name="football-rewards",
            factory="ludus_football.interfaces:make_rewards",
            config="ludus_football.reward_config:RewardFactorsConfig",
            summary="The rewards of football that one player gets, such as those of an explorer of DIS",
        ),
        Component(
            name="football-local",
            factory="ludus_football.interfaces:make_local",
            summary="What concerns the own player, the ball and the players next to it, for policies of MAPPO",
        ),
    ]


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Register the command ``ludus football-heatmap``."""
    return [
        Component(
            name="football-heatmap",
            factory="ludus_football.command:football_heatmap",
            summary="Draw where the players of a team are in matches against opponents.",
        )
    ]
