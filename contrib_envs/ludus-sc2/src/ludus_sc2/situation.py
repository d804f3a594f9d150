"""What a seat sees at a decision: the units of an observation by side and kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from attrs import define, frozen

from ludus_sc2.game_data import GameData, is_structure
from ludus_sc2.names import ARMY, KIND, KINDS, STANDS_FOR, TECHNOLOGIES, TOWN_HALLS
from ludus_sc2.terrain import Terrain, read_grid

SELF, NEUTRAL, ENEMY = 1, 3, 4
_ARMY_KINDS = frozenset(KIND[name] for name in ARMY)


@frozen
class SeenUnit:
    """A unit and what it is.

    Args:
        raw: The ``Unit`` of the protocol.
        kind: Index of `ludus_sc2.names.KINDS`.
        structure: Whether it is a building.
        army: Whether it fights: a listed fighting unit, or a unit of another race that is no building.
    """

    raw: Any
    kind: int
    structure: bool
    army: bool

    @property
    def name(self) -> str:
        """Return the name of its kind."""
        return KINDS[self.kind]

    @property
    def tag(self) -> int:
        """Return the number by which commands refer to it."""
        return int(self.raw.tag)

    @property
    def position(self) -> np.ndarray:
        """Return its position ``[2]``."""
        return np.array([self.raw.pos.x, self.raw.pos.y])

    @property
    def is_finished(self) -> bool:
        """Return whether it is no building under construction."""
        return bool(self.raw.build_progress >= 1.0)

    @property
    def is_idle(self) -> bool:
        """Return whether it has no orders."""
        return len(self.raw.orders) == 0


def positions(units: Iterable[SeenUnit]) -> np.ndarray:
    """Return the positions of units ``[n, 2]``."""
    return np.array([(unit.raw.pos.x, unit.raw.pos.y) for unit in units], float).reshape(-1, 2)


def nearest(units: list[SeenUnit], point: np.ndarray) -> SeenUnit:
    """Return the unit that is nearest to a point; there must be one."""
    return units[int(np.hypot(*(positions(units) - point).T).argmin())]


@define
class Situation:
    """An observation of a seat, sorted.

    Args:
        data: Data of the game.
        terrain: The map from the side of the seat.
        raw: The ``Observation`` of the protocol.
        own: The units of the seat.
        enemies: Those of the enemy that it sees or remembers.
        minerals: Mineral fields.
        geysers: Geysers.
    """

    data: GameData
    terrain: Terrain
    raw: Any
    own: list[SeenUnit]
    enemies: list[SeenUnit]
    minerals: list[SeenUnit]
    geysers: list[SeenUnit]

    @classmethod
    def read(cls, data: GameData, terrain: Terrain, observation: Any) -> Situation:
        """Return the situation of an ``Observation``."""
        sides: dict[int, list[SeenUnit]] = {SELF: [], NEUTRAL: [], ENEMY: []}
        for unit in observation.raw_data.units:
            if unit.alliance in sides:
                sides[unit.alliance].append(see_unit(data, unit))
        neutral = sides[NEUTRAL]
        return cls(
            data=data,
            terrain=terrain,
            raw=observation,
            own=sides[SELF],
            enemies=sides[ENEMY],
            minerals=[unit for unit in neutral if unit.raw.unit_type in data.minerals],
            geysers=[unit for unit in neutral if unit.raw.unit_type in data.geysers],
        )

    def of(self, *names: str) -> list[SeenUnit]:
        """Return the own units of some kinds, unfinished ones included."""
        kinds = {KIND[name] for name in names}
        return [unit for unit in self.own if unit.kind in kinds]

    def has(self, name: str) -> bool:
        """Return whether there is a finished own unit of a kind, or of one that stands for it."""
        return any(unit.is_finished for unit in self.of(*STANDS_FOR.get(name, (name,))))

    @property
    def bases(self) -> list[SeenUnit]:
        """Return the own town halls that are finished."""
        return [unit for unit in self.of(*TOWN_HALLS) if unit.is_finished]

    @property
    def army(self) -> list[SeenUnit]:
        """Return the own units that fight."""
        return [unit for unit in self.own if unit.army]

    @property
    def researched(self) -> set[str]:
        """Return the names of the technologies that are researched."""
        known = self.data.technologies
        return {TECHNOLOGIES[known[number]].name for number in self.raw.raw_data.player.upgrade_ids if number in known}

    def in_progress(self) -> dict[str, float]:
        """Return the progress in [0, 1] of what is being produced or researched, the largest one of each item."""
        found: dict[str, float] = {}
        researched = self.researched
        for unit in self.own:
            if unit.structure and not unit.is_finished:
                found[unit.name] = max(found.get(unit.name, 0.0), unit.raw.build_progress)
            for order in unit.raw.orders:
                names = [name for name in self.data.made_by.get(order.ability_id, ()) if name not in researched]
                if names:
                    found[names[0]] = max(found.get(names[0], 0.0), order.progress)
        return found

    def count_pending(self, name: str) -> int:
        """Return how many orders of own units produce an item."""
        abilities = {ability for ability, names in self.data.made_by.items() if name in names}
        return sum(order.ability_id in abilities for unit in self.own for order in unit.raw.orders)

    def creep(self) -> np.ndarray:
        """Return where creep is, ``[height, width] bool``."""
        return read_grid(self.raw.raw_data.map_state.creep)

    def is_free_area(self, place: np.ndarray) -> bool:
        """Return whether no town hall or other building stands where that of a resource area belongs."""
        blocking = [unit for unit in (*self.own, *self.enemies) if unit.structure]
        return not blocking or bool((np.hypot(*(positions(blocking) - place).T) > 5.0).all())


def see_unit(data: GameData, unit: Any) -> SeenUnit:
    """Return a unit of the protocol with its kind."""
    kind = data.kinds.get(unit.unit_type, KIND["other"])
    structure = is_structure(kind) or unit.unit_type in data.structures
    is_foreign = kind == KIND["other"] and unit.alliance == ENEMY and not structure
    return SeenUnit(unit, kind, structure, kind in _ARMY_KINDS or is_foreign)
