"""What scripted agents of both roles share: skills, reading observations, choosing, and finding unused doors."""

from __future__ import annotations

import numpy as np
from attrs import frozen
from ludus.environment import Leaves

from ludus_chase.actions import DIRECTION_X, DIRECTION_Y, MOVE_X, MOVE_Y
from ludus_chase.house import HEIGHT, WIDTH
from ludus_chase.layout import INDEX

__all__ = ["SKILLS", "Choice", "Doors", "Group", "Sight", "Skill", "aim", "nearest"]

_THROUGH = 1.5  # cells behind a door one walks to
_STEP_X, _STEP_Y = np.array([1, 0, -1, 0]), np.array([0, 1, 0, -1])


@frozen(kw_only=True)
class Skill:
    """How well a bot plays.

    Args:
        error: How often it does anything legal instead of what it means to.
        caution: Mice flee from a cat that is nearer, in cells.
        rescues: Mice free their mates; cats guard who is tied.
        tools: It uses items, abilities, traps and gloves.
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


class Group:
    """One leaf of an observation by the names of its numbers; lengths in cells.

    Args:
        leaf: ``[n, f]`` or ``[n, k, f] float32``.
        index: Where each number is.
        present: ``[n, k] bool``; None for vectors.
    """

    def __init__(self, leaf: np.ndarray, index: dict[str, int], present: np.ndarray | None) -> None:
        self._leaf, self._index = leaf, index
        self.present = np.ones(leaf.shape[:-1], bool) if present is None else present

    def __getitem__(self, name: str) -> np.ndarray:
        """Return the numbers of that name, ``[n]`` or ``[n, k]``."""
        return self._leaf[..., self._index[name]]

    def flag(self, name: str) -> np.ndarray:
        """Return whether it is more than ½."""
        return self[name] > 0.5

    @property
    def far(self) -> np.ndarray:
        """Return the walking distance in cells."""
        return self["far"] * (WIDTH + HEIGHT)

    @property
    def dx(self) -> np.ndarray:
        """Return how far east it is in cells."""
        return self["dx"] * WIDTH

    @property
    def dy(self) -> np.ndarray:
        """Return how far south it is in cells."""
        return self["dy"] * WIDTH

    @property
    def here(self) -> np.ndarray:
        """Return whether it is known and in the same room."""
        here: np.ndarray = self.present & self.flag("same-room")
        return here


class Sight:
    """The observations of n seats of one role.

    Args:
        observation: Leaves ``[n, …]``.
        role: ``"cat"`` or ``"mouse"``.
    """

    def __init__(self, observation: Leaves, role: str) -> None:
        self._leaves, self._index = observation, INDEX[role]

    def __getattr__(self, name: str) -> Group:
        """Return the leaf of that name."""
        present = self._leaves.get(f"{name}_present")
        return Group(self._leaves[name], self._index[name], None if present is None else present > 0.5)

    @property
    def own(self) -> Group:
        """Return the leaf ``self``."""
        return Group(self._leaves["self"], self._index["self"], None)

    @property
    def common(self) -> Group:
        """Return the leaf ``global``."""
        return Group(self._leaves["global"], self._index["global"], None)

    @property
    def doors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return which doors there are, ``[n, W] bool``, and dx and dy in cells."""
        leaf = self._leaves["doors"] * WIDTH
        return self._leaves["doors_present"] > 0.5, leaf[..., 0], leaf[..., 1]

    @property
    def own_doors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the same of the four sides of the own room, ``[n, 4]`` each."""
        first = self._index["self"]["door-east-open"]
        own = self._leaves["self"][:, first : first + 12].reshape(-1, 4, 3)
        return own[..., 0] > 0.5, own[..., 1] * WIDTH, own[..., 2] * WIDTH


class Choice:
    """What n seats will do; what is chosen later counts, unless it is illegal.

    Args:
        mask: ``[n, 18] bool``.

    Attributes:
        action: ``[n] int64``; likewise `direction`.
    """

    def __init__(self, mask: np.ndarray) -> None:
        self._mask = mask
        self.action = np.zeros(len(mask), np.int64)
        self.direction = np.zeros(len(mask), np.int64)

    def legal(self, action: int) -> np.ndarray:
        """Return ``[n] bool``."""
        return self._mask[:, action]

    def take(self, where: np.ndarray, action: int, *, direction: np.ndarray | None = None) -> None:
        """Do an action where ``[n] bool`` and legal."""
        where = where & self._mask[:, action]
        self.action[where] = action
        if direction is not None:
            self.direction[where] = direction[where]

    def walk(self, where: np.ndarray, dx: np.ndarray, dy: np.ndarray) -> None:
        """Walk in the direction ``[n]`` that is nearest to the one given, where ``[n] bool``."""
        along = dx[:, None] * MOVE_X[1:9] + dy[:, None] * MOVE_Y[1:9]
        still = dx * dx + dy * dy < 0.01
        self.action = np.where(where, np.where(still, 0, 1 + along.argmax(axis=1)), self.action)

    def walk_to(self, where: np.ndarray, group: Group, number: np.ndarray) -> None:
        """Walk on the way to one of a group, ``number [n]``, where ``[n] bool``."""
        rows = np.arange(len(number))
        self.walk(where, group["step-x"][rows, number], group["step-y"][rows, number])


def nearest(group: Group, among: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where ``[n] bool`` there is one of a group ``among [n, k]``, the nearest one, and how far it is."""
    far = np.where(among & group.present, group.far, np.inf)
    return np.isfinite(far.min(axis=1)), far.argmin(axis=1), far.min(axis=1)


def aim(dx: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Return the direction ``[n] int64`` of 16 that is nearest to the one given."""
    chosen: np.ndarray = (dx[:, None] * DIRECTION_X + dy[:, None] * DIRECTION_Y).argmax(axis=1)
    return chosen


class Doors:
    """Remembers when doors were used, so that a house is searched through the doors that were not.

    Args:
        walls: How many doors a house may have.
    """

    def __init__(self, walls: int) -> None:
        self._used = np.zeros((0, walls))
        self._now = np.zeros(0)
        self._place = np.zeros((0, 2))  # within the room, as shares

    def forget(self, seat_ids: np.ndarray) -> None:
        """Begin anew in streams ``[n] int64``."""
        self._grow(seat_ids)
        self._used[seat_ids] = 0.0
        self._now[seat_ids] = 0.0
        self._place[seat_ids] = 0.5

    def _grow(self, seat_ids: np.ndarray) -> None:
        missing = int(seat_ids.max(initial=-1)) + 1 - len(self._now)
        if missing > 0:
            self._used = np.concatenate([self._used, np.zeros((missing, self._used.shape[1]))])
            self._now = np.concatenate([self._now, np.zeros(missing)])
            self._place = np.concatenate([self._place, np.full((missing, 2), 0.5)])

    def least_used(self, sight: Sight, seat_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the way ``[n]`` in x and y to the door of the own room that has not been used for longest."""
        self._grow(seat_ids)
        self._note(sight, seat_ids)
        present, dx, dy = sight.doors
        used = self._used[seat_ids]
        open_, own_x, own_y = sight.own_doors  # [n, 4]
        apart = np.abs(dx[:, None] - own_x[..., None]) + np.abs(dy[:, None] - own_y[..., None])
        number = np.where(present[:, None], apart, np.inf).argmin(axis=2)
        taste = (7 * seat_ids[:, None] + 3 * number) % 11 / 11  # among doors that are all unused, less than a tick
        when = np.where(open_, np.take_along_axis(used, number, axis=1) + taste, np.inf)
        side = when.argmin(axis=1)
        rows = np.arange(len(side))
        return own_x[rows, side] + _THROUGH * _STEP_X[side], own_y[rows, side] + _THROUGH * _STEP_Y[side]

    def _note(self, sight: Sight, seat_ids: np.ndarray) -> None:
        """Note which doors have just been used: the nearest ones of those whose place in the room has jumped."""
        self._now[seat_ids] += 1
        place = np.stack([sight.own["room-x"], sight.own["room-y"]], axis=1)
        passed = (np.abs(place - self._place[seat_ids]) > 0.5).any(axis=1)
        self._place[seat_ids] = place
        present, dx, dy = sight.doors
        door = np.where(present, dx * dx + dy * dy, np.inf).argmin(axis=1)
        self._used[seat_ids[passed], door[passed]] = self._now[seat_ids[passed]]
