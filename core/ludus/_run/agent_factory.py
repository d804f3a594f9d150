"""Make the agents of a run that play without learning: anchors and frozen models."""

from __future__ import annotations

from ludus._config.sections import RunConfig
from ludus._run.context import RunContext
from ludus._run.factories import make_agent
from ludus._sampling.actors import PolicyAgent
from ludus.agent import Agent
from ludus.algorithm import Weights
from ludus.environment import EnvironmentSpec
from ludus.errors import ConfigError


def make_anchor_agent(config: RunConfig, anchor: str, role: str, spec: EnvironmentSpec) -> Agent:
    """Make the agent that plays an anchor in a role.

    Raises:
        ConfigError: The configuration has no such anchor.
    """
    if anchor not in config.anchors:
        raise ConfigError(f"participant {anchor!r}: no such anchor; there are {', '.join(config.anchors)}")
    return make_agent(config.anchors[anchor].agent, spec, role)


def make_model_agent(
    run: RunContext,
    player: str,
    weights: Weights,
    *,
    spec: EnvironmentSpec,
    rows: int = 0,
    deterministic: bool = False,
) -> Agent:
    """Make the agent that plays fixed weights of a player, through the player's interfaces.

    Args:
        run: The run.
        player: Player that the weights belong to.
        weights: Weights of the policy.
        spec: Specification of the environment.
        rows: Number of matches in the environment's batch, if known.
        deterministic: Take the most likely actions instead of sampling.

    Raises:
        ModelError: The weights do not fit the player's network.
    """
    components = run.player_components(player, spec)
    policy = components.algorithm.make_policy()
    policy.load(weights)
    return PolicyAgent(policy, rows * len(spec.seats), deterministic, components.interface)
