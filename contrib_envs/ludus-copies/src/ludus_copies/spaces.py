"""Conversion of observation spaces, observations, rewards, statistics and seeds of other libraries."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from gymnasium import Space, spaces
from ludus.errors import ContractError
from ludus_copies_options import DEFAULT_ENTITIES

from ludus_copies.entities import PRESENT, MaxEntities, entity_note, entity_spaces, entity_writer
from ludus_copies.images import find_layout, image_note
from ludus_copies.structure import as_numbers, is_empty, leaf_name, leaves_of, parts_of


def fold_seed(seed: int) -> int:
    """Fold a 64-bit seed into the 31 bits that every library accepts."""
    return (seed ^ seed >> 31 ^ seed >> 62) & 0x7FFFFFFF


def plain_observation_space(
    space: Space[Any], *, channels: str = "auto", max_entities: MaxEntities = DEFAULT_ENTITIES
) -> Space[Any]:
    """Return the space with Tuple parts as Dict parts keyed ``"0"``, ``"1"``, …, and without leaves of size 0.

    Keys of Dict parts become strings. Images become ``[height, width, channels]``, see `ludus_copies.images`. Sequences
    become two leaves, see `ludus_copies.entities`. Other spaces without parts are returned unchanged.

    Args:
        space: Space declared by the scalar game.
        channels: Axis of the channels of images: ``"auto"``, ``"first"`` or ``"last"``.
        max_entities: Number of entities of a Sequence that are kept.

    Raises:
        ContractError: The space holds no numbers at all, two keys of a Dict are equal as strings, or a leaf has no
            array form, such as a Text.
    """
    if is_empty(space):
        raise ContractError(f"observation space {space} holds no numbers; expected at least one")
    made = _plain_leaves(space, (), channels, max_entities)
    return made[""] if set(made) == {""} else spaces.Dict({f"obs{suffix}": part for suffix, part in made.items()})


def _plain_leaves(
    space: Space[Any], path: tuple[Any, ...], channels: str, max_entities: MaxEntities
) -> dict[str, Space[Any]]:
    """Return the spaces that replace the one at a path, by what is appended to its key."""
    if isinstance(space, spaces.Sequence):
        return entity_spaces(space, leaf_name(path), max_entities)
    parts = parts_of(space)
    if parts is None:
        return {"": _plain_leaf(space, leaf_name(path), channels)}
    plain: dict[str, Space[Any]] = {}
    for key, part in parts.items():
        made = {} if is_empty(part) else _plain_leaves(part, (*path, key), channels, max_entities)
        for name in (f"{key}{suffix}" for suffix in made or [""]):
            if name in plain:
                raise ContractError(f"two keys of an observation space are {name!r} as text; rename one of them")
        plain |= {f"{key}{suffix}": found for suffix, found in made.items()}
    return {"": spaces.Dict(plain)}


def _plain_leaf(space: Space[Any], name: str, channels: str) -> Space[Any]:
    if space.shape is None or space.dtype is None:
        raise ContractError(
            f"observation leaf {name!r} is a {type(space).__name__} space without a fixed array form; remove or "
            f"convert it by a wrapper"
        )
    layout = find_layout(space, channels)
    return space if layout is None else layout.convert_space(cast("spaces.Box", space))


def observation_notes(
    space: Space[Any], *, channels: str = "auto", max_entities: MaxEntities = DEFAULT_ENTITIES
) -> list[str]:
    """Return a line for each image and Sequence of an observation, for `ludus.environment.EnvironmentSpec.notes`."""
    notes = []
    for path, leaf in leaves_of(space):
        if isinstance(leaf, spaces.Sequence):
            notes.append(entity_note(leaf, leaf_name(path), max_entities))
        elif (layout := find_layout(leaf, channels)) is not None:
            notes.append(image_note(leaf_name(path), leaf.shape or (), layout))
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
    MultiBinary). It converts other dtypes. Values outside of the bounds of a Box are written. Of a longer Sequence than
    the views have rows for, the first elements are written.
    """
    leaves = []
    for path, leaf in leaves_of(space):
        name, layout = leaf_name(path), find_layout(leaf, channels)
        if isinstance(leaf, spaces.Sequence):
            leaves.append((path, entity_writer(leaf, name, views[name], views[name + PRESENT])))
            continue
        view = views[name] if layout is None else layout.view(views[name], leaf.shape or ())
        leaves.append((path, _leaf_writer(name, leaf, view)))
    if len(leaves) == 1 and not leaves[0][0]:
        return leaves[0][1]

    def write(observation: Any) -> None:
        for path, write_leaf in leaves:
            try:
                part = functools.reduce(lambda part, key: part[key], path, observation)
            except (KeyError, IndexError, TypeError) as error:
                raise ContractError(
                    f"observation leaf {leaf_name(path)!r} is missing; the observation space declares it"
                ) from error
            write_leaf(part)

    return write


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
    array = as_numbers(part)
    if array is None or array.shape != view.shape or not (is_real or array.dtype.kind in "biu"):
        got = type(part).__name__ if array is None else f"{array.dtype} {array.shape}"
        raise ContractError(f"observation leaf {name!r}: expected {view.dtype} {view.shape}, got {got}")
    view[...] = array
    if not is_real and np.count_nonzero(view != array):
        raise ContractError(f"observation leaf {name!r}: expected {view.dtype}, got {array.min()} to {array.max()}")


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
        array = as_numbers(given)
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
