"""Transforms of images, which are Box leaves ``[height, width, channels]``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import attrs
import numpy as np
from attrs import define, field
from gymnasium import Space, spaces
from ludus.errors import ContractError
from ludus.interface import Identity, SeatView, Spaces
from ludus.spaces import is_image, leaf_spaces

from ludus_interfaces.observations import replace_leaves, select_leaves


def _select_images(raw: Spaces, names: Sequence[str], interface: str) -> dict[str, spaces.Box]:
    """Return the images of an observation, restricted to `names` unless it is empty.

    Raises:
        ContractError: There is none, or none with a name.
    """
    leaves = leaf_spaces(raw.observation)
    images = {name: cast("spaces.Box", leaf) for name, leaf in leaves.items() if is_image(leaf)}
    if not images:
        raise ContractError(f"{interface}: no leaf is an image {_EXPECTED}; the leaves are {_shapes(leaves)}")
    for name in names:
        if name not in images:
            raise ContractError(f"{interface}: {name!r} is no image {_EXPECTED}; the leaves are {_shapes(leaves)}")
    return {name: images[name] for name in names or images}


_EXPECTED = "[height, width, channels]"


def _shapes(leaves: Mapping[str, Space[Any]]) -> str:
    return ", ".join(f"{name} {list(leaf.shape or ())}" for name, leaf in leaves.items())


def _as_dtype(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return real numbers as values of a dtype, rounded and limited where it holds whole numbers only."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    return values.astype(dtype)


#: Luminance of red, green and blue.
LUMINANCE = (0.299, 0.587, 0.114)


@define
class Grey(Identity):
    """Replaces the three channels of colour images by one, their weighted sum.

    Args:
        weights: Weights of red, green and blue.
        leaves: Names of the images; empty: all images of three channels.
    """

    weights: Sequence[float] = LUMINANCE
    leaves: Sequence[str] = field(default=(), kw_only=True)
    _names: tuple[str, ...] = field(init=False, default=())

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with images ``[H, W, 1]``.

        Raises:
            ContractError: There is no image of three channels, or a named leaf is none.
        """
        images = _select_images(raw, self.leaves, "grey")
        if not self.leaves:
            images = {name: leaf for name, leaf in images.items() if leaf.shape[2] == 3} or images
        for name, leaf in images.items():
            if leaf.shape[2] != 3:
                raise ContractError(
                    f"grey: image {name!r} has {leaf.shape[2]} channels, expected 3; list grey before frame-stack"
                )
        self._names = tuple(images)
        return replace_leaves(raw, {name: self._grey_space(leaf) for name, leaf in images.items()})

    def _grey_space(self, leaf: spaces.Box) -> spaces.Box:
        used = np.flatnonzero(np.asarray(self.weights))  # 0 times an infinite bound is no number
        ends = np.stack([leaf.low[..., used], leaf.high[..., used]]) * np.asarray(self.weights)[used]
        low, high = (_as_dtype(end.sum(axis=-1, keepdims=True), leaf.dtype) for end in (ends.min(0), ends.max(0)))
        return spaces.Box(low, high, dtype=leaf.dtype.type)

    def _mix(self, images: np.ndarray) -> np.ndarray:
        mixed = images.astype(np.float32) @ np.asarray(self.weights, np.float32)
        return _as_dtype(mixed[..., None], images.dtype)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view with images ``[n, H, W, 1]``; whole numbers are rounded."""
        changed = {name: self._mix(view.observation[name]) for name in self._names}
        return attrs.evolve(view, observation={**view.observation, **changed})


@define
class Resize(Identity):
    """Changes height and width of images.

    Args:
        height: New height.
        width: New width.
        method: ``"area"``: mean of the covered area; ``"bilinear"``: interpolation between the four nearest points;
            ``"nearest"``: value of the nearest point.
        leaves: Names of the images; empty: all images.
    """

    height: int
    width: int
    method: str = field(default="area", kw_only=True)
    leaves: Sequence[str] = field(default=(), kw_only=True)
    _resize: dict[str, Callable[[np.ndarray], np.ndarray]] = field(init=False, factory=dict)

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with images ``[height, width, C]``.

        Raises:
            ContractError: There is no image, or a named leaf is none.
        """
        images = _select_images(raw, self.leaves, "resize")
        new_size = (self.height, self.width)
        self._resize = {
            name: make_resize((leaf.shape[0], leaf.shape[1]), new_size, method=self.method)
            for name, leaf in images.items()
        }
        return replace_leaves(raw, {name: self._resized_space(leaf) for name, leaf in images.items()})

    def _resized_space(self, leaf: spaces.Box) -> spaces.Box:
        shape = (self.height, self.width, leaf.shape[2])
        low = np.broadcast_to(leaf.low.min(axis=(0, 1)), shape)
        high = np.broadcast_to(leaf.high.max(axis=(0, 1)), shape)
        return spaces.Box(low, high, dtype=leaf.dtype.type)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view with images ``[n, height, width, C]``; whole numbers are rounded."""
        changed = {name: resize(view.observation[name]) for name, resize in self._resize.items()}
        return attrs.evolve(view, observation={**view.observation, **changed})


def make_resize(
    size: tuple[int, int], new_size: tuple[int, int], *, method: str = "area"
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that resizes images ``[n, H, W, C]``.

    Args:
        size: Height and width.
        new_size: New height and width.
        method: As in `Resize`.
    """
    (height, width), (new_height, new_width) = size, new_size
    if method == "nearest":
        rows, columns = _nearest(height, new_height), _nearest(width, new_width)
        return lambda images: images[:, rows[:, None], columns]
    weights = _area_weights if method == "area" else _bilinear_weights
    vertical, horizontal = weights(height, new_height), weights(width, new_width)
    return lambda images: _as_dtype(_apply_weights(images, vertical, horizontal), images.dtype)


def _nearest(size: int, new_size: int) -> np.ndarray:
    """Return the pixel ``[new_size] int64`` in which the centre of each new pixel lies."""
    return (2 * np.arange(new_size) + 1) * size // (2 * new_size)


def _area_weights(size: int, new_size: int) -> np.ndarray:
    """Return the share of each pixel in each new one, ``[new_size, size] float32``."""
    ends = np.arange(new_size + 1) * size / new_size
    pixels = np.arange(size)
    overlap = np.minimum(ends[1:, None], pixels + 1) - np.maximum(ends[:-1, None], pixels)
    return np.asarray(np.clip(overlap, 0, None) * new_size / size, np.float32)


def _bilinear_weights(size: int, new_size: int) -> np.ndarray:
    """Return the weight of each pixel at the centre of each new one, ``[new_size, size] float32``."""
    centres = np.clip((np.arange(new_size) + 0.5) * size / new_size - 0.5, 0, size - 1)
    return np.asarray(np.clip(1 - np.abs(centres[:, None] - np.arange(size)), 0, None), np.float32)


def _apply_weights(images: np.ndarray, vertical: np.ndarray, horizontal: np.ndarray) -> np.ndarray:
    """Return ``[n, h, w, C] float32`` of images ``[n, H, W, C]``, with weights ``[h, H]`` and ``[w, W]``."""
    count, height, width, channels = images.shape
    rows = vertical @ images.reshape(count, height, width * channels).astype(np.float32)  # [n, h, W * C]
    lines = rows.reshape(-1, width, channels).swapaxes(1, 2).reshape(-1, width)  # [n * h * C, W]
    resized: np.ndarray = (lines @ horizontal.T).reshape(count, -1, channels, horizontal.shape[0])
    return resized.swapaxes(2, 3)  # [n, h, w, C]


@define
class LabelChannels(Identity):
    """Appends a channel to every image for each choice of Discrete leaves, and removes these leaves.

    The channel of the label holds 1, or the largest value of an image of whole numbers; the others hold 0.

    Args:
        labels: Names of the Discrete leaves; empty: all.
        leaves: Names of the images; empty: all images.
    """

    labels: Sequence[str] = ()
    leaves: Sequence[str] = field(default=(), kw_only=True)
    _sizes: dict[str, tuple[int, int]] = field(init=False, factory=dict)  # first label and number of labels
    _full: dict[str, Any] = field(init=False, factory=dict)  # value of a label, by image

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with more channels.

        Raises:
            ContractError: There is no image or no Discrete leaf, or a named leaf is of another kind.
        """
        leaves = leaf_spaces(raw.observation)
        labels = select_leaves(leaves, self.labels, (spaces.Discrete,))
        if not labels:
            raise ContractError(
                f"label-channels: the observation holds no Discrete leaf; its leaves are {', '.join(leaves)}; the "
                "environment agent-indicator adds one"
            )
        images = _select_images(raw, self.leaves, "label-channels")
        self._sizes = {
            name: (int(leaf.start), int(leaf.n)) for name, leaf in labels.items() if isinstance(leaf, spaces.Discrete)
        }
        self._full = {name: _full_value(leaf) for name, leaf in images.items()}
        kept: dict[str, Space[Any]] = {name: leaf for name, leaf in leaves.items() if name not in labels}
        kept.update({name: self._extended_space(name, leaf) for name, leaf in images.items()})
        return Spaces(kept["obs"] if list(kept) == ["obs"] else spaces.Dict(kept), raw.action)

    def _extended_space(self, name: str, leaf: spaces.Box) -> spaces.Box:
        more = np.zeros((*leaf.shape[:2], sum(size for _, size in self._sizes.values())), leaf.dtype)
        low, high = np.concatenate([leaf.low, more], -1), np.concatenate([leaf.high, more + self._full[name]], -1)
        return spaces.Box(low, high, dtype=leaf.dtype.type)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view with images ``[n, H, W, C + labels]``."""
        one_hot = np.concatenate(
            [
                view.observation[n].reshape(-1, 1) == np.arange(start, start + size)
                for n, (start, size) in self._sizes.items()
            ],
            axis=1,
        )
        kept = {name: leaf for name, leaf in view.observation.items() if name not in self._sizes}
        for name, full in self._full.items():
            image = view.observation[name]
            channels = np.broadcast_to(
                (one_hot * full).astype(image.dtype)[:, None, None], (*image.shape[:3], one_hot.shape[1])
            )
            kept[name] = np.concatenate([image, channels], axis=-1)
        return attrs.evolve(view, observation=kept)


def _full_value(leaf: spaces.Box) -> Any:
    return leaf.high.max() if leaf.dtype.kind in "biu" else leaf.dtype.type(1)
