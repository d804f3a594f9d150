"""Register the command ``ludus bench``."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Register ``ludus bench``."""
    return [
        Component(
            name="bench",
            factory="ludus_bench.command:bench",
            summary="Measure the speed of every part of ludus on this machine.",
        )
    ]
