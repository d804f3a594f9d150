"""What this distribution registers."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_launchers() -> list[Component]:
    """Register the launcher ``local``."""
    return [
        Component(
            name="local",
            factory="ludus_local.launcher:LocalLauncher",
            summary="workers are processes of this machine",
        )
    ]
