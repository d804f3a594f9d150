"""Register the components of this distribution. Factories are import paths: this module must be cheap to import."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1  # level of the plugin API


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the environment; its factory is called in samplers, evaluators and on the command line."""
    return [
        Component(
            name="rock-paper-scissors",
            factory="ludus_rock_paper_scissors.environment:Game",
            config="ludus_rock_paper_scissors.config:Config",
            summary="Rock paper scissors over several rounds",
        )
    ]


@hookimpl
def ludus_register_matchmakers() -> list[Component]:
    """Register the matchmaker; its factory is called in the coordinator."""
    return [
        Component(
            name="beat-the-nemesis",
            factory="ludus_rock_paper_scissors.matchmaker:BeatTheNemesis",
            config="ludus_rock_paper_scissors.config:NemesisConfig",
            summary="The frozen model that beats the player most",
        )
    ]
