"""Conversion of spaces, observations, actions and seeds of other libraries."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from ludus.errors import ContractError
from ludus.spaces import label_sizes


def fold_seed(seed: int) -> int:
    """Fold a 64-bit seed into the 31 bits that every library accepts."""
    return (seed ^ seed >> 31 ^ seed >> 62) & 0x7FFFFFFF


def plain_observation_space(space: Space[Any]) -> Space[Any]:
    """Return the space with its Tuple parts as Dict parts keyed ``"0"``, ``"1"``, …; other spaces unchanged."""
    if isinstance(space, spaces.Tuple):
        return spaces.Dict({str(i): plain_observation_space(part) for i, part in enumerate(space.spaces)})
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: plain_observation_space(part) for key, part in space.spaces.items()})
    return space


def observation_writer(space: Space[Any], views: Mapping[str, np.ndarray]) -> Callable[[Any], None]:
    """Return a function that writes an observation of `space` into `views`, which has one array per leaf.

    Args:
        space: Space declared by the scalar game; Tuple and Dict parts may be nested.
        views: Leaves of `plain_observation_space` of one seat.

    The function raises `ContractError` for parts of another shape, for real numbers in an integer leaf, and for
    integers out of range of the leaf's dtype. It converts other dtypes.
    """
    paths = list(_paths(space))
    if paths == [()]:
        ((name, view),) = views.items()
        return _leaf_writer(name, view)
    names = (".".join(map(str, path)) for path in paths)
    leaves = [(path, _leaf_writer(name, views[name])) for path, name in zip(paths, names, strict=True)]

    def write(observation: Any) -> None:
        for path, write_leaf in leaves:
            write_leaf(functools.reduce(lambda part, key: part[key], path, observation))

    return write


def _leaf_writer(name: str, view: np.ndarray) -> Callable[[Any], None]:
    shape, dtype = view.shape, view.dtype
    is_whole = not shape and dtype.kind in "iu"
    held = range(np.iinfo(dtype).min, np.iinfo(dtype).max + 1) if is_whole else ()

    def write(part: Any) -> None:
        # Discrete observations are Python integers: converting them to arrays would take as long as a step.
        if (getattr(part, "dtype", None) is dtype and part.shape == shape) or (type(part) is int and part in held):
            view[...] = part
        else:
            _write_checked(name, view, np.asarray(part))

    return write


def _write_checked(name: str, view: np.ndarray, part: np.ndarray) -> None:
    """Write a part that differs from the declaration, without NumPy's broadcasting, truncation and wrap-around."""
    is_real = view.dtype.kind == "f"
    if part.shape != view.shape or part.dtype.kind not in ("biuf" if is_real else "biu"):
        raise ContractError(
            f"observation leaf {name!r}: expected {view.dtype} {view.shape}, got {part.dtype} {part.shape}"
        )
    view[...] = part
    if not is_real and np.count_nonzero(view != part):
        raise ContractError(f"observation leaf {name!r}: expected {view.dtype}, got {part.min()} to {part.max()}")


def _paths(space: Space[Any]) -> Iterable[tuple[Any, ...]]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in parts:
            yield from ((key, *path) for path in _paths(part))
    else:
        yield ()


def mask_writer(view: np.ndarray | None) -> Callable[[Any], None]:
    """Return a function that writes an action mask into `view`: an array, or a tuple of the masks of labels.

    Gymnasium and PettingZoo return masks beside observations, so that no space declares whether there are any. Without
    a mask (None) every action is legal.

    Args:
        view: ``[A] bool``, the masks of all labels side by side; None where no mask came with the first reset.

    The function raises `ContractError` for a mask of another length, for values other than 0 and 1, such as terms to
    add to logits, and for a mask where the first reset returned none.
    """

    def write(mask: Any) -> None:
        if view is None:
            if mask is not None:
                raise ContractError("an action mask came after a first reset without one: resets have to give one too")
        elif mask is None:
            view[...] = True
        else:
            flat = _side_by_side(mask)
            if flat.shape != view.shape:
                raise ContractError(f"action mask: expected shape {view.shape}, one entry per choice, got {flat.shape}")
            view[...] = flat
            if flat.dtype.kind == "f" and np.count_nonzero(view != flat):
                other = flat[view != flat][0]
                raise ContractError(f"action mask: expected 1 for legal choices and 0 for others, got {other}")

    return write


def _side_by_side(mask: Any) -> np.ndarray:
    return np.concatenate([_side_by_side(part) for part in mask]) if isinstance(mask, tuple) else np.asarray(mask)


def plain_action_space(space: Space[Any]) -> Space[Any]:
    """Return the action space of a role: Discrete and MultiDiscrete from 0, MultiBinary as labels, Box flat.

    Raises:
        ContractError: The space is of another type.
    """
    if isinstance(space, spaces.Box):
        return spaces.Box(space.low.ravel().astype(np.float32), space.high.ravel().astype(np.float32))
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    plain: Space[Any] = spaces.MultiDiscrete(list(label_sizes(space)))
    return plain


def action_reader(space: Space[Any], view: np.ndarray) -> Callable[[], Any]:
    """Return a function that reads the action in `view` (``[L] int64`` or ``[D] float32``) as one of `space`.

    For an integer Box it returns the nearest integers.
    """
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return view.item if start == 0 else lambda: view.item() + start
    if isinstance(space, spaces.Box):
        low, high, shape, dtype = space.low, space.high, space.shape, space.dtype
        if np.issubdtype(dtype, np.integer):
            bounds = list(zip(low.ravel().tolist(), high.ravel().tolist(), strict=True))
            return lambda: np.array(_nearest_integers(view.tolist(), bounds), dtype).reshape(shape)
        # Float32 may round bounds outwards, so actions at the edge could leave the box.
        return lambda: np.clip(view.astype(dtype).reshape(shape), low, high)
    starts = np.ravel(getattr(space, "start", 0))
    return lambda: (view + starts).astype(space.dtype).reshape(space.shape)


def _nearest_integers(numbers: Iterable[float], bounds: Iterable[tuple[int, int]]) -> list[int]:
    """Return the nearest integers within bounds, as Python integers: floats cannot represent all bounds of int64."""
    return [round(min(max(number, low), high)) for number, (low, high) in zip(numbers, bounds, strict=True)]
