"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register games in processes of their own."""
    return [
        Component(
            name="remote",
            factory="ludus_remote.environment:RemoteEnvironment",
            config="ludus_remote.config:RemoteConfig",
            summary="a game in a process of its own, in any language, by the game protocol",
        )
    ]


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Register ``ludus remote-schema`` and ``ludus serve``."""
    return [
        Component(
            name="remote-schema",
            factory="ludus_remote.command:remote_schema",
            summary="Write the schema of a running game to a file.",
        ),
        Component(
            name="serve",
            factory="ludus_remote.serve_command:serve",
            summary="Serve models to games, by the game protocol.",
        ),
    ]
