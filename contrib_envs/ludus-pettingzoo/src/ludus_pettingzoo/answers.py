"""Descriptions of what is wrong with what a PettingZoo game returned, once reading it has failed."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any

RESET = ("observations", "infos")
STEP = ("observations", "rewards", "terminations", "truncations", "infos")
_OLD = "the game follows an API of PettingZoo before 1.24; adapt it, or wrap it"


def find_problem(method: str, answer: Any, parts: tuple[str, ...], agents: Collection[Hashable]) -> str | None:
    """Return what is wrong with the return value of a method of a parallel game; None if it has the right form.

    Args:
        method: Name of the method.
        answer: Its return value.
        parts: Names of the dicts that it must consist of.
        agents: All possible agents.
    """
    expected = f"expected {len(parts)} dicts by agent ({', '.join(parts)})"
    if not isinstance(answer, tuple) or len(answer) != len(parts):
        got = f"{len(answer)} values" if isinstance(answer, tuple) else f"a {type(answer).__name__}"
        return f"{method} returned {got}; {expected}: {_OLD}"
    for name, part in zip(parts, answer, strict=True):
        if not isinstance(part, Mapping):
            return f"{method} returned a {type(part).__name__} as {name}; {expected}"
        unknown = [agent for agent in part if agent not in agents]
        if unknown:
            return f"{name} of {method} name the agent {unknown[0]!r}; {_expected(agents)}"
        values = [value for value in part.values() if name == "infos" and not isinstance(value, Mapping)]
        if values:
            return f"{method} returned a {type(values[0]).__name__} as the info of an agent; expected a dict"
    return None


def find_unknown_agent(subject: str, named: Collection[Hashable], agents: Collection[Hashable]) -> str | None:
    """Return a description of the first agent of `named` that is not possible; None if there is none."""
    unknown = [agent for agent in named if agent not in agents]
    return f"{subject} the agent {unknown[0]!r}; {_expected(agents)}" if unknown else None


def _expected(agents: Collection[Hashable]) -> str:
    return f"expected agents of possible_agents ({', '.join(map(str, agents))})"
