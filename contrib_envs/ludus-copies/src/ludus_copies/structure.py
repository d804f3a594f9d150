"""Parts and leaves of nested spaces, and values of other libraries as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces


def parts_of(space: Space[Any]) -> Mapping[Any, Space[Any]] | None:
    """Return the parts of a Dict or Tuple space by key; None for other spaces."""
    if isinstance(space, spaces.Dict):
        return space.spaces
    return dict(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else None


def is_empty(space: Space[Any]) -> bool:
    """Return whether observations of a space hold no numbers."""
    if isinstance(space, spaces.Sequence):
        return is_empty(space.feature_space)
    parts = parts_of(space)
    return 0 in (space.shape or ()) if parts is None else all(map(is_empty, parts.values()))


def leaves_of(space: Space[Any]) -> Iterable[tuple[tuple[Any, ...], Space[Any]]]:
    """Yield path and space of every leaf that has a size; a Sequence is one leaf."""
    parts = parts_of(space)
    if parts is None:
        yield (), space
        return
    for key, part in parts.items():
        if not is_empty(part):
            yield from (((key, *path), leaf) for path, leaf in leaves_of(part))


def leaf_name(path: tuple[Any, ...]) -> str:
    """Return the name of the leaf at a path."""
    return ".".join(map(str, path)) or "obs"


def as_numbers(value: Any) -> np.ndarray | None:
    """Return a value as an array of booleans, integers or real numbers; None if it is something else."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):  # rows of different lengths
        return None
    return array if array.dtype.kind in "biuf" else None
