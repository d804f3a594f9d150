"""What an agent plays in every information state of a game."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from attrs import frozen
from ludus.agent import Agent
from ludus.algorithm import PolicyInput
from ludus.environment import Leaves

from ludus_openspiel.tree import InformationStates

__all__ = ["ProbabilityPolicy", "Queried", "query", "rows_needed"]

_ROWS = 4096  # asked at once where an agent must be asked often


@runtime_checkable
class ProbabilityPolicy(Protocol):
    """What a `ludus.algorithm.Policy` may offer besides, so that nobody has to estimate it."""

    def probabilities(self, observation: Leaves, *, action_mask: np.ndarray | None, state: Leaves) -> np.ndarray:
        """Return the probability of every choice, ``[n, A] float32``; 0 where masked.

        Args:
            observation: Leaves ``[n, …]``.
            action_mask: ``[n, A] bool``; None: all legal.
            state: Recurrent state, leaves ``[n, …]``, as for `act`.
        """

    def initial_state(self, rows: int) -> Leaves:
        """Return the recurrent state at the start of a match, leaves ``[rows, …]``; empty if stateless."""


@frozen
class Queried:
    """Action probabilities in every information state.

    Args:
        probabilities: ``[N, A] float64``.
        samples: From how many decisions in each they were estimated; 0: exact.
    """

    probabilities: np.ndarray
    samples: int


def query(agent: Agent, states: InformationStates, *, samples: int = 4096, seed: int = 0) -> Queried:
    """Find out what an agent plays in every information state.

    A model without interfaces whose policy is a `ProbabilityPolicy`, or an agent that is one itself, is read exactly;
    any other agent is asked again and again. Either way each information state is reached through the player's own
    decisions before it, so that recurrent policies and interfaces with memory see what they would see in a match.

    Args:
        agent: For the game's one role, made for at least `rows_needed(states)` (row, seat) streams.
        states: The N information states.
        samples: How often to ask in each.
        seed: Of what is drawn then.
    """
    policy: Any = getattr(agent, "policy", agent)
    if isinstance(policy, ProbabilityPolicy) and not getattr(agent, "deterministic", False):
        return Queried(_read(policy, states), 0)
    found = _estimate(agent, states, samples=samples, rng=np.random.default_rng(seed))
    return Queried(found, samples)


def rows_needed(states: InformationStates) -> int:
    """Return how many streams an agent needs that `query` asks."""
    return max(_ROWS, states.count)


def _paths(states: InformationStates) -> np.ndarray:
    """Return ``[N, D]``: the player's own decisions on the way to each information state and there, then -1."""
    paths: list[list[int]] = []
    for number, parent in enumerate(states.parent.tolist()):
        paths.append([*(paths[parent] if parent >= 0 else ()), number])
    longest = max(map(len, paths))
    return np.array([path + [-1] * (longest - len(path)) for path in paths])


def _read(policy: Any, states: InformationStates) -> np.ndarray:
    found = np.zeros(states.action_mask.shape)
    memory: Leaves = policy.initial_state(states.count)
    rng = np.random.default_rng(0)  # what is drawn does not matter: memory holds what was seen, not what was done
    for numbers in _paths(states).T:
        rows = np.flatnonzero(numbers >= 0)
        asked = numbers[rows]
        seen, mask = {"obs": states.observation[asked]}, states.action_mask[asked]
        before = {name: leaf[rows] for name, leaf in memory.items()}
        found[asked] = policy.probabilities(seen, action_mask=mask, state=before)
        if memory:
            decision = policy.act(PolicyInput(seen, action_mask=mask, state=before), rng=rng)
            for name, leaf in decision.state.items():
                memory[name][rows] = leaf
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _estimate(agent: Agent, states: InformationStates, *, samples: int, rng: np.random.Generator) -> np.ndarray:
    counts = np.zeros(states.action_mask.shape)
    paths, done = _paths(states), 0
    while done < samples:
        copies = min(samples - done, max(1, _ROWS // states.count))
        seat_ids = np.arange(copies * states.count)
        ends = np.tile(np.arange(states.count), copies)
        agent.reset(seat_ids)
        for numbers in np.tile(paths, (copies, 1)).T:
            rows = np.flatnonzero(numbers >= 0)
            asked = numbers[rows]
            seen, mask = {"obs": states.observation[asked]}, states.action_mask[asked]
            action = agent.act(seen, action_mask=mask, seat_ids=seat_ids[rows], rng=rng)[:, 0]
            here = asked == ends[rows]
            np.add.at(counts, (asked[here], action[here]), 1)
        done += copies
    return np.asarray(counts / samples)
