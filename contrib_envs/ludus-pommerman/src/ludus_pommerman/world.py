"""The state of all matches."""

from __future__ import annotations

from typing import TypeAlias

import attrs
import numpy as np
from attrs import define

from ludus_pommerman.rules import WORDS

Indices: TypeAlias = "np.ndarray | slice"

#: What is counted for each seat.
TALLIES = ("kills", "wood", "items", "bombs", "kicks")
COLUMN = {name: column for column, name in enumerate(TALLIES)}


@define
class World:
    """B matches of A seats on boards of C cells, which include a border of rigid walls.

    There is at most one bomb in a cell, so bombs are maps, too.

    Attributes:
        board: ``[B, C] uint8``: passage, wall or visible item.
        hidden: ``[B, C] uint8``: the item under wood, or under the flames that burn it; 0: none.
        flame: ``[B, C] uint8``: steps for which there are flames.
        burner: ``[B, C] uint8``: a bit for each seat whose bombs made the flames.
        life: ``[B, C] uint8``: steps until a bomb explodes; 0: no bomb.
        strength: ``[B, C] uint8``: cells that the blast of the bomb reaches, its own included.
        direction: ``[B, C] uint8``: action by which the bomb moves; 0: it lies.
        owner: ``[B, C] uint8``: seat of the bomb.
        position: ``[B, A] int64``: cell of each agent.
        alive: ``[B, A] bool``.
        ammo: ``[B, A] int64``: bombs that can be laid now.
        reach: ``[B, A] int64``: strength of bombs.
        kick: ``[B, A] bool``: can kick bombs.
        words: ``[B, A, 2] int64``: words sent on the last step.
        still: ``[B, A] int64``: steps for which an agent stands still.
        ticks: ``[B] int64``.
        running: ``[B] bool``.
        tally: ``[B, A, 5] float32``, see `TALLIES`.
    """

    board: np.ndarray
    hidden: np.ndarray
    flame: np.ndarray
    burner: np.ndarray
    life: np.ndarray
    strength: np.ndarray
    direction: np.ndarray
    owner: np.ndarray
    position: np.ndarray
    alive: np.ndarray
    ammo: np.ndarray
    reach: np.ndarray
    kick: np.ndarray
    words: np.ndarray
    still: np.ndarray
    ticks: np.ndarray
    running: np.ndarray
    tally: np.ndarray

    @classmethod
    def blank(cls, matches: int, seats: int, size: int) -> World:
        """Return a world of zeros, in which no match runs."""
        cells, pair = (matches, (size + 2) ** 2), (matches, seats)
        maps = ("board", "hidden", "flame", "burner", "life", "strength", "direction", "owner")
        return cls(
            **{name: np.zeros(cells, np.uint8) for name in maps},
            **{name: np.zeros(pair, np.int64) for name in ("position", "ammo", "reach", "still")},
            **{name: np.zeros(pair, bool) for name in ("alive", "kick")},
            words=np.zeros((*pair, WORDS), np.int64),
            ticks=np.zeros(matches, np.int64),
            running=np.zeros(matches, bool),
            tally=np.zeros((*pair, len(TALLIES)), np.float32),
        )

    def put(self, at: Indices, other: World) -> None:
        """Replace the matches `at` by those of another world."""
        for name in attrs.fields_dict(World):
            getattr(self, name)[at] = getattr(other, name)

    @property
    def acting(self) -> np.ndarray:
        """Return which agents live in running matches, ``[B, A] bool``."""
        acting: np.ndarray = self.alive & self.running[:, None]
        return acting

    def places(self) -> np.ndarray:
        """Return the cells of agents, numbered through all matches, ``[B, A] int64``."""
        matches, cells = self.board.shape
        places: np.ndarray = self.position + (np.arange(matches) * cells)[:, None]
        return places

    def find(self, cells: np.ndarray) -> np.ndarray:
        """Return the cells of running matches in which a map is not 0, numbered through all matches.

        Args:
            cells: ``[B, C] uint8``.
        """
        found = np.flatnonzero(cells)
        return found if self.running.all() else found[self.running[found // cells.shape[1]]]
