"""Kinds of units and technologies of the fake game; costs include those of the unit that becomes another one."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of unit: costs, food, seconds, hit points, speed per loop, damage per loop, range."""

    name: str
    minerals: int = 0
    vespene: int = 0
    food: float = 0.0
    provided: int = 0
    seconds: int = 0
    health: int = 100
    speed: float = 0.0
    damage: float = 0.0
    reach: float = 0.0
    structure: bool = False
    flying: bool = False
    source: str = ""


KINDS = [
    Kind("Larva", health=25, source=""),
    Kind("Egg", health=200),
    Kind("Drone", 50, 0, 1, 0, 12, 40, 0.15, 0.1, 1, source="Larva"),
    Kind("Overlord", 100, 0, 0, 8, 18, 200, 0.04, flying=True, source="Larva"),
    Kind("Overseer", 150, 50, 0, 8, 12, 200, 0.1, flying=True, source="Overlord"),
    Kind("Queen", 150, 0, 2, 0, 36, 175, 0.06, 0.4, 5),
    Kind("Zergling", 25, 0, 0.5, 0, 17, 35, 0.2, 0.45, 1, source="Larva"),
    Kind("Baneling", 50, 25, 0.5, 0, 14, 30, 0.15, 0.9, 1, source="Zergling"),
    Kind("Roach", 75, 25, 2, 0, 19, 145, 0.15, 0.5, 4, source="Larva"),
    Kind("Ravager", 100, 100, 3, 0, 9, 120, 0.15, 0.6, 6, source="Roach"),
    Kind("Hydralisk", 100, 50, 2, 0, 24, 90, 0.15, 0.9, 5, source="Larva"),
    Kind("LurkerMP", 150, 150, 3, 0, 18, 200, 0.15, 0.9, 8, source="Hydralisk"),
    Kind("Mutalisk", 100, 100, 2, 0, 24, 120, 0.25, 0.4, 3, flying=True, source="Larva"),
    Kind("ZerglingBurrowed", 25, 0, 0.5, 0, 0, 35),
    Kind("Marine", 50, 0, 1, 0, 18, 45, 0.15, 0.6, 5),
    Kind("Hatchery", 350, 0, 0, 6, 71, 1500, structure=True, source="Drone"),
    Kind("Lair", 500, 100, 0, 6, 57, 2000, structure=True, source="Hatchery"),
    Kind("Hive", 700, 250, 0, 6, 71, 2500, structure=True, source="Lair"),
    Kind("Extractor", 75, 0, 0, 0, 21, 500, structure=True, source="Drone"),
    Kind("SpawningPool", 250, 0, 0, 0, 46, 1000, structure=True, source="Drone"),
    Kind("EvolutionChamber", 125, 0, 0, 0, 25, 750, structure=True, source="Drone"),
    Kind("RoachWarren", 200, 0, 0, 0, 39, 850, structure=True, source="Drone"),
    Kind("BanelingNest", 150, 50, 0, 0, 43, 850, structure=True, source="Drone"),
    Kind("HydraliskDen", 150, 100, 0, 0, 29, 850, structure=True, source="Drone"),
    Kind("InfestationPit", 150, 100, 0, 0, 36, 850, structure=True, source="Drone"),
    Kind("Spire", 250, 200, 0, 0, 71, 850, structure=True, source="Drone"),
    Kind("SpineCrawler", 150, 0, 0, 0, 36, 300, 0.0, 0.6, 7, structure=True, source="Drone"),
    Kind("MineralField", health=0),
    Kind("VespeneGeyser", health=0),
]
BY_NAME = {kind.name: kind for kind in KINDS}
UNIT_ID = {kind.name: 10 + index for index, kind in enumerate(KINDS)}
ABILITY = {kind.name: 5000 + index for index, kind in enumerate(KINDS) if kind.seconds}
BY_ABILITY = {number: BY_NAME[name] for name, number in ABILITY.items()}


class Technology(NamedTuple):
    """A technology: costs and seconds."""

    name: str
    minerals: int
    vespene: int
    seconds: int


TECHNOLOGIES = [
    Technology("zerglingmovementspeed", 100, 100, 79),
    Technology("GlialReconstitution", 100, 100, 79),
    Technology("ZergMissileWeaponsLevel1", 100, 100, 114),
    Technology("ZergMissileWeaponsLevel2", 150, 150, 136),
    Technology("Burrow", 100, 100, 71),
]
UPGRADE_ID = {one.name: 60 + index for index, one in enumerate(TECHNOLOGIES)}
RESEARCH = {one.name: 6000 + index for index, one in enumerate(TECHNOLOGIES)}
BY_RESEARCH = {number: one for one in TECHNOLOGIES for number in [RESEARCH[one.name]]}
#: The general ability of both levels, which orders show.
MISSILE_LEVELS = 6900
GENERAL = {RESEARCH["ZergMissileWeaponsLevel1"]: MISSILE_LEVELS, RESEARCH["ZergMissileWeaponsLevel2"]: MISSILE_LEVELS}
