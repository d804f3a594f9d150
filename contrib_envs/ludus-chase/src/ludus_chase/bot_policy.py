"""Parts of the scripted policies of both roles: skills, named observations, actions, and memory of doors."""

from __future__ import annotations

import numpy as np
from attrs import frozen
from ludus.agent import grow_states
from ludus.environment import Leaves

from ludus_chase.actions import DIRECTION_X, DIRECTION_Y, MOVE_X, MOVE_Y
from ludus_chase.house import HEIGHT, WIDTH
from ludus_chase.layout import INDEX

_THROUGH = 1.5  # cells: how far behind a door an agent walks
_STEP_X, _STEP_Y = np.array([1, 0, -1, 0]), np.array([0, 1, 0, -1])


@frozen(kw_only=True)
class Skill:
    """Strength of a bot.

    Args:
        error: Probability of a random legal action.
        caution: Distance to the cat in cells at which mice flee.
        rescues: Mice free tied teammates; cats guard tied mice.
        tools: Agents use items, abilities, traps and gloves.
    """

    error: float
    caution: float
    rescues: bool
    tools: bool


SKILLS = {
    "weak": Skill(error=0.5, caution=0.0, rescues=False, tools=False),
    "medium": Skill(error=0.2, caution=4.0, rescues=True, tools=False),
    "strong": Skill(error=0.0, caution=7.0, rescues=True, tools=True),
}


class Entities:
    """One leaf of an observation, indexed by the names of its numbers; lengths in cells.

    Args:
        leaf: ``[n, f]`` or ``[n, k, f] float32``.
        index: Position of each name.
        present: ``[n, k] bool``; None for vectors.
    """

    def __init__(self, leaf: np.ndarray, index: dict[str, int], present: np.ndarray | None) -> None:
        self._leaf, self._index = leaf, index
        self.present = np.ones(leaf.shape[:-1], bool) if present is None else present

    def __getitem__(self, name: str) -> np.ndarray:
        """Return the values of a name, ``[n]`` or ``[n, k]``."""
        return self._leaf[..., self._index[name]]

    def flag(self, name: str) -> np.ndarray:
        """Return whether the value of a name is over ½."""
        return self[name] > 0.5

    @property
    def far(self) -> np.ndarray:
        """Return the walking distance in cells."""
        return self["far"] * (WIDTH + HEIGHT)

    @property
    def dx(self) -> np.ndarray:
        """Return the offset to the east in cells."""
        return self["dx"] * WIDTH

    @property
    def dy(self) -> np.ndarray:
        """Return the offset to the south in cells."""
        return self["dy"] * WIDTH

    @property
    def in_room(self) -> np.ndarray:
        """Return whether the entity is known and in the same room."""
        in_room: np.ndarray = self.present & self.flag("same-room")
        return in_room


class Observations:
    """The observations of n seats of one role.

    Args:
        observation: Leaves ``[n, …]``.
        role: ``"cat"`` or ``"mouse"``.
    """

    def __init__(self, observation: Leaves, role: str) -> None:
        self._leaves, self._index = observation, INDEX[role]

    def __getattr__(self, name: str) -> Entities:
        """Return the leaf of that name."""
        present = self._leaves.get(f"{name}_present")
        return Entities(self._leaves[name], self._index[name], None if present is None else present > 0.5)

    @property
    def own(self) -> Entities:
        """Return the leaf ``self``."""
        return Entities(self._leaves["self"], self._index["self"], None)

    @property
    def common(self) -> Entities:
        """Return the leaf ``global``."""
        return Entities(self._leaves["global"], self._index["global"], None)

    @property
    def doors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return which doors exist, ``[n, W] bool``, and their offsets in x and y in cells."""
        leaf = self._leaves["doors"] * WIDTH
        return self._leaves["doors_present"] > 0.5, leaf[..., 0], leaf[..., 1]

    @property
    def own_doors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the same for the four sides of the agent's room, ``[n, 4]`` each."""
        first = self._index["self"]["door-east-open"]
        own = self._leaves["self"][:, first : first + 12].reshape(-1, 4, 3)
        return own[..., 0] > 0.5, own[..., 1] * WIDTH, own[..., 2] * WIDTH


class Choice:
    """Actions of n seats; a later legal choice replaces earlier ones.

    Args:
        mask: ``[n, 18] bool``.

    Attributes:
        action: ``[n] int64``.
    """

    def __init__(self, mask: np.ndarray) -> None:
        self._mask = mask
        self.action = np.zeros(len(mask), np.int64)
        self.direction = np.zeros(len(mask), np.int64)

    def legal(self, action: int) -> np.ndarray:
        """Return whether an action is legal, ``[n] bool``."""
        return self._mask[:, action]

    def take(self, where: np.ndarray, action: int, *, direction: np.ndarray | None = None) -> None:
        """Choose an action where ``where [n] bool`` is True and the action is legal."""
        where = where & self._mask[:, action]
        self.action[where] = action
        if direction is not None:
            self.direction[where] = direction[where]

    def walk(self, where: np.ndarray, dx: np.ndarray, dy: np.ndarray) -> None:
        """Choose the move nearest to the direction ``(dx, dy) [n]`` where ``where [n] bool`` is True."""
        along = dx[:, None] * MOVE_X[1:9] + dy[:, None] * MOVE_Y[1:9]
        still = dx * dx + dy * dy < 0.01
        self.action = np.where(where, np.where(still, 0, 1 + along.argmax(axis=1)), self.action)

    def walk_to(self, where: np.ndarray, group: Entities, number: np.ndarray) -> None:
        """Choose the move towards the entities ``number [n]`` of a group where ``where [n] bool`` is True."""
        indices = np.arange(len(number))
        self.walk(where, group["step-x"][indices, number], group["step-y"][indices, number])


def nearest_entity(group: Entities, among: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return whether there is an entity in ``among [n, k] bool``, ``[n] bool``, the nearest one, and its distance."""
    far = np.where(among & group.present, group.far, np.inf)
    return np.isfinite(far.min(axis=1)), far.argmin(axis=1), far.min(axis=1)


def nearest_direction(dx: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Return which of the 16 directions is nearest to ``(dx, dy)``, ``[n] int64``."""
    chosen: np.ndarray = (dx[:, None] * DIRECTION_X + dy[:, None] * DIRECTION_Y).argmax(axis=1)
    return chosen


class DoorMemory:
    """Records when each seat used each door, for a search through the doors used longest ago.

    Args:
        walls: Number of inner walls of a house.
    """

    def __init__(self, walls: int) -> None:
        used = ("used", np.float64, (walls,))
        place = ("place", np.float64, (2,))  # offset from the middle of the room, as shares
        self._states = np.zeros(0, [used, ("now", np.float64), place])

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the records of ``seat_ids [n] int64``."""
        self._states = grow_states(self._states, seat_ids)
        self._states[seat_ids] = 0

    def oldest_door_direction(self, observed: Observations, seat_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the offsets ``[n]`` in x and y to the door of the room that was used longest ago."""
        self._states = grow_states(self._states, seat_ids)
        states = self._states[seat_ids]  # a copy
        _record_passages(observed, states)
        self._states[seat_ids] = states
        present, dx, dy = observed.doors
        open_, own_x, own_y = observed.own_doors  # [n, 4]
        apart = np.abs(dx[:, None] - own_x[..., None]) + np.abs(dy[:, None] - own_y[..., None])
        number = np.where(present[:, None], apart, np.inf).argmin(axis=2)
        tie_break = (7 * seat_ids[:, None] + 3 * number) % 11 / 11  # less than a tick
        last_use = np.where(open_, np.take_along_axis(states["used"], number, axis=1) + tie_break, np.inf)
        side = last_use.argmin(axis=1)
        indices = np.arange(len(side))
        return own_x[indices, side] + _THROUGH * _STEP_X[side], own_y[indices, side] + _THROUGH * _STEP_Y[side]


def _record_passages(observed: Observations, states: np.ndarray) -> None:
    """Record the nearest door of each seat whose position within the room has jumped."""
    states["now"] += 1
    place = np.stack([observed.own["room-x"], observed.own["room-y"]], axis=1) - 0.5
    passed = (np.abs(place - states["place"]) > 0.5).any(axis=1)
    states["place"] = place
    present, dx, dy = observed.doors
    door = np.where(present, dx * dx + dy * dy, np.inf).argmin(axis=1)
    states["used"][passed, door[passed]] = states["now"][passed]
