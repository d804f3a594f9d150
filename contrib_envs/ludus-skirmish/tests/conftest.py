"""A match that tests arrange by hand and advance by naming choices."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.environment import Scenario
from ludus_skirmish import kinds
from ludus_skirmish.actions import choice_name, parse_action
from ludus_skirmish.config import SkirmishConfig
from ludus_skirmish.environment import Skirmish
from ludus_skirmish.names import KINDS
from ludus_skirmish.world import COLUMN, perceive


class Field:
    """One match whose armies are given by side: kind and place of each unit, in the frame of seat 0."""

    def __init__(self, left=(), right=(), battle="mab", **options):
        self.environment = Skirmish(SkirmishConfig(battle=battle, **options), num_matches=1)
        self.tick = self.environment.reset(np.array([5], np.uint64), scenarios=[Scenario()])
        world = self.world
        world.health[:], world.shield[:], world.wait[:] = 0, 0, 0
        for side, units in enumerate((left, right)):
            for slot, (kind, x, y) in enumerate(units):
                world.kind[0, side, slot] = number = KINDS.index(kind)
                world.x[0, side, slot] = x if side == 0 else world.size - x
                world.y[0, side, slot] = y
                world.health[0, side, slot], world.shield[0, side, slot] = kinds.HEALTH[number], kinds.SHIELD[number]
        enemy = world.kind[:, ::-1, None]
        world.reach[:] = kinds.REACH[world.kind[..., None], enemy]
        world.power[:] = kinds.POWER[world.kind[..., None], enemy]
        world.strength[:] = (world.health + world.shield).sum(axis=(1, 2)) / 2
        self.look()

    @property
    def world(self):
        """Return the state."""
        return self.environment._world

    @property
    def seen(self):
        """Return the tick of the role."""
        return self.tick.roles[self.environment.spec.roles[0].name]

    def look(self):
        """Update observations and masks after something was changed."""
        perceive(self.world)
        self.environment._show()
        return self

    def put(self, side, slot=0, **fields):
        """Set fields of a unit; x is in the frame of its side."""
        for name, value in fields.items():
            getattr(self.world, name)[0, side, slot] = value
        return self.look()

    def step(self, first="stop", second="stop", *, times=1):
        """Advance by ticks; each side gets the choices of its first units, the others stop."""
        slots = self.environment._battle.slots
        for _ in range(times):
            choice = np.zeros((1, 2, slots), np.int64)
            for side, text in enumerate((first, second)):
                words = text.split()
                choice[0, side, : len(words)] = [parse_action(word, 1, slots)[0] for word in words]
            self.tick = self.environment.step({"army": choice})
        return self

    def lost(self, side, slot=0):
        """Return the health and shield that a unit lacks."""
        kind = self.world.kind[0, side, slot]
        left = self.of("health", side, slot) + self.of("shield", side, slot)
        return round(float(kinds.HEALTH[kind] + kinds.SHIELD[kind]) - left, 3)

    def of(self, name, side=0, slot=0):
        """Return a field of a unit as a number."""
        return float(getattr(self.world, name)[0, side, slot])

    def place(self, side=0, slot=0):
        """Return x and y of a unit in the frame of seat 0."""
        x = self.of("x", side, slot)
        return (x if side == 0 else self.world.size - x), self.of("y", side, slot)

    def legal(self, side=0, slot=0):
        """Return the names of the legal choices of a unit."""
        return {choice_name(n) for n in np.flatnonzero(self.environment._mask[0, side, slot]).tolist()}

    def alive(self, side):
        """Return the slots of the living units of a side."""
        return np.flatnonzero(self.world.alive[0, side]).tolist()

    def tally(self, name, side=0):
        """Return a sum of the match."""
        return float(self.world.tally[0, side, COLUMN[name]])

    def part(self, name):
        """Return a part of the reward of both seats."""
        return [round(float(value), 4) for value in self.seen.reward_parts[name][0]]


@pytest.fixture
def field():
    """Return the class `Field`."""
    return Field
