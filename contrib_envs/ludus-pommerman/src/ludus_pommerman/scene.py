"""Matches as scenes of shapes: one unit for each cell."""

from __future__ import annotations

from collections.abc import Iterator

from ludus.rendering import Box, Circle, Label, Scene, Shape

from ludus_pommerman.rules import AGENT, FLAMES, ITEMS, PASSAGE, RIGID, WOOD
from ludus_pommerman.terminal import caption
from ludus_pommerman.view import draw_board, inner
from ludus_pommerman.world import World

_GROUND = "#20262c"
_FILLED = {RIGID: "#7d868f", WOOD: "#a9793f", FLAMES: "#f08030"}
_AGENTS = ("#3ec1d3", "#e4572e", "#5b7fe0", "#d070c0")
_BOMB, _ITEM = "#101418", "#7fbf7f"
_LETTERS = dict(zip(ITEMS, "BRK", strict=True))


def draw_scene(world: World, match: int) -> Scene:
    """Return a match as a scene."""
    size = int(world.board.shape[1] ** 0.5) - 2
    board, life = draw_board(world, size)[match], inner(world.life, size)[match]
    cells = [
        shape
        for row in range(size)
        for column in range(size)
        for shape in _cell(int(board[row, column]), int(life[row, column]), row, column)
    ]
    return Scene(width=size, height=size, shapes=cells, background=_GROUND, caption=caption(world, match))


def _cell(code: int, life: int, row: int, column: int) -> Iterator[Shape]:
    x, y = column + 0.5, row + 0.5
    if code in _FILLED:
        yield Box(column + 0.03, row + 0.03, 0.94, 0.94, _FILLED[code])
    elif code in _LETTERS:
        yield Box(column + 0.2, row + 0.2, 0.6, 0.6, _ITEM)
        yield Label(x, y, _LETTERS[code], 0.4)
    if code >= AGENT:
        yield Circle(x, y, 0.42, _AGENTS[code - AGENT])
        yield Label(x, y, str(code - AGENT), 0.4)
    if life:
        yield Circle(x + 0.2 * (code != PASSAGE and code >= AGENT), y, 0.2 if code >= AGENT else 0.35, _BOMB)
        yield Label(x, y, str(life), 0.3)
