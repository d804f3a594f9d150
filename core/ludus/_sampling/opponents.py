"""Frozen models and anchors as opponents: many models of one architecture in one call, and a bound on their memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

import numpy as np
from attrs import define, field, frozen

from ludus._league.participants import parse
from ludus._sampling.actors import PolicyActor, rows_of
from ludus._sampling.engine import Actor, Reward, Seats
from ludus.algorithm import StackedPolicy, Weights
from ludus.environment import EnvironmentSpec
from ludus.errors import ModelError
from ludus.inference import Span
from ludus.records import Fixture


@define(eq=False, kw_only=True)
class StackActor(PolicyActor):
    """Frozen models of one architecture: as many as its policy has slots for, all decided for in one call.

    That is one, in slot 0, where the policy is no `ludus.algorithm.StackedPolicy`.
    """

    stacked: bool = field(init=False)
    _free: list[int] = field(init=False, factory=list)  # slots given back
    _slots: int = field(init=False, default=0)  # ever used

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.stacked = isinstance(self.policy, StackedPolicy)

    def load(self, weights: Weights) -> int:
        """Put a model into a free slot and return the slot."""
        slot = self._free.pop() if self._free else self._slots
        if isinstance(self.policy, StackedPolicy):
            self.policy.load(weights, slot=slot)
        else:
            self.policy.load(weights)
        self._slots = max(self._slots, slot + 1)
        return slot

    def drop(self, slot: int) -> None:
        """Forget a model that sits nowhere."""
        if isinstance(self.policy, StackedPolicy):
            self.policy.drop(slot)
            self._free.append(slot)

    def act(self, seats: Seats, since: Reward) -> np.ndarray:  # noqa: ARG002 - as for agents, there are no rewards
        """Decide for all models at once, the rows of each side by side."""
        starts = _starts(seats.slots)
        held = seats.slots[starts].tolist()
        if len(held) == len(set(held)):
            return self._act(seats, starts)
        order = seats.slots.argsort(kind="stable")
        seats = seats.arranged(order)
        chosen = self._act(seats, _starts(seats.slots))
        actions = np.empty_like(chosen)
        actions[order] = chosen
        return actions

    def _act(self, seats: Seats, starts: np.ndarray) -> np.ndarray:
        count = seats.seat_ids.size
        view = self.view(seats, Reward(np.zeros(count, np.float32), np.zeros(count, np.int32)))
        # a critic that reads what the policy does not see is given it only where somebody wants to hear it
        privileged = {} if seats.values is None else self.privileged(seats)
        spans = _spans(seats.slots, starts) if self.stacked else ()
        decision = self.decide(seats, view, privileged, rows_of(self._state, seats.seat_ids), spans)
        return self.raw(decision.action, seats.seat_ids)


def _starts(slots: np.ndarray) -> np.ndarray:
    """Return where the runs of equal slots begin, ``[runs] int64``."""
    begins = np.empty(slots.size, bool)
    begins[:1] = True
    np.not_equal(slots[1:], slots[:-1], out=begins[1:])
    return begins.nonzero()[0]


def _spans(slots: np.ndarray, starts: np.ndarray) -> list[Span]:
    """Return the runs of equal slots, which begin at `starts`."""
    bounds = [*starts.tolist(), slots.size]
    return [Span(*span) for span in zip(slots[starts].tolist(), bounds, bounds[1:], strict=False)]


@frozen
class _Loaded:
    """A model in memory."""

    actor: StackActor
    slot: int
    num_bytes: int


@define(kw_only=True)
class ActorCache:
    """Actors of frozen models and anchors. Models that sit nowhere leave, the least recently used first.

    Args:
        anchor: Makes the actor of an anchor in a role, by both names.
        stack: Makes an actor for models of a player.
        kin: Which player's models share an actor, by player: its own name, or that of another of the same architecture.
        read: Reads a model by its hash.
        budget_bytes: Weights kept at most, those of seated models always.

    Attributes:
        num_bytes: The size of all weights loaded.
    """

    anchor: Callable[[str, str], Actor]
    stack: Callable[[str], StackActor]
    kin: Mapping[str, str]
    read: Callable[[str], Weights]
    budget_bytes: int
    num_bytes: int = field(init=False, default=0)
    _anchors: dict[tuple[str, str], Actor] = field(init=False, factory=dict)
    _stacks: dict[str, StackActor] = field(init=False, factory=dict)
    _models: OrderedDict[tuple[str, str], _Loaded] = field(init=False, factory=OrderedDict)

    def seated(
        self,
        fixture: Fixture,
        seat: int,
        spec: EnvironmentSpec,
        *,
        in_use: Callable[[Actor], np.ndarray] | None = None,
    ) -> tuple[Actor, int]:
        """Return the actor and the slot for a seat of a fixture.

        Args:
            fixture: The fixture.
            seat: Number of the seat.
            spec: The environment's.
            in_use: Which slots of an actor must keep their models, as `Play.slots_in_use` says; without, all must.

        Raises:
            ModelError: The model cannot be loaded, or belongs to no player.
        """
        participant = fixture.participants[seat]
        if participant not in fixture.models:
            key = (participant, spec.seats[seat].role)
            if key not in self._anchors:
                self._anchors[key] = self.anchor(*key)
            return self._anchors[key], 0
        loaded = self._model(participant, fixture.models[participant])
        if in_use is not None and self.num_bytes > self.budget_bytes:
            self._shrink(in_use, keep=set(fixture.models.values()))
        return loaded.actor, loaded.slot

    def _model(self, participant: str, digest: str) -> _Loaded:
        player = parse(participant).player
        if player not in self.kin:
            raise ModelError(f"model {participant!r} belongs to no player of this run; there are {', '.join(self.kin)}")
        kin = self.kin[player]
        if (kin, digest) not in self._models:
            weights = self.read(digest)
            actor = self._stacks.get(kin) or self.stack(kin)
            if actor.stacked:
                self._stacks[kin] = actor
            size = sum(array.nbytes for array in weights.values())
            self._models[kin, digest] = _Loaded(actor, actor.load(weights), size)
            self.num_bytes += size
        self._models.move_to_end((kin, digest))
        return self._models[kin, digest]

    def _shrink(self, in_use: Callable[[Actor], np.ndarray], *, keep: set[str]) -> None:
        used: dict[StackActor, np.ndarray] = {}
        dropped = []
        for key, loaded in self._models.items():  # no copy of them all: as a rule the first one leaves
            if self.num_bytes <= self.budget_bytes:
                break
            actor = loaded.actor
            if actor not in used:
                used[actor] = in_use(actor)
            if key[1] not in keep and loaded.slot not in used[actor]:
                actor.drop(loaded.slot)
                self.num_bytes -= loaded.num_bytes
                dropped.append(key)
        for key in dropped:
            del self._models[key]
