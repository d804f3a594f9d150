"""The state of all matches: structs of arrays over agents and over things."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import define, field, fields

from ludus_chase.columns import Columns

__all__ = [
    "ABSENT",
    "AGENTS",
    "BOMB",
    "BOMBS",
    "BOOTS",
    "BREAKING",
    "CAKES",
    "CARRIED",
    "CHEESES",
    "CRACK",
    "DOWN",
    "ELIMINATED",
    "ESCAPED",
    "FLOOR",
    "FREE",
    "GLOVES",
    "GONE",
    "HAZARDS",
    "HELD",
    "HOLES",
    "IN_HOLE",
    "ITEMS",
    "ITEM_KINDS",
    "MICE",
    "MILK",
    "PLATE",
    "PREPARATION",
    "PUSHED",
    "PUSHING",
    "ROCKETS",
    "STATUSES",
    "THINGS",
    "TIED",
    "TRAPS",
    "WRECKED",
    "World",
]

#: Agents of a match: number 0 is the cat, the others are the mice.
AGENTS, MICE = 5, 4
#: What has become of an agent. Who is GONE takes no part: it escaped, was eliminated, or was never there.
STATUSES = ("free", "down", "carried", "tied", "escaped", "eliminated", "absent", "wrecked")
FREE, DOWN, CARRIED, TIED, ESCAPED, ELIMINATED, ABSENT, WRECKED = range(8)
GONE = np.array([status in (ESCAPED, ELIMINATED, ABSENT) for status in range(8)])
#: Where a cheese is.
FLOOR, HELD, IN_HOLE, PUSHED = range(4)
#: What agents find and use; 0 is nothing. A bomb that has been lit is shown by its fuse.
ITEM_KINDS = ("bomb", "plate", "milk", "boots")
BOMB, PLATE, MILK, BOOTS = range(1, 5)
#: Stages of a match.
PREPARATION, PUSHING, BREAKING = range(3)

#: Things of a match by their numbers; thrown bombs lie in the place of who threw them.
CHEESES, HOLES, ROCKETS, ITEMS = slice(0, 5), slice(5, 10), slice(10, 13), slice(13, 19)
TRAPS, GLOVES, BOMBS, CAKES = slice(19, 22), slice(22, 25), slice(25, 30), slice(30, 32)
HAZARDS = slice(TRAPS.start, BOMBS.stop)
CRACK = 32
THINGS = 33
_HISTORY = 41


def _column(dtype: Any, *shape: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape}


_AGENT_FLOAT = _column(np.float32, AGENTS)
_AGENT_INT = _column(np.int64, AGENTS)
_AGENT_TIME = _column(np.int32, AGENTS)
_HISTORY_FLOAT = _column(np.float32, AGENTS, _HISTORY, 2)
_WEAPON_TIME = _column(np.int32, 2)
_THING_FLOAT = _column(np.float32, THINGS)
_THING_FLAG = _column(np.bool_, THINGS)
_CHEESE_INT = _column(np.int64, 5)
_ITEM_INT = _column(np.int64, 6)
_WEAPON_INT = _column(np.int64, 2)
_MATCH_INT = _column(np.int64)
_MATCH_TIME = _column(np.int32)
_MATCH_FLAG = _column(np.bool_)
_LIFT_FLAG = _column(np.bool_, AGENTS, 5)
_FIRST_FLAG = _column(np.bool_, 3)
_SCENARIO_FLOAT = _column(np.float32, 16)
_MEMORY_FLAG = _column(np.bool_, 2, THINGS)
_MEMORY_FLOAT = _column(np.float32, 2, THINGS)
_MEMORY_INT = _column(np.int64, 2, 10)
_AGENT_FLAG = _column(np.bool_, AGENTS)


@define
class World(Columns):
    """The state of B matches; times are in ticks, places in cells, agents are numbered as in `AGENTS`.

    Attributes:
        x: Where agents are; likewise `y`.
        health: From 0 to 100.
        status: One of `STATUSES`.
        bound: Who is not 0 decides nothing: a swing, a stun, a trap.
        clock: Of the status: until a mouse gets up, breaks free, or leaves with its rocket.
        safe: Cannot be hurt; likewise `fast`.
        cooldown: Until the ability is ready; `weapons`: the cat's traps and gloves.
        item: The number of the item in the hand, -1 for none; `fuse`: of a lit bomb there, 0 where none burns.
        hold: The cheese (a scout: the cake) that a mouse carries, the mouse (1 to 4) that the cat carries; -1 for none.
        rocket: To which a mouse is tied, -1 for none; `rescue`: how far it has been untied, from 0 to 1.
        level: Of the character, 1 at first.
        last: The action of the last decision.
        history: ``[B, 5, 41, 2]``: places by tick modulo 41.
        thing_x: Where things are; likewise `thing_y`.
        there: The thing can be seen; cheese in a mouse's hands can, items cannot.
        amount: Hole: share of its cheese pushed. Rocket: share of the fuse left. Bomb: ticks left. Crack: share left.
        cheese: FLOOR, HELD, IN_HOLE or PUSHED; `hole`: the cheese that is in a hole, -1 for none.
        kinds: What the items are, a number of `ITEM_KINDS` plus 1.
        laid: How many traps and gloves the cat has laid.
        stage: PREPARATION, PUSHING or BREAKING; `left`: of its time; `played`: since the preparation.
        going: The match is being played; `ticks`: since it began.
        start_x: Where agents begin after the preparation; likewise `start_y`.
        wrecks: Scouts that the cat destroyed.
        lifted: ``[B, 5, 5]``: which agent has lifted which cheese before.
        firsts: What the cat did for the first time: found a rocket, found a hole, hurt a mouse.
        handicap: Parameters of the scenario, see `ludus_chase.scenario.PARAMETERS`.
        known: ``[B, 2, THINGS]``: whether the cat, and the mice, have seen a thing.
        seen_x: Where they saw it last; likewise `seen_y`, `seen_there`, `seen_amount`, `seen_state`.
        met: What an agent's opponents know of it: whether they have seen it, and `met_x`, `met_y`, `met_health`,
            `met_status`, `met_hold`, and `met_age`: how long ago.
    """

    x: np.ndarray = field(metadata=_AGENT_FLOAT)
    y: np.ndarray = field(metadata=_AGENT_FLOAT)
    health: np.ndarray = field(metadata=_AGENT_FLOAT)
    status: np.ndarray = field(metadata=_AGENT_INT)
    bound: np.ndarray = field(metadata=_AGENT_TIME)
    clock: np.ndarray = field(metadata=_AGENT_TIME)
    safe: np.ndarray = field(metadata=_AGENT_TIME)
    fast: np.ndarray = field(metadata=_AGENT_TIME)
    cooldown: np.ndarray = field(metadata=_AGENT_TIME)
    item: np.ndarray = field(metadata=_AGENT_INT)
    fuse: np.ndarray = field(metadata=_AGENT_TIME)
    hold: np.ndarray = field(metadata=_AGENT_INT)
    rocket: np.ndarray = field(metadata=_AGENT_INT)
    rescue: np.ndarray = field(metadata=_AGENT_FLOAT)
    level: np.ndarray = field(metadata=_AGENT_FLOAT)
    last: np.ndarray = field(metadata=_AGENT_INT)
    history: np.ndarray = field(metadata=_HISTORY_FLOAT)
    weapons: np.ndarray = field(metadata=_WEAPON_TIME)
    thing_x: np.ndarray = field(metadata=_THING_FLOAT)
    thing_y: np.ndarray = field(metadata=_THING_FLOAT)
    there: np.ndarray = field(metadata=_THING_FLAG)
    amount: np.ndarray = field(metadata=_THING_FLOAT)
    cheese: np.ndarray = field(metadata=_CHEESE_INT)
    hole: np.ndarray = field(metadata=_CHEESE_INT)
    kinds: np.ndarray = field(metadata=_ITEM_INT)
    laid: np.ndarray = field(metadata=_WEAPON_INT)
    stage: np.ndarray = field(metadata=_MATCH_INT)
    left: np.ndarray = field(metadata=_MATCH_TIME)
    played: np.ndarray = field(metadata=_MATCH_TIME)
    going: np.ndarray = field(metadata=_MATCH_FLAG)
    ticks: np.ndarray = field(metadata=_MATCH_INT)
    start_x: np.ndarray = field(metadata=_AGENT_FLOAT)
    start_y: np.ndarray = field(metadata=_AGENT_FLOAT)
    wrecks: np.ndarray = field(metadata=_MATCH_INT)
    lifted: np.ndarray = field(metadata=_LIFT_FLAG)
    firsts: np.ndarray = field(metadata=_FIRST_FLAG)
    handicap: np.ndarray = field(metadata=_SCENARIO_FLOAT)
    known: np.ndarray = field(metadata=_MEMORY_FLAG)
    seen_x: np.ndarray = field(metadata=_MEMORY_FLOAT)
    seen_y: np.ndarray = field(metadata=_MEMORY_FLOAT)
    seen_there: np.ndarray = field(metadata=_MEMORY_FLAG)
    seen_amount: np.ndarray = field(metadata=_MEMORY_FLOAT)
    seen_state: np.ndarray = field(metadata=_MEMORY_INT)
    met: np.ndarray = field(metadata=_AGENT_FLAG)
    met_x: np.ndarray = field(metadata=_AGENT_FLOAT)
    met_y: np.ndarray = field(metadata=_AGENT_FLOAT)
    met_health: np.ndarray = field(metadata=_AGENT_FLOAT)
    met_status: np.ndarray = field(metadata=_AGENT_INT)
    met_hold: np.ndarray = field(metadata=_AGENT_FLAG)
    met_age: np.ndarray = field(metadata=_AGENT_TIME)

    @classmethod
    def blank(cls, matches: int) -> World:
        """Return a world of zeros."""
        made = {each.name: (each.metadata["shape"], each.metadata["dtype"]) for each in fields(cls)}
        return cls(**{name: np.zeros((matches, *shape), dtype) for name, (shape, dtype) in made.items()})
