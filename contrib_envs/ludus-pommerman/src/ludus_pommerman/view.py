"""What seats observe: the leaves of the game's own observations, and the whole state for critics."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import RoleTick

from ludus_pommerman.rules import (
    AGENT,
    BOMB,
    BOMB_LIFE,
    FLAME_LIFE,
    FLAMES,
    FOG,
    MAX_AMMO,
    MAX_STRENGTH,
    NO_AGENT,
    SYMBOLS,
    WORDS,
    Variant,
)  # fmt: skip
from ludus_pommerman.world import World

#: Maps of bombs and flames, with the field of the world that they show and their greatest value.
MAPS = {
    "bomb_blast_strength": ("strength", MAX_STRENGTH),
    "bomb_life": ("life", BOMB_LIFE),
    "bomb_moving_direction": ("direction", 4),
    "flame_life": ("flame", FLAME_LIFE),
}
#: Numbers of each agent that critics read: row and column, alive, ammunition, strength, kick.
_AGENT_NUMBERS = 6


def observation_space(variant: Variant, time_limit: int) -> spaces.Dict:
    """Return the space of an observation."""
    size, seats = variant.size, len(variant.teams)

    def box(high: int, *shape: int) -> spaces.Box:
        return spaces.Box(0, high, shape, np.uint8)

    leaves: dict[str, spaces.Space[np.ndarray]] = {"board": box(AGENT + 3, size, size)}
    leaves |= {name: box(high, size, size) for name, (_, high) in MAPS.items()}
    leaves |= {
        "position": box(size - 1, 2),
        "ammo": box(MAX_AMMO, 1),
        "blast_strength": box(MAX_STRENGTH, 1),
        "can_kick": box(1, 1),
        "teammate": box(AGENT + 3, 1),
        "enemies": box(AGENT + 3, 3),
        "alive": spaces.MultiBinary(seats),
        "step_count": spaces.Box(0, time_limit, (1,), np.int32),
    }
    if variant.radio:
        leaves["message"] = box(SYMBOLS - 1, WORDS)
    return spaces.Dict(leaves)


def privileged_space(variant: Variant) -> spaces.Dict:
    """Return the space of what critics read in addition: everything."""
    cells = (variant.size, variant.size)
    leaves: dict[str, spaces.Space[np.ndarray]] = {
        "full_board": spaces.Box(0, AGENT + 3, cells, np.uint8),
        "hidden_items": spaces.Box(0, NO_AGENT - 1, cells, np.uint8),
        **{f"full_{name}": spaces.Box(0, high, cells, np.uint8) for name, (_, high) in MAPS.items()},
        "agents": spaces.Box(0, MAX_AMMO, (len(variant.teams), _AGENT_NUMBERS), np.uint8),
    }
    return spaces.Dict(leaves)


class View:
    """Writes observations.

    Args:
        variant: Variant of the game.
        view: Cells seen in each direction; 0: all.
        tick: Tick of the role to write to.
    """

    def __init__(self, variant: Variant, view: int, tick: RoleTick) -> None:
        self._size, self._radio, self._tick = variant.size, variant.radio, tick
        row, column = np.indices((self._size + 2,) * 2).reshape(2, -1)
        inner_row, inner_column = np.indices((self._size, self._size)) + 1
        distance = np.maximum(
            abs(row[:, None, None] - inner_row), abs(column[:, None, None] - inner_column)
        )  # [C, N, N]
        self._visible = distance <= view if view else None
        self._numbers = np.stack([row - 1, column - 1], axis=1)
        teams = np.array(variant.teams)
        self._mates = np.arange(teams.size)  # the teammate of each seat; in teams of one the seat itself
        for seat, team in enumerate(teams):
            mates = [other for other in np.flatnonzero(teams == team) if other != seat]
            enemies = [AGENT + other for other in np.flatnonzero(teams != team)]
            self._mates[seat] = mates[0] if mates else seat
            tick.observation["teammate"][:, seat] = AGENT + mates[0] if mates else NO_AGENT
            tick.observation["enemies"][:, seat] = enemies + [NO_AGENT] * (3 - len(enemies))

    def update(self, world: World) -> None:
        """Write the observations of all matches."""
        seen, board = self._tick.observation, draw_board(world, self._size)
        if self._visible is None:
            seen["board"][:] = board[:, None]
            for name, (field, _) in MAPS.items():
                seen[name][:] = self._inner(getattr(world, field))[:, None]
        else:
            visible = self._visible[world.position]
            seen["board"][:] = np.where(visible, board[:, None], np.uint8(FOG))
            for name, (field, _) in MAPS.items():
                np.multiply(visible, self._inner(getattr(world, field))[:, None], out=seen[name])
        seen["position"][:] = self._numbers[world.position]
        seen["ammo"][..., 0], seen["blast_strength"][..., 0] = world.ammo, world.reach
        seen["can_kick"][..., 0] = world.kick
        seen["alive"][:] = world.alive[:, None]
        seen["step_count"][..., 0] = world.ticks[:, None]
        if self._radio:
            seen["message"][:] = world.words[:, self._mates]
        if self._tick.privileged:
            self._show_all(world, board)

    def _inner(self, cells: np.ndarray) -> np.ndarray:
        return inner(cells, self._size)

    def _show_all(self, world: World, board: np.ndarray) -> None:
        leaves = self._tick.privileged
        leaves["full_board"][:], leaves["hidden_items"][:] = board[:, None], self._inner(world.hidden)[:, None]
        for name, (field, _) in MAPS.items():
            leaves[f"full_{name}"][:] = self._inner(getattr(world, field))[:, None]
        agents = leaves["agents"]
        agents[..., :2] = self._numbers[world.position][:, None]
        for column, values in enumerate((world.alive, world.ammo, world.reach, world.kick), 2):
            agents[..., column] = values[:, None]


def inner(cells: np.ndarray, size: int) -> np.ndarray:
    """Return the cells ``[B, size, size]`` of a map ``[B, C]`` without the border."""
    return cells.reshape(-1, size + 2, size + 2)[:, 1:-1, 1:-1]


def draw_board(world: World, size: int) -> np.ndarray:
    """Return what is to be seen in each cell, ``[B, size, size] uint8``: flames, else an agent, a bomb or the board."""
    board = np.where(world.life > 0, np.uint8(BOMB), world.board)
    match, seat = np.nonzero(world.alive)
    board[match, world.position[match, seat]] = AGENT + seat
    board[world.flame > 0] = FLAMES
    return inner(board, size)
