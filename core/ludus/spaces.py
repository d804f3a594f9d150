"""Conversion of `gymnasium.spaces` to named leaves and action labels."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from gymnasium import Space, spaces

from ludus.errors import ContractError

__all__ = [
    "action_dtype",
    "action_parts",
    "action_width",
    "is_continuous",
    "is_hybrid",
    "is_image",
    "label_sizes",
    "leaf_spaces",
    "legal_actions",
    "random_actions",
    "real_box",
    "real_sizes",
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


def action_parts(space: Space[Any]) -> list[Space[Any]]:
    """Return the Discrete, MultiDiscrete, MultiBinary and Box parts of an action space, in order.

    Parts of a Tuple or Dict are those of its entries, which may be nested; another space is its only part.

    Raises:
        ContractError: A part is of another type, or there is none.
    """
    parts = [part for _, part in _named_parts(space, "")]
    if not parts:
        raise ContractError(f"action space {space} has no parts; expected at least one")
    return parts


def _named_parts(space: Space[Any], name: str) -> list[tuple[str, Space[Any]]]:
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box):
        return [(name, space)]
    if not isinstance(space, spaces.Tuple | spaces.Dict):
        kind = type(space).__name__
        where = f"part {name!r} of the action space, a {kind}," if name else f"action space {kind}"
        raise ContractError(
            f"{where} is not supported; use Discrete, MultiDiscrete, MultiBinary, Box, or a Tuple or Dict of them"
        )
    entries = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    return [found for key, part in entries for found in _named_parts(part, f"{name}.{key}".lstrip("."))]


def label_sizes(space: Space[Any]) -> tuple[int, ...]:
    """Return the number of choices of each action label; empty for actions of real numbers only.

    Labels of the parts of a Tuple or Dict follow each other.

    Raises:
        ContractError: A part is not Discrete, MultiDiscrete, MultiBinary or Box.
    """
    return tuple(size for part in action_parts(space) for size in _part_sizes(part))


def _part_sizes(part: Space[Any]) -> tuple[int, ...]:
    if isinstance(part, spaces.Discrete):
        return (int(part.n),)
    if isinstance(part, spaces.MultiDiscrete):
        return tuple(int(n) for n in np.ravel(part.nvec))
    if isinstance(part, spaces.MultiBinary):
        return (2,) * int(np.prod(part.shape))
    return ()


def real_sizes(space: Space[Any]) -> tuple[int, ...]:
    """Return the dimension of each Box part of an action space; empty for actions of labels only."""
    return tuple(int(np.prod(part.shape)) for part in action_parts(space) if isinstance(part, spaces.Box))


def real_box(space: Space[Any]) -> spaces.Box | None:
    """Return the real numbers of an action, all Box parts side by side, as one Box; None if there are none."""
    boxes = [part for part in action_parts(space) if isinstance(part, spaces.Box)]
    if not boxes:
        return None
    if boxes == [space] and len(boxes[0].shape) == 1 and boxes[0].dtype == np.float32:
        return boxes[0]
    low, high = (np.concatenate([np.ravel(getattr(box, end)) for box in boxes]) for end in ("low", "high"))
    return spaces.Box(low.astype(np.float32), high.astype(np.float32))


def is_continuous(space: Space[Any]) -> bool:
    """Return whether actions are vectors of real numbers, without labels and therefore without masks."""
    return all(isinstance(part, spaces.Box) for part in action_parts(space))


def is_hybrid(space: Space[Any]) -> bool:
    """Return whether actions have labels and real numbers."""
    return len({isinstance(part, spaces.Box) for part in action_parts(space)}) == 2


def is_image(space: Space[Any]) -> bool:
    """Return whether a leaf is an image or a board, which is a Box ``[height, width, channels]``."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3


def action_width(space: Space[Any]) -> int:
    """Return the number of columns of an action: the labels L, and behind them the real numbers D."""
    return len(label_sizes(space)) + sum(real_sizes(space))


def action_dtype(space: Space[Any]) -> np.dtype[Any]:
    """Return the dtype of action arrays: int64 for labels only, else float32, in which labels are whole numbers."""
    return np.dtype(np.float32 if real_sizes(space) else np.int64)


def legal_actions(space: Space[Any], action: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Return ``[…] bool``: whether actions are in the space and allowed by the mask.

    Args:
        space: The action space.
        action: ``[…, L]`` labels, ``[…, D]`` real numbers, or ``[…, L + D]`` both.
        mask: ``[…, A] bool`` of the labels; None: all actions are allowed.
    """
    sizes = np.array(label_sizes(space), np.int64)
    labels = action[..., : sizes.size]
    inside = (labels >= 0) & (labels < sizes)
    if sizes.size and action.dtype.kind == "f":
        inside &= labels == np.floor(labels)
    if sizes.size and mask is not None:
        columns = np.cumsum(sizes) - sizes + np.where(inside, labels, 0).astype(np.int64)
        inside &= np.take_along_axis(mask, columns, axis=-1)
    legal = inside.all(axis=-1)
    box = real_box(space)
    if box is not None:
        reals = action[..., sizes.size :]
        legal &= ((reals >= box.low) & (reals <= box.high)).all(axis=-1)
    return np.asarray(legal)


def random_actions(
    space: Space[Any], rows: int, rng: np.random.Generator, *, mask: np.ndarray | None = None
) -> np.ndarray:
    """Return random legal actions: ``[rows, L] int64``, or ``[rows, L + D] float32`` if there are real numbers.

    Labels are drawn uniformly among their legal choices, entries of a Box as Gymnasium samples them: uniformly between
    two bounds, exponentially from a single bound, else from a normal distribution.

    Args:
        space: The action space.
        rows: Number of actions.
        rng: Generator of all random numbers.
        mask: ``[rows, A] bool`` with a legal choice for every label; None: all actions are allowed.
    """
    sizes, box = label_sizes(space), real_box(space)
    if not sizes:
        return _random_reals(cast("spaces.Box", box), rows, rng)
    keys = rng.random((rows, sum(sizes)), np.float32)
    if mask is not None:
        keys += mask  # every legal choice exceeds every illegal one
    labels = np.split(keys, np.cumsum(sizes)[:-1], axis=1)
    drawn = np.stack([label.argmax(axis=1) for label in labels], axis=1)
    if box is None:
        return drawn
    return np.concatenate([drawn.astype(np.float32), _random_reals(box, rows, rng)], axis=1)


def _random_reals(space: spaces.Box, rows: int, rng: np.random.Generator) -> np.ndarray:
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    below, above = np.isfinite(low), np.isfinite(high)
    bounded = below & above
    drawn = rng.uniform(np.where(bounded, low, 0.0), np.where(bounded, high, 0.0), (rows, low.size))
    if not bounded.all():
        tail, normal = rng.standard_exponential(drawn.shape), rng.standard_normal(drawn.shape)
        drawn = np.where(bounded, drawn, np.where(below, low + tail, np.where(above, high - tail, normal)))
    return drawn.astype(np.float32)
