"""What this distribution offers to ludus."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Offer ``model``."""
    return [
        Component(
            name="model",
            factory="ludus_agents.model:make_model",
            config="ludus_agents.config:ModelConfig",
            summary="a frozen model of another run, by its file; evaluates its positions",
        )
    ]
