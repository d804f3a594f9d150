"""Layout of the images and boards of other libraries; ludus' leaves are ``[height, width, channels]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen
from gymnasium import Space, spaces

_FEW_CHANNELS = 4  # grey, grey and alpha, RGB, RGBA: what images have along a first axis of any sides
_LEAST_SIDE = 16  # of a matrix of bytes that is an image, and not a table of numbers


@frozen
class ImageLayout:
    """How the axes of a declared image are ordered.

    Attributes:
        axes: The declared axes, of ``"F"`` (frames), ``"H"``, ``"W"`` and ``"C"``: ``"CHW"``, ``"HWC"``, ``"HW"``,
            ``"FHWC"`` or ``"FCHW"``.
    """

    axes: str

    def convert(self, image: np.ndarray) -> np.ndarray:
        """Return an array of the declared shape as ``[H, W, C]``; the frames of a stack follow each other in C."""
        ordered = image.transpose([self.axes.index(axis) for axis in "HWFC" if axis in self.axes])
        return ordered.reshape(*ordered.shape[:2], -1)

    def view(self, leaf: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """Return a view of a contiguous leaf ``[H, W, C]`` in the declared shape."""
        ordered = [axis for axis in "HWFC" if axis in self.axes]
        sizes = [shape[self.axes.index(axis)] for axis in ordered]
        return leaf.reshape(sizes).transpose([ordered.index(axis) for axis in self.axes])

    def convert_space(self, space: spaces.Box) -> spaces.Box:
        """Return the Box of the leaf ``[H, W, C]``."""
        return spaces.Box(self.convert(space.low), self.convert(space.high), dtype=space.dtype.type)


def find_layout(space: Space[Any], channels: str) -> ImageLayout | None:
    """Return the layout of a declared leaf; None if it is no image.

    A three-dimensional Box is an image. So are bytes from 0 to 255 in two dimensions with sides of at least 16, as an
    image of one channel, and in four dimensions, as a stack of images along the first axis.

    Args:
        space: Space of one leaf.
        channels: Axis of the channels: ``"auto"``, ``"first"`` or ``"last"``.
    """
    if not isinstance(space, spaces.Box):
        return None
    shape = space.shape
    if len(shape) == 3:
        return ImageLayout(_image_axes(shape, channels))
    if not _holds_pixels(space):
        return None
    if len(shape) == 4:
        return ImageLayout("F" + _image_axes(shape[1:], channels))
    return ImageLayout("HW") if len(shape) == 2 and min(shape) >= _LEAST_SIDE else None


def _holds_pixels(space: spaces.Box) -> bool:
    return space.dtype == np.uint8 and bool((space.low == 0).all() and (space.high == 255).all())


def _image_axes(shape: Sequence[int], channels: str) -> str:
    first, *others = shape
    if channels == "auto":
        is_shortest = first < min(others)
        channels = "first" if is_shortest and (others[0] == others[1] or first <= _FEW_CHANNELS) else "last"
    return "CHW" if channels == "first" else "HWC"


_WORDS = {"F": "frames", "H": "height", "W": "width", "C": "channels"}


def image_note(name: str, shape: Sequence[int], layout: ImageLayout) -> str:
    """Return a line about the layout of an image, for `ludus.environment.EnvironmentSpec.notes`.

    Args:
        name: Name of the leaf.
        shape: Declared shape.
        layout: Layout of the image.
    """
    axes = ", ".join(_WORDS[axis] for axis in layout.axes)
    converted = list(layout.convert(np.broadcast_to(np.uint8(0), shape)).shape)
    change = "" if layout.axes == "HWC" else f"; observed as {converted}"
    return f"image {name} {list(shape)}: {axes}{change}"
