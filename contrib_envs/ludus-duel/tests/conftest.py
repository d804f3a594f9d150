"""A match in which tests name the actions of both seats."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.environment import Scenario
from ludus_duel.actions import ACTIONS, NUMBER
from ludus_duel.config import DuelConfig
from ludus_duel.environment import Duel
from ludus_duel.view import INDEX


class Ring:
    """One match that is advanced by the names of actions."""

    def __init__(self, *, distance=200.0, scenario=None, **options):
        self.environment = Duel(DuelConfig(**options), num_matches=1)
        parameters = {"distance": distance, **(scenario or {})}
        self.tick = self.environment.reset(
            np.array([1], np.uint64), scenarios=[Scenario(name="custom", parameters=parameters)]
        )

    @property
    def seen(self):
        """Return the tick of the role."""
        return self.tick.roles["fighter"]

    def acting(self, seat=0):
        """Return whether a seat acts now."""
        return bool(self.seen.acting[0, seat])

    def legal(self, seat=0):
        """Return the names of the legal actions of a seat."""
        return {ACTIONS[number] for number in np.flatnonzero(self.seen.action_mask[0, seat])}

    def shows(self, name, seat=0):
        """Return one number of a seat's observation."""
        return float(self.seen.observation["obs"][0, seat, INDEX[name]])

    def health(self, seat=0):
        """Return a fighter's health in units of the default maximum of 120."""
        return round(self.shows("own-health", seat) * 120.0, 3)

    def stamina(self, seat=0):
        """Return a fighter's stamina in units of the default maximum of 120."""
        return round(self.shows("own-stamina", seat) * 120.0, 3)

    def distance(self):
        """Return the distance in cm in the default arena of 1000 cm."""
        return round(self.shows("distance") * 1000.0, 3)

    def animation(self, seat=0):
        """Return the kind of a fighter's animation."""
        first = INDEX["own-animation-idle"]
        kinds = [name for name, number in INDEX.items() if first <= number < INDEX["own-side-left"]]
        return next(kind.removeprefix("own-animation-") for kind in kinds if self.shows(kind, seat))

    def step(self, first="wait", second="wait", *, times=1):
        """Advance by ticks with the named actions; a seat must be free for any action but to wait."""
        for _ in range(times):
            for seat, name in enumerate((first, second)):
                assert name == "wait" or (self.acting(seat) and name in self.legal(seat)), f"seat {seat} cannot {name}"
            actions = np.array([[[NUMBER[first]], [NUMBER[second]]]], np.int64)
            self.tick = self.environment.step({"fighter": actions})
        return self

    def until_free(self, seat=0, limit=60):
        """Wait until a seat acts, and return the number of ticks."""
        for ticks in range(limit):
            if self.acting(seat):
                return ticks
            self.step()
        raise AssertionError("the seat never acts")


@pytest.fixture
def ring():
    """Return the class `Ring`."""
    return Ring
