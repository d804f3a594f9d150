"""What scripted heroes read from observations, and the actions that they compose. Lengths are in units of the field."""

from __future__ import annotations

import numpy as np
from attrs import frozen
from ludus.environment import Leaves

from ludus_moba.actions import BUTTON, CENTRE, DEFAULTS, OFFSETS
from ludus_moba.heroes import HeroTables
from ludus_moba.layout import COMMON, ENEMY_HERO, OWN_HERO, UNIT
from ludus_moba.names import NAMES
from ludus_moba.rules import LENGTH, WIDTH

_LENGTH, _ATTACK, _HEALTH = 30.0, 200.0, 3000.0  # units of the observation
_FAR = 1e6
_COLUMN = {name: number for number, name in enumerate(UNIT)}


@frozen
class Units:
    """Units of a group; all arrays are ``[n, k]``.

    Attributes:
        present: Whether the unit is visible and alive.
        dx: From the own hero; likewise `dy`.
        far: Distance to the own hero; very large where absent.
        health: Health.
        aims: Whether it aims at the hero of the other side.
        attackable: Whether the other side's hero may attack it.
    """

    present: np.ndarray
    dx: np.ndarray
    dy: np.ndarray
    far: np.ndarray
    health: np.ndarray
    aims: np.ndarray
    attackable: np.ndarray

    def within(self, distance: np.ndarray | float) -> np.ndarray:
        """Return ``[n, k] bool``: present units not farther than a number or ``[n, 1]``."""
        return np.asarray(self.present & (self.far <= distance))


def _read_units(leaves: Leaves, name: str) -> Units:
    leaf, present = leaves[name], leaves[f"{name}_present"] > 0

    def column(number: str) -> np.ndarray:
        return np.asarray(leaf[..., _COLUMN[number]])

    return Units(
        present=present,
        dx=column("dx") * _LENGTH,
        dy=column("dy") * _LENGTH,
        far=np.where(present, column("distance") * _LENGTH, _FAR),
        health=column("health-size") * _HEALTH,
        aims=present & (column("aims-at-hero") > 0),
        attackable=present & (column("attackable") > 0),
    )


@frozen
class Situation:
    """Observations of n rows.

    Attributes:
        own: ``[n, 32]`` by `OWN_HERO`; likewise `enemy_hero` by `ENEMY_HERO` and `common` by `COMMON`.
        kind: ``[n] int64``: the own hero.
        enemy: The enemy hero; likewise `minions`, `structures` and `monster`, and the own units.
    """

    own: np.ndarray
    enemy_hero: np.ndarray
    common: np.ndarray
    kind: np.ndarray
    enemy: Units
    minions: Units
    structures: Units
    monster: Units
    own_minions: Units
    own_structures: Units

    def of_own(self, name: str) -> np.ndarray:
        """Return a number of the own hero, ``[n]``."""
        return np.asarray(self.own[:, OWN_HERO.index(name)])

    def of_enemy(self, name: str) -> np.ndarray:
        """Return a number of the enemy hero, ``[n]``; 0 where it is not visible."""
        return np.asarray(self.enemy_hero[:, ENEMY_HERO.index(name)])

    def of_common(self, name: str) -> np.ndarray:
        """Return a number of the leaf `common`, ``[n]``."""
        return np.asarray(self.common[:, COMMON.index(name)])

    @property
    def x(self) -> np.ndarray:
        """Return ``[n]``: the place of the own hero in its frame; likewise `y`."""
        return self.of_own("x") * LENGTH

    @property
    def y(self) -> np.ndarray:
        """Return ``[n]``; see `x`."""
        return self.of_own("y") * WIDTH

    @property
    def reach(self) -> np.ndarray:
        """Return ``[n]``: reach of the own attack."""
        return np.asarray(HeroTables.reach[self.kind])

    @property
    def attack(self) -> np.ndarray:
        """Return ``[n]``: damage of the own attack before armour."""
        return self.of_own("attack") * _ATTACK


def read_observation(leaves: Leaves) -> Situation:
    """Return what the leaves ``[n, …]`` of an observation hold."""
    first = OWN_HERO.index(f"is-{NAMES[0]}")
    return Situation(
        own=leaves["own_hero"],
        enemy_hero=leaves["enemy_hero"][:, 0],
        common=leaves["common"],
        kind=leaves["own_hero"][:, first : first + len(NAMES)].argmax(axis=1),
        enemy=_read_units(leaves, "enemy_hero"),
        minions=_read_units(leaves, "enemy_minions"),
        structures=_read_units(leaves, "enemy_structures"),
        monster=_read_units(leaves, "monster"),
        own_minions=_read_units(leaves, "own_minions"),
        own_structures=_read_units(leaves, "own_structures"),
    )


def nearest(units: Units, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return whether there is a unit among ``[n, k] bool``, and the nearest one's index, ``[n]`` each."""
    return np.asarray(among.any(axis=1)), np.where(among, units.far, _FAR).argmin(axis=1)


def _labels(dx: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Return ``[n, 2] int64``: the choices of the direction labels nearest to a direction."""
    size = np.maximum(np.maximum(np.abs(dx), np.abs(dy)), 1e-6)
    return np.asarray(CENTRE + np.rint(np.stack([dx / size, dy / size], axis=1) * CENTRE).astype(np.int64))


class Choice:
    """Actions of n rows; later choices replace earlier ones.

    Args:
        mask: ``[n, A] bool``.
    """

    def __init__(self, mask: np.ndarray) -> None:
        self.action = np.tile(np.array(DEFAULTS, np.int64), (len(mask), 1))
        self._mask = mask

    def take(self, where: np.ndarray, button: int | np.ndarray) -> np.ndarray:
        """Press a button where it is wanted and legal, and return where it is, ``[n] bool``."""
        button = np.broadcast_to(button, where.shape)
        taken = where & self._mask[np.arange(len(where)), button]
        self.action[taken] = DEFAULTS
        self.action[taken, 0] = button[taken]
        return np.asarray(taken)

    def move(self, where: np.ndarray, dx: np.ndarray, dy: np.ndarray) -> None:
        """Walk in a direction."""
        taken = self.take(where, BUTTON["move"])
        self.action[taken, 1:3] = _labels(dx, dy)[taken]

    def attack(self, where: np.ndarray, target: np.ndarray | int) -> None:
        """Attack a target by its choice, 1 + its slot, where it is legal."""
        target = np.broadcast_to(target, where.shape)
        legal = self._mask[np.arange(len(where)), OFFSETS[5] + target]
        taken = self.take(where & legal, BUTTON["attack"])
        self.action[taken, 5] = target[taken]

    def cast(self, where: np.ndarray, skill: int, x: np.ndarray, y: np.ndarray, target: int) -> None:
        """Use a skill from 0 with a direction or point, each from -1 to 1, at a target."""
        taken = self.take(where, BUTTON["skill1"] + skill)
        point = CENTRE + np.rint(np.stack([x, y], axis=1) * CENTRE).astype(np.int64)
        self.action[taken, 3:5] = np.clip(point, 0, 2 * CENTRE)[taken]
        legal = self._mask[:, OFFSETS[5] + target]
        self.action[taken, 5] = np.where(legal, target, 0)[taken]
