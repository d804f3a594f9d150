"""What this distribution offers to ludus. Nothing heavy is imported here: factories are given as import paths."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1  # the level of hooks that this is made for


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Offer the environment; its factory is called in samplers, evaluators and on the command line."""
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
    """Offer the matchmaker; its factory is called in the coordinator."""
    return [
        Component(
            name="beat-the-nemesis",
            factory="ludus_rock_paper_scissors.matchmaker:BeatTheNemesis",
            config="ludus_rock_paper_scissors.config:NemesisConfig",
            summary="Plays whoever it loses to most",
        )
    ]
