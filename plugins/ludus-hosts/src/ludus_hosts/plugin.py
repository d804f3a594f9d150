"""Registers the launcher and the commands; imports no heavy modules."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_launchers() -> list[Component]:
    """Register the launcher ``hosts``."""
    return [
        Component(
            name="hosts",
            factory="ludus_hosts.launcher:HostsLauncher",
            config="ludus_hosts.config:HostsConfig",
            summary="like local; samplers of other machines join with `ludus join`",
        )
    ]


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Register ``ludus keys``, ``ludus join`` and ``ludus release``."""
    return [
        Component(
            name="keys",
            factory="ludus_hosts.command:keys",
            summary="Make the keys by which a run and the machines that join it authenticate each other.",
        ),
        Component(
            name="join",
            factory="ludus_hosts.command:join",
            summary="Run samplers for a run of another machine.",
        ),
        Component(
            name="release",
            factory="ludus_hosts.command:release",
            summary="Show the machines that a run has quarantined, or let one join again.",
        ),
    ]
