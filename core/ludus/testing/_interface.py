"""`check_interface`: everything an interface promises, tried out on random views."""

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
from ludus.spaces import action_dtype, action_width, label_sizes, leaf_spaces, legal_actions
from ludus.testing._errors import expect_type
from ludus.testing._rollout import random_action
from ludus.testing._synthetic import random_leaves, random_mask

__all__ = ["check_interface"]

_PARTS = ("won", "shaped")  # of the reward
_STREAM_STEP = 7  # stream ids have gaps, as they do where an opponent sits in between


def check_interface(
    make: Callable[[], Interface], raw: Spaces, *, rows: int = 6, steps: int = 5, seed: int = 0, masked: bool = True
) -> None:
    """Check an interface on random observations, masks, rewards and actions.

    Args:
        make: Makes a new interface; called several times.
        raw: Spaces to bind it to.
        rows: Rows observed at once.
        steps: Decisions of every stream.
        seed: Seeds everything random.
        masked: Whether the game offers masks (Box actions never have any).

    Raises:
        ContractError: It breaks its contract; the message says which part and how.
    """
    seen = _check_bind(make, raw)
    script = _Script.random(raw, rows=rows, steps=steps, seed=seed, masked=masked)
    trace = _check_views(make, raw, seen, script)
    _check_actions(make, raw, seen, script, np.random.default_rng(seed))
    _check_rows(make, raw, script, trace)
    _check_reset(make, raw, script, trace)
    _check_schedule(make, raw, seen, script, np.random.default_rng(seed))


# -- the random match ----------------------------------------------------------------------------------------------


@frozen
class _Script:
    """What n streams are shown, one view per step."""

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
                reward_parts={name: rng.normal(size=rows).astype(np.float32) for name in _PARTS},
            )
            for _ in range(steps)
        ]
        return cls(views, np.arange(rows, dtype=np.int64) * _STREAM_STEP)

    def part(self, chosen: np.ndarray) -> _Script:
        return _Script([_take(view, chosen) for view in self.views], self.seat_ids[chosen])

    def play(self, interface: Interface) -> list[SeatView]:
        """Return copies of what the interface shows, step by step."""
        return [_copy(interface.observe(view, self.seat_ids)) for view in self.views]


def _take(view: SeatView, chosen: np.ndarray) -> SeatView:
    return SeatView(
        observation={name: leaf[chosen] for name, leaf in view.observation.items()},
        action_mask=None if view.action_mask is None else view.action_mask[chosen],
        reward=view.reward[chosen],
        reward_parts={name: part[chosen] for name, part in view.reward_parts.items()},
    )


def _copy(view: SeatView) -> SeatView:
    return _take(view, np.arange(view.reward.shape[0]))


def _differs(one: SeatView, other: SeatView) -> str:
    """Return the name of the first part in which two views differ, empty if they do not."""
    if one.observation.keys() != other.observation.keys():
        return "leaf names"
    for name, leaf in one.observation.items():
        if not np.array_equal(leaf, other.observation[name]):
            return f"observation leaf {name!r}"
    if (one.action_mask is None) != (other.action_mask is None):
        return "action_mask"
    if one.action_mask is not None and not np.array_equal(one.action_mask, np.asarray(other.action_mask)):
        return "action_mask"
    if one.reward_parts.keys() != other.reward_parts.keys():
        return "names of reward_parts"
    for name, part in one.reward_parts.items():
        if not np.array_equal(part, other.reward_parts[name]):
            return f"reward part {name!r}"
    return "" if np.array_equal(one.reward, other.reward) else "reward"


# -- the checks ----------------------------------------------------------------------------------------------------


def _bound(make: Callable[[], Interface], raw: Spaces, seat_ids: np.ndarray) -> Interface:
    interface = make()
    interface.bind(raw)
    interface.reset(seat_ids)
    return interface


def _check_bind(make: Callable[[], Interface], raw: Spaces) -> Spaces:
    interface = make()
    first, second = interface.bind(raw), interface.bind(raw)
    if first != second:
        raise ContractError(f"bind is not idempotent: first {first}, then {second}")
    leaf_spaces(first.observation)
    label_sizes(first.action)
    return first


def _check_views(make: Callable[[], Interface], raw: Spaces, seen: Spaces, script: _Script) -> list[SeatView]:
    interface = _bound(make, raw, script.seat_ids)
    trace = []
    for view in script.views:
        before = _copy(view)
        shown = interface.observe(view, script.seat_ids)
        changed = _differs(before, view)
        if changed:
            raise ContractError(f"observe modified {changed} of the view it was given; copy before changing")
        check_view(shown, seen, rows=script.seat_ids.size)
        _check_bounds(shown.observation, seen.observation)
        _check_choices(shown.action_mask, seen.action)
        trace.append(_copy(shown))
    return trace


def check_view(shown: Any, seen: Spaces, *, rows: int) -> None:
    """Check the arrays of a view against what `bind` promised, but not the values in them.

    Raises:
        ContractError: Something has another name, shape or dtype.
    """
    expect_type(SeatView, shown, "observe")
    _check_observation(shown.observation, seen.observation, rows=rows)
    _check_mask(shown.action_mask, seen.action, rows=rows)
    _check_rewards(shown, rows=rows)


def _check_bounds(leaves: Leaves, space: Space[Any]) -> None:
    for name, leaf in leaf_spaces(space).items():
        for row in leaves[name]:
            if not leaf.contains(np.asarray(row)):
                raise ContractError(f"observation leaf {name!r} has the value {row}, which is not in {leaf}")


def _check_observation(leaves: Leaves, space: Space[Any], *, rows: int) -> None:
    expected = leaf_spaces(space)
    if set(leaves) != set(expected):
        raise ContractError(f"observe returned the leaves {sorted(leaves)}, bind promised {sorted(expected)}")
    for name, leaf in expected.items():
        array, shape = leaves[name], (rows, *(leaf.shape or ()))
        if array.shape != shape or array.dtype != leaf.dtype:
            raise ContractError(
                f"observation leaf {name!r} is {array.dtype} {array.shape}, bind promised {leaf.dtype} {shape}"
            )


def _check_mask(mask: np.ndarray | None, action: Space[Any], *, rows: int) -> None:
    if mask is None:
        return
    sizes = label_sizes(action)
    if mask.shape != (rows, sum(sizes)) or mask.dtype != np.bool_:
        raise ContractError(f"observe returned a mask of {mask.dtype} {mask.shape}, expected bool {(rows, sum(sizes))}")


def _check_choices(mask: np.ndarray | None, action: Space[Any]) -> None:
    if mask is None:
        return
    sizes = label_sizes(action)
    for label, legal in enumerate(np.split(mask, np.cumsum(sizes)[:-1], axis=1)):
        if not legal.any(axis=1).all():
            raise ContractError(f"observe left no legal choice of label {label}, although the raw mask has one")


def _check_rewards(shown: SeatView, *, rows: int) -> None:
    parts = {f"the reward part {name!r}": part for name, part in shown.reward_parts.items()}
    for what, reward in {"a reward": shown.reward, **parts}.items():
        if reward.shape != (rows,) or reward.dtype != np.float32:
            raise ContractError(f"observe returned {what} of {reward.dtype} {reward.shape}, expected float32 [n]")


def _check_actions(
    make: Callable[[], Interface], raw: Spaces, seen: Spaces, script: _Script, rng: np.random.Generator
) -> None:
    interface = _bound(make, raw, script.seat_ids)
    dtype, shape = action_dtype(raw.action), (script.seat_ids.size, action_width(raw.action))
    for view in script.views:
        shown = interface.observe(view, script.seat_ids)
        chosen = _random_legal(seen.action, shown.action_mask, script.seat_ids.size, rng)
        before = chosen.copy()
        action = interface.act(chosen, script.seat_ids)
        if not np.array_equal(before, chosen):
            raise ContractError("act modified the action it was given; copy before changing")
        if action.shape != shape or action.dtype != dtype:
            raise ContractError(
                f"act returned {action.dtype} {action.shape}, expected {dtype} {shape} for {raw.action}"
            )
        _check_raw_action(action, before, raw.action, view.action_mask)


def _random_legal(action: Space[Any], mask: np.ndarray | None, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return ``[rows, L]`` random actions that the mask allows."""
    return np.stack([random_action(action, None if mask is None else mask[row], rng) for row in range(rows)])


def _check_raw_action(action: np.ndarray, chosen: np.ndarray, space: Space[Any], mask: np.ndarray | None) -> None:
    for row in np.flatnonzero(~legal_actions(space, action)):
        raise ContractError(f"act turned {chosen[row]} into {action[row]}, which is not in {space}")
    for row in np.flatnonzero(~legal_actions(space, action, mask)):
        raise ContractError(
            f"act turned the legal {chosen[row]} into {action[row]}, which is masked in the game: the seen mask must "
            f"allow only what the raw mask allows"
        )


def _check_rows(make: Callable[[], Interface], raw: Spaces, script: _Script, trace: list[SeatView]) -> None:
    """Order, company and batch size of rows make no difference."""
    count = script.seat_ids.size
    order = np.arange(count)[::-1]
    _check_same(trace, order, script.part(order).play(_bound(make, raw, script.seat_ids)), "rows in another order")
    alone = _bound(make, raw, script.seat_ids)
    for row in range(count):
        chosen = np.array([row])
        _check_same(trace, chosen, script.part(chosen).play(alone), "a batch of one")
    half = np.arange(0, count, 2)
    _check_same(trace, half, script.part(half).play(_bound(make, raw, script.seat_ids)), "fewer streams")


def _check_reset(make: Callable[[], Interface], raw: Spaces, script: _Script, trace: list[SeatView]) -> None:
    """A reset forgets everything about its streams and nothing about others."""
    interface = _bound(make, raw, script.seat_ids)
    script.play(interface)
    interface.reset(script.seat_ids)
    everybody = np.arange(script.seat_ids.size)
    _check_same(trace, everybody, script.play(interface), "a second match after reset")
    interface = _bound(make, raw, script.seat_ids)
    others = everybody[1:]
    for view, shown in zip(script.views, trace, strict=True):
        interface.reset(script.seat_ids[:1])
        played = _copy(interface.observe(view, script.seat_ids))
        changed = _differs(_take(shown, others), _take(played, others))
        if changed:
            raise ContractError(f"{changed} of a stream changes when another stream is reset")


def _check_schedule(
    make: Callable[[], Interface], raw: Spaces, seen: Spaces, script: _Script, rng: np.random.Generator
) -> None:
    """Progress changes rewards alone, since models play without hearing of it."""
    model, learning = (_bound(make, raw, script.seat_ids) for _ in range(2))
    if not isinstance(learning, ScheduledInterface):
        return
    for step, view in enumerate(script.views, start=1):
        learning.set_progress(step / len(script.views))
        expected, got = (
            attrs.evolve(one.observe(view, script.seat_ids), reward=view.reward, reward_parts={})
            for one in (model, learning)
        )
        changed = _differs(expected, got)
        chosen = _random_legal(seen.action, expected.action_mask, script.seat_ids.size, rng)
        meant, played = (one.act(chosen.copy(), script.seat_ids) for one in (model, learning))
        if not np.array_equal(meant, played):
            changed = changed or "the game's action"
        if changed:
            raise ContractError(
                f"{changed} changes with set_progress, which may change rewards only: the progress is not set for "
                f"frozen models and evaluations"
            )


def _check_same(trace: list[SeatView], chosen: np.ndarray, played: list[SeatView], what: str) -> None:
    for step, (expected, got) in enumerate(zip(trace, played, strict=True)):
        changed = _differs(_take(expected, chosen), got)
        if changed:
            raise ContractError(
                f"{changed} differs at decision {step} with {what}: rows must depend on their stream only"
            )
