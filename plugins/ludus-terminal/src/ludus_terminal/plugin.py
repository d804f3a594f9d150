"""Register the commands, and the display of a run in the terminal."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Register the commands of this package, each in the module of its name except ``eval``."""
    return [
        Component(name=name, factory=f"ludus_terminal.{factory}", summary=summary)
        for name, factory, summary in (
            ("check", "check:check", "Check a TOML file: plugins, spaces, shapes, one real step."),
            ("doctor", "doctor:doctor", "Check this host and suggest fixes of problems."),
            ("eval", "evaluate:evaluate", "Play participants against each other and count the results."),
            ("gate", "gate:gate", "Test in few matches whether a participant is stronger."),
            ("league", "league:league", "Show, rate, compare and promote the models of a run."),
            ("levels", "levels:levels", "Make difficulty levels of the models of a run."),
            ("play", "play:play", "Play against a model or a scripted agent."),
            ("plugins", "plugins:plugins", "List the installed plugins and their components."),
            ("replay", "replay:replay", "Show, record or verify matches that a run has recorded."),
            ("report", "report:report", "Show the scores and ratings of the newest models of a run."),
            ("watch", "watch:watch", "Watch or record matches between participants."),
        )
    ]


@hookimpl
def ludus_register_metric_sinks() -> list[Component]:
    """Register the display of ``ludus train``."""
    return [
        Component(
            name="terminal",
            factory="ludus_terminal.display:make_display",
            summary="A live table in a terminal, or lines of text.",
        )
    ]
