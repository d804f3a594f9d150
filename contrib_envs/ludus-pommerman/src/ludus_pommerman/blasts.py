"""Flames and explosions in one step, and who dies in them."""

from __future__ import annotations

import numpy as np

from ludus_pommerman.rules import FLAME_LIFE, MAX_AMMO, PASSAGE, RIGID, WOOD
from ludus_pommerman.world import COLUMN, World


def age_flames(world: World) -> None:
    """Let flames burn down, and show the items of burnt wood where they end."""
    cells = world.find(world.flame)
    flame, hidden = world.flame.reshape(-1), world.hidden.reshape(-1)
    flame[cells] -= 1
    ended = cells[flame[cells] == 0]
    world.board.reshape(-1)[ended] = hidden[ended]
    hidden[ended] = 0
    world.burner.reshape(-1)[ended] = 0


def explode(world: World, steps: np.ndarray) -> None:
    """Count bombs down, and explode those whose time is over or that flames reach, until no more explode.

    Args:
        world: State to change.
        steps: From `rules.steps`.
    """
    bombs = world.find(world.life)
    life = world.life.reshape(-1)
    life[bombs] -= 1
    fires = (life[bombs] == 0) | (world.flame.reshape(-1)[bombs] > 0)
    if not fires.any():
        return
    blast = np.zeros(world.board.size, np.uint8)  # a bit for each seat, as in `World.burner`
    while fires.any():
        _blast(world, bombs[fires], steps, blast)
        bombs = bombs[~fires]
        fires = blast[bombs] > 0
    _burn(world, blast)


def _blast(world: World, bombs: np.ndarray, steps: np.ndarray, blast: np.ndarray) -> None:
    """Add the blasts of bombs to `blast`, remove the bombs, and give the ammunition back."""
    board, strength, owner = world.board.reshape(-1), world.strength.reshape(-1), world.owner.reshape(-1)
    match, seat = bombs // world.board.shape[1], owner[bombs]
    np.add.at(world.ammo, (match, seat), 1)
    np.minimum(world.ammo, MAX_AMMO, out=world.ammo)
    bit = np.left_shift(np.uint8(1), seat)
    np.bitwise_or.at(blast, bombs, bit)
    # one row per bomb and direction
    step, cell = np.tile(steps[1:5], bombs.size), np.repeat(bombs, 4)
    left, bit = np.repeat(strength[bombs], 4), np.repeat(bit, 4)
    while True:
        goes_on = (left > 1) & (board[cell] != WOOD) & (board[cell + step] != RIGID)
        if not goes_on.any():
            break
        step, cell, left, bit = step[goes_on], cell[goes_on] + step[goes_on], left[goes_on] - 1, bit[goes_on]
        np.bitwise_or.at(blast, cell, bit)
    for cells in (world.life, world.strength, world.direction, world.owner):
        cells.reshape(-1)[bombs] = 0


def _burn(world: World, blast: np.ndarray) -> None:
    """Light flames where `blast` is not 0; they burn wood and visible items."""
    board, hidden, flame = world.board.reshape(-1), world.hidden.reshape(-1), world.flame.reshape(-1)
    cells = np.flatnonzero(blast)
    wood = cells[board[cells] == WOOD]
    for seat in range(world.alive.shape[1]):
        burnt = wood[blast[wood] >> seat & 1 == 1]
        np.add.at(world.tally[:, seat, COLUMN["wood"]], burnt // world.board.shape[1], 1)
    # The item of burnt wood appears when the first flames end, and new flames on its cell burn it then.
    hidden[cells[flame[cells] > 0]] = 0
    board[cells] = PASSAGE
    flame[cells] = FLAME_LIFE
    world.burner.reshape(-1)[cells] |= blast[cells]


def kill(world: World, teams: np.ndarray) -> None:
    """Let agents in flames die at once, and count kills of those whose flames they are.

    Args:
        world: State to change.
        teams: ``[A] int64``, team of each seat.
    """
    here = world.places()
    dies = world.acting & (world.flame.reshape(-1)[here] > 0)
    if not dies.any():
        return
    burner = world.burner.reshape(-1)[here]
    for seat, team in enumerate(teams):
        killed = dies & (burner >> seat & 1 == 1) & (teams != team)
        world.tally[:, seat, COLUMN["kills"]] += killed.sum(axis=1)
    world.alive &= ~dies


def collapse(world: World, ring: np.ndarray, falls: np.ndarray) -> None:
    """Turn a ring of the board into walls. Agents in it die; bombs, flames and items vanish.

    Args:
        world: State to change.
        ring: ``[k] int64``, cells of the ring.
        falls: ``[n] int64``, matches in which it does.
    """
    if not falls.size:
        return
    at = np.ix_(falls, ring)
    row, column = np.nonzero(world.life[at])
    match, cell = falls[row], ring[column]
    np.add.at(world.ammo, (match, world.owner[match, cell]), 1)
    np.minimum(world.ammo, MAX_AMMO, out=world.ammo)
    for cells in (world.hidden, world.flame, world.burner, world.life, world.strength, world.direction, world.owner):
        cells[at] = 0
    world.board[at] = RIGID
    world.alive[falls] &= ~np.isin(world.position[falls], ring)
