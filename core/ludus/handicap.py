"""Handicaps: settings by which an agent plays below its strength, for difficulty levels and opponents of people.

A participant's name may be followed by settings: ``main_agent@7,temperature=2,noise=0.1``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from attrs import define, frozen

from ludus.agent import Agent, elapse
from ludus.environment import Leaves
from ludus.errors import ConfigError
from ludus.option import above, between, option
from ludus.spaces import random_actions

if TYPE_CHECKING:
    from gymnasium import Space

__all__ = ["Handicap", "NoisyAgent", "TemperedAgent", "split_settings", "weaken"]


@frozen(kw_only=True)
class Handicap:
    """How far an agent plays below its strength.

    Attributes:
        temperature: Divisor of a model's log-probabilities; above 1 it plays more randomly. > 0.
        noise: Share of decisions, [0, 1], that a random legal action of the environment replaces.
    """

    temperature: float = option(1.0, above(0.0), help="Divisor of the model's log-probabilities; > 0.")
    noise: float = option(0.0, between(0.0, 1.0), help="Share of decisions that are random legal actions; [0, 1].")

    def __str__(self) -> str:
        """Return the settings that differ from the defaults, as they follow a participant's name."""
        settings = {"temperature": (self.temperature, 1.0), "noise": (self.noise, 0.0)}
        return "".join(f",{name}={value:g}" for name, (value, default) in settings.items() if value != default)


def split_settings(text: str) -> tuple[str, Handicap]:
    """Return the name and the handicap of a participant such as ``main_agent@7,temperature=2,noise=0.1``.

    Raises:
        ConfigError: A setting is unknown, or its value is wrong.
    """
    name, *settings = text.split(",")
    values: dict[str, Any] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in ("noise", "temperature") or key in values:
            raise ConfigError(f"{text}: {setting!r}: expected temperature=NUMBER or noise=NUMBER, each once")
        try:
            values[key] = float(value)
        except ValueError:
            raise ConfigError(f"{text}: {setting!r}: expected a number") from None
    try:
        handicap = Handicap(**values)
    except ValueError as error:
        raise ConfigError(f"{text}: {error}") from None
    return name, handicap


@runtime_checkable
class TemperedAgent(Agent, Protocol):
    """An agent whose decisions have a temperature."""

    def set_temperature(self, temperature: float) -> None:
        """Set the divisor of the log-probabilities of later decisions, > 0.

        Raises:
            ConfigError: The agent's policy has no temperature.
        """


def weaken(agent: Agent, handicap: Handicap, space: Space[Any]) -> Agent:
    """Return an agent with a handicap: the agent itself, whose temperature is set, or one that adds noise to it.

    Args:
        agent: Agent that nothing else uses.
        handicap: The handicap.
        space: Action space of the agent's role.

    Raises:
        ConfigError: The agent has no temperature.
    """
    if handicap.temperature != 1.0:
        if not isinstance(agent, TemperedAgent):
            raise ConfigError(f"{type(agent).__name__} is no model, so it has no temperature; use noise")
        agent.set_temperature(handicap.temperature)
    return NoisyAgent(agent, handicap.noise, space) if handicap.noise else agent


@define
class NoisyAgent:
    """Replaces each decision of an agent by a random legal action with a probability; see `weaken`.

    The agent decides on every row, so that its state does not depend on the noise.

    Args:
        agent: The agent.
        noise: The probability, [0, 1].
        space: Action space of its role.
    """

    agent: Agent
    noise: float
    space: Space[Any]

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the agent's state of these seats."""
        self.agent.reset(seat_ids)

    def elapse(self, ticks: np.ndarray, seat_ids: np.ndarray) -> None:
        """Pass the ticks since the last decisions on."""
        elapse(self.agent, ticks, seat_ids)

    def act(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        action = self.agent.act(observation, action_mask=action_mask, seat_ids=seat_ids, rng=rng)
        rows = seat_ids.size
        is_random = rng.random(rows) < self.noise
        return np.where(is_random[:, None], random_actions(self.space, rows, rng, mask=action_mask), action)
