"""Frozen models of one architecture decide in one call, and the cache limits their memory."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from ludus._sampling.opponents import ActorCache, StackActor
from ludus._sampling.seats import SeatRewards, Seats
from ludus.algorithm import Decision
from ludus.environment import RoleTick
from ludus.errors import ModelError
from ludus.interface import Identity
from ludus.records import Fixture


class SinglePolicy:
    """A policy of one model: its state counts decisions, and the action is the count plus the model's offset."""

    def __init__(self):
        self.offsets = {}
        self.calls = []

    def initial_state(self, rows):
        return {"count": np.zeros((rows, 1), np.float32)}

    def load(self, weights):
        self.offsets[0] = int(weights["offset"][0])

    def act(self, inputs, *, rng, deterministic=False):
        count = inputs.state["count"]
        return self.decide(count, [(0, 0, len(count))])

    def decide(self, count, spans):
        action = count.astype(np.int64)
        for slot, start, stop in spans:
            action[start:stop] = (action[start:stop] + self.offsets[slot]) % 4
        return Decision(action=action, state={"count": count + 1})


class SlotPolicy(SinglePolicy):
    """The same with slots."""

    def act(self, inputs, *, rng, deterministic=False):
        self.calls.append([tuple(span) for span in inputs.spans])
        self.observed = inputs.observation["obs"]
        return self.decide(inputs.state["count"], inputs.spans)

    def evaluate(self, inputs):
        raise NotImplementedError

    def load(self, weights, *, slot=0):
        self.offsets[slot] = int(weights["offset"][0])

    def drop(self, slot):
        del self.offsets[slot]


class ReversingInterface(Identity):
    """Reverses actions and logs the seat ids of its calls."""

    def __init__(self):
        self.resets, self.observed, self.elapsed = [], [], []

    def reset(self, seat_ids):
        self.resets += seat_ids.tolist()

    def elapse(self, ticks, seat_ids):
        self.elapsed += ticks.tolist()

    def observe(self, view, seat_ids):
        self.observed += seat_ids.tolist()
        return view

    def act(self, action, seat_ids):
        return 3 - action


def make_stack(policy, *offsets, interface=None):
    """Return an actor with models of these offsets in slots 0, 1 and so on."""
    actor = StackActor(policy=policy, interface=interface, rng=np.random.default_rng(0), num_seats=16)
    for number in offsets:
        actor.load(make_weights(number))
    return actor


def make_weights(number, size=1):
    """Return weights of 8 bytes times `size`."""
    return {"offset": np.full(size, number, np.int64)}


def act(actor, seats):
    """Let the actor decide; a seat's last decision was as many ticks ago as its seat id states."""
    return actor.act(seats, SeatRewards(np.zeros(seats.seat_ids.size, np.float32), seats.seat_ids.astype(np.int32)))


def make_seats(slots, seat_ids=None):
    """Return acting seats, one per match of a game for one."""
    count = len(slots)
    tick = RoleTick(
        observation={"obs": np.arange(2 * count, dtype=np.float32).reshape(count, 1, 2)},
        acting=np.ones((count, 1), bool),
        action_mask=None,
        reward=np.zeros((count, 1), np.float32),
    )
    at = np.arange(count)
    return Seats(tick, at, at if seat_ids is None else np.array(seat_ids), np.array(slots))


# -- one call ----------------------------------------------------------------------------------------------------------


def test_models_share_one_call():
    """Adjacent rows of a slot are one span, for any order of slots."""
    actor = make_stack(SlotPolicy(), 1, 2)
    actions = act(actor, make_seats([1] * 4 + [0] * 5))
    assert actor.policy.calls == [[(1, 0, 4), (0, 4, 9)]]
    assert actor.policy.observed[:, 0].tolist() == list(range(0, 18, 2))
    assert actions[:, 0].tolist() == [2] * 4 + [1] * 5


def test_two_runs_of_a_slot_become_one_span():
    """Matches of an earlier fixture may separate them."""
    actor = make_stack(SlotPolicy(), 1, 2)
    actions = act(actor, make_seats([1] * 4 + [0] * 5 + [1] * 4))
    assert actor.policy.calls == [[(0, 0, 5), (1, 5, 13)]]
    assert actions[:, 0].tolist() == [2] * 4 + [1] * 5 + [2] * 4


def test_scattered_rows_are_sorted_by_slot():
    """Actions are returned in the original order."""
    actor = make_stack(SlotPolicy(), 1, 2)
    actions = act(actor, make_seats([0, 1, 0, 1, 1, 0]))
    assert actor.policy.calls == [[(0, 0, 3), (1, 3, 6)]]
    assert actor.policy.observed[:, 0].tolist() == [0, 4, 10, 2, 6, 8]
    assert actions[:, 0].tolist() == [1, 2, 1, 2, 2, 1]


def test_recurrent_states_are_kept_by_seat():
    """For any order of rows; a new match resets the state."""
    actor = make_stack(SlotPolicy(), 0, 0)
    act(actor, make_seats([0, 1], seat_ids=[3, 6]))
    act(actor, make_seats([1, 0, 1, 0], seat_ids=[6, 3, 1, 0]))
    assert actor._state["count"][:8, 0].tolist() == [1, 1, 0, 2, 0, 0, 2, 0]
    actor.start_matches(np.array([3]))
    assert actor._state["count"][:8, 0].tolist() == [1, 1, 0, 0, 0, 0, 2, 0]


def test_the_interface_gets_the_seat_ids_of_its_rows():
    """One interface serves all models of the architecture."""
    interface = ReversingInterface()
    actor = make_stack(SlotPolicy(), 1, 2, interface=interface)
    actor.start_matches(np.array([4]))
    actions = act(actor, make_seats([0, 1, 0], seat_ids=[7, 8, 9]))
    assert (interface.resets, interface.observed, interface.elapsed) == ([4], [7, 9, 8], [7, 9, 8])
    assert actions[:, 0].tolist() == [2, 1, 2]


def test_policies_without_slots_get_no_spans():
    """They implement the plain contract."""
    actor = make_stack(SinglePolicy(), 3)
    assert not actor.stacked
    assert act(actor, make_seats([0, 0]))[:, 0].tolist() == [3, 3]


# -- the cache ---------------------------------------------------------------------------------------------------------


class ModelFolder:
    """A folder of models that logs reads and made actors."""

    def __init__(self, size=1):
        self.size, self.reads, self.made = size, [], []

    def read(self, digest):
        self.reads.append(digest)
        return make_weights(int(digest), self.size)

    def cache(self, budget, *, policy=SlotPolicy):
        def make(player):
            self.made.append(player)
            return make_stack(policy())

        return ActorCache(
            make_anchor=lambda participant, role: (participant, role),
            make_stack=make,
            architecture_owners={"a": "a", "b": "a", "c": "c"},
            read_model=self.read,
            budget_bytes=budget,
        )


def resolve_seat(cache, model, digest, in_use=()):
    """Seat a model against an anchor."""
    fixture = Fixture(
        id=1,
        kind="train",
        player="a",
        participants=(model, "bot"),
        seed=0,
        matches=1,
        reason="",
        models={model: digest},
    )
    spec = SimpleNamespace(seats=(SimpleNamespace(role="cat"), SimpleNamespace(role="mouse")))
    assert cache.resolve(fixture, 1, spec) == (("bot", "mouse"), 0)
    return cache.resolve(fixture, 0, spec, slots_in_use=lambda actor: np.array(in_use, np.int64))


def test_models_of_one_architecture_share_an_actor():
    """Also models of another player with the same configuration."""
    folder = ModelFolder()
    cache = folder.cache(1000)
    seated = [resolve_seat(cache, model, digest) for model, digest in (("a@1", "1"), ("b@1", "2"), ("c@1", "3"))]
    (one, first), (two, second), (other, third) = seated
    assert one is two is not other
    assert (first, second, third) == (0, 1, 0)
    assert folder.made == ["a", "c"]
    assert one.policy.offsets == {0: 1, 1: 2}


def test_a_model_is_read_once():
    """While it stays in memory."""
    folder = ModelFolder()
    cache = folder.cache(1000)
    assert [resolve_seat(cache, "a@1", "1")[1] for _ in range(3)] == [0, 0, 0]
    assert (folder.reads, cache.num_bytes) == (["1"], 8)


def test_the_least_recently_used_model_is_dropped():
    """If the weights exceed the budget; its slot is reused."""
    folder = ModelFolder()
    cache = folder.cache(16)
    for number in (1, 2, 1):
        resolve_seat(cache, f"a@{number}", str(number))
    actor, slot = resolve_seat(cache, "a@3", "3")
    assert actor.policy.offsets == {0: 1, 2: 3}
    assert (slot, cache.num_bytes) == (2, 16)
    assert resolve_seat(cache, "a@4", "4", in_use=[2])[1] == 1
    assert actor.policy.offsets == {1: 4, 2: 3}
    assert folder.reads == ["1", "2", "3", "4"]


def test_models_in_use_are_not_dropped():
    """Even far beyond the budget; the model that is being resolved counts as used."""
    cache = ModelFolder(size=100).cache(1)
    for number in range(1, 4):
        actor, _ = resolve_seat(cache, f"a@{number}", str(number), in_use=range(number - 1))
    assert set(actor.policy.offsets) == {0, 1, 2}
    resolve_seat(cache, "a@3", "3", in_use=[2])
    assert set(actor.policy.offsets) == {2}


def test_without_slots_in_use_no_model_is_dropped():
    """Evaluations in one process play few models."""
    cache = ModelFolder().cache(1)
    fixture = Fixture(
        id=1,
        kind="eval",
        player="",
        participants=("a@1", "a@2"),
        seed=0,
        matches=1,
        reason="",
        models={"a@1": "1", "a@2": "2"},
    )
    assert [cache.resolve(fixture, seat, None)[1] for seat in (0, 1)] == [0, 1]
    assert cache.num_bytes == 16


def test_policies_without_slots_get_an_actor_each():
    """They are dropped as whole actors."""
    cache = ModelFolder().cache(8, policy=SinglePolicy)
    (one, _), (two, _) = (resolve_seat(cache, f"a@{number}", str(number)) for number in (1, 2))
    assert one is not two
    assert (one.policy.offsets, two.policy.offsets) == ({0: 1}, {0: 2})
    assert resolve_seat(cache, "a@2", "2")[0] is two
    assert resolve_seat(cache, "a@1", "1")[0] is not one


def test_models_of_unknown_players_are_rejected():
    """The message lists the players."""
    with pytest.raises(ModelError, match="model 'x@1' belongs to no player of this run; there are a, b, c"):
        resolve_seat(ModelFolder().cache(1), "x@1", "1")
