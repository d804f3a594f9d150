"""Kinds of Zerg units, what can be produced and how, and the built-in bots."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

#: Units that move; all that is not listed, such as units of other races, is ``other``.
UNITS = (
    "larva", "egg", "drone", "overlord", "overseer", "queen", "zergling", "baneling", "roach", "ravager", "hydralisk",
    "lurker", "viper", "mutalisk", "corruptor", "brood-lord", "swarm-host", "infestor", "ultralisk", "other",
)  # fmt: skip
STRUCTURES = (
    "hatchery", "lair", "hive", "extractor", "spawning-pool", "evolution-chamber", "roach-warren", "baneling-nest",
    "hydralisk-den", "lurker-den", "infestation-pit", "spire", "greater-spire", "ultralisk-cavern", "nydus-network",
    "nydus-worm", "spine-crawler", "spore-crawler",
)  # fmt: skip
KINDS = (*UNITS, *STRUCTURES)
KIND = {name: index for index, name in enumerate(KINDS)}
TOWN_HALLS = ("hatchery", "lair", "hive")
ARMY = (
    "zergling", "baneling", "roach", "ravager", "hydralisk", "lurker", "viper", "mutalisk", "corruptor", "brood-lord",
    "swarm-host", "infestor", "ultralisk",
)  # fmt: skip

#: Kinds that count as another one where a requirement names it.
STANDS_FOR = {"hatchery": TOWN_HALLS, "lair": ("lair", "hive"), "spire": ("spire", "greater-spire")}

#: Kind by the game's own name, in lower case, where it is no kind without hyphens.
GAME_NAMES = {
    "lurkermp": "lurker",
    "lurkerdenmp": "lurker-den",
    "swarmhostmp": "swarm-host",
    "nyduscanal": "nydus-worm",
    "overlordtransport": "overlord",
    "overseersiegemode": "overseer",
    "extractorrich": "extractor",
    "spinecrawleruprooted": "spine-crawler",
    "sporecrawleruprooted": "spore-crawler",
    "banelingcocoon": "egg",
    "ravagercocoon": "egg",
    "lurkermpegg": "egg",
    "broodlordcocoon": "egg",
    "overlordcocoon": "egg",
    "transportoverlordcocoon": "egg",
}


@frozen
class Item:
    """Something that can be produced.

    Args:
        name: A kind, or the name of a technology.
        way: ``build``: a drone becomes a building at a place; ``larva``: a larva becomes it; ``morph``: a unit becomes
            it; ``train``: a building makes it and stays; ``place``: the same, at a place; ``research``: a building
            researches it.
        source: Kinds that can produce it.
        needs: Kinds of which a finished one is required.
        follows: Technology that must be researched before; empty: none.
        count: Units that come of it.
    """

    name: str
    way: Literal["build", "larva", "morph", "train", "place", "research"]
    source: tuple[str, ...]
    needs: tuple[str, ...] = ()
    follows: str = ""
    count: int = 1


def _building(name: str, *needs: str) -> Item:
    return Item(name, "build", ("drone",), needs)


def _unit(name: str, *needs: str, count: int = 1) -> Item:
    return Item(name, "larva", ("larva",), needs, count=count)


def _levels(name: str, source: tuple[str, ...]) -> tuple[Item, ...]:
    """Return the three levels of a technology; the second one requires a lair, the third one a hive."""
    return (
        Item(f"{name}-1", "research", source),
        Item(f"{name}-2", "research", source, ("lair",), f"{name}-1"),
        Item(f"{name}-3", "research", source, ("hive",), f"{name}-2"),
    )


BUILDINGS = (
    _building("extractor"),
    _building("spawning-pool", "hatchery"),
    _building("roach-warren", "spawning-pool"),
    _building("hydralisk-den", "lair"),
    _building("hatchery"),
    _building("evolution-chamber", "hatchery"),
    _building("baneling-nest", "spawning-pool"),
    _building("infestation-pit", "lair"),
    _building("spire", "lair"),
    _building("ultralisk-cavern", "hive"),
    _building("nydus-network", "lair"),
    _building("spine-crawler", "spawning-pool"),
    _building("spore-crawler", "spawning-pool"),
)
PRODUCTION = (
    _building("lurker-den", "hydralisk-den"),
    Item("lair", "morph", ("hatchery",), ("spawning-pool",)),
    Item("hive", "morph", ("lair",), ("infestation-pit",)),
    Item("greater-spire", "morph", ("spire",), ("hive",)),
    _unit("drone"),
    _unit("zergling", "spawning-pool", count=2),
    Item("baneling", "morph", ("zergling",), ("baneling-nest",)),
    _unit("roach", "roach-warren"),
    Item("ravager", "morph", ("roach",), ("roach-warren",)),
    _unit("hydralisk", "hydralisk-den"),
    Item("lurker", "morph", ("hydralisk",), ("lurker-den",)),
    _unit("viper", "hive"),
    _unit("mutalisk", "spire"),
    _unit("corruptor", "spire"),
    Item("brood-lord", "morph", ("corruptor",), ("greater-spire",)),
    _unit("swarm-host", "infestation-pit"),
    _unit("infestor", "infestation-pit"),
    _unit("ultralisk", "ultralisk-cavern"),
    _unit("overlord"),
    Item("overseer", "morph", ("overlord",), ("lair",)),
    Item("queen", "train", TOWN_HALLS, ("spawning-pool",)),
    Item("nydus-worm", "place", ("nydus-network",)),
)
_SPIRES, _CHAMBER = ("spire", "greater-spire"), ("evolution-chamber",)
TECHNOLOGIES = (
    Item("burrow", "research", TOWN_HALLS),
    Item("centrifugal-hooks", "research", ("baneling-nest",), ("lair",)),
    Item("chitinous-plating", "research", ("ultralisk-cavern",)),
    Item("grooved-spines", "research", ("hydralisk-den",)),
    Item("muscular-augments", "research", ("hydralisk-den",)),
    Item("glial-reconstitution", "research", ("roach-warren",), ("lair",)),
    Item("infestor-energy", "research", ("infestation-pit",)),
    Item("neural-parasite", "research", ("infestation-pit",)),
    Item("overlord-speed", "research", TOWN_HALLS),
    Item("tunneling-claws", "research", ("roach-warren",), ("lair",)),
    *_levels("flyer-armor", _SPIRES),
    *_levels("flyer-weapons", _SPIRES),
    *_levels("ground-armor", _CHAMBER),
    Item("zergling-attack-speed", "research", ("spawning-pool",), ("hive",)),
    Item("zergling-speed", "research", ("spawning-pool",)),
    *_levels("melee-weapons", _CHAMBER),
    *_levels("missile-weapons", _CHAMBER),
)
#: Everything that can be produced, in the order of the action label: 13 buildings, 22 units, 27 technologies.
ITEMS = (*BUILDINGS, *PRODUCTION, *TECHNOLOGIES)
#: The game's own names of technologies, in lower case and the order of `TECHNOLOGIES`.
TECHNOLOGY_NAMES = (
    "burrow", "centrificalhooks", "chitinousplating", "evolvegroovedspines", "evolvemuscularaugments",
    "glialreconstitution", "infestorenergyupgrade", "neuralparasite", "overlordspeed", "tunnelingclaws",
    "zergflyerarmorslevel1", "zergflyerarmorslevel2", "zergflyerarmorslevel3", "zergflyerweaponslevel1",
    "zergflyerweaponslevel2", "zergflyerweaponslevel3", "zerggroundarmorslevel1", "zerggroundarmorslevel2",
    "zerggroundarmorslevel3", "zerglingattackspeed", "zerglingmovementspeed", "zergmeleeweaponslevel1",
    "zergmeleeweaponslevel2", "zergmeleeweaponslevel3", "zergmissileweaponslevel1", "zergmissileweaponslevel2",
    "zergmissileweaponslevel3",
)  # fmt: skip
#: What may be in progress for a while: buildings that are built, buildings that others become, technologies.
PROGRESS = tuple(
    item.name for item in ITEMS if item.way == "research" or (item.name in STRUCTURES and item.name != "nydus-worm")
)

#: Names of the built-in bots: the ten levels of the game, of which the last three cheat.
BOTS = (
    "very-easy", "easy", "medium", "medium-hard", "hard", "harder", "very-hard", "cheat-vision", "cheat-money",
    "cheat-insane",
)  # fmt: skip
RACES = {"terran": 1, "zerg": 2, "protoss": 3, "random": 4}

#: The managers whose decisions are the labels of an action.
LABELS = ("production", "resource", "combat")
