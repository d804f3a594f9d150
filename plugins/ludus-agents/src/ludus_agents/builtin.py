"""Bots that are part of an environment as agents."""

from __future__ import annotations

from ludus import EnvironmentSpec
from ludus.agent import BuiltinAgent
from ludus.errors import ConfigError

from ludus_agents.config import BuiltinConfig


def make_builtin(config: BuiltinConfig, *, spec: EnvironmentSpec, role: str) -> BuiltinAgent:
    """Make the agent ``builtin``, which stands for a bot that the environment plays by itself.

    Raises:
        ConfigError: The role has no such bot.
    """
    bots = spec.role(role).builtin
    if not bots:
        raise ConfigError(f"agent builtin: the role {role} of {spec.name} has no built-in bots")
    name = config.name or (bots[0] if len(bots) == 1 else "")
    if name not in bots:
        raise ConfigError(
            f"agent builtin: name: got {name!r}; the role {role} of {spec.name} has the built-in bots {', '.join(bots)}"
        )
    return BuiltinAgent(name)
