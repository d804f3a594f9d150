"""A match that tests arrange by hand and advance by naming actions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from ludus.environment import Scenario
from ludus_moba.actions import BUTTONS, LABELS, OFFSETS, TARGET_NAMES, parse_action
from ludus_moba.config import MobaConfig
from ludus_moba.environment import Moba
from ludus_moba.names import NAMES
from ludus_moba.rules import HERO
from ludus_moba.vision import perceive
from ludus_moba.world import COLUMN


class Arena:
    """One match of two heroes by name, far apart unless placed; no wave comes in the first three seconds."""

    def __init__(self, *heroes, scenario=None, **options):
        self.environment = Moba(MobaConfig(**options), num_matches=1)
        heroes = heroes or ("mage", "mage")
        parameters = {f"hero_{seat}": NAMES.index(name) for seat, name in enumerate(heroes)}
        parameters |= {"y_0": 15.0, "y_1": 15.0, **(scenario or {})}
        self.tick = self.environment.reset(
            np.array([7], np.uint64), scenarios=[Scenario(name="custom", parameters=parameters)]
        )

    @property
    def world(self):
        """Return the state."""
        return self.environment._world

    @property
    def seen(self):
        """Return the tick of the role."""
        return self.tick.roles["hero"]

    def hero(self, seat, x=None, y=None, **fields):
        """Put a hero somewhere, in its own frame, and set some of its fields."""
        if x is not None:
            self.world.x[0, seat, HERO] = x
        if y is not None:
            self.world.y[0, seat, HERO] = y
        for name, value in fields.items():
            array = getattr(self.world, name)
            array[(0, seat, HERO) if array.ndim == 3 and name != "skill_wait" else (0, seat)] = value
        return self.look()

    def unit(self, side, slot, x, y=15.0, health=400.0, **fields):
        """Put a unit somewhere, in the frame of its side."""
        values = {"x": x, "y": y, "health": health, "max_health": health, "wait": 0, **fields}
        for name, value in values.items():
            getattr(self.world, name)[0, side, slot] = value
        return self.look()

    def face(self, distance, *, x=60.0):
        """Put the heroes at a distance along the lane, seat 0 at `x`."""
        return self.hero(0, x, 15.0).hero(1, 120.0 - x - distance, 15.0)

    def look(self):
        """Update observations after something was moved."""
        perceive(self.world)
        self.environment._show()
        return self

    def legal(self, seat=0):
        """Return the names of the buttons that a seat may press."""
        return {BUTTONS[n] for n in np.flatnonzero(self.seen.action_mask[0, seat, : LABELS[0]])}

    def targets(self, seat=0):
        """Return the names of the targets that a seat may choose."""
        return {TARGET_NAMES[n] for n in np.flatnonzero(self.seen.action_mask[0, seat, OFFSETS[5] :])}

    def step(self, first="none", second="none", *, times=1):
        """Advance by ticks with the named actions."""
        for _ in range(times):
            actions = np.stack([parse_action(first), parse_action(second)])[None]
            self.tick = self.environment.step({"hero": actions})
        return self

    def of(self, name, seat=0):
        """Return a field of a hero as a number."""
        array = getattr(self.world, name)
        return float(array[0, seat, HERO] if array.ndim == 3 else array[0, seat])

    def lost(self, seat):
        """Return the health that a hero lacks."""
        return self.of("max_health", seat) - self.of("health", seat)

    def tally(self, name, seat=0):
        """Return a sum of the match."""
        return float(self.world.tally[0, seat, COLUMN[name]])

    def part(self, name):
        """Return a part of the reward of both seats."""
        return [round(float(value), 4) for value in self.seen.reward_parts[name][0]]


@pytest.fixture
def arena():
    """Return the class `Arena`."""
    return Arena


def random_play(environment, steps, *, first=0, of=None):
    """Yield the ticks of matches with random legal actions that depend on the number of the match only."""
    count = environment.num_matches
    generators = [np.random.default_rng(seed) for seed in range(of or count)][first : first + count]
    tick = environment.reset(np.arange(first, first + count, dtype=np.uint64))
    yield tick
    for _ in range(steps):
        keys = np.stack([rng.random((2, OFFSETS[-1])) for rng in generators]) * tick.roles["hero"].action_mask
        labels = [keys[..., low:high].argmax(axis=2) for low, high in pairwise(OFFSETS)]
        tick = environment.step({"hero": np.stack(labels, axis=2)})
        yield tick


@pytest.fixture
def play():
    """Return a function that plays random matches."""
    return random_play
