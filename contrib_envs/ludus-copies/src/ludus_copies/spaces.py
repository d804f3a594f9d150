"""Conversion of spaces, observations, actions and seeds of other libraries."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np
from gymnasium import Space, spaces
from ludus.errors import ContractError
from ludus.spaces import label_sizes

from ludus_copies.images import find_layout, image_note


def fold_seed(seed: int) -> int:
    """Fold a 64-bit seed into the 31 bits that every library accepts."""
    return (seed ^ seed >> 31 ^ seed >> 62) & 0x7FFFFFFF


def plain_observation_space(space: Space[Any], *, channels: str = "auto") -> Space[Any]:
    """Return the space with Tuple parts as Dict parts keyed ``"0"``, ``"1"``, …, and without leaves of size 0.

    Keys of Dict parts become strings. Images become ``[height, width, channels]``, see `ludus_copies.images`. Other
    spaces without parts are returned unchanged.

    Args:
        space: Space declared by the scalar game.
        channels: Axis of the channels of images: ``"auto"``, ``"first"`` or ``"last"``.

    Raises:
        ContractError: The space holds no numbers at all, or two keys of a Dict are equal as strings.
    """
    if _is_empty(space):
        raise ContractError(f"observation space {space} holds no numbers; expected at least one")
    parts = _parts(space)
    if parts is None:
        layout = find_layout(space, channels)
        return space if layout is None else layout.convert_space(cast("spaces.Box", space))
    plain: dict[str, Space[Any]] = {}
    for key, part in parts.items():
        if str(key) in plain:
            raise ContractError(f"two keys of an observation space are {str(key)!r} as text; rename one of them")
        if not _is_empty(part):
            plain[str(key)] = plain_observation_space(part, channels=channels)
    return spaces.Dict(plain)


def _parts(space: Space[Any]) -> Mapping[Any, Space[Any]] | None:
    """Return the parts of a Dict or Tuple space by key; None for other spaces."""
    if isinstance(space, spaces.Dict):
        return space.spaces
    return dict(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else None


def _is_empty(space: Space[Any]) -> bool:
    """Return whether observations of a space hold no numbers."""
    parts = _parts(space)
    return 0 in (space.shape or ()) if parts is None else all(map(_is_empty, parts.values()))


def image_notes(space: Space[Any], *, channels: str = "auto") -> list[str]:
    """Return a line about the layout of each image of an observation, for `ludus.environment.EnvironmentSpec.notes`."""
    notes = []
    for path, leaf in _leaves(space):
        layout = find_layout(leaf, channels)
        if layout is not None:
            notes.append(image_note(".".join(map(str, path)) or "obs", leaf.shape or (), layout))
    return notes


def observation_writer(
    space: Space[Any], views: Mapping[str, np.ndarray], *, channels: str = "auto"
) -> Callable[[Any], None]:
    """Return a function that writes an observation of `space` into `views`, which has one array per leaf.

    Args:
        space: Space declared by the scalar game; Tuple and Dict parts may be nested.
        views: Leaves of `plain_observation_space` of one seat.
        channels: Axis of the channels of images: ``"auto"``, ``"first"`` or ``"last"``.

    The function raises `ContractError` for missing parts, parts of another shape, real numbers in an integer leaf,
    integers out of range of the leaf's dtype, and values outside of a space of labels (Discrete, MultiDiscrete,
    MultiBinary). It converts other dtypes. Values outside of the bounds of a Box are written.
    """
    leaves = []
    for path, leaf in _leaves(space):
        name, layout = ".".join(map(str, path)) or "obs", find_layout(leaf, channels)
        view = views[name] if layout is None else layout.view(views[name], leaf.shape or ())
        leaves.append((path, _leaf_writer(name, leaf, view)))
    if len(leaves) == 1 and not leaves[0][0]:
        return leaves[0][1]

    def write(observation: Any) -> None:
        for path, write_leaf in leaves:
            try:
                part = functools.reduce(lambda part, key: part[key], path, observation)
            except (KeyError, IndexError, TypeError) as error:
                name = ".".join(map(str, path))
                raise ContractError(
                    f"observation leaf {name!r} is missing; the observation space declares it"
                ) from error
            write_leaf(part)

    return write


def _leaves(space: Space[Any]) -> Iterable[tuple[tuple[Any, ...], Space[Any]]]:
    """Yield path and space of every leaf that has a size."""
    parts = _parts(space)
    if parts is None:
        yield (), space
        return
    for key, part in parts.items():
        if not _is_empty(part):
            yield from (((key, *path), leaf) for path, leaf in _leaves(part))


def _leaf_writer(name: str, space: Space[Any], view: np.ndarray) -> Callable[[Any], None]:
    if isinstance(space, spaces.Discrete):
        return _whole_writer(name, view, range(int(space.start), int(space.start + space.n)))
    if not view.shape and view.dtype.kind in "iu":
        return _whole_writer(name, view, range(np.iinfo(view.dtype).min, np.iinfo(view.dtype).max + 1))
    shape, dtype = view.shape, view.dtype

    def write(part: Any) -> None:
        if getattr(part, "dtype", None) is dtype and part.shape == shape:
            view[...] = part
        else:
            _write_checked(name, view, part)

    if isinstance(space, spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec - 1
    elif isinstance(space, spaces.MultiBinary):
        low, high = np.zeros(shape, dtype), np.ones(shape, dtype)
    else:
        return write

    def write_labels(part: Any) -> None:
        write(part)
        if np.count_nonzero((view < low) | (view > high)):
            raise ContractError(f"observation leaf {name!r}: expected values of {space}, got {view.tolist()}")

    return write_labels


def _whole_writer(name: str, view: np.ndarray, held: range) -> Callable[[Any], None]:
    """Return a function that writes one of some whole numbers."""
    dtype = view.dtype

    def write(part: Any) -> None:
        # Discrete observations are integers: converting them to arrays would take as long as a step.
        if type(part) is not int and getattr(part, "dtype", None) is dtype and not part.shape:
            part = int(part)
        if type(part) is int and part in held:
            view[...] = part
        else:
            _write_checked(name, view, part)
            if view.item() not in held:
                raise ContractError(f"observation leaf {name!r}: expected {held[0]} to {held[-1]}, got {view.item()}")

    return write


def _write_checked(name: str, view: np.ndarray, part: Any) -> None:
    """Write a part that differs from the declaration, without NumPy's broadcasting, truncation and wrap-around."""
    is_real = view.dtype.kind == "f"
    array = _as_numbers(part)
    if array is None or array.shape != view.shape or not (is_real or array.dtype.kind in "biu"):
        got = type(part).__name__ if array is None else f"{array.dtype} {array.shape}"
        raise ContractError(f"observation leaf {name!r}: expected {view.dtype} {view.shape}, got {got}")
    view[...] = array
    if not is_real and np.count_nonzero(view != array):
        raise ContractError(f"observation leaf {name!r}: expected {view.dtype}, got {array.min()} to {array.max()}")


def _as_numbers(value: Any) -> np.ndarray | None:
    """Return a value as an array of booleans, integers or real numbers; None if it is something else."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):  # rows of different lengths
        return None
    return array if array.dtype.kind in "biuf" else None


def reward_value(reward: Any) -> float:
    """Return a reward, which may be an array of one number of any shape, as a float.

    Raises:
        ContractError: It is not one number, not finite, or beyond the range of float32.
    """
    return _single_number(reward, "reward")


def _single_number(given: Any, name: str) -> float:
    if isinstance(given, float | int | np.floating | np.integer):
        value = float(given)
    else:
        array = _as_numbers(given)
        if array is None or array.size != 1:
            got = repr(given)[:80] if array is None else f"{array.dtype} {array.shape}"
            raise ContractError(f"{name}: expected one number, got {got}")
        value = float(array.item())
    if not -_MAX_FLOAT32 <= value <= _MAX_FLOAT32:
        raise ContractError(f"{name}: expected a finite number in the range of float32, got {value}")
    return value


def statistics_writer(keys: Mapping[str, str], views: Mapping[str, np.ndarray]) -> Callable[[Mapping[Any, Any]], None]:
    """Return a function that writes the statistics of an info into `views`; those that it lacks keep their values.

    The function raises a ContractError if a value is not one finite number.

    Args:
        keys: Key of the info by statistic.
        views: ``[] float32`` of one seat by statistic.
    """
    pairs = [(key, views[name]) for name, key in keys.items()]

    def write(info: Mapping[Any, Any]) -> None:
        for key, view in pairs:
            if key in info:
                view[...] = _single_number(info[key], f"info {key!r}")

    return write


_MAX_FLOAT32 = float(np.finfo(np.float32).max)


def mask_writer(view: np.ndarray | None) -> Callable[[Any], None]:
    """Return a function that writes an action mask into `view`: an array, or a tuple or list of the masks of labels.

    Choices with a number above 0 are legal, those with 0 are not; masks may have any dtype and shape. Gymnasium and
    PettingZoo return masks beside observations, so that no space declares whether there are any. Without a mask (None)
    every action is legal.

    Args:
        view: ``[A] bool``, the masks of all labels side by side; None where no mask came with the first reset.

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
            flat = mask if getattr(mask, "shape", None) == shape else _side_by_side(mask)
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
    array = _as_numbers(mask)
    return None if array is None else array.ravel()


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
