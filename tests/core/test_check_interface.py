"""`check_interface` reports every kind of broken interface."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.interface import Identity, Spaces, stack
from ludus.spaces import leaf_spaces
from ludus.testing import check_interface

RAW = Spaces(
    spaces.Dict({"x": spaces.Box(-1, 1, (3,)), "n": spaces.Discrete(4), "b": spaces.MultiBinary(2)}),
    spaces.MultiDiscrete([3, 2]),
)
REAL = Spaces(spaces.Box(-1, 1, (3,)), spaces.Box(-2, 2, (2,)))


class Remembers(Identity):
    """Shows the number of views of each seat; valid."""

    def __init__(self):
        self.observed = {}

    def bind(self, raw):
        return Spaces(spaces.Dict({**leaf_spaces(raw.observation), "observed": spaces.Discrete(10**6)}), raw.action)

    def reset(self, seat_ids):
        self.observed.update(dict.fromkeys(seat_ids.tolist(), 0))

    def observe(self, view, seat_ids):
        count = np.array([self.observed.get(seat_id, 0) for seat_id in seat_ids.tolist()])
        self.observed.update(zip(seat_ids.tolist(), (count + 1).tolist(), strict=True))
        return attrs.evolve(view, observation={**view.observation, "observed": count})


class BindsOnce(Identity):
    calls = 0

    def bind(self, raw):
        self.calls += 1
        return Spaces(raw.observation, spaces.Discrete(self.calls))


class ModifiesView(Identity):
    def observe(self, view, seat_ids):
        view.observation["x"] *= 0.5
        return view


class ModifiesAction(Identity):
    def act(self, action, seat_ids):
        action[:] = 0
        return action


class LeavesOutOfBounds(Identity):
    def observe(self, view, seat_ids):
        return attrs.evolve(view, observation={**view.observation, "x": view.observation["x"] + np.float32(2)})


class WrongDtype(Identity):
    def observe(self, view, seat_ids):
        return attrs.evolve(view, observation={**view.observation, "x": view.observation["x"].astype(np.float64)})


class LosesLeaf(Identity):
    def observe(self, view, seat_ids):
        return attrs.evolve(view, observation={"x": view.observation["x"], "n": view.observation["n"]})


class WrongReward(Identity):
    def observe(self, view, seat_ids):
        return attrs.evolve(view, reward=view.reward.astype(np.float64))


class ModifiesPart(Identity):
    def observe(self, view, seat_ids):
        view.reward_parts["won"] *= 2
        return view


class AddsPart(Identity):
    def observe(self, view, seat_ids):
        view.reward_parts["more"] = view.reward
        return view


class Parts(Identity):
    """Changes the reward parts; valid."""

    def observe(self, view, seat_ids):
        parts = {name: self.made(part) for name, part in view.reward_parts.items()}
        return attrs.evolve(view, reward_parts=parts)

    def made(self, part):
        return part / np.float32(2)


class WideParts(Parts):
    def made(self, part):
        return part.astype(np.float64)


class LostParts(Parts):
    def made(self, part):
        return part[:-1]


class FirstParts(Parts):
    def made(self, part):
        return part - part[:1]


class DropsParts(Identity):
    """Removes the reward parts; valid."""

    def observe(self, view, seat_ids):
        return attrs.evolve(view, reward_parts={})


class ShortMask(Identity):
    def observe(self, view, seat_ids):
        return attrs.evolve(view, action_mask=view.action_mask[:, :3])


class EmptyMask(Identity):
    def observe(self, view, seat_ids):
        return attrs.evolve(view, action_mask=view.action_mask & (np.arange(5) < 3))


class ForgetsMask(Identity):
    def observe(self, view, seat_ids):
        return attrs.evolve(view, action_mask=None)


class ShiftsAction(Identity):
    def act(self, action, seat_ids):
        return action + 1


class WrongActionDtype(Identity):
    def act(self, action, seat_ids):
        return action.astype(np.int32)


class SharesMemory(Remembers):
    """Counts the views of all seats together."""

    def observe(self, view, seat_ids):
        self.total = getattr(self, "total", -1) + 1
        count = np.full(seat_ids.size, self.total)
        return attrs.evolve(view, observation={**view.observation, "observed": count})

    def reset(self, seat_ids):
        self.total = -1


class DependsOnOrder(Identity):
    """Normalizes by the first row of the batch."""

    def observe(self, view, seat_ids):
        first = view.reward - view.reward[:1]
        return attrs.evolve(view, reward=first)


class NeverForgets(Remembers):
    def reset(self, seat_ids):
        pass


class ResetsAllSeats(Remembers):
    def reset(self, seat_ids):
        self.observed = {}


class Fading(Identity):
    """Scales rewards by the progress of training; valid."""

    def __init__(self):
        self.share = 1

    def set_progress(self, progress):
        self.share = 0 if progress > 0.5 else 1

    def observe(self, view, seat_ids):
        share = np.float32(self.share)
        parts = {name: part * share for name, part in view.reward_parts.items()}
        return attrs.evolve(view, reward=view.reward * share, reward_parts=parts)


class FadingObservation(Fading):
    def observe(self, view, seat_ids):
        x = view.observation["x"] * np.float32(self.share)
        return attrs.evolve(view, observation={**view.observation, "x": x})


class FadingMask(Fading):
    def observe(self, view, seat_ids):
        mask = view.action_mask.copy()
        if not self.share:
            mask[:, :3] &= np.cumsum(mask[:, :3], axis=1) < 2
        return attrs.evolve(view, action_mask=mask)


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (BindsOnce, "bind is not idempotent"),
        (ModifiesView, "observe modified observation leaf 'x'"),
        (ModifiesAction, "act modified the action"),
        (LeavesOutOfBounds, "observation leaf 'x' has the value"),
        (WrongDtype, "observation leaf 'x' is float64"),
        (LosesLeaf, r"observe returned the leaves \['n', 'x'\], bind returned \['b', 'n', 'x'\]"),
        (WrongReward, "observe's reward is float64"),
        (ModifiesPart, "observe modified reward part 'won'"),
        (AddsPart, "observe modified reward part 'more'"),
        (WideParts, r"observe's reward part 'won' is float64 \(6,\), expected float32 \(6,\)"),
        (LostParts, r"observe's reward part 'won' is float32 \(5,\), expected float32 \(6,\)"),
        (FirstParts, "reward part 'won' differs at decision 0 with rows in another order"),
        (ShortMask, r"action_mask is bool \(6, 3\), expected bool \(6, 5\)"),
        (EmptyMask, "no legal choice of label 1"),
        (ForgetsMask, "which the raw mask forbids"),
        (ShiftsAction, "which is not in MultiDiscrete"),
        (WrongActionDtype, "act's action for .* is int32"),
        (SharesMemory, "observation leaf 'observed' differs at decision 0 with a batch of one"),
        (DependsOnOrder, "reward differs at decision 0 with rows in another order"),
        (NeverForgets, "differs at decision 0 with a second match after reset"),
        (ResetsAllSeats, "of a seat changes when another seat is reset"),
        (FadingObservation, "observation leaf 'x' changes with set_progress"),
        (FadingMask, "action_mask changes with set_progress"),
    ],
)
def test_a_broken_interface_is_reported(broken, problem):
    """The message names the broken part of the contract."""
    with pytest.raises(ContractError, match=problem):
        check_interface(broken, RAW)


@pytest.mark.parametrize("raw", [RAW, REAL, Spaces(spaces.Discrete(3), spaces.Discrete(2))])
@pytest.mark.parametrize("masked", [True, False])
def test_valid_interfaces_pass(raw, masked):
    """Stateless, stateful and stacked interfaces pass on all kinds of spaces."""
    for make in (Identity, Remembers, Fading, Parts, DropsParts, lambda: stack(Identity(), Remembers(), Fading())):
        check_interface(make, raw, masked=masked)


def test_real_actions_out_of_bounds_are_reported():
    """Box actions are checked against their bounds."""

    class Doubles(Identity):
        def act(self, action, seat_ids):
            return action * np.float32(2)

    with pytest.raises(ContractError, match="which is not in Box"):
        check_interface(Doubles, REAL)


def test_actions_must_not_depend_on_the_progress():
    """Frozen models play without it."""

    class FadingAction(Fading):
        def act(self, action, seat_ids):
            return action * self.share

    for make in (FadingAction, lambda: stack(Identity(), FadingAction())):
        with pytest.raises(ContractError, match="the action changes with set_progress"):
            check_interface(make, RAW, masked=False)


def test_illegal_actions_are_reported_without_masks():
    """Every choice must exist in the action space of the environment."""
    with pytest.raises(ContractError, match="which is not in MultiDiscrete"):
        check_interface(ShiftsAction, RAW, masked=False)
