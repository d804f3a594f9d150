"""Registers the agent ``model``."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register ``model``."""
    return [
        Component(
            name="model",
            factory="ludus_agents.model:make_model",
            config="ludus_agents.config:ModelConfig",
            summary="A frozen model of another run, chosen by its file; evaluates its positions",
        )
    ]
