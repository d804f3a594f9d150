"""What the game reports about its kinds of units and technologies, by the names of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import frozen

from ludus_sc2.names import (
    BUILDINGS,
    GAME_NAMES,
    KIND,
    KINDS,
    PRODUCTION,
    STRUCTURES,
    TECHNOLOGIES,
    TECHNOLOGY_NAMES,
    Item,
)

_BURROWED = "burrowed"
_STRUCTURE = 8  # the number of this attribute in the protocol
_KIND_BY_NAME = {name.replace("-", ""): kind for name, kind in KIND.items()} | {
    name: KIND[kind] for name, kind in GAME_NAMES.items()
}
#: The names under which the game lists what is produced: not its other forms, such as cocoons, and not the units of the
#: campaign that have the plain names.
_MULTIPLAYER_NAMES = {name: kind for name, kind in GAME_NAMES.items() if name.endswith("mp") or name == "nyduscanal"}
_MAIN_NAMES = frozenset(
    {name.replace("-", "") for name in KIND if name not in _MULTIPLAYER_NAMES.values()} | _MULTIPLAYER_NAMES.keys()
)
_CONSUMING = {"build", "morph"}


@frozen
class Cost:
    """What an item costs, and the ability by which it is produced."""

    ability: int
    minerals: int
    vespene: int
    food: float


@frozen
class GameData:
    """Data of one version of the game.

    Args:
        kinds: Kind, as an index of `ludus_sc2.names.KINDS`, by the game's number of a unit.
        structures: Numbers of buildings.
        minerals: Numbers of mineral fields.
        geysers: Numbers of geysers.
        technologies: Index of `ludus_sc2.names.TECHNOLOGIES` by the game's number of a technology.
        costs: Cost of each item by its name; items that this version does not have are missing.
        made_by: Names of the items that an ability may produce; levels of a technology share one.
    """

    kinds: dict[int, int]
    structures: frozenset[int]
    minerals: frozenset[int]
    geysers: frozenset[int]
    technologies: dict[int, int]
    costs: dict[str, Cost]
    made_by: dict[int, tuple[str, ...]]

    @classmethod
    def read(cls, response: Any) -> GameData:
        """Return the data of a ``ResponseData``."""
        units, upgrades = _by_name(response.units), _by_name(response.upgrades)
        costs = {**_unit_costs(units), **_technology_costs(upgrades)}
        return cls(
            kinds={unit.unit_id: kind_of(unit.name) for unit in response.units},
            structures=_numbers(response.units, lambda unit: _STRUCTURE in unit.attributes),
            minerals=_numbers(response.units, lambda unit: unit.has_minerals),
            geysers=_numbers(response.units, lambda unit: unit.has_vespene and kind_of(unit.name) != KIND["extractor"]),
            technologies={
                upgrades[name].upgrade_id: index for index, name in enumerate(TECHNOLOGY_NAMES) if name in upgrades
            },
            costs=costs,
            made_by=_made_by(costs, response.abilities),
        )


def _by_name(found: Iterable[Any]) -> dict[str, Any]:
    """Return units or technologies of the protocol by their names in lower case."""
    return {one.name.lower(): one for one in found if one.name}


def _numbers(units: Iterable[Any], condition: Callable[[Any], bool]) -> frozenset[int]:
    """Return the numbers of the units that fulfil a condition."""
    return frozenset(unit.unit_id for unit in units if condition(unit))


def _made_by(costs: Mapping[str, Cost], abilities: Iterable[Any]) -> dict[int, tuple[str, ...]]:
    """Return the items by the ability that produces them, and by the general ability that orders may show."""
    general = {ability.ability_id: ability.remaps_to_ability_id for ability in abilities}
    made_by: dict[int, tuple[str, ...]] = {}
    for name, cost in costs.items():
        for ability in {cost.ability, general.get(cost.ability) or cost.ability}:
            made_by[ability] = (*made_by.get(ability, ()), name)
    return made_by


def kind_of(name: str) -> int:
    """Return the kind of a unit by the game's own name; ``other`` if it is none of the listed ones."""
    lower = name.lower()
    plain = lower.removesuffix(_BURROWED)
    return _KIND_BY_NAME.get(lower, _KIND_BY_NAME.get(plain, KIND["other"]))


def _unit_costs(units: Mapping[str, Any]) -> dict[str, Cost]:
    """Return the costs of all items but technologies.

    The game counts the cost of what becomes a unit as part of the unit's: a spawning pool includes the drone.
    """
    by_kind: dict[str, Any] = {}
    for name, unit in units.items():
        kind = KINDS[kind_of(name)]
        if name in _MAIN_NAMES:
            by_kind[kind] = unit
    return {item.name: _unit_cost(item, by_kind) for item in (*BUILDINGS, *PRODUCTION) if item.name in by_kind}


def _technology_costs(upgrades: Mapping[str, Any]) -> dict[str, Cost]:
    """Return the costs of technologies; the game offers those that have an ability."""
    found = {item.name: upgrades.get(name) for item, name in zip(TECHNOLOGIES, TECHNOLOGY_NAMES, strict=True)}
    return {
        name: Cost(upgrade.ability_id, upgrade.mineral_cost, upgrade.vespene_cost, 0.0)
        for name, upgrade in found.items()
        if upgrade is not None and upgrade.ability_id
    }


def _unit_cost(item: Item, by_kind: dict[str, Any]) -> Cost:
    unit = by_kind[item.name]
    minerals, vespene = item.count * unit.mineral_cost, item.count * unit.vespene_cost
    food = item.count * unit.food_required
    source = by_kind.get(item.source[0])
    if item.way in _CONSUMING and source is not None:
        minerals, vespene = max(0, minerals - source.mineral_cost), max(0, vespene - source.vespene_cost)
        food -= source.food_required
    return Cost(unit.ability_id, minerals, vespene, max(0.0, food))


def is_structure(kind: int) -> bool:
    """Return whether a kind is a building."""
    return kind >= len(KIND) - len(STRUCTURES)
