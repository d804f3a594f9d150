"""What ludus finds: three commands."""

from __future__ import annotations

from ludus import Component, hookimpl


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Offer ``ludus league``, ``ludus play`` and ``ludus watch``."""
    return [
        Component(
            name="league",
            factory="ludus_terminal.league:league",
            summary="Show payoffs, ratings, pools and lineage of a run.",
        ),
        Component(name="play", factory="ludus_terminal.play:play", summary="Play against a model or a scripted agent."),
        Component(name="watch", factory="ludus_terminal.play:watch", summary="Watch a match between two participants."),
    ]
