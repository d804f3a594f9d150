"""Conversion of `gymnasium.spaces` to named leaves and action labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from ludus.errors import ContractError

__all__ = [
    "action_dtype",
    "action_width",
    "is_continuous",
    "is_image",
    "label_sizes",
    "leaf_spaces",
    "legal_actions",
    "random_actions",
]


def leaf_spaces(space: Space[Any] | None) -> dict[str, Space[Any]]:
    """Return the leaves of an observation space by name; a space that is not a Dict is the single leaf ``"obs"``.

    Names of leaves of nested Dict spaces are dotted paths. None has no leaves.

    Raises:
        ContractError: A part of the space has no array form (Graph, Sequence, Text), or two leaves have one name.
    """
    if space is None:
        return {}
    if not isinstance(space, spaces.Dict):
        return {"obs": _checked(space, "obs")}
    leaves: dict[str, Space[Any]] = {}
    for key, part in space.spaces.items():
        if isinstance(part, spaces.Dict):
            found = {f"{key}.{name}": leaf for name, leaf in leaf_spaces(part).items()}
        else:
            found = {key: _checked(part, key)}
        if twice := leaves.keys() & found:
            raise ContractError(
                f"two observation leaves are named {min(twice)!r}: rename a key; dots separate nested keys"
            )
        leaves |= found
    return leaves


def _checked(space: Space[Any], name: str) -> Space[Any]:
    if space.shape is None or space.dtype is None:
        raise ContractError(
            f"observation leaf {name!r} is a {type(space).__name__} space without a fixed array form; "
            f"use Box, Discrete, MultiDiscrete, MultiBinary or a Dict of them"
        )
    return space


def label_sizes(space: Space[Any]) -> tuple[int, ...]:
    """Return the number of choices of each action label; empty for a continuous (Box) action space.

    Raises:
        ContractError: The space is not Discrete, MultiDiscrete, MultiBinary or Box.
    """
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(int(n) for n in np.ravel(space.nvec))
    if isinstance(space, spaces.MultiBinary):
        return (2,) * int(np.prod(space.shape))
    if isinstance(space, spaces.Box):
        return ()
    raise ContractError(
        f"action space {type(space).__name__} is not supported; use Discrete, MultiDiscrete, MultiBinary or Box"
    )


def is_continuous(space: Space[Any]) -> bool:
    """Return whether actions are real-valued vectors."""
    return isinstance(space, spaces.Box)


def is_image(space: Space[Any]) -> bool:
    """Return whether a leaf is an image or a board, which is a Box ``[height, width, channels]``."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3


def action_width(space: Space[Any]) -> int:
    """Return the number of action labels, or the dimension of a Box."""
    if isinstance(space, spaces.Box):
        return int(np.prod(space.shape))
    return len(label_sizes(space))


def action_dtype(space: Space[Any]) -> np.dtype[Any]:
    """Return the dtype of action arrays: int64 for labels, float32 for a Box."""
    return np.dtype(np.float32 if is_continuous(space) else np.int64)


def legal_actions(space: Space[Any], action: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Return ``[…] bool``: whether actions are in the space and allowed by the mask.

    Args:
        space: The action space.
        action: ``[…, L]`` labels or ``[…, D]`` real numbers.
        mask: ``[…, A] bool``; None: all actions are allowed. A Box has no mask.
    """
    if isinstance(space, spaces.Box):
        inside = (action >= np.ravel(space.low)) & (action <= np.ravel(space.high))
    else:
        sizes = np.array(label_sizes(space))
        inside = (action >= 0) & (action < sizes)
        if mask is not None:
            columns = np.cumsum(sizes) - sizes + np.where(inside, action, 0)
            inside &= np.take_along_axis(mask, columns, axis=-1)
    return np.asarray(inside.all(axis=-1))


def random_actions(
    space: Space[Any], rows: int, rng: np.random.Generator, *, mask: np.ndarray | None = None
) -> np.ndarray:
    """Return random legal actions, ``[rows, L] int64`` or ``[rows, D] float32``.

    Labels are drawn uniformly among their legal choices, entries of a Box as Gymnasium samples them: uniformly between
    two bounds, exponentially from a single bound, else from a normal distribution.

    Args:
        space: The action space.
        rows: Number of actions.
        rng: Generator of all random numbers.
        mask: ``[rows, A] bool`` with a legal choice for every label; None: all actions are allowed. A Box has no mask.
    """
    if isinstance(space, spaces.Box):
        return _random_reals(space, rows, rng)
    sizes = label_sizes(space)
    keys = rng.random((rows, sum(sizes)), np.float32)
    if mask is not None:
        keys += mask  # every legal choice exceeds every illegal one
    labels = np.split(keys, np.cumsum(sizes)[:-1], axis=1)
    return np.stack([label.argmax(axis=1) for label in labels], axis=1)


def _random_reals(space: spaces.Box, rows: int, rng: np.random.Generator) -> np.ndarray:
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    below, above = np.isfinite(low), np.isfinite(high)
    bounded = below & above
    drawn = rng.uniform(np.where(bounded, low, 0.0), np.where(bounded, high, 0.0), (rows, low.size))
    if not bounded.all():
        tail, normal = rng.standard_exponential(drawn.shape), rng.standard_normal(drawn.shape)
        drawn = np.where(bounded, drawn, np.where(below, low + tail, np.where(above, high - tail, normal)))
    return drawn.astype(np.float32)
