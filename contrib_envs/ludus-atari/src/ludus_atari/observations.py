"""What the two players observe: memory or images, and their sides."""

from __future__ import annotations

import numpy as np
from gymnasium import Space, spaces
from ludus.environment import Leaves
from PIL import Image

from ludus_atari.config import AtariConfig
from ludus_atari.emulator import PLAYERS, Emulator

MEMORY_BYTES = 128
#: Bytes of the first and of the second player, exchanged for the second one, so that a player's own come first.
#: Boxing: positions from left to right and from top to bottom, and scores.
OWN_BYTES = {"boxing": ((32, 33), (34, 35), (18, 19))}


def observation_space(config: AtariConfig) -> spaces.Dict:
    """Return the space of a seat: ``ram [128]`` or ``screen [side, side, stack]``, and ``side``."""
    leaves: dict[str, Space[np.ndarray] | spaces.Discrete]
    if config.observation == "ram":
        leaves = {"ram": spaces.Box(0, 255, (MEMORY_BYTES,), np.uint8)}
    else:
        leaves = {"screen": spaces.Box(0, 255, (config.side, config.side, config.stack), np.uint8)}
    return spaces.Dict({**leaves, "side": spaces.Discrete(PLAYERS)})


def byte_order(game: str) -> np.ndarray:
    """Return the addresses of the bytes that each player observes, ``[2, 128] int64``."""
    order = np.tile(np.arange(MEMORY_BYTES), (PLAYERS, 1))
    for first, second in OWN_BYTES.get(game, ()):
        order[1, [first, second]] = second, first
    return order


class Observer:
    """Writes the observations of both seats.

    Args:
        config: Options of the environment.
        emulator: Console.
        leaves: Observation leaves of the match, ``[2, …]``.
    """

    def __init__(self, config: AtariConfig, emulator: Emulator, leaves: Leaves) -> None:
        self._emulator = emulator
        self._leaves = leaves
        self._bytes = byte_order(config.game)
        self._sees_memory = config.observation == "ram"
        self._size = (config.side, config.side)
        self._last = np.zeros((1, 1), np.uint8)

    def start(self) -> None:
        """Write the first observation of a match; earlier images of a stack equal the first."""
        self._leaves["side"][:] = range(PLAYERS)
        self.look()
        self.write()
        if not self._sees_memory:
            screen = self._leaves["screen"]
            screen[...] = screen[..., -1:]

    def look(self) -> None:
        """Keep the screen of a frame: objects may be drawn on every other frame only."""
        if not self._sees_memory:
            self._last = self._emulator.grey().copy()

    def write(self) -> None:
        """Write the observation after the last frame of a decision."""
        if self._sees_memory:
            self._leaves["ram"][:] = self._emulator.memory()[self._bytes]
            return
        both = np.maximum(self._last, self._emulator.grey())
        image = np.asarray(Image.fromarray(both).resize(self._size, Image.Resampling.BOX))
        screen = self._leaves["screen"]
        screen[..., :-1] = screen[..., 1:]
        screen[..., -1] = image
