"""Action probabilities of an agent in every information state of a game."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from attrs import frozen
from ludus.agent import Agent
from ludus.algorithm import PolicyInput
from ludus.environment import Leaves

from ludus_openspiel.tree import InformationStates

__all__ = ["ProbabilityPolicy", "TabulatedPolicy", "required_seats", "tabulate_policy"]

_ROWS = 4096  # rows per call of an agent whose probabilities are estimated


@runtime_checkable
class ProbabilityPolicy(Protocol):
    """Optional method of a `ludus.algorithm.Policy` that returns exact probabilities."""

    def probabilities(self, observation: Leaves, *, action_mask: np.ndarray | None, state: Leaves) -> np.ndarray:
        """Return the probability of every choice, ``[n, A] float32``, 0 where masked.

        Args:
            observation: Leaves ``[n, …]``.
            action_mask: ``[n, A] bool``; None means all legal.
            state: Recurrent state, leaves ``[n, …]``, as for `act`.
        """

    def initial_state(self, rows: int) -> Leaves:
        """Return the recurrent state at the start of a match, leaves ``[rows, …]``; empty if stateless."""


@frozen
class TabulatedPolicy:
    """Action probabilities in every information state.

    Args:
        probabilities: ``[N, A] float64``.
        samples: Number of decisions per information state that estimates use; 0 for exact probabilities.
    """

    probabilities: np.ndarray
    samples: int


def tabulate_policy(agent: Agent, states: InformationStates, *, samples: int = 4096, seed: int = 0) -> TabulatedPolicy:
    """Return the action probabilities of an agent in every information state.

    Probabilities of a `ProbabilityPolicy` (a model without interfaces, or an agent) are exact; those of other agents
    are estimated from samples. In both cases each information state is reached through the player's own earlier
    decisions, so that recurrent policies and stateful interfaces get the same inputs as in a match.

    Args:
        agent: Agent of the game's one role, made for at least `required_seats(states)` seat ids.
        states: The N information states.
        samples: Number of samples per information state.
        seed: Seed of the samples.
    """
    policy: Any = getattr(agent, "policy", agent)
    if isinstance(policy, ProbabilityPolicy) and not getattr(agent, "deterministic", False):
        return TabulatedPolicy(_read_probabilities(policy, states), 0)
    found = _estimate_probabilities(agent, states, samples=samples, rng=np.random.default_rng(seed))
    return TabulatedPolicy(found, samples)


def required_seats(states: InformationStates) -> int:
    """Return the number of seat ids that `tabulate_policy` uses."""
    return max(_ROWS, states.count)


def _paths(states: InformationStates) -> np.ndarray:
    """Return ``[N, D]``: the player's own decisions up to each information state, including it, padded with -1."""
    paths: list[list[int]] = []
    for number, parent in enumerate(states.parent.tolist()):
        paths.append([*(paths[parent] if parent >= 0 else ()), number])
    longest = max(map(len, paths))
    return np.array([path + [-1] * (longest - len(path)) for path in paths])


def _read_probabilities(policy: Any, states: InformationStates) -> np.ndarray:
    found = np.zeros(states.action_mask.shape)
    memory: Leaves = policy.initial_state(states.count)
    rng = np.random.default_rng(0)  # the drawn actions do not matter: recurrent states depend on observations only
    for numbers in _paths(states).T:
        rows = np.flatnonzero(numbers >= 0)
        current = numbers[rows]
        seen, mask = {"obs": states.observation[current]}, states.action_mask[current]
        before = {name: leaf[rows] for name, leaf in memory.items()}
        found[current] = policy.probabilities(seen, action_mask=mask, state=before)
        if memory:
            decision = policy.act(PolicyInput(seen, action_mask=mask, state=before), rng=rng)
            for name, leaf in decision.state.items():
                memory[name][rows] = leaf
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _estimate_probabilities(
    agent: Agent, states: InformationStates, *, samples: int, rng: np.random.Generator
) -> np.ndarray:
    counts = np.zeros(states.action_mask.shape)
    paths, done = _paths(states), 0
    while done < samples:
        copies = min(samples - done, max(1, _ROWS // states.count))
        seat_ids = np.arange(copies * states.count)
        ends = np.tile(np.arange(states.count), copies)
        agent.reset(seat_ids)
        for numbers in np.tile(paths, (copies, 1)).T:
            rows = np.flatnonzero(numbers >= 0)
            current = numbers[rows]
            seen, mask = {"obs": states.observation[current]}, states.action_mask[current]
            action = agent.act(seen, action_mask=mask, seat_ids=seat_ids[rows], rng=rng)[:, 0]
            at_end = current == ends[rows]
            np.add.at(counts, (current[at_end], action[at_end]), 1)
        done += copies
    return np.asarray(counts / samples)
