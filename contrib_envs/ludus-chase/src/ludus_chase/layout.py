"""Leaves of the observation and the names of their numbers. ``python -m ludus_chase.layout`` prints them."""

from __future__ import annotations

import sys

import numpy as np
from gymnasium import spaces

from ludus_chase.actions import CAT_ACTIONS, MOUSE_ACTIONS
from ludus_chase.house import HEIGHT, WIDTH, FloorPlan
from ludus_chase.world import AGENTS, ITEM_KINDS, MICE, STATUSES, THINGS

#: Position relative to the agent; lengths are shares of 72, `far` (walking distance) of 120.
PATH = ("dx", "dy", "step-x", "step-y", "far", "same-room")
#: Lags in ticks of the positions that `moved` in the memory compares with.
LAGS = (5, 10, 20, 40)
_SIDES = ("east", "south", "west", "north")
_BODY = (
    *("x", "y", "room-x", "room-y", "health", "safe", "fast", "cooldown"),
    *(f"has-{kind}" for kind in ITEM_KINDS),
    *("fuse", "burdened", "level"),
    *(f"door-{side}-{what}" for side in _SIDES for what in ("open", "dx", "dy")),
)
_GLOBAL = (
    *("preparation", "pushing", "breaking", "time-left", "cheeses-pushed", "cheeses-left"),
    *("crack-there", "crack-share", "eliminated", "escaped", "tied", "mice-left"),
)
_THINGS = {
    "cheeses": (5, (*PATH, "floor", "held", "in-hole")),
    "holes": (5, (*PATH, "free", "stuck", "done", "progress")),
    "rockets": (3, (*PATH, "lit", "fuse-left")),
    "items": (6, (*PATH, *ITEM_KINDS)),
    "hazards": (11, (*PATH, "trap", "glove", "bomb", "fuse-left")),
    "cakes": (2, PATH),
    "crack": (1, (*PATH, "share", "open")),
}
_MEMORY = tuple(f"moved-{axis}-{lag}" for lag in LAGS for axis in "xy")
_STATUS = tuple(f"is-{status}" for status in STATUSES)
#: Leaves of the mouse's observation: how many rows (0: it is a vector), and the names of the numbers in each.
MOUSE_LEAVES: dict[str, tuple[int, tuple[str, ...]]] = {
    "self": (0, (*_BODY, *(f"number-{n}" for n in range(1, MICE + 1)))),
    "global": (0, _GLOBAL),
    "memory": (0, (*(f"last-{action}" for action in MOUSE_ACTIONS), *_MEMORY)),
    "teammates": (MICE - 1, (*PATH, "health", *_STATUS, "burdened", "armed", "clock")),
    "cat": (1, (*PATH, "visible", "age", "burdened")),
    **_THINGS,
}
#: The same for the cat.
CAT_LEAVES: dict[str, tuple[int, tuple[str, ...]]] = {
    "self": (0, (*_BODY, "trap-wait", "glove-wait", "struggle-left")),
    "global": (0, _GLOBAL),
    "memory": (0, (*(f"last-{action}" for action in CAT_ACTIONS), *_MEMORY)),
    "mice": (MICE, (*PATH, "visible", "age", "burdened", "health", *_STATUS)),
    **_THINGS,
}
_DOOR = ("dx", "dy", "vertical")
#: Position of each name in its leaf, by role.
INDEX = {
    role: {leaf: {name: place for place, name in enumerate(names)} for leaf, (_, names) in leaves.items()}
    for role, leaves in (("mouse", MOUSE_LEAVES), ("cat", CAT_LEAVES))
}
#: Numbers per agent in the privileged leaf of agents; numbers per thing are x, y, presence and amount.
AGENT_TRUTH = ("x", "y", "health", "bound", "clock", "cooldown", "safe", "burdened", *_STATUS)


def observation_space(role: str, plan: FloorPlan, *, mini_image: bool) -> spaces.Dict:
    """Return the observation space of a role; groups of entities have a leaf NAME_present."""
    leaves: dict[str, spaces.Space[np.ndarray]] = {}
    groups = {**(MOUSE_LEAVES if role == "mouse" else CAT_LEAVES), "doors": (plan.walls, _DOOR)}
    for name, (rows, names) in groups.items():
        leaves[name] = spaces.Box(-1.0, 1.0, (rows, len(names)) if rows else (len(names),), np.float32)
        if rows:
            leaves[f"{name}_present"] = spaces.MultiBinary(rows)
    if mini_image:
        leaves["image"] = spaces.Box(0, 255, (WIDTH, HEIGHT, 8), np.uint8)
    return spaces.Dict(leaves)


def privileged_space() -> spaces.Dict:
    """Return the space of the privileged leaves: the true state of all agents and things."""
    agents = spaces.Box(-1.0, 1.0, (AGENTS * len(AGENT_TRUTH),), np.float32)
    return spaces.Dict({"all_agents": agents, "all_things": spaces.Box(-1.0, 1.0, (THINGS * 4,), np.float32)})


def table() -> str:
    """Return the layout as text, one leaf per line."""
    lines = []
    for role, leaves in (("mouse", MOUSE_LEAVES), ("cat", CAT_LEAVES)):
        for leaf, (rows, names) in {**leaves, "doors": (-1, _DOOR)}.items():
            shape = f"walls, {len(names)}" if rows < 0 else f"{rows}, {len(names)}" if rows else str(len(names))
            lines.append(f"{role:5s}  {leaf:9s}  [{shape}]  {' '.join(names)}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
