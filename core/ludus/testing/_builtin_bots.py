"""The matches of built-in bots that are checked."""

from __future__ import annotations

from collections.abc import Iterator

from ludus.environment import EnvironmentSpec, Scenario


def bot_scenarios(spec: EnvironmentSpec) -> Iterator[Scenario]:
    """Yield the scenarios in which every built-in bot fills the seats of its role in one team, for every team.

    A last one has a bot in every seat that can have one.
    """
    for role in spec.roles:
        for bot in role.builtin:
            for team in sorted(set(role.teams)):
                yield Scenario(
                    builtin=tuple(bot if (seat.role, seat.team) == (role.name, team) else "" for seat in spec.seats)
                )
    if any(spec.builtin):
        yield Scenario(builtin=tuple(bots[0] if bots else "" for bots in spec.builtin))
