"""Register the command."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Register ``ludus new-plugin``."""
    return [
        Component(
            name="new-plugin",
            factory="ludus_scaffold.command:new_plugin",
            summary="Write a new plugin package that passes its own tests.",
        )
    ]
