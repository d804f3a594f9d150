"""Matches for tests of rules: an empty board on which a test puts agents, bombs, walls, items and flames."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.environment import Scenario
from ludus_pommerman.config import PommermanConfig
from ludus_pommerman.environment import Pommerman
from ludus_pommerman.rules import cell_number
from ludus_pommerman.world import COLUMN

NAMES = {"passage": 0, "rigid": 1, "wood": 2, "extra-bomb": 6, "range": 7, "kick": 8}
DIRECTIONS = {"": 0, "up": 1, "down": 2, "left": 3, "right": 4}


class Match:
    """One match without walls, with agents in their corners: (1, 1), (9, 1), (9, 9) and (1, 9)."""

    def __init__(self, **options):
        self.environment = Pommerman(PommermanConfig(**options), num_matches=1)
        self.tick = self.environment.reset(np.array([7], np.uint64), scenarios=[Scenario(name="open")])
        self.size = self.environment.spec.roles[0].observation_space["board"].shape[0]

    @property
    def world(self):
        """Return the state."""
        return self.environment._world

    @property
    def seen(self):
        """Return the tick of the role."""
        return self.tick.roles["player"]

    def cell(self, row, column):
        """Return the number of a cell."""
        return cell_number(self.size, row, column)

    def agent(self, seat, row, column, **fields):
        """Put an agent somewhere, and set some of its fields: alive, ammo, reach, kick."""
        self.world.position[0, seat] = self.cell(row, column)
        for name, value in fields.items():
            getattr(self.world, name)[0, seat] = value
        return self

    def put(self, name, *cells, hidden=None):
        """Put walls or items into cells (row, column)."""
        for row, column in cells:
            self.world.board[0, self.cell(row, column)] = NAMES[name]
            self.world.hidden[0, self.cell(row, column)] = NAMES[hidden] if hidden else 0
        return self

    def bomb(self, row, column, *, life=9, strength=2, moves="", owner=0):
        """Put a bomb somewhere; `life` is what observations show."""
        values = {"life": life, "strength": strength, "direction": DIRECTIONS[moves], "owner": owner}
        for name, value in values.items():
            getattr(self.world, name)[0, self.cell(row, column)] = value
        return self

    def flame(self, row, column, life=3):
        """Put flames somewhere; `life` is what observations show."""
        self.world.flame[0, self.cell(row, column)] = life
        return self

    def step(self, *actions, times=1):
        """Advance by steps with the named actions; other agents stop."""
        width = self.environment.spec.num_teams if self.world.alive.shape[1] == 2 else 4
        chosen = [self.environment.parse_action("player", name) for name in (*actions, *["stop"] * width)[:width]]
        for _ in range(times):
            self.tick = self.environment.step({"player": np.stack(chosen)[None]})
        return self

    def at(self, seat):
        """Return row and column of an agent."""
        cell = int(self.world.position[0, seat])
        return cell // (self.size + 2) - 1, cell % (self.size + 2) - 1

    def bombs(self):
        """Return the cells of all bombs and the directions in which they move."""
        names = {value: name for name, value in DIRECTIONS.items()}
        return {
            (int(cell) // (self.size + 2) - 1, int(cell) % (self.size + 2) - 1): names[
                int(self.world.direction[0, cell])
            ]
            for cell in np.flatnonzero(self.world.life[0])
        }

    def flames(self):
        """Return the cells with flames."""
        rows, columns = np.nonzero(self.world.flame[0].reshape(self.size + 2, -1))
        return {(int(row) - 1, int(column) - 1) for row, column in zip(rows, columns, strict=True)}

    def of(self, name, row, column):
        """Return the value of a map in a cell."""
        return int(getattr(self.world, name)[0, self.cell(row, column)])

    def tally(self, name, seat=0):
        """Return what was counted for a seat."""
        return int(self.world.tally[0, seat, COLUMN[name]])

    def observed(self, leaf, seat=0):
        """Return an observation leaf of a seat."""
        return self.seen.observation[leaf][0, seat]


@pytest.fixture
def match():
    """Return the class `Match`."""
    return Match
