"""Policies of participants of a run in a small game, their average, and their exploitability.

::

    with open_run("runs/kuhn") as run:
        policies = ParticipantPolicies.load(run, "main_agent", all_models=True)
    print(policies.measure(-1).exploitability, policies.measure_average().exploitability)
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Protocol, runtime_checkable

import numpy as np
from attrs import frozen
from ludus.agent import Agent
from ludus.algorithm import PolicyInput
from ludus.environment import Leaves
from ludus.errors import ConfigError
from ludus.runs import Run

from ludus_openspiel.games import OpenSpielSpec, require_spec
from ludus_openspiel.tree import Exploitability, InformationStates, information_states, measure


def reach(policies: np.ndarray, *, states: InformationStates) -> np.ndarray:
    r"""Return the probability with which a player's own decisions lead to each information state.

    With perfect recall it is the product of the player's own action probabilities on the path,
    :math:`x_k(s) = x_k(parent(s)) \pi_k(parent\_action(s) | parent(s))`, and 1 before its first decision.

    Args:
        policies: ``[K, N, A]`` action probabilities of K policies.
        states: The N information states.

    Returns:
        ``[K, N] float64``.
    """
    reached = np.ones(policies.shape[:2])
    for number, (parent, action) in enumerate(zip(states.parent.tolist(), states.parent_action.tolist(), strict=True)):
        if parent >= 0:
            reached[:, number] = reached[:, parent] * policies[:, parent, action]
    return reached


def average_policy(policies: np.ndarray, *, states: InformationStates, weights: np.ndarray | None = None) -> np.ndarray:
    r"""Return the policy that plays like a mixture of K policies, as in fictitious play.

    The mixture draws policy k with probability :math:`w_k` at the start of a match and follows it. The equivalent
    policy in an information state s weighs the K policies by how often they reach s (Kuhn's theorem),

    .. math:: \bar\pi(a|s) = \frac{\sum_k w_k x_k(s) \pi_k(a|s)}{\sum_k w_k x_k(s)},

    with :math:`x_k(s)` from `reach`. In states that no policy reaches, which no opponent can exploit, it is the
    weighted mean.

    Args:
        policies: ``[K, N, A]`` action probabilities.
        states: The N information states.
        weights: ``[K]``, ≥ 0 and not all 0; None means equal weights.

    Returns:
        ``[N, A] float64``.
    """
    share = np.ones(len(policies)) if weights is None else weights
    mass = share[:, None] * reach(policies, states=states)
    mass[:, mass.sum(axis=0) == 0] = share[:, None]
    return np.asarray(np.einsum("kn,kna->na", mass, policies) / mass.sum(axis=0)[:, None])


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


@frozen(kw_only=True)
class ParticipantPolicies:
    """Action probabilities of K participants in all N information states of a game.

    Args:
        spec: Spec of the game.
        states: Information states of the game.
        names: Names of the participants.
        decisions: Number of decisions each participant has learned from; None for participants that do not learn.
        probabilities: ``[K, N, A] float64``.
        samples: Number of decisions per information state that estimates use; 0 for exact probabilities.
    """

    spec: OpenSpielSpec
    states: InformationStates
    names: Sequence[str]
    decisions: Sequence[int | None]
    probabilities: np.ndarray
    samples: int

    @classmethod
    def load(cls, run: Run, name: str, *, all_models: bool = False, samples: int = 4096) -> ParticipantPolicies:
        """Tabulate the policies of participants of a run.

        Args:
            run: An open run of a game that is small enough to be enumerated.
            name: A player (its latest model), a model, an anchor, or an installed agent.
            all_models: Use all frozen models of the player instead, oldest first.
            samples: Number of samples for estimates, see `tabulate_policy`.

        Raises:
            ConfigError: The participant does not exist, the player has no model yet, or the game is not supported.
            ModelError: A model cannot be loaded.
        """
        names = _models(run, name) if all_models else [f"{name}@latest" if name in run.league.players else name]
        with closing(run.make_environment(1)) as environment:
            spec = require_spec(environment.spec)
        if len(spec.roles) > 1:
            raise ConfigError("roles: exploitability needs a participant that plays all seats; remove the option")
        role = spec.roles[0].name
        states = information_states(spec)
        with closing(run.make_environment(-(-required_seats(states) // len(spec.seats)))) as environment:
            found = [
                tabulate_policy(run.agent(one, role, environment=environment), states, samples=samples) for one in names
            ]
        names = [run.resolve(one) if "@" in one else one for one in names]
        return cls(
            spec=spec,
            states=states,
            names=names,
            decisions=[run.models[one].decisions if one in run.models else None for one in names],
            probabilities=np.stack([policy.probabilities for policy in found]),
            samples=max(policy.samples for policy in found),
        )

    def measure(self, index: int) -> Exploitability:
        """Return the exploitability of one participant."""
        return measure(self.spec, self.probabilities[index], states=self.states)

    def measure_average(self, count: int | None = None, *, weights: np.ndarray | None = None) -> Exploitability:
        """Return the exploitability of the average of the first participants.

        See `ludus_openspiel.participants.average_policy`.

        Args:
            count: Number of participants; None means all.
            weights: ``[count]``: relative frequencies of the participants; None means equal.
        """
        average = average_policy(self.probabilities[:count], states=self.states, weights=weights)
        return measure(self.spec, average, states=self.states)


def _models(run: Run, name: str) -> Sequence[str]:
    player = run.league.players.get(name.partition("@")[0])
    if player is None:
        raise ConfigError(f"unknown player {name}; the run has {', '.join(run.league.players)}")
    if not player.models:
        raise ConfigError(f"{player.name} has no frozen model yet; see freeze_every_decisions")
    return player.models
