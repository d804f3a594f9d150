"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register one environment for all of OpenSpiel."""
    return [
        Component(
            name="openspiel",
            factory="ludus_openspiel.environment:make_environment",
            config="ludus_openspiel.config:OpenSpielConfig",
            summary="any OpenSpiel game with turns or simultaneous moves, by its name and parameters",
        )
    ]


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register OpenSpiel's tree search and its CFR solver."""
    return [
        Component(
            name="openspiel-mcts",
            factory="ludus_openspiel.mcts:make_agent",
            config="ludus_openspiel.config:MCTSConfig",
            summary="OpenSpiel's Monte Carlo tree search, in turn-based games of perfect information without chance",
            environments=("openspiel",),
        ),
        Component(
            name="openspiel-cfr",
            factory="ludus_openspiel.cfr:make_agent",
            config="ludus_openspiel.config:CFRConfig",
            summary="close to an equilibrium: the average policy of OpenSpiel's CFR, in small games",
            environments=("openspiel",),
        ),
    ]


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Register the command ``ludus exploitability``."""
    return [
        Component(
            name="exploitability",
            factory="ludus_openspiel.command:exploitability",
            summary="How much a perfect opponent gains against a model, or the average of all, in a small game.",
        )
    ]
