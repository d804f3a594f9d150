"""What this distribution registers; imports nothing heavy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_launchers() -> list[Component]:
    """Offer the launcher ``hosts``."""
    return [
        Component(
            name="hosts",
            factory="ludus_hosts.launcher:HostsLauncher",
            config="ludus_hosts.config:HostsConfig",
            summary="like local, and samplers of other machines join with `ludus join`",
        )
    ]


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Offer ``ludus keys`` and ``ludus join``."""
    return [
        Component(
            name="keys",
            factory="ludus_hosts.command:keys",
            summary="Make the keys by which machines that join a run know it, and it them.",
        ),
        Component(
            name="join",
            factory="ludus_hosts.command:join",
            summary="Take part in a run of another machine with samplers.",
        ),
    ]
