"""A tiny economy and combat of two Zerg players, advanced by game loops."""

from __future__ import annotations

import math
import random
from itertools import count

from .catalog import BY_ABILITY, BY_NAME, BY_RESEARCH, GENERAL, RESEARCH

ATTACK, MOVE, GATHER, INJECT = 3674, 3794, 3666, 251
LOOPS_PER_S = 22.4
SIZE = 64
STARTS = ((12.5, 12.5), (51.5, 51.5))
EXPANSIONS = ((12.5, 51.5), (51.5, 12.5))
_CHUNK = 16
_SIGHT = 11.0


class Unit:
    """A unit of a player, or a resource of player 0."""

    def __init__(self, tag, kind, owner, x, y, *, progress=1.0):
        self.tag, self.kind, self.owner, self.x, self.y, self.progress = tag, kind, owner, x, y, progress
        self.health = kind.health
        self.energy = 25.0 if kind.name == "Queen" else 0.0
        self.order = None  # (ability, target unit or None, target position or None)
        self.order_progress = 0.0
        self.contents = 0

    def distance(self, x, y):
        return math.hypot(self.x - x, self.y - y)


class Side:
    """What a player has besides units."""

    def __init__(self):
        self.minerals, self.vespene = 50.0, 0.0
        self.collected = [0.0, 0.0]
        self.killed = 0.0
        self.researched = set()


class World:
    """A match of players 1 and 2; `levels` maps players of the computer to their difficulties."""

    def __init__(self, seed, levels):
        self.random = random.Random(seed)
        self.levels, self.loop, self.results = levels, 0, {}
        self.units, self._tags = {}, count(1000)
        self.sides = {1: Side(), 2: Side()}
        self.starts = dict(zip((1, 2), STARTS if self.random.random() < 0.5 else STARTS[::-1], strict=True))
        for x, y in (*STARTS, *EXPANSIONS):
            self._add_resources(x, y)
        for player, (x, y) in self.starts.items():
            self.add("Hatchery", player, x, y)
            for i in range(12):
                self.add("Drone", player, x + 3 * math.cos(i), y + 3 * math.sin(i))
            self.add("Overlord", player, x, y)
            for _ in range(3):
                self.add("Larva", player, x, y - 3)

    def _add_resources(self, x, y):
        outward = math.atan2(y - SIZE / 2, x - SIZE / 2)
        for i in range(10):
            angle = outward + (i - 4.5) * 0.3
            name = "VespeneGeyser" if i in (0, 9) else "MineralField"
            one = self.add(name, 0, x + 7.5 * math.cos(angle), y + 7.5 * math.sin(angle))
            one.contents = 2250 if name == "VespeneGeyser" else 1800

    def add(self, name, owner, x, y, *, progress=1.0):
        unit = Unit(next(self._tags), BY_NAME[name], owner, x, y, progress=progress)
        self.units[unit.tag] = unit
        return unit

    def of(self, owner):
        return [unit for unit in self.units.values() if unit.owner == owner]

    def food(self, player):
        """Return used food, army food, workers, and the limit."""
        own = self.of(player)
        eggs = [BY_ABILITY[unit.order[0]] for unit in own if unit.kind.name == "Egg" and unit.order]
        kinds = [unit.kind for unit in own] + [
            kind for egg in eggs for kind in [egg] * (2 if egg.name == "Zergling" else 1)
        ]
        used = sum(kind.food for kind in kinds)
        workers = sum(unit.kind.name == "Drone" for unit in own)
        limit = sum(unit.kind.provided for unit in own if unit.progress >= 1)
        return used, used - workers, workers, min(200, limit)

    def visible(self, player):
        """Return the units that a player sees."""
        own = [unit for unit in self.of(player) if unit.kind.name != "Larva"]
        seen = [
            unit
            for unit in self.of(3 - player)
            if any(abs(one.x - unit.x) < _SIGHT and one.distance(unit.x, unit.y) < _SIGHT for one in own)
        ]
        return self.of(player) + seen + self.of(0)

    def command(self, player, ability, tags, target_tag, position):
        """Carry out a command; one that is impossible has no effect."""
        for tag in tags:
            unit = self.units.get(tag)
            if unit is None or unit.owner != player:
                continue
            if ability in (ATTACK, MOVE, GATHER):
                unit.order = (ability, self.units.get(target_tag), position)
            elif ability == INJECT and unit.energy >= 25:
                unit.energy -= 25
                for _ in range(3):
                    self.add("Larva", player, unit.x, unit.y)
            elif ability in BY_RESEARCH:
                self._pay(player, BY_RESEARCH[ability], None) and self._order(unit, ability)
            elif ability in BY_ABILITY:
                self._produce(player, unit, ability, self.units.get(target_tag), position)

    def _order(self, unit, ability):
        unit.order, unit.order_progress = (ability, None, None), 0.0

    def _pay(self, player, wanted, source, *, amount=1):
        side = self.sides[player]
        paid = source if source is not None else BY_NAME["Larva"]
        minerals = amount * wanted.minerals - paid.minerals
        vespene = amount * wanted.vespene - paid.vespene
        if side.minerals < minerals or side.vespene < vespene:
            return False
        side.minerals -= minerals
        side.vespene -= vespene
        return True

    def _produce(self, player, unit, ability, target, position):
        kind = BY_ABILITY[ability]
        if kind.structure and kind.source == "Drone":
            place = (target.x, target.y) if target is not None else position
            if unit.kind.name == "Drone" and self._pay(player, kind, unit.kind):
                del self.units[unit.tag]
                self.add(kind.name, player, *place, progress=0.01)
        elif kind.source == "Larva" and unit.kind.name == "Larva":
            if self._pay(player, kind, None, amount=2 if kind.name == "Zergling" else 1):
                unit.kind = BY_NAME["Egg"]
                self._order(unit, ability)
        else:
            hall = unit.kind.name in ("Hatchery", "Lair")
            morphs, trains = kind.source == unit.kind.name, kind.name == "Queen" and hall
            if (morphs or trains) and self._pay(player, kind, unit.kind if morphs else None):
                self._order(unit, ability)

    def step(self, loops):
        """Advance by game loops."""
        while loops > 0 and not self.results:
            chunk = min(_CHUNK, loops)
            self.loop += chunk
            loops -= chunk
            for player, level in self.levels.items():
                self._play_computer(player, level, chunk)
            for unit in list(self.units.values()):
                if unit.owner and unit.tag in self.units:
                    self._advance(unit, chunk)
            self._fight(chunk)
            self._find_results()

    def _play_computer(self, player, level, chunk):
        x, y = self.starts[player]
        if self.loop % 320 < chunk:
            for _ in range(level):
                self.add("Zergling", player, x + self.random.random(), y)
        if self.loop >= 1600 and level > 1:
            for unit in self.of(player):
                if unit.kind.name == "Zergling":
                    unit.order = (ATTACK, None, self.starts[3 - player])

    def _advance(self, unit, loops):
        if unit.progress < 1:
            unit.progress = min(1.0, unit.progress + loops / (LOOPS_PER_S * max(1, unit.kind.seconds)))
            return
        unit.energy = min(200.0, unit.energy + 0.035 * loops if unit.kind.name == "Queen" else 0.0)
        name = unit.kind.name
        if name in ("Hatchery", "Lair", "Hive") and (self.loop + unit.tag) % 240 < loops:
            self._spawn_larva(unit)
        if unit.order is None:
            return
        ability, target, position = unit.order
        if ability == GATHER:
            self._gather(unit, target, loops)
        elif position is not None:
            self._move(unit, position, loops)
        elif ability in BY_ABILITY or ability in BY_RESEARCH:
            self._work(unit, ability, loops)

    def _spawn_larva(self, hall):
        larvae = [one for one in self.of(hall.owner) if one.kind.name == "Larva" and one.distance(hall.x, hall.y) < 6]
        if len(larvae) < 3:
            self.add("Larva", hall.owner, hall.x, hall.y - 3)

    def _gather(self, unit, target, loops):
        if target is None or (target.owner == 0 and target.contents <= 0):
            unit.order = None
            return
        side, gas = self.sides[unit.owner], target.kind.name == "Extractor"
        amount = 0.041 * loops
        side.collected[gas] += amount
        if gas:
            side.vespene += amount
        else:
            side.minerals += amount
            target.contents -= amount

    def _move(self, unit, place, loops):
        distance = unit.distance(*place)
        step = min(distance, unit.kind.speed * loops)
        if distance < 0.5:
            unit.order = None
        elif not self._targets(unit):
            unit.x += step * (place[0] - unit.x) / distance
            unit.y += step * (place[1] - unit.y) / distance

    def _work(self, unit, ability, loops):
        wanted = BY_ABILITY.get(ability) or BY_RESEARCH[ability]
        unit.order_progress += loops / (LOOPS_PER_S * wanted.seconds)
        if unit.order_progress < 1:
            return
        unit.order, unit.order_progress = None, 0.0
        if ability in BY_RESEARCH:
            self.sides[unit.owner].researched.add(wanted.name)
        elif wanted.name == "Queen":
            self.add("Queen", unit.owner, unit.x + 3, unit.y)
        else:
            unit.kind, unit.health = wanted, wanted.health
            if wanted.name == "Zergling":
                self.add("Zergling", unit.owner, unit.x, unit.y)

    def _targets(self, unit):
        reach = unit.kind.reach + 1.5
        return (
            []
            if not unit.kind.damage
            else [
                one
                for one in self.units.values()
                if one.owner == 3 - unit.owner and abs(one.x - unit.x) < reach and one.distance(unit.x, unit.y) < reach
            ]
        )

    def _fight(self, loops):
        for unit in list(self.units.values()):
            if not unit.owner or unit.kind.name == "Drone" or unit.progress < 1 or unit.tag not in self.units:
                continue
            targets = self._targets(unit)
            if targets:
                target = min(targets, key=lambda one: (one.kind.structure, one.tag))
                target.health -= unit.kind.damage * loops
                if target.health <= 0:
                    self.sides[unit.owner].killed += target.kind.minerals + target.kind.vespene
                    del self.units[target.tag]

    def _find_results(self):
        lost = [player for player in (1, 2) if not any(unit.kind.structure for unit in self.of(player))]
        if lost:
            self.results = {player: 2 if player in lost else 1 for player in (1, 2)}

    def leave(self, player):
        """Let the other player win."""
        if not self.results:
            self.results = {player: 2, 3 - player: 1}


def shown_ability(ability):
    """Return the ability as orders show it: levels of a technology share one."""
    return GENERAL.get(ability, ability) if ability in RESEARCH.values() else ability
