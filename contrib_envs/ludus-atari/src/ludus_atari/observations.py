"""What the two players observe: memory or images, and their sides."""

from __future__ import annotations

import numpy as np
from gymnasium import Space, spaces
from ludus.environment import Leaves
from ludus_interfaces.images import make_resize

from ludus_atari.config import AtariConfig
from ludus_atari.emulator import PLAYERS, Emulator

MEMORY_BYTES = 128
SCREEN = (210, 160)
#: Bytes of the first and of the second player. The second player sees its own bytes where those of the first one are,
#: and the field turned by 180 degrees, so that both play the same game. The third number is what a coordinate and its
#: turned one add up to; 0: no coordinate. Boxing: positions from left to right and from top to bottom, and scores.
TURNED_BYTES = {"boxing": ((32, 33, 139), (34, 35, 91), (18, 19, 0))}
#: Actions of the console, in its order, on the turned field: up is down, left is right.
TURNED_ACTIONS = np.array([0, 1, 5, 4, 3, 2, 9, 8, 7, 6, 13, 12, 11, 10, 17, 16, 15, 14])


def is_turned(config: AtariConfig) -> bool:
    """Return whether the second player sees the field turned by 180 degrees, and acts on it."""
    return config.observation == "ram" and config.game in TURNED_BYTES


def observation_space(config: AtariConfig) -> spaces.Dict:
    """Return the space of a seat: ``ram [128]`` or ``screen [side, side, stack]``, and ``side``."""
    leaves: dict[str, Space[np.ndarray] | spaces.Discrete]
    if config.observation == "ram":
        leaves = {"ram": spaces.Box(0, 255, (MEMORY_BYTES,), np.uint8)}
    else:
        leaves = {"screen": spaces.Box(0, 255, (config.side, config.side, config.stack), np.uint8)}
    return spaces.Dict({**leaves, "side": spaces.Discrete(PLAYERS)})


def player_memories(memory: np.ndarray, game: str) -> np.ndarray:
    """Return the memory as both players observe it, ``[2, 128] uint8``.

    Args:
        memory: ``[128] uint8``.
        game: Name of the game.
    """
    seen = np.stack([memory] * PLAYERS)
    for first, second, total in TURNED_BYTES.get(game, ()):
        other = memory[[second, first]]
        seen[1, [first, second]] = np.clip(total - other.astype(np.int64), 0, 255) if total else other
    return seen


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
        self._game = config.game
        self._sees_memory = config.observation == "ram"
        self._resize = make_resize(SCREEN, (config.side, config.side))
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
            self._leaves["ram"][:] = player_memories(self._emulator.memory(), self._game)
            return
        both = np.maximum(self._last, self._emulator.grey())
        screen = self._leaves["screen"]
        screen[..., :-1] = screen[..., 1:]
        screen[..., -1:] = self._resize(both[None, :, :, None])
