"""Conversion of action spaces, actions and action masks of other libraries.

The columns of an action are those of `ludus.spaces`: the labels of all parts, then the real numbers of all parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from ludus.errors import ContractError
from ludus.spaces import label_sizes, random_actions, real_box, real_sizes

from ludus_copies.structure import as_numbers, parts_of


def mask_writer(view: np.ndarray | None, space: Space[Any] | None = None) -> Callable[[Any], None]:
    """Return a function that writes an action mask into `view`: an array, or a tuple or list of the masks of labels.

    For a Tuple or Dict of actions, it is such a mask of all labels, or has the structure of the actions; None or a
    missing part allows every choice, as do parts that are a Box.

    Choices with a number above 0 are legal, those with 0 are not; masks may have any dtype and shape. Gymnasium and
    PettingZoo return masks beside observations, so that no space declares whether there are any. Without a mask (None)
    every action is legal.

    Args:
        view: ``[A] bool``, the masks of all labels side by side; None where no mask came with the first reset.
        space: Declared action space; None or a space without parts: masks have no structure.

    The function raises `ContractError` for a mask of another size, for negative numbers, such as terms to add to
    logits, and NaN, and for a mask where the first reset returned none.
    """
    shape = None if view is None else view.shape

    def write(mask: Any) -> None:
        if view is None:
            if mask is not None:
                raise ContractError("an action mask came after a first reset without one: resets have to give one too")
        elif mask is None:
            view[...] = True
        else:
            flat = mask if getattr(mask, "shape", None) == shape else _flat_mask(mask, space)
            if flat is None or flat.size != view.size:
                got = type(mask).__name__ if flat is None else flat.shape
                raise ContractError(f"action mask: expected shape {view.shape}, one entry per choice, got {got}")
            np.greater(flat, 0, out=view)
            if np.count_nonzero(flat) != np.count_nonzero(view):
                wrong = flat[~(flat >= 0)][0]
                raise ContractError(
                    f"action mask: expected 0 for illegal choices and positive numbers for legal ones, got {wrong}"
                )

    return write


def _side_by_side(mask: Any) -> np.ndarray | None:
    """Return the masks of all labels as one flat array; None if they are no numbers."""
    if isinstance(mask, tuple | list) and mask and np.ndim(mask[0]):
        parts = [part for part in map(_side_by_side, mask) if part is not None]
        return np.concatenate(parts) if len(parts) == len(mask) else None
    array = as_numbers(mask)
    return None if array is None else array.ravel()


def _flat_mask(mask: Any, space: Space[Any] | None) -> np.ndarray | None:
    """Return the masks of all labels of a space side by side as one flat array; None if they have another form."""
    parts = None if space is None else parts_of(space)
    if space is None or parts is None or not _is_structured(mask, parts):
        return _side_by_side(mask)
    found = [_part_mask(mask, key, part) for key, part in parts.items()]
    flat = [part for part in found if part is not None]
    return np.concatenate(flat) if len(flat) == len(found) else None


def _is_structured(mask: Any, parts: Mapping[Any, Space[Any]]) -> bool:
    """Return whether a mask has an entry for each part, and not for each choice."""
    if isinstance(mask, Mapping):
        return True
    return isinstance(mask, tuple | list) and len(mask) == len(parts) and any(np.ndim(m) or m is None for m in mask)


def _part_mask(mask: Any, key: Any, part: Space[Any]) -> np.ndarray | None:
    choices = sum(label_sizes(part))
    given = mask.get(key) if isinstance(mask, Mapping) else mask[key]
    if given is None or not choices:
        return np.ones(choices, np.int8)
    flat = _flat_mask(given, part)
    return flat if flat is not None and flat.size == choices else None


def plain_action_space(space: Space[Any]) -> Space[Any]:
    """Return the action space of a role: Discrete and MultiDiscrete from 0, MultiBinary as labels, Box flat.

    The parts of a Tuple or Dict become one such space if they are all labels, or all Boxes; otherwise a Tuple of the
    labels and each Box.

    Raises:
        ContractError: A part is of another type, or there are no parts.
    """
    sizes, box = label_sizes(space), real_box(space)
    labels = spaces.Discrete(sizes[0]) if len(sizes) == 1 else spaces.MultiDiscrete(list(sizes)) if sizes else None
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        labels = spaces.MultiDiscrete(list(sizes))  # also with one label
    if labels is None:
        return spaces.Box(box.low, box.high) if box is not None else space
    if box is None:
        return labels
    ends = np.cumsum(real_sizes(space))[:-1]
    bounds = zip(np.split(box.low, ends), np.split(box.high, ends), strict=True)
    return spaces.Tuple([labels, *(spaces.Box(low, high) for low, high in bounds)])


def action_reader(space: Space[Any], view: np.ndarray) -> Callable[[], Any]:
    """Return a function that reads the action in `view` as one of `space`, in its structure and dtypes.

    For an integer Box it returns the nearest integers.

    Args:
        space: Declared action space.
        view: ``[L] int64``, ``[D] float32`` or ``[L + D] float32``.
    """
    labels, reals = view[: len(label_sizes(space))], view[len(label_sizes(space)) :]
    return _structured_reader(space, labels, reals)


def _structured_reader(space: Space[Any], labels: np.ndarray, reals: np.ndarray) -> Callable[[], Any]:
    parts = parts_of(space)
    if parts is None:
        return _part_reader(space, labels, reals)
    readers: dict[Any, Callable[[], Any]] = {}
    for key, part in parts.items():
        num_labels, num_reals = len(label_sizes(part)), sum(real_sizes(part))
        readers[key] = _structured_reader(part, labels[:num_labels], reals[:num_reals])
        labels, reals = labels[num_labels:], reals[num_reals:]
    if isinstance(space, spaces.Tuple):
        return lambda: tuple(read() for read in readers.values())
    return lambda: {key: read() for key, read in readers.items()}


def _part_reader(space: Space[Any], labels: np.ndarray, reals: np.ndarray) -> Callable[[], Any]:
    if isinstance(space, spaces.Discrete):
        start, choice = int(space.start), labels[0, ...]
        if labels.dtype.kind == "f":
            return lambda: int(choice.item()) + start
        return choice.item if start == 0 else lambda: choice.item() + start
    if isinstance(space, spaces.Box):
        low, high, shape, dtype = space.low, space.high, space.shape, space.dtype
        if np.issubdtype(dtype, np.integer):
            bounds = list(zip(low.ravel().tolist(), high.ravel().tolist(), strict=True))
            return lambda: np.array(_nearest_integers(reals.tolist(), bounds), dtype).reshape(shape)
        # Float32 may round bounds outwards, so actions at the edge could leave the box.
        return lambda: np.asarray(np.clip(reals.astype(dtype).reshape(shape), low, high))
    starts = np.ravel(getattr(space, "start", 0))
    return lambda: (labels + starts).astype(space.dtype).reshape(space.shape)


def _nearest_integers(numbers: Iterable[float], bounds: Iterable[tuple[int, int]]) -> list[int]:
    """Return the nearest integers within bounds, as Python integers: floats cannot represent all bounds of int64."""
    return [round(min(max(number, low), high)) for number, (low, high) in zip(numbers, bounds, strict=True)]


def random_action(space: Space[Any], mask: Any, rng: np.random.Generator) -> Any:
    """Return a random legal action of a space of another library.

    Args:
        space: Space declared by the scalar game.
        mask: Its action mask as by `mask_writer`; None if all actions are legal.
        rng: Random generator.
    """
    if isinstance(space, spaces.Discrete):
        legal = np.arange(space.n) if mask is None else np.flatnonzero(np.ravel(mask) > 0)
        return int(space.start + rng.choice(legal))
    if isinstance(space, spaces.Tuple | spaces.Dict):
        return _random_structure(space, mask, rng)
    space.seed(int(rng.integers(2**31)))
    if mask is None or not isinstance(space, spaces.MultiDiscrete):
        return space.sample()
    parts = mask if isinstance(mask, tuple | list) else np.split(np.ravel(mask), np.cumsum(space.nvec.ravel())[:-1])
    chosen = [rng.choice(np.flatnonzero(np.ravel(part) > 0)) for part in parts]
    return (np.reshape(chosen, space.shape) + space.start).astype(space.dtype)


def _random_structure(space: Space[Any], mask: Any, rng: np.random.Generator) -> Any:
    plain = plain_action_space(space)
    legal = np.ones((1, sum(label_sizes(plain))), np.bool_)
    mask_writer(legal[0], space)(mask)
    return action_reader(space, random_actions(plain, 1, rng, mask=legal)[0])()
