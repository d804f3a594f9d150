"""Actors: scripted agents, policies with fixed weights, and the live policy whose decisions are recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from attrs import define, field

from ludus._sampling.recorder import Recorder, withdraw_dropped
from ludus._sampling.seats import BuiltinActor, SeatRewards, Seats
from ludus.agent import Agent, BuiltinAgent, EvaluatingAgent, elapse
from ludus.algorithm import BoundedPolicy, Decision, Policy, PolicyInput, ProbabilityPolicy, TemperedPolicy, Weights
from ludus.environment import Leaves
from ludus.errors import ConfigError, ContractError
from ludus.inference import Span
from ludus.interface import Interface, ScheduledInterface, SeatView, keeps_actions
from ludus.segment import SegmentBatch

_SOURCES = {  # sources of recorded arrays; all others come from the policy
    "observation": "the environment or an interface",
    "privileged": "the environment",
    "reward": "an interface",  # the rewards of the environment are checked by the engine
}


@define(eq=False)
class AgentActor:
    """An agent as an actor.

    Args:
        agent: The agent.
        rng: Randomness of its actions.
    """

    agent: Agent
    rng: np.random.Generator

    def start_matches(self, seat_ids: np.ndarray) -> None:
        """Clear the agent's state of these seats."""
        self.agent.reset(seat_ids)

    def act(self, seats: Seats, rewards: SeatRewards) -> np.ndarray:
        """Return the agent's actions; store its values if `seats` has a buffer for them."""
        elapse(self.agent, rewards.elapsed_ticks, seats.seat_ids)
        observation = {name: seats.take(leaf) for name, leaf in seats.tick.observation.items()}
        mask = None if seats.tick.action_mask is None else seats.take(seats.tick.action_mask)
        if seats.values is None or not isinstance(self.agent, EvaluatingAgent):
            return self.agent.act(observation, action_mask=mask, seat_ids=seats.seat_ids, rng=self.rng)
        actions, values = self.agent.act_and_evaluate(
            observation, action_mask=mask, seat_ids=seats.seat_ids, rng=self.rng
        )
        seats.values.store(seats.seat_ids, values, seats.values.bound)
        return actions

    def end_seats(self, seats: Seats, rewards: SeatRewards, *, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Do nothing: nothing is recorded."""


def make_agent_actor(agent: Agent, rng: np.random.Generator) -> AgentActor | BuiltinActor:
    """Return the actor of an agent.

    Args:
        agent: The agent.
        rng: Randomness of its actions.
    """
    return BuiltinActor(agent.name) if isinstance(agent, BuiltinAgent) else AgentActor(agent, rng)


@define(eq=False)
class PolicyAgent:
    """A policy with fixed weights as an evaluating agent.

    Args:
        policy: A loaded policy.
        num_seats: Number of seat ids with allocated state; grows as needed.
        deterministic: Take the most likely action instead of sampling.
        interface: A bound interface between the environment and the policy, or None. Its views have no rewards.
    """

    policy: Policy
    num_seats: int = 0
    deterministic: bool = False
    interface: Interface | None = None
    _state: Leaves = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._state = self.policy.initial_state(self.num_seats)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the state of these seats."""
        needed = int(seat_ids.max(initial=-1)) + 1
        if needed > self.num_seats:
            added = self.policy.initial_state(needed - self.num_seats)
            self._state = {name: np.concatenate([leaf, added[name]]) for name, leaf in self._state.items()}
            self.num_seats = needed
        reset_state(self.policy, self._state, seat_ids)
        if self.interface is not None:
            self.interface.reset(seat_ids)

    def set_temperature(self, temperature: float) -> None:
        """Set the temperature of the policy; see `ludus.handicap.TemperedAgent`.

        Raises:
            ConfigError: The policy has none.
        """
        if not isinstance(self.policy, TemperedPolicy):
            raise ConfigError(f"{type(self.policy).__name__} has no temperature; use noise")
        self.policy.temperature = temperature

    def elapse(self, ticks: np.ndarray, seat_ids: np.ndarray) -> None:
        """Pass the ticks since the last decisions to the interface."""
        elapse(self.interface, ticks, seat_ids)

    def act(self, observation: Leaves, **options: Any) -> np.ndarray:
        """Return actions ``[n, L]``; see `act_and_evaluate`."""
        return self.act_and_evaluate(observation, **options)[0]

    def act_and_evaluate(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return actions ``[n, L]`` and values ``[n]`` for n rows, NaN where the policy computes no value."""
        return self._decide(self._observe(observation, action_mask, seat_ids), seat_ids, rng)

    def evaluate_choices(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """Evaluate n rows as `act_and_evaluate` does, without playing its actions.

        Returns:
            The probability of every choice, ``[n, A] float32``, and values ``[n]``. Probabilities are None where the
            policy returns none, actions are real numbers, or an interface may change actions.
        """
        view = self._observe(observation, action_mask, seat_ids)
        probabilities = None
        if isinstance(self.policy, ProbabilityPolicy) and (self.interface is None or keeps_actions(self.interface)):
            state = take_state(self._state, seat_ids)
            with suppress(ContractError):  # actions are real numbers
                probabilities = self.policy.probabilities(view.observation, action_mask=view.action_mask, state=state)
        return probabilities, self._decide(view, seat_ids, rng)[1]

    def _observe(self, observation: Leaves, action_mask: np.ndarray | None, seat_ids: np.ndarray) -> SeatView:
        view = SeatView(observation=observation, action_mask=action_mask, reward=np.zeros(seat_ids.size, np.float32))
        return view if self.interface is None else self.interface.observe(view, seat_ids)

    def _decide(self, view: SeatView, seat_ids: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        decision = self.policy.act(
            PolicyInput(view.observation, action_mask=view.action_mask, state=take_state(self._state, seat_ids)),
            rng=rng,
            deterministic=self.deterministic,
        )
        store_state(self._state, seat_ids, decision.state)
        values = np.full(seat_ids.size, np.nan, np.float32) if decision.value is None else decision.value
        return decision.action if self.interface is None else self.interface.act(decision.action, seat_ids), values


@define(eq=False, kw_only=True)
class PolicyActor:
    """A policy as an actor, behind its player's interface. Nothing is recorded.

    Actors may share a policy and an interface if they never have the same seat at the same time.

    Args:
        policy: The policy.
        interface: Interface between the environment and the policy, or None.
        rng: Randomness of its actions.
        num_seats: Number of seat ids.
    """

    policy: Policy
    interface: Interface | None
    rng: np.random.Generator
    num_seats: int
    _state: Leaves = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._state = self.policy.initial_state(self.num_seats)

    def start_matches(self, seat_ids: np.ndarray) -> None:
        """Clear the state of these seats."""
        reset_state(self.policy, self._state, seat_ids)
        if self.interface is not None:
            self.interface.reset(seat_ids)

    def act(self, seats: Seats, rewards: SeatRewards) -> np.ndarray:
        """Return raw actions; store the policy's values if `seats` has a buffer for them."""
        state = take_state(self._state, seats.seat_ids)
        decision = self.decide(seats, self.view(seats, rewards), self.privileged(seats), state)
        return self.raw_action(decision.action, seats.seat_ids)

    def end_seats(self, seats: Seats, rewards: SeatRewards, *, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Do nothing: nothing is recorded."""

    def view(self, seats: Seats, rewards: SeatRewards) -> SeatView:
        """Return observations, masks and rewards of seats behind the interface."""
        tick = seats.tick
        view = SeatView(
            observation={name: seats.take(leaf) for name, leaf in tick.observation.items()},
            action_mask=None if tick.action_mask is None else seats.take(tick.action_mask),
            reward=rewards.reward,
            reward_parts=rewards.parts,
        )
        if self.interface is None:
            return view
        elapse(self.interface, rewards.elapsed_ticks, seats.seat_ids)
        return self.interface.observe(view, seats.seat_ids)

    def privileged(self, seats: Seats) -> Leaves:
        """Return the privileged observations of seats."""
        return {name: seats.take(leaf) for name, leaf in seats.tick.privileged.items()}

    def decide(
        self, seats: Seats, view: SeatView, privileged: Leaves, state: Leaves, spans: Sequence[Span] = ()
    ) -> Decision:
        """Return the decisions of seats; keep their new recurrent states and write their values to `seats.values`.

        Args:
            seats: Seats, in the order of the other rows.
            view: Observations, masks and rewards.
            privileged: Observations for the critic only.
            state: Recurrent states before the decisions, leaves ``[n, …]``.
            spans: Rows of each slot of a `StackedPolicy`.
        """
        inputs = PolicyInput(
            view.observation, action_mask=view.action_mask, privileged=privileged, state=state, spans=spans
        )
        decision = self.policy.act(inputs, rng=self.rng)
        store_state(self._state, seats.seat_ids, decision.state)
        if seats.values is not None and decision.value is not None:
            lowest = self._lowest_values(seats.values.bound, seats.seat_ids.size, spans)
            seats.values.store(seats.seat_ids, decision.value, lowest)
        return decision

    def _lowest_values(self, bound: float, rows: int, spans: Sequence[Span]) -> np.ndarray | float:
        """Return the lowest values of the policy; those of the game unless an interface may change the rewards."""
        if self.interface is None and not np.isnan(bound):
            return bound
        return self.policy.lowest_values(rows, spans) if isinstance(self.policy, BoundedPolicy) else np.nan

    def raw_action(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        """Return the environment's actions for the actions that the policy chose."""
        return action if self.interface is None else self.interface.act(action, seat_ids)


@define(eq=False, kw_only=True)
class LiveActor(PolicyActor):
    """The live policy of a player. Every decision is recorded for the player's learner.

    It has no usable weights before `load`.

    Args:
        player: Name of the player.
        recorder: Recorder of the decisions.

    Attributes:
        version: Version of the weights; -1 before `load`.
        blocks: Recorded blocks that are ready to be sent.
    """

    player: str
    recorder: Recorder
    version: int = field(init=False, default=-1)
    blocks: deque[SegmentBatch] = field(init=False, factory=deque)
    _trajectories: np.ndarray = field(init=False)  # [seat ids] trajectory of the recorder, -1 without a match

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._trajectories = np.full(self.num_seats, -1, np.int64)

    def without_recording(self) -> PolicyActor:
        """Return an actor with the same policy and a recurrent state of its own that records nothing."""
        return PolicyActor(policy=self.policy, interface=self.interface, rng=self.rng, num_seats=self.num_seats)

    def load(self, weights: Weights, version: int) -> None:
        """Load newer weights. Call it only right after a block, so that all decisions of a segment have one version.

        Recurrent states are kept, also after a player reset; segments record the states that they start with.
        """
        self.policy.load(weights)
        self.version = version

    def set_progress(self, progress: float) -> None:
        """Set the share of the training budget that is used, in [0, 1], for the interface."""
        if isinstance(self.interface, ScheduledInterface):
            self.interface.set_progress(progress)

    def record_opponent_values(self, seat_ids: np.ndarray, values: np.ndarray, lowest: np.ndarray) -> None:
        """Record the opponents' values of the positions that decisions of these seats led to; see `ValueObserver`."""
        self.recorder.record_opponent_values(self._trajectories[seat_ids], values, lowest)

    def start_matches(self, seat_ids: np.ndarray) -> None:
        """Clear the state of these seats and open a trajectory for each."""
        super().start_matches(seat_ids)
        self._trajectories[seat_ids] = self.recorder.open_trajectories(seat_ids.size)

    def act(self, seats: Seats, rewards: SeatRewards) -> np.ndarray:
        """Assign the rewards to the last decisions, then decide and record."""
        view, privileged = self.view(seats, rewards), self.privileged(seats)
        trajectories = self._trajectories[seats.seat_ids]
        withdraw_dropped(self.recorder, trajectories, view.reward, rewards)
        self.recorder.assign_rewards(trajectories, reward=view.reward, elapsed_ticks=rewards.elapsed_ticks)
        state = take_state(self._state, seats.seat_ids)
        decision = self.decide(seats, view, privileged, state)
        entry = _entry(view, privileged, decision) | {"action": decision.action}
        for name in self.recorder.layout.seat_fields:
            entry[name] = seats.index % seats.tick.acting.shape[1]
        self._check_finite(entry | {"reward": view.reward})
        self.recorder.add_decisions(trajectories, entry, version=self.version, state=state)
        self._flush_if_full()
        return self.raw_action(decision.action, seats.seat_ids)

    def end_seats(self, seats: Seats, rewards: SeatRewards, *, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Assign the last rewards, record the final observations of truncated seats and close the trajectories."""
        view = self.view(seats, rewards)
        self._check_finite({"reward": view.reward})
        trajectories = self._trajectories[seats.seat_ids]
        withdraw_dropped(self.recorder, trajectories, view.reward, rewards)
        needs_final = self.recorder.end_trajectories(
            trajectories,
            reward=view.reward,
            elapsed_ticks=rewards.elapsed_ticks,
            terminated=terminated,
            truncated=truncated,
        )
        if needs_final.any():
            self._record_final(
                seats.select(needs_final, ascending=seats.ascending), view, needs_final, trajectories[needs_final]
            )
            self._flush_if_full()
        self.recorder.close_trajectories(trajectories)
        self._trajectories[seats.seat_ids] = -1

    def _record_final(self, seats: Seats, full_view: SeatView, chosen: np.ndarray, trajectories: np.ndarray) -> None:
        # the policy's action is not played: the entry needs its value, and its mask for algorithms that bootstrap
        privileged, mask = self.privileged(seats), full_view.action_mask
        view = SeatView(
            observation={name: leaf[chosen] for name, leaf in full_view.observation.items()},
            action_mask=None if mask is None else any_action_if_unknown(mask[chosen], self.recorder.layout.labels),
            reward=full_view.reward[chosen],
        )
        decision = self.decide(seats, view, privileged, take_state(self._state, seats.seat_ids))
        self.recorder.add_final_observations(trajectories, _entry(view, privileged, decision))

    def _check_finite(self, entry: dict[str, np.ndarray]) -> None:
        for name, values in entry.items():
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                source = _SOURCES.get(name.partition("/")[0], "the policy")
                raise ContractError(f"player {self.player!r}: {name} holds a value that is not finite, from {source}")

    def _flush_if_full(self) -> None:
        # immediately: another entry on the same tick, for a match that ends, would not fit
        if self.recorder.full:
            self.blocks.append(self.recorder.flush())


def any_action_if_unknown(mask: np.ndarray, labels: tuple[int, ...]) -> np.ndarray:
    """Return ``mask [n, A]`` with all choices legal in rows where a label has none, as in some final observations."""
    legal = np.logical_or.reduceat(mask, np.cumsum([0, *labels[:-1]]), axis=1)
    return np.asarray(mask | ~np.all(legal, axis=1, keepdims=True))


def reset_state(policy: Policy, state: Leaves, seat_ids: np.ndarray) -> None:
    """Reset the recurrent state of these seats to the start of a match."""
    if state:
        store_state(state, seat_ids, policy.initial_state(seat_ids.size))


def take_state(state: Leaves, seat_ids: np.ndarray) -> Leaves:
    """Return the recurrent state of these seats."""
    return {name: leaf[seat_ids] for name, leaf in state.items()}


def store_state(state: Leaves, seat_ids: np.ndarray, values: Leaves) -> None:
    """Write the recurrent state of these seats."""
    for name, leaf in values.items():
        state[name][seat_ids] = leaf


def _entry(view: SeatView, privileged: Leaves, decision: Decision) -> dict[str, np.ndarray]:
    entry = {f"observation/{name}": leaf for name, leaf in view.observation.items()}
    entry |= {f"privileged/{name}": leaf for name, leaf in privileged.items()}
    entry |= {f"extras/{name}": values for name, values in decision.extras.items()}
    if view.action_mask is not None:
        entry["action_mask"] = view.action_mask
    return entry
