"""Interfaces: stacking, binding and putting them before an agent [Arena §2.4.1, §2.4.2]."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from ludus.environment import Role
from ludus.errors import ContractError
from ludus.interface import Identity, Spaces, View, bind_role, stack
from ludus.spaces import leaf_spaces

CARDS = 3
ROLE = Role(
    name="player",
    observation_space=spaces.Dict({"card": spaces.Discrete(CARDS), "tick": spaces.Box(0, 4, (2,))}),
    action_space=spaces.MultiDiscrete([CARDS, 2]),
    teams=(0, 1),
    privileged_space=spaces.Dict({"secret": spaces.Box(0, 1, (1,))}),
)


class CardOnly(Identity):
    """Shows the card as one number, and leaves only the guess to choose."""

    def bind(self, raw):
        return Spaces(spaces.Discrete(CARDS), spaces.Discrete(CARDS))

    def observe(self, view, seat_ids):
        mask = None if view.action_mask is None else view.action_mask[:, :CARDS]
        return View(observation={"obs": view.observation["card"]}, action_mask=mask, reward=view.reward)

    def act(self, action, seat_ids):
        return np.concatenate([action, np.zeros_like(action)], axis=1)


class Count(Identity):
    """Adds a leaf that counts what the stream was shown before: memory to be kept apart and reset."""

    def __init__(self):
        self.seen = {}

    def bind(self, raw):
        return Spaces(spaces.Dict({**leaf_spaces(raw.observation), "count": spaces.Discrete(1000)}), raw.action)

    def reset(self, seat_ids):
        for stream in seat_ids.tolist():
            self.seen[stream] = 0

    def observe(self, view, seat_ids):
        count = np.array([self.seen.get(stream, 0) for stream in seat_ids.tolist()])
        self.seen.update(zip(seat_ids.tolist(), (count + 1).tolist(), strict=True))
        return attrs.evolve(view, observation={**view.observation, "count": count})


class Times(Identity):
    """Multiplies the leaf "obs" and adds to the action: shows the order in which interfaces are passed."""

    def __init__(self, factor, log):
        self.factor, self.log = factor, log

    def observe(self, view, seat_ids):
        self.log.append(f"observe {self.factor}")
        return attrs.evolve(view, observation={"obs": view.observation["obs"] * self.factor + 1})

    def act(self, action, seat_ids):
        self.log.append(f"act {self.factor}")
        return action * self.factor + 1


class Rule:
    """An agent that computes its action from its observation by a function."""

    def __init__(self, rule):
        self.rule, self.forgotten = rule, []

    def act(self, observation, *, action_mask, seat_ids, rng):
        return np.asarray(self.rule(observation, action_mask), np.int64)

    def reset(self, seat_ids):
        self.forgotten.extend(seat_ids.tolist())


def view_of(obs):
    """Return a view of one plain leaf without a mask."""
    return View(observation={"obs": np.asarray(obs)}, action_mask=None, reward=np.zeros(len(obs), np.float32))


def test_observations_pass_the_first_interface_first_and_actions_the_last_one_first():
    """stack(I1, I2) is the paper's I2(I1(None)): observation I1 then I2, action I2 then I1."""
    log = []
    both = stack(Times(2, log), Times(10, log))
    seat_ids = np.zeros(1, np.int64)
    assert both.observe(view_of([[3.0]]), seat_ids).observation["obs"] == (3 * 2 + 1) * 10 + 1
    assert both.act(np.array([[1]]), seat_ids) == (1 * 10 + 1) * 2 + 1
    assert log == ["observe 2", "observe 10", "act 10", "act 2"]


def test_stack_binds_each_interface_to_what_the_one_below_shows():
    """Spaces are passed on from the game upwards."""
    raw = ROLE
    seen = stack(Count(), CardOnly()).bind(Spaces(raw.observation_space, raw.action_space))
    assert seen == Spaces(spaces.Discrete(CARDS), spaces.Discrete(CARDS))


def test_empty_stack_changes_nothing():
    """Stacking no interfaces gives the raw view and action back."""
    view, action = view_of([[1.0]]), np.array([[2]])
    assert stack().observe(view, np.zeros(1, np.int64)) is view
    assert stack().act(action, np.zeros(1, np.int64)) is action


def test_stack_resets_every_interface():
    """A new match reaches all memories."""
    first, second = Count(), Count()
    stack(first, second).reset(np.array([5]))
    assert first.seen == second.seen == {5: 0}


def test_the_same_object_cannot_stand_twice_in_a_stack():
    """Sharing one memory between two places is refused."""
    interface = Identity()
    with pytest.raises(ContractError, match="used twice"):
        stack(interface, interface)


def test_bind_role_gives_the_role_as_its_player_sees_it():
    """Spaces change, seats and privileged observations do not."""
    raw = ROLE
    seen = bind_role(raw, CardOnly())
    assert (seen.observation_space, seen.action_space) == (spaces.Discrete(CARDS), spaces.Discrete(CARDS))
    assert (seen.teams, seen.privileged_space) == (raw.teams, raw.privileged_space)


def test_bind_role_says_which_role_an_interface_cannot_serve():
    """The error names the role."""

    class Picky(Identity):
        def bind(self, raw):
            raise ContractError("needs a picture")

    with pytest.raises(ContractError, match=r"role 'player': needs a picture"):
        bind_role(ROLE, Picky())


def test_labels_used_stay_with_the_actions_they_speak_of():
    """An interface that changes the action space leaves nothing that could be said of the old labels."""
    space = spaces.MultiDiscrete([2, 3])
    role = attrs.evolve(ROLE, action_space=space, labels_used=((True, False), (True, True)))

    class OneLabel(Identity):
        def bind(self, raw):
            return Spaces(raw.observation, spaces.Discrete(6))

    assert bind_role(role, Identity()).labels_used == role.labels_used
    assert bind_role(role, OneLabel()).labels_used is None


def test_labels_used_do_not_outlive_new_numbers_of_the_same_choices():
    """Equal spaces do not tell; an interface with an `act` of its own does, anywhere in a stack."""
    space = spaces.MultiDiscrete([2, 2])
    role = attrs.evolve(ROLE, action_space=space, labels_used=((True, False), (True, True)))

    class Backwards(Identity):
        def act(self, action, seat_ids):
            return 1 - action

    assert bind_role(role, Backwards()).labels_used is None
    assert bind_role(role, stack(Count(), stack(Backwards(), Identity()))).labels_used is None
    assert bind_role(role, stack(Count(), stack(Identity()))).labels_used == role.labels_used
