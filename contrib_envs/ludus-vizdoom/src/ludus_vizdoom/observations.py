"""What a seat observes: images, classes of objects, and game variables."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces
from ludus.environment import Leaves
from PIL import Image

from ludus_vizdoom.settings import GameSettings

#: Classes of the objects in the leaf ``labels``, by their numbers.
CLASSES = ("none", "player", "monster", "health", "armor", "ammo", "weapon", "hazard", "explosive")
_BY_CATEGORY = {name.capitalize(): number for number, name in enumerate(CLASSES) if number}
_GREY = np.array([0.2126, 0.7152, 0.0722], np.float32)  # weights of the engine's own grey format
_HUNDRED = 100.0


def observation_space(settings: GameSettings, num_variables: int) -> spaces.Dict:
    """Return the space of what a policy observes.

    Leaves: ``screen [H, W, 1 or 3]``; ``depth [H, W, 1]`` and ``labels [H, W, 1]`` if chosen; ``variables [n] float32``
    if there are some.
    """
    config = settings.config
    leaves: dict[str, Space[Any]] = {
        "screen": spaces.Box(0, 255, (config.height, config.width, 3 if config.color else 1), np.uint8)
    }
    if config.depth:
        leaves["depth"] = spaces.Box(0, 255, (config.height, config.width, 1), np.uint8)
    if config.labels == "observation":
        leaves["labels"] = labels_space(settings)
    if num_variables:
        leaves["variables"] = spaces.Box(-np.inf, np.inf, (num_variables,), np.float32)
    return spaces.Dict(leaves)


def labels_space(settings: GameSettings) -> spaces.Box:
    """Return the space of the leaf ``labels``: a number of `CLASSES` for every pixel."""
    return spaces.Box(0, len(CLASSES) - 1, (settings.config.height, settings.config.width, 1), np.uint8)


def privileged_space(settings: GameSettings) -> spaces.Dict | None:
    """Return the space of what only critics observe; None if it is nothing."""
    return spaces.Dict({"labels": labels_space(settings)}) if settings.config.labels == "privileged" else None


def class_image(labels_buffer: np.ndarray, labels: Any) -> np.ndarray:
    """Return the class of the object at every pixel, ``[H, W] uint8``.

    Args:
        labels_buffer: ``[H, W] uint8``: value of the label at every pixel.
        labels: The labels: objects with ``value`` and ``object_category``.
    """
    table = np.zeros(256, np.uint8)
    for label in labels:
        table[label.value] = _BY_CATEGORY.get(label.object_category, 0)
    classes: np.ndarray = table[labels_buffer]
    return classes


def halve(image: np.ndarray) -> np.ndarray:
    """Return the averages of blocks of two by two pixels, ``[H, W] uint16``.

    Args:
        image: ``[2 H, 2 W] uint8``, contiguous.
    """
    pairs = image.view(np.uint16)  # each holds two pixels of a row
    rows = (pairs & 255) + (pairs >> 8)
    rounded: np.ndarray = rows[::2] + rows[1::2] + np.uint16(2)
    return rounded >> 2


class Observer:
    """Writes the observations of one seat.

    Args:
        settings: How the engine draws.
        observation: Leaves of the seat.
        privileged: Leaves of the seat for critics.
    """

    def __init__(self, settings: GameSettings, observation: Leaves, privileged: Leaves) -> None:
        self._settings = settings
        config = settings.config
        self._size = (config.width, config.height)
        self._screen = observation["screen"]
        self._depth = observation.get("depth")
        self._labels = privileged.get("labels", observation.get("labels"))
        self._variables = observation.get("variables")
        self._frame = np.zeros((config.height, config.width, 3), np.uint8)

    def write(self, state: Any) -> None:
        """Write the observation of a state of the engine."""
        screen = state.screen_buffer
        if self._settings.is_drawn:
            self._frame = screen
        if self._settings.draws_color and not self._settings.config.color:
            screen = (screen @ _GREY + 0.5).astype(np.uint8)
        self._screen[...] = self._average(screen).reshape(self._screen.shape)
        if self._depth is not None:
            self._depth[..., 0] = self._pick(state.depth_buffer)
        if self._labels is not None:
            classes = class_image(state.labels_buffer, state.labels)
            self._labels[..., 0] = self._pick(classes)
        if self._variables is not None:
            values = state.game_variables
            self._variables[: values.size] = values / _HUNDRED

    def _average(self, image: np.ndarray) -> np.ndarray:
        """Return an image in the observed size, whose pixels are averages."""
        width, height = self._size
        if image.shape[:2] == (height, width):
            return image
        if image.shape == (2 * height, 2 * width):  # the default; twice as fast as the next one
            return halve(image)
        source = Image.fromarray(image)
        if image.shape[0] % height == image.shape[1] % width == 0:  # nine times as fast as the last one
            return np.asarray(source.reduce((image.shape[1] // width, image.shape[0] // height)))
        return np.asarray(source.resize(self._size, Image.Resampling.BOX))

    def _pick(self, image: np.ndarray) -> np.ndarray:
        """Return an image in the observed size, whose pixels are some of the original ones."""
        if image.shape[1::-1] == self._size:
            return image
        return np.asarray(Image.fromarray(image).resize(self._size, Image.Resampling.NEAREST))

    def frame(self) -> np.ndarray:
        """Return the last frame that was drawn, ``[H, W, 3] uint8``."""
        return self._frame
