"""What ludus finds: one command."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Offer ``ludus bench``."""
    return [
        Component(
            name="bench",
            factory="ludus_bench.command:bench",
            summary="Measure how fast every part is here, and how far from what the machine can do.",
        )
    ]
