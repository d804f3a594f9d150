"""Register the command ``ludus dashboard``."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Register ``ludus dashboard``."""
    return [
        Component(
            name="dashboard",
            factory="ludus_dashboard.command:dashboard",
            summary="Show runs in the browser, also while they go on.",
        )
    ]
