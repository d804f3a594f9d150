"""A folder with a fake of the game, environments on it, and states made by hand."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from ludus_sc2.config import Sc2Config
from ludus_sc2.encoding import write_observation
from ludus_sc2.environment import make_environment
from ludus_sc2.game_data import GameData
from ludus_sc2.layout import observation_space
from ludus_sc2.situation import Situation, positions
from ludus_sc2.terrain import Terrain
from s2clientprotocol import sc2api_pb2 as api

TESTS = Path(__file__).parent
SCRIPT = f'#!/bin/sh\nPYTHONPATH="{TESTS}" exec "{sys.executable}" -m fake_sc2.server "$@"\n'
MAX_UNITS = 60
SIDES = {"own": 1, "neutral": 3, "enemy": 4}


@pytest.fixture
def game_folder(tmp_path, monkeypatch):
    """Return a folder as that of the game, whose newest program is the fake, and set ``SC2PATH`` to it."""
    folder = tmp_path / "StarCraftII"
    for version, script in (("Base900", "#!/bin/false\n"), ("Base10023", SCRIPT)):
        program = folder / "Versions" / version / "SC2_x64"
        program.parent.mkdir(parents=True)
        program.write_text(script)
        program.chmod(0o755)
    maps = folder / "Maps" / "Melee"
    maps.mkdir(parents=True)
    for name in ("Simple64", "Flat32"):
        (maps / f"{name}.SC2Map").touch()
    monkeypatch.setenv("SC2PATH", str(folder))
    monkeypatch.delenv("FAKE_SC2_FAULT", raising=False)
    return folder


@pytest.fixture
def make(game_folder):
    """Make an environment, and close it at the end."""
    made = []

    def make_one(num_matches=1, **options):
        made.append(make_environment(Sc2Config(**{"max_units": 200, **options}), num_matches=num_matches))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


@pytest.fixture(scope="session")
def catalog():
    """Return the module with the kinds and technologies of the fake."""
    return load("catalog")


def load(module):
    """Import a module of the fake."""
    sys.path.insert(0, str(TESTS))
    try:
        return importlib.import_module(f"fake_sc2.{module}")
    finally:
        sys.path.remove(str(TESTS))


class State:
    """An observation made by hand on a map of 64 x 64, of which 4 to 60 is playable.

    The own start is at (12.5, 12.5), that of the enemy at (51.5, 51.5), or the other way round.
    """

    def __init__(self, *, flipped=False):
        self._catalog = load("catalog")
        self._start, self._rival = ((51.5, 51.5), (12.5, 12.5)) if flipped else ((12.5, 12.5), (51.5, 51.5))
        self.raw = api.ResponseObservation().observation
        self._next = 1
        data = api.ResponseData()
        load("server").Client(None).data(None, data)
        self.data = GameData.read(data)
        self.creep = np.ones((64, 64), bool)
        self.explored = np.zeros((64, 64), bool)

    def player(self, **values):
        """Set numbers of the player."""
        for name, value in values.items():
            setattr(self.raw.player_common, name, value)

    def unit(self, name, x, y, *, side="own", order=None, **fields):
        """Add a unit, and return its tag.

        Args:
            name: Name of the game.
            x: Position.
            y: Position.
            side: ``own``, ``enemy`` or ``neutral``.
            order: Name of what it produces or researches, or the number of an ability.
            fields: Other fields of the protocol; those of the order have the prefix ``order_``.
        """
        unit = self.raw.raw_data.units.add(tag=self._next, alliance=SIDES[side])
        self._next += 1
        unit.unit_type = self._catalog.UNIT_ID[name]
        unit.pos.x, unit.pos.y = x, y
        unit.health, unit.health_max, unit.build_progress = 50, 100, 1.0
        ordered = {key.removeprefix("order_"): fields.pop(key) for key in list(fields) if key.startswith("order_")}
        for key, value in fields.items():
            setattr(unit, key, value)
        if order is not None:
            unit.orders.add(ability_id=self.ability(order), **ordered)
        return unit.tag

    def ability(self, name):
        """Return the ability that produces or researches something; numbers are abilities themselves."""
        return {**self._catalog.ABILITY, **self._catalog.RESEARCH}.get(name, name)

    def research(self, *names):
        """Add technologies that are researched."""
        self.raw.raw_data.player.upgrade_ids.extend(self._catalog.UPGRADE_ID[name] for name in names)

    def minerals(self, x, y):
        """Add eight mineral fields and two geysers on the far side of a place; return their tags."""
        outward = np.arctan2(y - 32, x - 32)
        angles = outward + (np.arange(10) - 4.5) * 0.3
        names = ["VespeneGeyser", *["MineralField"] * 8, "VespeneGeyser"]
        spots = [(x + 7.5 * np.cos(angle), y + 7.5 * np.sin(angle)) for angle in angles]
        return [self.unit(name, *spot, side="neutral") for name, spot in zip(names, spots, strict=True)]

    def situation(self):
        """Return what the seat sees."""
        grids = self.raw.raw_data.map_state
        for image, grid, bits in ((grids.creep, self.creep, 1), (grids.visibility, self.explored, 8)):
            image.bits_per_pixel, image.size.x, image.size.y = bits, 64, 64
            image.data = np.packbits(grid).tobytes() if bits == 1 else (2 * grid.astype(np.uint8)).tobytes()
        terrain = Terrain.read(self._info(), np.zeros(2), np.zeros((0, 2)), np.zeros(0, bool))
        seen = Situation.read(self.data, terrain, self.raw)
        fields = [*seen.minerals, *seen.geysers]
        is_gas = np.arange(len(fields)) >= len(seen.minerals)
        terrain = Terrain.read(self._info(), np.array(self._start), positions(fields), is_gas)
        return Situation.read(self.data, terrain, self.raw)

    def _info(self):
        info = api.ResponseGameInfo()
        raw = info.start_raw
        grid = np.zeros((64, 64), bool)
        grid[4:60, 4:60] = True
        raw.placement_grid.bits_per_pixel = 1
        raw.placement_grid.size.x = raw.placement_grid.size.y = 64
        raw.placement_grid.data = np.packbits(grid).tobytes()
        raw.playable_area.p0.x = raw.playable_area.p0.y = 4
        raw.playable_area.p1.x = raw.playable_area.p1.y = 60
        raw.start_locations.add(x=self._rival[0], y=self._rival[1])
        return info

    def leaves(self, *, time=0.0):
        """Return the observation leaves of one row ``[1, …]``."""
        space = observation_space(MAX_UNITS)
        leaves = {name: np.zeros((1, *leaf.shape), leaf.dtype) for name, leaf in space.items()}
        write_observation({name: leaf[0] for name, leaf in leaves.items()}, self.situation(), time=time)
        return leaves


@pytest.fixture
def state():
    """Return an empty state."""
    return State()


@pytest.fixture
def make_state():
    """Make empty states."""
    return State
