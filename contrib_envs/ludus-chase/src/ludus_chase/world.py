"""The state of all matches as structs of arrays over agents and things."""

from __future__ import annotations

from typing import Any, Self, TypeAlias

import attrs
import numpy as np
from attrs import define, field, fields

#: Match indices ``[n] int64``, or the slice of all matches, which makes no copies.
Indices: TypeAlias = "np.ndarray | slice"


@attrs.define
class MatchArrays:
    """Base of attrs classes all of whose fields are arrays ``[B, …]``."""

    def take(self, at: Indices) -> Self:
        """Return the entries of the matches `at`: views for a slice, else copies."""
        return type(self)(**{name: array[at] for name, array in self.arrays().items()})

    def put(self, at: Indices, new: Self) -> None:
        """Overwrite the entries of the matches `at` with those of `new`."""
        fresh = new.arrays()
        for name, array in self.arrays().items():
            array[at] = fresh[name]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by field name."""
        return {name: getattr(self, name) for name in (field.name for field in attrs.fields(type(self)))}


#: Agents of a match: number 0 is the cat, the others are the mice.
AGENTS, MICE = 5, 4
STATUSES = ("free", "down", "carried", "tied", "escaped", "eliminated", "absent", "wrecked")
#: Kinds of items; 0 is none. A burning bomb is shown by its fuse.
ITEM_KINDS = ("bomb", "plate", "milk", "boots")


class Status:
    """Status of an agent."""

    FREE, DOWN, CARRIED, TIED, ESCAPED, ELIMINATED, ABSENT, WRECKED = range(8)


#: ``[8] bool`` by status: the agent no longer takes part, since it escaped, was eliminated, or is absent.
GONE = np.isin(np.arange(8), (Status.ESCAPED, Status.ELIMINATED, Status.ABSENT))


class Cheese:
    """Location of a cheese."""

    FLOOR, HELD, IN_HOLE, PUSHED = range(4)


class Item:
    """Kind of an item, as an index of `ITEM_KINDS` plus 1."""

    BOMB, PLATE, MILK, BOOTS = range(1, 5)


class Stage:
    """Stage of a match."""

    PREPARATION, PUSHING, BREAKING = range(3)


class Thing:
    """Index ranges of the things of a match; a thrown bomb has the index of its thrower."""

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
_THING_FLOAT = _column(np.float32, THINGS)
_CHEESE_INT = _column(np.int64, 5)
_MATCH_INT = _column(np.int64)
_MATCH_TIME = _column(np.int32)
_MEMORY_FLAG = _column(np.bool_, 2, THINGS)
_MEMORY_FLOAT = _column(np.float32, 2, THINGS)
_AGENT_FLAG = _column(np.bool_, AGENTS)


@define
class World(MatchArrays):
    """State of B matches. Times are in ticks, lengths in cells; agents are numbered as in `AGENTS`.

    Attributes:
        x: Positions of agents; likewise `y`.
        health: 0 to 100.
        status: One of `Status`.
        bound: Time until the agent can act again after a hit, a stun or a trap.
        clock: Time left in the status: until a mouse gets up, breaks free, or leaves with its rocket.
        safe: Time for which the agent cannot be hurt; likewise `fast`.
        cooldown: Time until the ability is ready; `weapons` for the cat's traps and gloves.
        item: Index of the held item, -1 for none.
        fuse: Time until a held bomb explodes, 0 where none burns.
        hold: Cheese (of a scout: cake) that a mouse carries, or mouse (1 to 4) that the cat carries; -1 for none.
        rocket: Rocket to which a mouse is tied, -1 for none.
        rescue: Progress of the rescue of a tied mouse, 0 to 1.
        level: Level of the agent, from 1.
        last_action: Action of the last decision.
        history: ``[B, 5, 41, 2]``: positions by tick modulo 41.
        thing_x: Positions of things; likewise `thing_y`.
        present: The thing is visible; carried cheese is, held items are not.
        amount: Hole: share of its cheese pushed. Rocket: share of the fuse left. Bomb: ticks left. Crack: share left.
        cheese: One of `Cheese`.
        hole: Cheese in a hole, -1 for none.
        kinds: Kinds of items, each one of `Item`.
        laid: Numbers of traps and gloves that the cat has placed.
        stage: One of `Stage`.
        left: Time left in the stage.
        played: Time since the preparation.
        running: The match is running.
        ticks: Time since the start.
        start_x: Positions of agents after the preparation; likewise `start_y`.
        wrecks: Number of scouts destroyed by the cat.
        lifted: ``[B, 5, 5]``: the agent has lifted the cheese before.
        firsts: The cat has found a rocket, found a hole, hurt a mouse.
        handicap: Parameters of the scenario, see `ludus_chase.scenario.PARAMETERS`.
        known: ``[B, 2, THINGS]``: the cat, or some mouse, has seen the thing.
        seen_x: Values at the last sighting; likewise `seen_y`, `seen_present`, `seen_amount`, `seen_state`.
        spotted: An opponent has seen the agent.
        spotted_x: Values at the last sighting; likewise `spotted_y`, `spotted_health`, `spotted_status`,
            `spotted_holding`.
        spotted_age: Time since the last sighting.
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
    last_action: np.ndarray = field(metadata=_AGENT_INT)
    history: np.ndarray = field(metadata=_column(np.float32, AGENTS, _HISTORY, 2))
    weapons: np.ndarray = field(metadata=_column(np.int32, 2))
    thing_x: np.ndarray = field(metadata=_THING_FLOAT)
    thing_y: np.ndarray = field(metadata=_THING_FLOAT)
    present: np.ndarray = field(metadata=_column(np.bool_, THINGS))
    amount: np.ndarray = field(metadata=_THING_FLOAT)
    cheese: np.ndarray = field(metadata=_CHEESE_INT)
    hole: np.ndarray = field(metadata=_CHEESE_INT)
    kinds: np.ndarray = field(metadata=_column(np.int64, 6))
    laid: np.ndarray = field(metadata=_column(np.int64, 2))
    stage: np.ndarray = field(metadata=_MATCH_INT)
    left: np.ndarray = field(metadata=_MATCH_TIME)
    played: np.ndarray = field(metadata=_MATCH_TIME)
    running: np.ndarray = field(metadata=_column(np.bool_))
    ticks: np.ndarray = field(metadata=_MATCH_INT)
    start_x: np.ndarray = field(metadata=_AGENT_FLOAT)
    start_y: np.ndarray = field(metadata=_AGENT_FLOAT)
    wrecks: np.ndarray = field(metadata=_MATCH_INT)
    lifted: np.ndarray = field(metadata=_column(np.bool_, AGENTS, 5))
    firsts: np.ndarray = field(metadata=_column(np.bool_, 3))
    handicap: np.ndarray = field(metadata=_column(np.float32, 16))
    known: np.ndarray = field(metadata=_MEMORY_FLAG)
    seen_x: np.ndarray = field(metadata=_MEMORY_FLOAT)
    seen_y: np.ndarray = field(metadata=_MEMORY_FLOAT)
    seen_present: np.ndarray = field(metadata=_MEMORY_FLAG)
    seen_amount: np.ndarray = field(metadata=_MEMORY_FLOAT)
    seen_state: np.ndarray = field(metadata=_column(np.int64, 2, 10))
    spotted: np.ndarray = field(metadata=_AGENT_FLAG)
    spotted_x: np.ndarray = field(metadata=_AGENT_FLOAT)
    spotted_y: np.ndarray = field(metadata=_AGENT_FLOAT)
    spotted_health: np.ndarray = field(metadata=_AGENT_FLOAT)
    spotted_status: np.ndarray = field(metadata=_AGENT_INT)
    spotted_holding: np.ndarray = field(metadata=_AGENT_FLAG)
    spotted_age: np.ndarray = field(metadata=_AGENT_TIME)

    @property
    def pushed(self) -> np.ndarray:
        """Return ``[B] int64``: the number of cheeses pushed through holes."""
        return np.asarray((self.cheese == Cheese.PUSHED).sum(axis=1))

    @classmethod
    def blank(cls, matches: int) -> World:
        """Return a state of zeros."""
        made = {each.name: (each.metadata["shape"], each.metadata["dtype"]) for each in fields(cls)}
        return cls(**{name: np.zeros((matches, *shape), dtype) for name, (shape, dtype) in made.items()})
