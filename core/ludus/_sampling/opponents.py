"""Frozen models and anchors as opponents: one call per architecture, and a limit on the memory of loaded models."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet

import numpy as np
from attrs import define, field, frozen

from ludus._league.participants import parse
from ludus._sampling.actors import PolicyActor, take_state
from ludus._sampling.seats import Actor, SeatRewards, Seats
from ludus.algorithm import StackedPolicy, Weights
from ludus.environment import EnvironmentSpec
from ludus.errors import ModelError
from ludus.inference import Span
from ludus.records import Fixture


@define(eq=False, kw_only=True)
class StackActor(PolicyActor):
    """Frozen models of one architecture in the slots of one policy, which decides for all of them in one call.

    A policy that is not a `ludus.algorithm.StackedPolicy` has slot 0 only.
    """

    stacked: bool = field(init=False)
    _free_slots: list[int] = field(init=False, factory=list)
    _num_slots: int = field(init=False, default=0)  # largest number of slots so far

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.stacked = isinstance(self.policy, StackedPolicy)

    def load(self, weights: Weights) -> int:
        """Load a model into a free slot and return the slot."""
        slot = self._free_slots.pop() if self._free_slots else self._num_slots
        if isinstance(self.policy, StackedPolicy):
            self.policy.load(weights, slot=slot)
        else:
            self.policy.load(weights)
        self._num_slots = max(self._num_slots, slot + 1)
        return slot

    def drop(self, slot: int) -> None:
        """Drop a model that no match uses."""
        if isinstance(self.policy, StackedPolicy):
            self.policy.drop(slot)
            self._free_slots.append(slot)

    def act(self, seats: Seats, rewards: SeatRewards) -> np.ndarray:
        """Decide for all models in one call, with the rows of each slot next to each other."""
        starts = _run_starts(seats.slots)
        run_slots = seats.slots[starts].tolist()
        if len(run_slots) == len(set(run_slots)):
            return self._act_in_order(seats, starts, rewards.elapsed_ticks)
        order = seats.slots.argsort(kind="stable")
        seats = seats.select(order, ascending=False)
        ordered = self._act_in_order(seats, _run_starts(seats.slots), rewards.elapsed_ticks[order])
        actions = np.empty_like(ordered)
        actions[order] = ordered
        return actions

    def _act_in_order(self, seats: Seats, starts: np.ndarray, elapsed_ticks: np.ndarray) -> np.ndarray:
        count = seats.seat_ids.size
        rewards = SeatRewards(np.zeros(count, np.float32), elapsed_ticks)  # none: frozen models do not learn
        view = self.view(seats, rewards)
        # a critic with privileged observations runs only if an observer reads its values
        privileged = {} if seats.values is None else self.privileged(seats)
        spans: Sequence[Span] = ()
        if self.stacked:
            bounds = [*starts.tolist(), count]
            spans = [Span(*span) for span in zip(seats.slots[starts].tolist(), bounds, bounds[1:], strict=False)]
        decision = self.decide(seats, view, privileged, take_state(self._state, seats.seat_ids), spans)
        return self.raw_action(decision.action, seats.seat_ids)


def _run_starts(slots: np.ndarray) -> np.ndarray:
    """Return the positions ``[runs] int64`` at which runs of equal slots start."""
    is_start = np.empty(slots.size, bool)
    is_start[:1] = True
    np.not_equal(slots[1:], slots[:-1], out=is_start[1:])
    return is_start.nonzero()[0]


@frozen
class _LoadedModel:
    actor: StackActor
    slot: int
    num_bytes: int


@define(kw_only=True)
class ActorCache:
    """Actors of frozen models and anchors. Drops the least recently used models that no match uses.

    Args:
        make_anchor: Makes the actor of an anchor from the names of participant and role.
        make_stack: Makes an actor for models of a player.
        architecture_owners: Player → first player with the same architecture; their models share actors.
        read_model: Reads the weights of a model by its hash.
        budget_bytes: Limit on the size of loaded weights. Models in use may exceed it.

    Attributes:
        num_bytes: Size of all loaded weights.
    """

    make_anchor: Callable[[str, str], Actor]
    make_stack: Callable[[str], StackActor]
    architecture_owners: Mapping[str, str]
    read_model: Callable[[str], Weights]
    budget_bytes: int
    num_bytes: int = field(init=False, default=0)
    _anchors: dict[tuple[str, str], Actor] = field(init=False, factory=dict)
    _stacks: dict[str, StackActor] = field(init=False, factory=dict)
    _models: OrderedDict[tuple[str, str], _LoadedModel] = field(init=False, factory=OrderedDict)

    def resolve(
        self,
        fixture: Fixture,
        seat: int,
        spec: EnvironmentSpec,
        *,
        slots_in_use: Callable[[Actor], np.ndarray] | None = None,
    ) -> tuple[Actor, int]:
        """Return the actor and the slot of a seat of a fixture.

        Args:
            fixture: The fixture.
            seat: Seat number.
            spec: Specification of the environment.
            slots_in_use: Returns the slots of an actor that must keep their models, see `MatchEngine.slots_in_use`.
                Without it, all models are kept.

        Raises:
            ModelError: The model cannot be loaded, or belongs to no player.
        """
        participant = fixture.participants[seat]
        if participant not in fixture.models:
            key = (participant, spec.seats[seat].role)
            if key not in self._anchors:
                self._anchors[key] = self.make_anchor(*key)
            return self._anchors[key], 0
        loaded = self._load_model(participant, fixture.models[participant])
        if slots_in_use is not None and self.num_bytes > self.budget_bytes:
            self._drop_unused(slots_in_use, keep=set(fixture.models.values()))
        return loaded.actor, loaded.slot

    def _load_model(self, participant: str, digest: str) -> _LoadedModel:
        player = parse(participant).player
        if player not in self.architecture_owners:
            players = ", ".join(self.architecture_owners)
            raise ModelError(f"model {participant!r} belongs to no player of this run; there are {players}")
        owner = self.architecture_owners[player]
        if (owner, digest) not in self._models:
            weights = self.read_model(digest)
            actor = self._stacks.get(owner) or self.make_stack(owner)
            if actor.stacked:
                self._stacks[owner] = actor
            size = sum(array.nbytes for array in weights.values())
            self._models[owner, digest] = _LoadedModel(actor, actor.load(weights), size)
            self.num_bytes += size
        self._models.move_to_end((owner, digest))
        return self._models[owner, digest]

    def _drop_unused(self, slots_in_use: Callable[[Actor], np.ndarray], *, keep: AbstractSet[str]) -> None:
        used: dict[StackActor, np.ndarray] = {}
        dropped = []
        for key, loaded in self._models.items():  # no copy: usually the first model is dropped
            if self.num_bytes <= self.budget_bytes:
                break
            actor = loaded.actor
            if actor not in used:
                used[actor] = slots_in_use(actor)
            if key[1] not in keep and loaded.slot not in used[actor]:
                actor.drop(loaded.slot)
                self.num_bytes -= loaded.num_bytes
                dropped.append(key)
        for key in dropped:
            del self._models[key]
