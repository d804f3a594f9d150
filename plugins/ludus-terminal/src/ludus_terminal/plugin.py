"""What ludus finds: the commands that look at things, and the table that a terminal shows during a run."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Offer ``ludus check``, ``doctor``, ``eval``, ``league``, ``play``, ``plugins``, ``report`` and ``watch``."""
    return [
        Component(
            name="check",
            factory="ludus_terminal.check:check",
            summary="Check a TOML file: plugins, spaces, shapes, one real step.",
        ),
        Component(
            name="doctor",
            factory="ludus_terminal.doctor:doctor",
            summary="Check this computer and say what to do about problems.",
        ),
        Component(
            name="eval",
            factory="ludus_terminal.evaluate:evaluate",
            summary="Play two participants against each other and count.",
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
            summary="List what is installed and what each plugin offers.",
        ),
        Component(
            name="report",
            factory="ludus_terminal.report:report",
            summary="Show what a run has come to: records and ratings of its newest models.",
        ),
        Component(name="watch", factory="ludus_terminal.play:watch", summary="Watch a match between two participants."),
    ]


@hookimpl
def ludus_register_metric_sinks() -> list[Component]:
    """Offer the display that ``ludus train`` shows."""
    return [
        Component(
            name="terminal",
            factory="ludus_terminal.display:make_display",
            summary="A live table in the terminal; elsewhere lines.",
        )
    ]
