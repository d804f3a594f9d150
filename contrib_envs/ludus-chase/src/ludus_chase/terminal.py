"""Matches as text: the house from above, one character per cell in x and one line per two cells in y."""

from __future__ import annotations

import numpy as np

from ludus_chase.game import Game
from ludus_chase.house import DOOR, HEIGHT, WIDTH
from ludus_chase.items import held_item_kind
from ludus_chase.world import AGENTS, GONE, ITEM_KINDS, STATUSES, Cheese, Stage, Thing, World

_CAT, _MOUSE, _GOAL, _FAINT, _PLAIN = "\x1b[31;1m", "\x1b[36;1m", "\x1b[33m", "\x1b[2m", "\x1b[0m"
_MARKS = (
    (Thing.CHEESES, "▲"),
    (Thing.HOLES, "o"),
    (Thing.ROCKETS, "^"),
    (Thing.ITEMS, "?"),
    (Thing.TRAPS, "x"),
    (Thing.GLOVES, "&"),
    (Thing.BOMBS, "*"),
    (Thing.CAKES, "%"),
    (slice(Thing.CRACK, Thing.CRACK + 1), "#"),
)
_STAGES = ("preparation", "pushing", "breaking out")


def render(game: Game, match: int) -> str:
    """Return a match as text."""
    canvas = _walls(game, match)
    _draw_things(canvas, game.world, match)
    _draw_agents(canvas, game.world, match)
    edge = "█" * (WIDTH + 2)
    lines = [edge, *(f"█{''.join(line)}█" for line in canvas), edge]
    return "\n".join([heading(game, match), *lines, *(_agent(game.world, match, agent) for agent in range(AGENTS))])


def _draw_things(canvas: list[list[str]], world: World, match: int) -> None:
    for kind, mark in _MARKS:
        if kind is Thing.CAKES and world.stage[match] != Stage.PREPARATION:
            continue
        for thing in range(kind.start, kind.stop):
            if world.present[match, thing]:
                filled = kind is Thing.HOLES and world.amount[match, thing] >= 1
                drawn = f"{_GOAL}{'•' if filled else mark}{_PLAIN}"
                _put(canvas, world.thing_x[match, thing], world.thing_y[match, thing], drawn)


def _draw_agents(canvas: list[list[str]], world: World, match: int) -> None:
    for agent in reversed(range(AGENTS)):
        if not GONE[world.status[match, agent]]:
            name, colour = (str(agent), _MOUSE) if agent else ("C", _CAT)
            _put(canvas, world.x[match, agent], world.y[match, agent], f"{colour}{name}{_PLAIN}")


def _put(canvas: list[list[str]], x: float, y: float, mark: str) -> None:
    canvas[min(int(y / 2), HEIGHT // 2 - 1)][min(int(x), WIDTH - 1)] = mark


def _walls(game: Game, match: int) -> list[list[str]]:
    """Return lines of cells with the walls between rooms; doors are gaps."""
    plan, house = game.plan, game.house
    canvas = [[" "] * WIDTH for _ in range(HEIGHT // 2)]
    for wall, (first, _) in enumerate(plan.joins):
        row, column = divmod(int(first), plan.columns)
        along = np.arange(HEIGHT if plan.vertical[wall] else WIDTH) + 0.5
        size = plan.height if plan.vertical[wall] else plan.width
        start = (row if plan.vertical[wall] else column) * size
        middle = (house.door_y if plan.vertical[wall] else house.door_x)[match, wall]
        solid = (along >= start) & (along < start + size)
        solid &= ~(house.open[match, wall] & (np.abs(along - middle) <= DOOR))
        for place in along[solid]:
            if plan.vertical[wall]:
                _put(canvas, float((column + 1) * plan.width), place, f"{_FAINT}│{_PLAIN}")
            else:
                _put(canvas, place, float((row + 1) * plan.height), f"{_FAINT}─{_PLAIN}")
    return canvas


def heading(game: Game, match: int) -> str:
    """Return a line about the stage, the time left and the cheese."""
    world = game.world
    left = max(int(world.left[match]), 0) * game.config.tick_ms / 1000
    pushed = int((world.cheese[match] == Cheese.PUSHED).sum())
    crack = f", crack {world.amount[match, Thing.CRACK]:.0%}" if world.present[match, Thing.CRACK] else ""
    return f"{_STAGES[int(world.stage[match])]}, {left:.1f} s left, cheese {pushed}/{game.config.cheeses}{crack}"


def _agent(world: World, match: int, agent: int) -> str:
    """Return a line about one agent."""
    colour, name = (_MOUSE, f"mouse {agent}") if agent else (_CAT, "cat")
    kind = int(held_item_kind(world)[match, agent])
    has = [ITEM_KINDS[kind - 1]] if kind else []
    held = int(world.hold[match, agent])
    if held >= 0:
        load = "cake" if world.stage[match] == Stage.PREPARATION else "cheese"
        has.append(load if agent else f"mouse {held}")
    status = STATUSES[int(world.status[match, agent])]
    stunned = " bound" if world.bound[match, agent] else ""
    health = f" {world.health[match, agent]:3.0f}" if agent else "    "
    level = f"level {world.level[match, agent]:.0f}"
    return f"{colour}{name:8s}{_PLAIN}{health}  {level}  {status}{stunned}  {' '.join(has)}".rstrip()
