"""Matches as scenes of shapes: the house from above, in cells."""

from __future__ import annotations

from collections.abc import Iterator

from ludus.rendering import Box, Circle, Label, Line, Scene, Shape

from ludus_chase.game import Game
from ludus_chase.house import DOOR, HEIGHT, WIDTH
from ludus_chase.terminal import heading
from ludus_chase.world import AGENTS, GONE, Stage, Status, Thing, World

_FLOOR, _WALL = "#20262d", "#8a94a0"
_CAT, _MOUSE, _DOWN = "#e4572e", "#6fb7e9", "#5a6470"
_HEALTH, _LOST = "#7fbf7f", "#5a2020"
_KINDS = (
    (Thing.CHEESES, "#f0c000", ""),
    (Thing.HOLES, "#7a4a20", "o"),
    (Thing.ROCKETS, "#b080d0", "^"),
    (Thing.ITEMS, "#60c0a0", "?"),
    (Thing.TRAPS, "#c04040", "x"),
    (Thing.GLOVES, "#c04040", "&"),
    (Thing.BOMBS, "#303030", "*"),
    (Thing.CAKES, "#f0a0c0", "%"),
    (slice(Thing.CRACK, Thing.CRACK + 1), "#a0a0a0", "#"),
)
_AGENT, _THING = 1.3, 0.9  # radii


def draw_scene(game: Game, match: int) -> Scene:
    """Return a match as a scene: the cat is red, mice are blue with bars of health, cheese is yellow."""
    shapes = [*_walls(game, match), *_things(game.world, match), *_agents(game.world, match)]
    return Scene(width=WIDTH, height=HEIGHT, shapes=shapes, background=_FLOOR, caption=heading(game, match))


def _walls(game: Game, match: int) -> Iterator[Shape]:
    """Yield the walls between rooms, with gaps for doors."""
    plan, house = game.plan, game.house
    for wall, (first, _) in enumerate(plan.joins):
        row, column = divmod(int(first), plan.columns)
        vertical = bool(plan.vertical[wall])
        size = float(plan.height if vertical else plan.width)
        across = (column + 1) * float(plan.width) if vertical else (row + 1) * float(plan.height)
        start = (row if vertical else column) * size
        parts = [(start, start + size)]
        if house.open[match, wall]:
            middle = float((house.door_y if vertical else house.door_x)[match, wall])
            parts = [(start, middle - DOOR), (middle + DOOR, start + size)]
        for low, high in parts:
            if low < high:
                ends = (across, low, across, high) if vertical else (low, across, high, across)
                yield Line(*ends, _WALL, width=0.4)


def _things(world: World, match: int) -> Iterator[Shape]:
    for kind, color, mark in _KINDS:
        if kind is Thing.CAKES and world.stage[match] != Stage.PREPARATION:
            continue
        for thing in range(kind.start, kind.stop):
            if world.present[match, thing]:
                x, y = float(world.thing_x[match, thing]), float(world.thing_y[match, thing])
                yield Circle(x, y, _THING, color)
                if mark:
                    yield Label(x, y, mark, 1.4)


def _agents(world: World, match: int) -> Iterator[Shape]:
    for agent in reversed(range(AGENTS)):
        status = world.status[match, agent]
        if GONE[status]:
            continue
        x, y = float(world.x[match, agent]), float(world.y[match, agent])
        color = _CAT if agent == 0 else _MOUSE if status == Status.FREE else _DOWN
        yield Circle(x, y, _AGENT, color)
        yield Label(x, y, str(agent) if agent else "C", 1.8)
        if agent:
            share = float(world.health[match, agent]) / 100
            yield Box(x - _AGENT, y - _AGENT - 0.9, 2 * _AGENT, 0.5, _LOST)
            if share > 0:
                yield Box(x - _AGENT, y - _AGENT - 0.9, 2 * _AGENT * min(share, 1.0), 0.5, _HEALTH)
