"""Frozen models of other runs as agents."""

from __future__ import annotations

from ludus import EnvironmentSpec
from ludus.agent import Agent
from ludus.handicap import Handicap, weaken
from ludus.installed import load_agent

from ludus_agents.config import ModelConfig


def make_model(config: ModelConfig, *, spec: EnvironmentSpec, role: str) -> Agent:
    """Make the agent ``model``; see `ludus.installed.load_agent`.

    Raises:
        ModelError: The file is missing or damaged, or the model was trained on another environment or role.
        ConfigError: A component of the model is not installed, or the model has no temperature.
    """
    agent = load_agent(config.file, role, spec=spec, deterministic=config.deterministic)
    handicap = Handicap(temperature=config.temperature, noise=config.noise)
    return weaken(agent, handicap, spec.role(role).action_space)
