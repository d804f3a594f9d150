"""Scenarios: the named start states of an environment, and the seats that the environment fills by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attrs import field, frozen

from ludus import option
from ludus.errors import ContractError

__all__ = ["Scenario", "checked_scenarios"]


@frozen(kw_only=True)
class Scenario:
    """A named start state or modifier with its parameters, and the seats that built-in bots fill.

    Args:
        name: Name of the scenario; every environment has ``"default"``.
        parameters: Its parameters.
        builtin: For every seat of a match, in the order of `EnvironmentSpec.seats`, the built-in bot that fills it, or
            ``""`` where a participant plays; empty: no bots. The match engine sets it for the anchors of the agent
            ``builtin``.
    """

    name: str = field(default="default", validator=option.name())
    parameters: Mapping[str, float] = field(factory=dict)
    builtin: tuple[str, ...] = ()


def checked_scenarios(
    scenarios: Sequence[Scenario] | None,
    count: int,
    *,
    known: Mapping[str, Collection[str] | None],
    builtin: Sequence[Collection[str]] = (),
) -> Sequence[Scenario]:
    """Validate the scenarios given to `Environment.reset` and return them; an empty sequence means all default.

    Args:
        scenarios: Argument of `reset`.
        count: Number of matches that start.
        known: Parameter names of each scenario besides ``"default"``; None where they are not known here.
        builtin: Built-in bots of every seat, `EnvironmentSpec.builtin`; empty without any.

    Raises:
        ContractError: A scenario, parameter or built-in bot is unknown, or their number is wrong.
    """
    if scenarios is not None and len(scenarios) != count:
        raise ContractError(f"expected one scenario for each of {count} matches, got {len(scenarios)}")
    for scenario in scenarios or ():
        _check_scenario(scenario, known)
        if scenario.builtin:
            _check_builtin(scenario.builtin, builtin)
    return scenarios or ()


def _check_scenario(scenario: Scenario, known: Mapping[str, Collection[str] | None]) -> None:
    if scenario.name != "default" and scenario.name not in known:
        raise ContractError(f"unknown scenario {scenario.name!r}; there are {', '.join(('default', *known))}")
    accepted = known.get(scenario.name, ())
    if accepted is None:
        return
    for name in scenario.parameters:
        if name not in accepted:
            takes = f"the parameters {', '.join(accepted)}" if accepted else "no parameters"
            raise ContractError(f"scenario {scenario.name} takes {takes}; got {name!r}")


def _check_builtin(names: Sequence[str], known: Sequence[Collection[str]]) -> None:
    if not any(known):
        raise ContractError(f"the environment has no built-in bots; got {', '.join(filter(None, names))}")
    if len(names) != len(known):
        raise ContractError(f"expected a built-in bot or '' for each of {len(known)} seats, got {len(names)}")
    for seat, (name, bots) in enumerate(zip(names, known, strict=True)):
        if name and name not in bots:
            there_are = f"it has {', '.join(bots)}" if bots else "it has none"
            raise ContractError(f"seat {seat} has no built-in bot {name!r}; {there_are}")
