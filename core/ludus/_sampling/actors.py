"""The participants that can sit in a seat: scripted agents, single models, and the live policy that is recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import define, field

from ludus._sampling.engine import Reward, Seats
from ludus._sampling.recorder import Recorder
from ludus.agent import Agent, EvaluatingAgent
from ludus.algorithm import Decision, Policy, PolicyInput, Weights
from ludus.environment import Leaves
from ludus.errors import ContractError
from ludus.inference import Span
from ludus.interface import Interface, ScheduledInterface, SeatView
from ludus.segment import SegmentBatch

_SOURCES = {  # of what is recorded; the rest is the policy's
    "observation": "the environment or an interface",
    "privileged": "the environment",
    "reward": "an interface",  # those of the environment are checked where they arrive
}


@define(eq=False)
class AgentActor:
    """An agent in a seat: a scripted one or a frozen model."""

    agent: Agent
    rng: np.random.Generator

    def start(self, seat_ids: np.ndarray) -> None:
        """Let the agent forget the streams' earlier matches."""
        self.agent.reset(seat_ids)

    def act(self, seats: Seats, since: Reward) -> np.ndarray:  # noqa: ARG002
        """Decide, and say what the seats expect if somebody reads that."""
        observation = {name: seats.take(leaf) for name, leaf in seats.tick.observation.items()}
        mask = None if seats.tick.action_mask is None else seats.take(seats.tick.action_mask)
        if seats.values is None or not isinstance(self.agent, EvaluatingAgent):
            return self.agent.act(observation, action_mask=mask, seat_ids=seats.seat_ids, rng=self.rng)
        actions, values = self.agent.act_and_evaluate(
            observation, action_mask=mask, seat_ids=seats.seat_ids, rng=self.rng
        )
        seats.values[seats.seat_ids] = values
        return actions

    def end(self, seats: Seats, since: Reward, *, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Nothing to do."""


@define(eq=False)
class PolicyAgent:
    """A policy with fixed weights as an agent that evaluates, through its player's interface.

    Args:
        policy: Already loaded.
        seat_ids: How many (row, seat) streams exist; where more of them start, there will be so many.
        deterministic: Take the most likely action instead of sampling.
        interface: Between the game and the policy, bound already; None where there is none. It sees no rewards.
    """

    policy: Policy
    seat_ids: int = 0
    deterministic: bool = False
    interface: Interface | None = None
    _state: Leaves = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._state = self.policy.initial_state(self.seat_ids)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Forget everything about these streams."""
        needed = int(seat_ids.max(initial=-1)) + 1
        if needed > self.seat_ids:
            more = self.policy.initial_state(needed - self.seat_ids)
            self._state = {name: np.concatenate([leaf, more[name]]) for name, leaf in self._state.items()}
            self.seat_ids = needed
        restart(self.policy, self._state, seat_ids)
        if self.interface is not None:
            self.interface.reset(seat_ids)

    def act(self, observation: Leaves, **given: Any) -> np.ndarray:
        """Decide as `act_and_evaluate` does; returns actions ``[n, L]``."""
        return self.act_and_evaluate(observation, **given)[0]

    def act_and_evaluate(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Decide for n rows; returns actions ``[n, L]`` and values ``[n]``, NaN where the policy computes none."""
        view = SeatView(observation=observation, action_mask=action_mask, reward=np.zeros(seat_ids.size, np.float32))
        if self.interface is not None:
            view = self.interface.observe(view, seat_ids)
        decision = self.policy.act(
            PolicyInput(view.observation, action_mask=view.action_mask, state=rows_of(self._state, seat_ids)),
            rng=rng,
            deterministic=self.deterministic,
        )
        store(self._state, seat_ids, decision.state)
        values = np.full(seat_ids.size, np.nan, np.float32) if decision.value is None else decision.value
        return decision.action if self.interface is None else self.interface.act(decision.action, seat_ids), values


@define(eq=False, kw_only=True)
class PolicyActor:
    """A policy in its seats, through its player's interface: it decides, and nothing is recorded.

    Actors may share a policy and an interface as long as they never sit in the same seat at once.

    Args:
        policy: Decides.
        interface: Between the game and the policy; None where there is none.
        rng: Randomness of its sampling.
        seat_ids: How many (row, seat) streams exist.
    """

    policy: Policy
    interface: Interface | None
    rng: np.random.Generator
    seat_ids: int
    _state: Leaves = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._state = self.policy.initial_state(self.seat_ids)

    def start(self, seat_ids: np.ndarray) -> None:
        """Forget the streams' earlier matches."""
        restart(self.policy, self._state, seat_ids)
        if self.interface is not None:
            self.interface.reset(seat_ids)

    def act(self, seats: Seats, since: Reward) -> np.ndarray:
        """Decide, and say what the seats expect if somebody reads that."""
        state = rows_of(self._state, seats.seat_ids)
        decision = self.decide(seats, self.view(seats, since), self.privileged(seats), state)
        return self.raw(decision.action, seats.seat_ids)

    def end(self, seats: Seats, since: Reward, *, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Nothing to do."""

    def view(self, seats: Seats, since: Reward) -> SeatView:
        """Return what seats see through the interface, with what they received."""
        tick = seats.tick
        view = SeatView(
            observation={name: seats.take(leaf) for name, leaf in tick.observation.items()},
            action_mask=None if tick.action_mask is None else seats.take(tick.action_mask),
            reward=since.reward,
            reward_parts=since.parts,
        )
        return view if self.interface is None else self.interface.observe(view, seats.seat_ids)

    def privileged(self, seats: Seats) -> Leaves:
        """Return what only a critic reads."""
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
        store(self._state, seats.seat_ids, decision.state)
        if seats.values is not None and decision.value is not None:
            seats.values[seats.seat_ids] = decision.value
        return decision

    def raw(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        """Return the game's actions for those that the policy chose."""
        return action if self.interface is None else self.interface.act(action, seat_ids)


@define(eq=False, kw_only=True)
class LiveActor(PolicyActor):
    """The policy that a player is learning, without weights until `load`; every decision is recorded for its learner.

    Args:
        player: Its name.
        recorder: Takes the decisions.
    """

    player: str
    recorder: Recorder
    version: int = field(init=False, default=-1)
    blocks: deque[SegmentBatch] = field(init=False, factory=deque)  # full ones, for the sampler to ship
    _column: np.ndarray = field(init=False)  # (row, seat) stream → column of the recorder

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._column = np.full(self.seat_ids, -1, np.int64)

    def quiet(self) -> PolicyActor:
        """Return the same policy as an opponent of which nothing is recorded, with recurrent state of its own."""
        return PolicyActor(policy=self.policy, interface=self.interface, rng=self.rng, seat_ids=self.seat_ids)

    def load(self, weights: Weights, version: int) -> None:
        """Take newer weights; only right after a block was full, so that a segment has one version.

        Recurrent state stays: matches that run go on with what the weights before have left, also where the player has
        started anew in between, which samplers are not told. Segments record the state that they begin with.
        """
        self.policy.load(weights)
        self.version = version

    def set_progress(self, progress: float) -> None:
        """Tell the interface how much of the training budget is used, in [0, 1]."""
        if isinstance(self.interface, ScheduledInterface):
            self.interface.set_progress(progress)

    @property
    def reads(self) -> bool:
        """Return whether its algorithm learns from the opponents' evaluations."""
        return bool(self.recorder.layout.noted)

    def note(self, seat_ids: np.ndarray, values: np.ndarray) -> None:
        """Note in decisions of its seats that await it what the opponents think of where these led, ``[n] float32``."""
        self.recorder.note(self._column[seat_ids], values)

    def start(self, seat_ids: np.ndarray) -> None:
        """Open a recorder column for each seat."""
        super().start(seat_ids)
        self._column[seat_ids] = self.recorder.open(seat_ids.size)

    def act(self, seats: Seats, since: Reward) -> np.ndarray:
        """Decide and record; what came since the last decision goes to that one."""
        view, privileged = self.view(seats, since), self.privileged(seats)
        columns = self._column[seats.seat_ids]
        self.recorder.settle(columns, reward=view.reward, elapsed_ticks=since.elapsed_ticks)
        state = rows_of(self._state, seats.seat_ids)
        decision = self.decide(seats, view, privileged, state)
        entry = _entry(view, privileged, decision) | {"action": decision.action}
        self._check(entry | {"reward": view.reward})
        self.recorder.decide(columns, entry, version=self.version, state=state)
        self._flush_if_full()
        return self.raw(decision.action, seats.seat_ids)

    def end(self, seats: Seats, since: Reward, *, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Record the last reward and, where the match was cut off, the final observation."""
        view = self.view(seats, since)
        self._check({"reward": view.reward})
        columns = self._column[seats.seat_ids]
        cut = self.recorder.end(
            columns,
            reward=view.reward,
            elapsed_ticks=since.elapsed_ticks,
            terminated=terminated,
            truncated=truncated,
        )
        if cut.any():
            self._final(seats.part(cut), view, cut, columns[cut])
            self._flush_if_full()
        self.recorder.close(columns)
        self._column[seats.seat_ids] = -1

    def _final(self, seats: Seats, everyone: SeatView, cut: np.ndarray, columns: np.ndarray) -> None:
        # nothing is decided here: values are wanted, and the mask for who learns from what would be done next
        privileged, mask = self.privileged(seats), everyone.action_mask
        view = SeatView(
            observation={name: leaf[cut] for name, leaf in everyone.observation.items()},
            action_mask=None if mask is None else _known(mask[cut], self.recorder.layout.labels),
            reward=everyone.reward[cut],
        )
        decision = self.decide(seats, view, privileged, rows_of(self._state, seats.seat_ids))
        self.recorder.final(columns, _entry(view, privileged, decision))

    def _check(self, entry: dict[str, np.ndarray]) -> None:
        for name, values in entry.items():
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                source = _SOURCES.get(name.partition("/")[0], "the policy")
                raise ContractError(f"player {self.player!r}: {name} holds a value that is not finite, from {source}")

    def _flush_if_full(self) -> None:
        # at once: one more entry in the same tick, of a match that ends, would not fit
        if self.recorder.full:
            self.blocks.append(self.recorder.flush())


def _known(mask: np.ndarray, labels: tuple[int, ...]) -> np.ndarray:
    """Return ``mask [n, A]`` with everything legal in rows that leave some label no choice, where nobody knows."""
    legal = np.logical_or.reduceat(mask, np.cumsum([0, *labels[:-1]]), axis=1)
    return np.asarray(mask | ~np.all(legal, axis=1, keepdims=True))


def restart(policy: Policy, state: Leaves, seat_ids: np.ndarray) -> None:
    """Put the recurrent state of these streams back to the start of a match."""
    if state:
        store(state, seat_ids, policy.initial_state(seat_ids.size))


def rows_of(state: Leaves, seat_ids: np.ndarray) -> Leaves:
    """Return the recurrent state of these streams."""
    return {name: leaf[seat_ids] for name, leaf in state.items()}


def store(state: Leaves, seat_ids: np.ndarray, values: Leaves) -> None:
    """Write the recurrent state of these streams."""
    for name, leaf in values.items():
        state[name][seat_ids] = leaf


def _entry(view: SeatView, privileged: Leaves, decision: Decision) -> dict[str, np.ndarray]:
    entry = {f"observation/{name}": leaf for name, leaf in view.observation.items()}
    entry |= {f"privileged/{name}": leaf for name, leaf in privileged.items()}
    entry |= {f"extras/{name}": values for name, values in decision.extras.items()}
    if view.action_mask is not None:
        entry["action_mask"] = view.action_mask
    return entry
