"""Register the commands, and the display of a run in the terminal."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Register ``ludus check``, ``doctor``, ``eval``, ``league``, ``play``, ``plugins``, ``report`` and ``watch``."""
    return [
        Component(
            name="check",
            factory="ludus_terminal.check:check",
            summary="Check a TOML file: plugins, spaces, shapes, one real step.",
        ),
        Component(
            name="doctor",
            factory="ludus_terminal.doctor:doctor",
            summary="Check this host and suggest fixes of problems.",
        ),
        Component(
            name="eval",
            factory="ludus_terminal.evaluate:evaluate",
            summary="Play participants against each other and count the results.",
        ),
        Component(
            name="league",
            factory="ludus_terminal.league:league",
            summary="Show, rate, compare and promote the models of a run.",
        ),
        Component(name="play", factory="ludus_terminal.play:play", summary="Play against a model or a scripted agent."),
        Component(
            name="plugins",
            factory="ludus_terminal.plugins:plugins",
            summary="List the installed plugins and their components.",
        ),
        Component(
            name="report",
            factory="ludus_terminal.report:report",
            summary="Show the scores and ratings of the newest models of a run.",
        ),
        Component(name="watch", factory="ludus_terminal.play:watch", summary="Watch a match between two participants."),
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
