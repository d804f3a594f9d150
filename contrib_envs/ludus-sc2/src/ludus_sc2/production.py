"""The production manager: what can be produced now, and the commands that produce it."""

from __future__ import annotations

import numpy as np
from attrs import define, field

from ludus_sc2.commands import GATHERS, Command, command
from ludus_sc2.game_data import Cost
from ludus_sc2.names import ITEMS, Item
from ludus_sc2.situation import SeenUnit, Situation, nearest, positions

_BASE_RADIUS = 12.0
_TOWN_HALL = "hatchery"
ITEM = {item.name: item for item in ITEMS}


def is_available(situation: Situation, item: Item) -> bool:
    """Return whether an item can be produced now: the source is there, and what it requires and costs."""
    cost = situation.data.costs.get(item.name)
    if cost is None or not _is_affordable(situation, cost):
        return False
    if not all(map(situation.has, item.needs)) or not find_sources(situation, item):
        return False
    if item.way == "research":
        researched = situation.researched
        is_new = item.name not in researched and item.name not in situation.in_progress()
        return is_new and (not item.follows or item.follows in researched)
    return item.name != "extractor" or bool(free_geysers(situation))


def _is_affordable(situation: Situation, cost: Cost) -> bool:
    player = situation.raw.player_common
    # Supply is checked only where the item needs some: overlords are produced without.
    fits = cost.food <= 0 or player.food_used + cost.food <= player.food_cap
    return bool(player.minerals >= cost.minerals and player.vespene >= cost.vespene and fits)


def find_sources(situation: Situation, item: Item) -> list[SeenUnit]:
    """Return the own units that can produce an item now; workers that carry out an order of a building are left out."""
    return [unit for unit in situation.of(*item.source) if unit.is_finished and _is_free(situation, item, unit)]


def _is_free(situation: Situation, item: Item, unit: SeenUnit) -> bool:
    if item.way == "build":
        return all(order.ability_id not in situation.data.made_by for order in unit.raw.orders)
    if item.way == "morph":
        return unit.is_idle or not unit.structure
    return unit.is_idle or item.way in {"larva", "place"}


def free_geysers(situation: Situation) -> list[SeenUnit]:
    """Return the geysers near own bases without an extractor of either side."""
    extractors = positions(unit for unit in (*situation.own, *situation.enemies) if unit.name == "extractor")
    bases = positions(situation.bases)
    if not len(bases):
        return []
    return [
        geyser
        for geyser in situation.geysers
        if (np.hypot(*(bases - geyser.position).T) < _BASE_RADIUS).any()
        and (not len(extractors) or (np.hypot(*(extractors - geyser.position).T) > 1.0).all())
    ]


@define
class ProductionManager:
    """Produces items one at a time."""

    _attempts: int = field(init=False, default=0)

    def produce(self, situation: Situation, item: Item) -> list[Command]:
        """Return the commands that produce an item, none if it has no place.

        Args:
            situation: What the seat sees.
            item: An item that is available.
        """
        ability = situation.data.costs[item.name].ability
        sources = find_sources(situation, item)
        if item.way in ("build", "place"):
            return self._build(situation, item, ability, sources)
        if item.way == "train":  # a queen, by the base that waits for one
            queens = positions(situation.of("queen"))
            sources.sort(key=lambda base: float(np.min(-np.hypot(*(queens - base.position).T))) if len(queens) else 0.0)
        if item.way == "morph":
            sources.sort(key=lambda unit: not unit.is_idle)
        return command(ability, sources[:1])

    def _build(self, situation: Situation, item: Item, ability: int, sources: list[SeenUnit]) -> list[Command]:
        if item.name == "extractor":
            geyser = nearest(free_geysers(situation), situation.bases[0].position)
            return command(ability, [nearest(sources, geyser.position)], geyser.tag)
        place = self._find_place(situation, item)
        if place is None:
            return []
        gathering = [unit for unit in sources if any(one.ability_id in GATHERS for one in unit.raw.orders)]
        return command(ability, [nearest(gathering or sources, place)], place)

    def _find_place(self, situation: Situation, item: Item) -> np.ndarray | None:
        terrain = situation.terrain
        if item.name == _TOWN_HALL:
            free = [place for place in terrain.areas if situation.is_free_area(place)]
            return free[0] if free else None
        if not situation.bases:
            return None
        self._attempts += 1
        blocking = [unit for unit in (*situation.own, *situation.enemies) if unit.structure]
        taken = positions((*blocking, *situation.minerals, *situation.geysers))
        base = situation.bases[self._attempts % len(situation.bases)].position
        return terrain.find_place(base, situation.creep(), taken, attempt=self._attempts)


#: What the rules aim at, in order: the first item of which there are fewer, and that is available, is produced.
_GOALS = (
    ("drone", 13), ("overlord", 2), ("drone", 17), ("hatchery", 2), ("drone", 18), ("extractor", 1),
    ("spawning-pool", 1), ("drone", 20), ("queen", 2), ("zergling", 6), ("zergling-speed", 1), ("drone", 30),
    ("roach-warren", 1), ("extractor", 3), ("roach", 8), ("drone", 38), ("lair", 1), ("roach", 24),
    ("evolution-chamber", 1), ("missile-weapons-1", 1), ("glial-reconstitution", 1), ("hydralisk-den", 1),
    ("hatchery", 3), ("drone", 50), ("hydralisk", 20), ("roach", 40), ("zergling", 60),
)  # fmt: skip
_SUPPLY_RESERVE = 4


def choose_by_rules(situation: Situation) -> Item | None:
    """Return what the rule-based manager produces now; None if it waits."""
    player = situation.raw.player_common
    if player.food_cap - player.food_used < _SUPPLY_RESERVE and player.food_cap < 200:
        pending = situation.count_pending("overlord")
        if not pending and is_available(situation, ITEM["overlord"]):
            return ITEM["overlord"]
    progress = situation.in_progress()
    for name, wanted in _GOALS:
        item = ITEM[name]
        if _count(situation, item, progress) >= wanted:
            continue
        if is_available(situation, item):
            return item
        if item.way == "build":
            return None  # save for it
    return None


def _count(situation: Situation, item: Item, progress: dict[str, float]) -> int:
    """Return how many of an item there are, those in production included."""
    if item.way == "research":
        return int(item.name in situation.researched or item.name in progress)
    names = {"hatchery": ("hatchery", "lair", "hive"), "lair": ("lair", "hive")}.get(item.name, (item.name,))
    return len(situation.of(*names)) + item.count * situation.count_pending(item.name)
