"""Interfaces are stacked and bound to roles [Arena §2.4.1]."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from ludus.environment import Role
from ludus.errors import ContractError
from ludus.interface import FadingGuidance, Identity, SeatView, Spaces, bind_role, stack
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
    """Observes the card only and chooses the first label only."""

    def bind(self, raw):
        return Spaces(spaces.Discrete(CARDS), spaces.Discrete(CARDS))

    def observe(self, view, seat_ids):
        mask = None if view.action_mask is None else view.action_mask[:, :CARDS]
        return SeatView(observation={"obs": view.observation["card"]}, action_mask=mask, reward=view.reward)

    def act(self, action, seat_ids):
        return np.concatenate([action, np.zeros_like(action)], axis=1)


class Count(Identity):
    """Adds a leaf with the number of earlier observations of the seat."""

    def __init__(self):
        self.observed = {}

    def bind(self, raw):
        return Spaces(spaces.Dict({**leaf_spaces(raw.observation), "count": spaces.Discrete(1000)}), raw.action)

    def reset(self, seat_ids):
        for seat_id in seat_ids.tolist():
            self.observed[seat_id] = 0

    def observe(self, view, seat_ids):
        count = np.array([self.observed.get(seat_id, 0) for seat_id in seat_ids.tolist()])
        self.observed.update(zip(seat_ids.tolist(), (count + 1).tolist(), strict=True))
        return attrs.evolve(view, observation={**view.observation, "count": count})


class Times(Identity):
    """Transforms observations and actions in a way that depends on the order of interfaces, and logs its calls."""

    def __init__(self, factor, log):
        self.factor, self.log = factor, log

    def observe(self, view, seat_ids):
        self.log.append(f"observe {self.factor}")
        return attrs.evolve(view, observation={"obs": view.observation["obs"] * self.factor + 1})

    def act(self, action, seat_ids):
        self.log.append(f"act {self.factor}")
        return action * self.factor + 1


def view_of(obs):
    """Return a view of one plain leaf without a mask."""
    return SeatView(observation={"obs": np.asarray(obs)}, action_mask=None, reward=np.zeros(len(obs), np.float32))


def test_stack_passes_observations_first_to_last_and_actions_last_to_first():
    """stack(I1, I2) is I2(I1(None)) of the paper."""
    log = []
    both = stack(Times(2, log), Times(10, log))
    seat_ids = np.zeros(1, np.int64)
    assert both.observe(view_of([[3.0]]), seat_ids).observation["obs"] == (3 * 2 + 1) * 10 + 1
    assert both.act(np.array([[1]]), seat_ids) == (1 * 10 + 1) * 2 + 1
    assert log == ["observe 2", "observe 10", "act 10", "act 2"]


def test_stack_binds_each_interface_to_the_spaces_of_the_previous_one():
    """Binding starts at the environment."""
    raw = ROLE
    observed = stack(Count(), CardOnly()).bind(Spaces(raw.observation_space, raw.action_space))
    assert observed == Spaces(spaces.Discrete(CARDS), spaces.Discrete(CARDS))


def test_empty_stack_changes_nothing():
    """A stack without interfaces returns the same view and action."""
    view, action = view_of([[1.0]]), np.array([[2]])
    assert stack().observe(view, np.zeros(1, np.int64)) is view
    assert stack().act(action, np.zeros(1, np.int64)) is action


def test_stack_resets_every_interface():
    """The reset of a seat is passed to all interfaces."""
    first, second = Count(), Count()
    stack(first, second).reset(np.array([5]))
    assert first.observed == second.observed == {5: 0}


def test_stack_rejects_the_same_object_twice():
    """Two places must not share one state."""
    interface = Identity()
    with pytest.raises(ContractError, match="used twice"):
        stack(interface, interface)


def test_bind_role_returns_the_transformed_role():
    """Spaces change; teams and privileged observations do not."""
    raw = ROLE
    observed = bind_role(raw, CardOnly())
    assert (observed.observation_space, observed.action_space) == (spaces.Discrete(CARDS), spaces.Discrete(CARDS))
    assert (observed.teams, observed.privileged_space) == (raw.teams, raw.privileged_space)


def test_bind_role_errors_name_the_role():
    """The error of the interface gets the role as prefix."""

    class Picky(Identity):
        def bind(self, raw):
            raise ContractError("needs an image")

    with pytest.raises(ContractError, match=r"role 'player': needs an image"):
        bind_role(ROLE, Picky())


def test_bind_role_drops_labels_used_if_the_action_space_changes():
    """The field describes labels that no longer exist."""
    space = spaces.MultiDiscrete([2, 3])
    role = attrs.evolve(ROLE, action_space=space, labels_used=((True, False), (True, True)))

    class OneLabel(Identity):
        def bind(self, raw):
            return Spaces(raw.observation, spaces.Discrete(6))

    assert bind_role(role, Identity()).labels_used == role.labels_used
    assert bind_role(role, OneLabel()).labels_used is None


def test_bind_role_drops_labels_used_if_actions_are_renumbered():
    """Any interface of a stack that overrides `act` counts, even if the action space stays equal."""
    space = spaces.MultiDiscrete([2, 2])
    role = attrs.evolve(ROLE, action_space=space, labels_used=((True, False), (True, True)))

    class Backwards(Identity):
        def act(self, action, seat_ids):
            return 1 - action

    assert bind_role(role, Backwards()).labels_used is None
    assert bind_role(role, stack(Count(), stack(Backwards(), Identity()))).labels_used is None
    assert bind_role(role, stack(Count(), stack(Identity()))).labels_used == role.labels_used


def test_guidance_fades_over_the_training_budget():
    """[AET §3.2.4]: 0.8 + 0.2 + 4 w for the weights 1, ¾ and 0; after the budget it stays 0."""
    interface = stack(FadingGuidance(["near", "lift"]))
    parts = {"win": [0.8, -1.0], "near": [3.0, 0.0], "lift": [1.0, 2.0], "health": [0.2, 0.0]}
    parts = {name: np.array(values, np.float32) for name, values in parts.items()}
    view = SeatView(observation={}, action_mask=None, reward=sum(parts.values()), reward_parts=parts)
    for progress, rewards in ((0.0, [5.0, 1.0]), (0.25, [4.0, 0.5]), (1.0, [1.0, -1.0]), (1.2, [1.0, -1.0])):
        interface.set_progress(progress)
        faded = interface.observe(view, np.arange(2))
        np.testing.assert_allclose(faded.reward, rewards, atol=1e-6)
        np.testing.assert_allclose(sum(faded.reward_parts.values()), rewards, atol=1e-6)
        assert faded.reward.dtype == np.float32
    assert view.reward_parts["near"].tolist() == [3.0, 0.0]
    empty = attrs.evolve(view, reward_parts={})
    assert interface.observe(empty, np.arange(2)) is empty
