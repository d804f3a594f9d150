"""The agent contract: participants that do not learn, such as scripted bots, perfect players and remote programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from attrs import frozen

from ludus.environment import EnvironmentSpec, Leaves
from ludus.errors import ContractError
from ludus.spaces import random_actions

__all__ = [
    "Agent",
    "BuiltinAgent",
    "EvaluatingAgent",
    "RandomAgent",
    "TimedAgent",
    "builtin_bots",
    "elapse",
    "grow_states",
]


class Agent(Protocol):
    """Decides for any number of seats at once.

    The factory of an ``agent`` component makes an agent for one role of one environment.
    """

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows.

        Args:
            observation: Leaves ``[n, …]``.
            action_mask: ``[n, A] bool`` or None.
            seat_ids: ``[n] int64``, the seat id of each row, for agents with state.
            rng: The only source of randomness.

        Returns:
            ``[n, L] int64``, or ``[n, D] float32`` for continuous actions.
        """

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the state of the seats ``[n] int64`` at the start of their next matches."""


@runtime_checkable
class EvaluatingAgent(Agent, Protocol):
    """An agent that also evaluates its position; an optional part of the contract.

    A player that learns to exploit the agent records these values [Minimax eq. 3].
    """

    def act_and_evaluate(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Decide as `act` does and evaluate the same rows.

        Returns:
            Actions, as `act` returns them, and the expected returns ``[n] float32`` in units of the environment's
            rewards, NaN where unknown.
        """


@runtime_checkable
class TimedAgent(Agent, Protocol):
    """An agent that reads how many ticks lie between its decisions; an optional part of the contract."""

    def elapse(self, ticks: np.ndarray, seat_ids: np.ndarray) -> None:
        """Read the time of the next decisions. Called right before `act`, for the same seats.

        Args:
            ticks: ``[n]`` integers: ticks since the last decision of each seat, or since the start of its match.
            seat_ids: ``[n] int64``.
        """


def elapse(decider: object, ticks: np.ndarray, seat_ids: np.ndarray) -> None:
    """Call the method ``elapse`` of an agent or interface if it has one; see `TimedAgent`."""
    if isinstance(decider, _Timed):
        decider.elapse(ticks, seat_ids)


@runtime_checkable
class _Timed(Protocol):
    def elapse(self, ticks: np.ndarray, seat_ids: np.ndarray) -> None: ...


class RandomAgent:
    """Draws legal actions; see `ludus.spaces.random_actions`.

    Args:
        config: None; there are no options.
        spec: Spec of the environment.
        role: Role that the agent plays.
    """

    def __init__(self, config: None, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - no options
        self._space = spec.role(role).action_space

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - the agent ignores observations
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `Agent.act`."""
        return random_actions(self._space, len(seat_ids), rng, mask=action_mask)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""


@frozen
class BuiltinAgent:
    """A built-in bot of the environment as an agent, which never decides.

    Matches that include it are started with its name in `Scenario.builtin`, so that the environment fills its seats.

    Args:
        name: Name of the bot, one of `Role.builtin`.
    """

    name: str

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - see `Agent`
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002
        seat_ids: np.ndarray,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> np.ndarray:
        """Raise an error.

        Raises:
            ContractError: Always.
        """
        raise ContractError(
            f"the built-in bot {self.name!r} plays inside the environment; start its matches with Scenario.builtin"
        )

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the environment starts its bots."""


def builtin_bots(agents: Sequence[Agent]) -> tuple[str, ...]:
    """Return `Scenario.builtin` for a match between agents, one per seat; empty if none of them is a built-in bot."""
    names = tuple(agent.name if isinstance(agent, BuiltinAgent) else "" for agent in agents)
    return names if any(names) else ()


def grow_states(states: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
    """Return the states of seats by seat id, with zeros appended for new seats.

    Args:
        states: ``[k, …]`` of any dtype; a structured dtype holds several values per seat.
        seat_ids: ``[n] int64``, seats that need a state.
    """
    missing = int(seat_ids.max(initial=-1)) + 1 - len(states)
    if missing <= 0:
        return states
    return np.concatenate([states, np.zeros((missing, *states.shape[1:]), states.dtype)])
