"""The map around each hero: one byte per cell and channel."""

from __future__ import annotations

import numpy as np

from ludus_moba.layout import CELL, CELLS
from ludus_moba.rules import HERO, LENGTH, MONSTER, STRUCTURES, UNITS, WIDTH
from ludus_moba.vision import brush_of
from ludus_moba.world import World, target_places

_HALF = CELLS // 2
_COLUMNS, _ROWS = int(LENGTH / CELL), int(WIDTH / CELL)
_OWN, _ENEMY, _HEROES, _TERRAIN = 0, 1, 4, 5
_BRUSH, _OUTSIDE = 128, 255


def _terrain() -> np.ndarray:
    """Return ``[columns, rows] uint8`` of the field with a margin of half a map: brush, and what is outside."""
    terrain = np.full((_COLUMNS + 2 * CELLS, _ROWS + 2 * CELLS), _OUTSIDE, np.uint8)
    x, y = np.meshgrid((np.arange(_COLUMNS) + 0.5) * CELL, (np.arange(_ROWS) + 0.5) * CELL, indexing="ij")
    terrain[CELLS:-CELLS, CELLS:-CELLS] = np.where(brush_of(x, y) > 0, _BRUSH, 0)
    return terrain


_MAP = np.lib.stride_tricks.sliding_window_view(_terrain(), (CELLS, CELLS))


def draw_maps(world: World, maps: np.ndarray) -> None:
    """Write the maps ``[B, 2, 16, 16, 6] uint8``; axis 2 is x, towards the enemy."""
    maps.fill(0)
    column = np.minimum((world.x[:, :, HERO] / CELL).astype(np.int64), _COLUMNS - 1)
    row = np.minimum((world.y[:, :, HERO] / CELL).astype(np.int64), _ROWS - 1)
    maps[..., _TERRAIN] = _MAP[column + CELLS - _HALF, row + CELLS - _HALF]
    x, y = target_places(world)
    health = np.ones(x.shape, np.uint8)
    health[:, :, :UNITS] = _shares(world)[:, ::-1]
    health[:, :, MONSTER] = 255
    _mark(maps, x, y, world.visible, health, column, row, first=_ENEMY)
    _mark(maps, world.x, world.y, world.health > 0, _shares(world), column, row, first=_OWN)


def _shares(world: World) -> np.ndarray:
    """Return ``[B, 2, 18] uint8``: health of units from 55 to 255."""
    share = np.clip(world.health / np.maximum(world.max_health, 1.0), 0.0, 1.0)
    return np.asarray((55 + 200 * share).astype(np.uint8))


def _mark(
    maps: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    present: np.ndarray,
    value: np.ndarray,
    column: np.ndarray,
    row: np.ndarray,
    *,
    first: int,
) -> None:
    """Write the health of present units into their cells; `first` is the channel of minions."""
    across = np.floor(x / CELL).astype(np.int64) - column[:, :, None] + _HALF
    down = np.floor(y / CELL).astype(np.int64) - row[:, :, None] + _HALF
    inside = present & (across >= 0) & (across < CELLS) & (down >= 0) & (down < CELLS)
    channel = np.full(x.shape[2], first)
    channel[HERO], channel[STRUCTURES] = _HEROES, first + 2
    match, side, unit = np.nonzero(inside)
    cells = (across[match, side, unit], down[match, side, unit])
    maps[match, side, cells[0], cells[1], channel[unit]] = value[match, side, unit]
