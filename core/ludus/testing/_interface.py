"""`check_interface`: check an interface on random views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from attrs import frozen
from gymnasium import Space

from ludus.environment import Leaves
from ludus.errors import ContractError
from ludus.interface import Interface, ScheduledInterface, SeatView, Spaces
from ludus.spaces import action_dtype, action_width, label_sizes, leaf_spaces, legal_actions, random_actions
from ludus.testing._errors import expect_type, require, require_array
from ludus.testing._synthetic import random_leaves, random_mask

_REWARD_PARTS = ("won", "shaped")
_SEAT_ID_STEP = 7  # seat ids have gaps if opponents play the seats in between


def check_interface(
    make: Callable[[], Interface], raw: Spaces, *, rows: int = 6, steps: int = 5, seed: int = 0, masked: bool = True
) -> None:
    """Check an interface on random observations, masks, rewards and actions.

    Args:
        make: Makes a new interface; called several times.
        raw: Spaces of the environment, to bind the interface to.
        rows: Seats in a batch.
        steps: Decisions of every seat.
        seed: Seed of everything random.
        masked: Whether the environment has action masks (Box actions never have masks).

    Raises:
        ContractError: The interface breaks its contract.
    """
    script = _Script.random(raw, rows=rows, steps=steps, seed=seed, masked=masked)
    check = _InterfaceCheck(make, raw, _check_bind(make, raw), script)
    views = check.check_views()
    check.check_actions(np.random.default_rng(seed))
    check.check_row_independence(views)
    check.check_reset(views)
    check.check_schedule(np.random.default_rng(seed))


@frozen
class _Script:
    """Random views of n seats.

    Args:
        views: One view for each decision.
        seat_ids: Seat ids ``[n]``.
    """

    views: list[SeatView]
    seat_ids: np.ndarray

    @classmethod
    def random(cls, raw: Spaces, *, rows: int, steps: int, seed: int, masked: bool) -> _Script:
        rng = np.random.default_rng(seed)
        views = [
            SeatView(
                observation=random_leaves(raw.observation, rows, rng),
                action_mask=random_mask(raw.action, rows, rng) if masked else None,
                reward=rng.normal(size=rows).astype(np.float32),
                reward_parts={name: rng.normal(size=rows).astype(np.float32) for name in _REWARD_PARTS},
            )
            for _ in range(steps)
        ]
        return cls(views, np.arange(rows, dtype=np.int64) * _SEAT_ID_STEP)

    def select(self, rows: np.ndarray) -> _Script:
        return _Script([_select_rows(view, rows) for view in self.views], self.seat_ids[rows])

    def play(self, interface: Interface) -> list[SeatView]:
        """Return copies of the views that the interface returns."""
        return [_copy(interface.observe(view, self.seat_ids)) for view in self.views]


def _select_rows(view: SeatView, rows: np.ndarray) -> SeatView:
    return SeatView(
        observation={name: leaf[rows] for name, leaf in view.observation.items()},
        action_mask=None if view.action_mask is None else view.action_mask[rows],
        reward=view.reward[rows],
        reward_parts={name: part[rows] for name, part in view.reward_parts.items()},
    )


def _copy(view: SeatView) -> SeatView:
    return _select_rows(view, np.arange(view.reward.shape[0]))


def _difference(one: SeatView, other: SeatView) -> str:
    """Return the name of the first array that differs between two views; empty if they are equal."""
    arrays, others = _arrays(one), _arrays(other)
    for name, array in arrays.items():
        if name not in others or not np.array_equal(array, others[name]):
            return name
    return next((name for name in others if name not in arrays), "")


def _arrays(view: SeatView) -> dict[str, np.ndarray]:
    """Return all arrays of a view by a name for messages."""
    arrays = {f"observation leaf {name!r}": leaf for name, leaf in view.observation.items()}
    if view.action_mask is not None:
        arrays["action_mask"] = view.action_mask
    return {
        **arrays,
        **{f"reward part {name!r}": part for name, part in view.reward_parts.items()},
        "reward": view.reward,
    }


def _check_bind(make: Callable[[], Interface], raw: Spaces) -> Spaces:
    """Check that `bind` can be repeated and return the spaces of the player."""
    interface = make()
    first, second = interface.bind(raw), interface.bind(raw)
    require(first == second, f"bind is not idempotent: first {first}, then {second}")
    leaf_spaces(first.observation)
    label_sizes(first.action)
    return first


@frozen
class _InterfaceCheck:
    """Checks of one interface on one script.

    Args:
        make: Makes a new interface.
        raw: Spaces of the environment.
        bound: Spaces that `bind` returned.
        script: Views to transform.
    """

    make: Callable[[], Interface]
    raw: Spaces
    bound: Spaces
    script: _Script

    def start(self) -> Interface:
        """Return a new interface, bound and reset for all seats."""
        interface = self.make()
        interface.bind(self.raw)
        interface.reset(self.script.seat_ids)
        return interface

    def check_views(self) -> list[SeatView]:
        """Check every view against the bound spaces and return copies of all views."""
        interface, views = self.start(), []
        for view in self.script.views:
            before = _copy(view)
            transformed = interface.observe(view, self.script.seat_ids)
            if changed := _difference(before, view):
                raise ContractError(f"observe modified {changed} of its argument; copy before changing")
            check_view(transformed, self.bound, rows=self.script.seat_ids.size)
            _check_bounds(transformed.observation, self.bound.observation)
            _check_legal_choices(transformed.action_mask, self.bound.action)
            views.append(_copy(transformed))
        return views

    def check_actions(self, rng: np.random.Generator) -> None:
        """Check that legal actions of the player become legal actions of the environment."""
        interface, seat_ids = self.start(), self.script.seat_ids
        dtype, shape = action_dtype(self.raw.action), (seat_ids.size, action_width(self.raw.action))
        for view in self.script.views:
            transformed = interface.observe(view, seat_ids)
            chosen = self._random_actions(transformed.action_mask, rng)
            before = chosen.copy()
            action = interface.act(chosen, seat_ids)
            require(np.array_equal(before, chosen), "act modified the action of its argument; copy before changing")
            require_array(f"act's action for {self.raw.action}", action, shape, dtype)
            _check_raw_actions(action, before, self.raw.action, view.action_mask)

    def _random_actions(self, mask: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
        """Return ``[n, L]`` random legal actions of the player."""
        return random_actions(self.bound.action, self.script.seat_ids.size, rng, mask=mask)

    def check_row_independence(self, views: list[SeatView]) -> None:
        """Check that order, number and other rows of a batch have no effect on a row."""
        count = self.script.seat_ids.size
        reverse, half = np.arange(count)[::-1], np.arange(0, count, 2)
        _require_same(views, reverse, self.script.select(reverse).play(self.start()), "rows in another order")
        single = self.start()
        for row in range(count):
            rows = np.array([row])
            _require_same(views, rows, self.script.select(rows).play(single), "a batch of one")
        _require_same(views, half, self.script.select(half).play(self.start()), "fewer seats")

    def check_reset(self, views: list[SeatView]) -> None:
        """Check that a reset clears the state of its seats and keeps the state of others."""
        interface, unused, seat_ids = self.start(), self.start(), self.script.seat_ids
        self.script.play(interface)
        for other in (interface, unused):  # equally often: an interface may draw random numbers for every match
            other.reset(seat_ids)
        rows, expected_views = np.arange(seat_ids.size), self.script.play(unused)
        _require_same(expected_views, rows, self.script.play(interface), "a second match after reset")
        interface = self.start()
        for view, expected in zip(self.script.views, views, strict=True):
            interface.reset(seat_ids[:1])
            got = interface.observe(view, seat_ids)
            if changed := _difference(_select_rows(expected, rows[1:]), _select_rows(got, rows[1:])):
                raise ContractError(f"{changed} of a seat changes when another seat is reset")

    def check_schedule(self, rng: np.random.Generator) -> None:
        """Check that `set_progress` changes rewards only: frozen models play without it."""
        fixed, scheduled, seat_ids = self.start(), self.start(), self.script.seat_ids
        if not isinstance(scheduled, ScheduledInterface):
            return
        for step, view in enumerate(self.script.views, start=1):
            scheduled.set_progress(step / len(self.script.views))
            expected, got = (
                attrs.evolve(interface.observe(view, seat_ids), reward=view.reward, reward_parts={})
                for interface in (fixed, scheduled)
            )
            changed = _difference(expected, got)
            chosen = self._random_actions(expected.action_mask, rng)
            action, scheduled_action = (interface.act(chosen.copy(), seat_ids) for interface in (fixed, scheduled))
            if not np.array_equal(action, scheduled_action):
                changed = changed or "the action"
            if changed:
                raise ContractError(
                    f"{changed} changes with set_progress, which may change rewards only: frozen models and "
                    f"evaluations play without it"
                )


def _require_same(views: list[SeatView], rows: np.ndarray, got: list[SeatView], condition: str) -> None:
    """Check that views are equal to `rows` of the expected views."""
    for step, (expected, view) in enumerate(zip(views, got, strict=True)):
        if changed := _difference(_select_rows(expected, rows), view):
            raise ContractError(
                f"{changed} differs at decision {step} with {condition}: a row must depend on its seat only"
            )


def check_view(view: Any, spaces: Spaces, *, rows: int) -> None:
    """Check names, shapes and dtypes of a view, but not its values.

    Args:
        view: Return value of `observe`.
        spaces: Return value of `bind`.
        rows: Number of seats.

    Raises:
        ContractError: An array has another name, shape or dtype.
    """
    expect_type(SeatView, view, "observe")
    _check_observation(view.observation, spaces.observation, rows=rows)
    if view.action_mask is not None:
        require_array("observe's action_mask", view.action_mask, (rows, sum(label_sizes(spaces.action))), np.bool_)
    require_array("observe's reward", view.reward, (rows,), np.float32)
    for name, part in view.reward_parts.items():
        require_array(f"observe's reward part {name!r}", part, (rows,), np.float32)


def _check_observation(leaves: Leaves, space: Space[Any], *, rows: int) -> None:
    expected = leaf_spaces(space)
    if set(leaves) != set(expected):
        raise ContractError(f"observe returned the leaves {sorted(leaves)}, bind returned {sorted(expected)}")
    for name, leaf in expected.items():
        require_array(f"observation leaf {name!r}", leaves[name], (rows, *(leaf.shape or ())), leaf.dtype)


def _check_bounds(leaves: Leaves, space: Space[Any]) -> None:
    for name, leaf in leaf_spaces(space).items():
        for row in leaves[name]:
            require(leaf.contains(np.asarray(row)), f"observation leaf {name!r} has the value {row}, not in {leaf}")


def _check_legal_choices(mask: np.ndarray | None, action: Space[Any]) -> None:
    if mask is None:
        return
    for label, legal in enumerate(np.split(mask, np.cumsum(label_sizes(action))[:-1], axis=1)):
        problem = f"observe returned no legal choice of label {label}, although the raw mask has one"
        require(legal.any(axis=1).all(), problem)


def _check_raw_actions(action: np.ndarray, chosen: np.ndarray, space: Space[Any], mask: np.ndarray | None) -> None:
    for row in np.flatnonzero(~legal_actions(space, action)):
        raise ContractError(f"act changed {chosen[row]} into {action[row]}, which is not in {space}")
    for row in np.flatnonzero(~legal_actions(space, action, mask)):
        raise ContractError(
            f"act changed the legal {chosen[row]} into {action[row]}, which the raw mask forbids: the mask of the "
            f"player may allow only what the raw mask allows"
        )
