"""Sequences of other libraries as sets of entities.

A ``Sequence`` space holds any number of elements of one form, such as the units in sight. ludus' arrays have fixed
shapes: the elements become the first rows of a leaf ``NAME [entities, features] float32``, all numbers of an element
side by side, and a leaf ``NAME_present [entities]`` marks them. Other rows are 0. Choices are one-hot.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from attrs import frozen
from gymnasium import Space, spaces
from ludus.errors import ConfigError, ContractError
from ludus_copies_options import DEFAULT_ENTITIES

from ludus_copies.structure import as_numbers, leaf_name, leaves_of

#: Largest number of entities of all Sequences, or by the name of the leaf.
MaxEntities: TypeAlias = int | Mapping[str, int]

#: Suffix of the leaf that marks the present entities.
PRESENT = "_present"
_MOST_CHOICES = 1024  # of one label of an entity, which become as many columns
_cuts: Counter[str] = Counter()  # observations of this process that had too many entities, by leaf
_log = logging.getLogger("ludus.copies")


def num_entities(name: str, max_entities: MaxEntities) -> int:
    """Return the number of rows of the entities of a leaf."""
    return max_entities if isinstance(max_entities, int) else max_entities.get(name, DEFAULT_ENTITIES)


def check_entity_names(max_entities: MaxEntities, observed: Iterable[Space[Any]]) -> None:
    """Check that a table of numbers by leaf names Sequences.

    Args:
        max_entities: Number of entities of a Sequence that are kept.
        observed: Declared observation spaces.

    Raises:
        ConfigError: A name is none of them.
    """
    named = () if isinstance(max_entities, int) else max_entities
    leaves = [leaf for space in observed for leaf in leaves_of(space)]
    found = {leaf_name(path): None for path, leaf in leaves if isinstance(leaf, spaces.Sequence)}
    for name in named:
        if name not in found:
            known = ", ".join(found) or "there are none"
            raise ConfigError(f"max_entities: expected names of Sequence leaves ({known}), got {name!r}")


def entity_spaces(space: spaces.Sequence, name: str, max_entities: MaxEntities) -> dict[str, Space[Any]]:
    """Return the spaces of the two leaves of a Sequence, by the suffixes of their names.

    Raises:
        ContractError: The elements have no array form, or a label with too many choices.
    """
    count = num_entities(name, max_entities)
    columns = _columns(space, name)
    low, high = (np.concatenate([getattr(column, end) for column in columns]) for end in ("low", "high"))
    box = spaces.Box(
        np.broadcast_to(low, (count, low.size)), np.broadcast_to(high, (count, low.size)), dtype=np.float32
    )
    return {"": box, PRESENT: spaces.MultiBinary(count)}


def entity_note(space: spaces.Sequence, name: str, max_entities: MaxEntities) -> str:
    """Return a line about the entities of a Sequence, for `ludus.environment.EnvironmentSpec.notes`."""
    count, width = num_entities(name, max_entities), sum(column.low.size for column in _columns(space, name))
    return f"entities {name}: the first {count} of a Sequence, {width} numbers each; {name}{PRESENT} marks them"


@frozen
class _Column:
    """Columns of one leaf of the elements.

    Attributes:
        path: Path to the leaf within an element.
        space: Space of the leaf.
        encode: Returns ``[n, columns]`` from values ``[n, …]``.
        low: ``[columns] float32``, at most 0, which absent entities have.
        high: ``[columns] float32``, at least 0.
    """

    path: tuple[Any, ...]
    space: Space[Any]
    encode: Callable[[np.ndarray], np.ndarray]
    low: np.ndarray
    high: np.ndarray


def _columns(space: spaces.Sequence, name: str) -> list[_Column]:
    return [_make_column(path, leaf, name) for path, leaf in leaves_of(space.feature_space)]


def _make_column(path: tuple[Any, ...], leaf: Space[Any], name: str) -> _Column:
    if isinstance(leaf, spaces.Box | spaces.MultiBinary):
        size = int(np.prod(leaf.shape))
        low, high = np.zeros(size, np.float32), np.ones(size, np.float32)
        if isinstance(leaf, spaces.Box):
            low, high = np.minimum(leaf.low, 0), np.maximum(leaf.high, 0)
        bounds = (np.asarray(end, np.float32).ravel() for end in (low, high))
        return _Column(path, leaf, lambda values: values.reshape(len(values), size), *bounds)
    if not isinstance(leaf, spaces.Discrete | spaces.MultiDiscrete):
        inner = f", in its part {leaf_name(path)!r}" if path else ""
        raise ContractError(
            f"observation leaf {name!r} is a Sequence of {type(leaf).__name__} spaces{inner}; expected Box, Discrete, "
            f"MultiDiscrete, MultiBinary, or a Dict or Tuple of them: remove or convert it by a wrapper"
        )
    sizes = np.ravel(leaf.n if isinstance(leaf, spaces.Discrete) else leaf.nvec)
    if sizes.max() > _MOST_CHOICES:
        raise ContractError(
            f"observation leaf {name!r} is a Sequence with {sizes.max():,} choices; expected at most "
            f"{_MOST_CHOICES:,}, since each becomes a column: convert it to a Box by a wrapper"
        )
    encode = functools.partial(_one_hot, sizes=sizes, starts=np.ravel(leaf.start), name=name)
    width = int(sizes.sum())
    return _Column(path, leaf, encode, np.zeros(width, np.float32), np.ones(width, np.float32))


def _one_hot(values: np.ndarray, *, sizes: np.ndarray, starts: np.ndarray, name: str) -> np.ndarray:
    """Return ``[n, choices]`` from choices ``[n, …]``."""
    chosen = values.reshape(len(values), sizes.size) - starts
    if ((chosen < 0) | (chosen >= sizes)).any():
        raise ContractError(
            f"observation leaf {name!r}: expected choices of entities from {starts.tolist()} on, of {sizes.tolist()} "
            f"each, got {values.min()} to {values.max()}"
        )
    encoded = np.zeros((len(values), int(sizes.sum())), np.float32)
    columns = (np.cumsum(sizes) - sizes + chosen).astype(np.int64)
    encoded[np.arange(len(values))[:, None], columns] = 1
    return encoded


def entity_writer(space: spaces.Sequence, name: str, view: np.ndarray, present: np.ndarray) -> Callable[[Any], None]:
    """Return a function that writes a sequence of elements into ``view [entities, features]`` and ``present``.

    The function raises `ContractError` for elements of another form. It cuts longer sequences and counts them.
    """
    columns = _columns(space, name)
    ends = np.cumsum([column.low.size for column in columns])
    slots = [slice(int(end) - column.low.size, int(end)) for end, column in zip(ends, columns, strict=True)]
    most = len(view)

    def write(part: Any) -> None:
        lengths = set()
        for column, slot in zip(columns, slots, strict=True):
            values = _values(part, column, name, stacked=space.stack)
            lengths.add(len(values))
            kept = min(len(values), most)
            view[:kept, slot] = column.encode(values[:kept])
        if len(lengths) != 1:
            raise ContractError(
                f"observation leaf {name!r}: its parts have {sorted(lengths)} entities; expected one number"
            )
        (length,) = lengths
        view[length:] = 0
        present[:] = np.arange(most) < length
        if length > most:
            _count_cut(name, length, most)

    return write


def _values(part: Any, column: _Column, name: str, *, stacked: bool) -> np.ndarray:
    """Return the values ``[n, …]`` of one leaf of all elements.

    Raises:
        ContractError: They have another form than the space declares.
    """
    shape, array = column.space.shape or (), _find_values(part, column.path, stacked=stacked)
    if array is not None and array.shape[:1] == (0,):
        return np.zeros((0, *shape), np.float32)
    if array is None or array.shape[1:] != shape or not array.shape or not _fits_kind(array, column.space):
        where = f" in part {leaf_name(column.path)!r}" if column.path else ""
        got = type(part).__name__ if array is None else f"{array.dtype} {list(array.shape)}"
        expected = f"{column.space.dtype} [{', '.join(map(str, ('n', *shape)))}]"
        raise ContractError(f"observation leaf {name!r}: expected n entities, {expected}{where}, got {got}")
    return array


def _find_values(part: Any, path: tuple[Any, ...], *, stacked: bool) -> np.ndarray | None:
    """Return the values at a path of each element, or of the stacked elements; None if there are no numbers."""
    elements = [part] if stacked else part
    try:
        found = [functools.reduce(lambda part, key: part[key], path, element) for element in elements]
    except (KeyError, IndexError, TypeError):
        return None
    return as_numbers(found[0] if stacked else found)


def _fits_kind(array: np.ndarray, space: Space[Any]) -> bool:
    """Return whether an array may hold values of a space: choices are whole numbers."""
    return isinstance(space, spaces.Box) or array.dtype.kind != "f"


def _count_cut(name: str, length: int, kept: int) -> None:
    """Count an observation with too many entities, and log the first one and every thousandfold number."""
    _cuts[name] += 1
    count = _cuts[name]
    if count in (1, 10**3, 10**6, 10**9):
        times = f"{count:,} observations" if count > 1 else "an observation"
        _log.warning(
            "observation leaf %r: %s had more than %d entities (the last one %d), of which the first %d were kept; set "
            "max_entities to a larger number, or to a table with one for this leaf",
            name,
            times,
            kept,
            length,
            kept,
        )
