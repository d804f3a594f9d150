"""Built-in bots of a PettingZoo environment: agents that the game plays by itself.

A game offers them by an attribute ``builtin_agents``, which names the bots of each agent that can have one, such as
``{"second_0": ["easy", "hard"]}``. A match with bots starts with ``reset(options={"builtin": {agent: name}})``. The
agents stay in ``env.agents`` and get rewards and flags as all agents do. The parallel ``step`` gets no action of them;
in the AEC interface ``step(None)`` makes the selected bot move.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ludus.errors import ContractError
from ludus.option import name

#: The bots of a match without any.
NO_BOTS: Mapping[Hashable, str] = MappingProxyType({})


def read_builtin(env: Any, agents: Sequence[Hashable]) -> dict[Hashable, tuple[str, ...]]:
    """Return the names of the built-in bots of each agent that can have one.

    Raises:
        ContractError: ``builtin_agents`` is no dict from agents to lists of names.
    """
    offered = getattr(env.unwrapped, "builtin_agents", None) or {}
    if not isinstance(offered, Mapping):
        raise ContractError(f"builtin_agents: expected a dict, got {type(offered).__name__}")
    for agent, bots in offered.items():
        if agent not in agents:
            raise ContractError(f"builtin_agents: expected agents of possible_agents, got {agent!r}")
        if isinstance(bots, str) or not all(name().accepts(bot) for bot in bots):
            raise ContractError(f"builtin_agents: agent {agent!r}: expected a list of {name().expected}, got {bots!r}")
    return {agent: tuple(bots) for agent, bots in offered.items()}


def reset_options(bots: Mapping[Hashable, str]) -> dict[str, Any]:
    """Return the keyword arguments of ``reset`` for a match with these bots; none without bots."""
    return {"options": {"builtin": dict(bots)}} if bots else {}
