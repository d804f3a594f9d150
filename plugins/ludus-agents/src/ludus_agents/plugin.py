"""Registers the agents ``builtin``, ``model`` and ``python``."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register ``builtin``, ``model`` and ``python``."""
    return [
        Component(
            name="builtin",
            factory="ludus_agents.builtin:make_builtin",
            config="ludus_agents.config:BuiltinConfig",
            summary="A bot of the environment itself, such as the computer opponent of a video game, by its name",
        ),
        Component(
            name="model",
            factory="ludus_agents.model:make_model",
            config="ludus_agents.config:ModelConfig",
            summary="A frozen model of another run, chosen by its file; evaluates its positions",
        ),
        Component(
            name="python",
            factory="ludus_agents.python:make_python",
            config="ludus_agents.config:PythonConfig",
            summary="An agent of your own module, by the import path of its class",
        ),
    ]
