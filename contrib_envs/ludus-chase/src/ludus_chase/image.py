"""The mini-image ``[72, 48, 8] uint8`` of every seat [AET table 1]: the knowledge of its team, one pixel per cell."""

from __future__ import annotations

import numpy as np

from ludus_chase.arrays import Indices
from ludus_chase.house import HEIGHT, WIDTH, FloorPlan, House
from ludus_chase.world import CAKES, CHEESES, CRACK, GONE, HAZARDS, HOLES, ITEMS, MICE, ROCKETS, World

__all__ = ["MiniImageView"]

#: Channels: topography; cheeses; holes and the crack; rockets; items and cakes; hazards; the cat; the mice.
_CHANNELS = 8
_WALL, _DOOR_SHADE, _SEEN, _REMEMBERED = 255, 96, 255, 128
_DRAWN = ((CHEESES, 1), (HOLES, 2), (slice(CRACK, CRACK + 1), 2), (ROCKETS, 3), (ITEMS, 4), (CAKES, 4), (HAZARDS, 5))


class MiniImageView:
    """Draws the images of both teams; the pixels of the previous tick are cleared one by one.

    Args:
        plan: Rooms and walls of the houses.
        cat: ``[B, 1, 72, 48, 8] uint8``, the array to write to.
        mouse: ``[B, 4, 72, 48, 8] uint8``.
    """

    def __init__(self, plan: FloorPlan, *, cat: np.ndarray, mouse: np.ndarray) -> None:
        self._plan = plan
        self._leaves = (cat, mouse)
        self._drawn = [np.zeros(0, np.int64), np.zeros(0, np.int64)]

    def draw_house(self, house: House, at: Indices) -> None:
        """Draw the walls of new matches."""
        ground = np.zeros((len(house.open), WIDTH, HEIGHT), np.uint8)
        plan = self._plan
        for column in range(1, plan.columns):
            ground[:, int(column * plan.width)] = _WALL
        for row in range(1, plan.rows):
            ground[:, :, int(row * plan.height)] = _WALL
        matches, walls = np.nonzero(house.open)
        x, y = house.door_x[matches, walls].astype(np.int64), house.door_y[matches, walls].astype(np.int64)
        upright = plan.vertical[walls]
        for step in (-1, 0, 1):
            ground[matches, x + np.where(upright, 0, step), y + np.where(upright, step, 0)] = _DOOR_SHADE
        for leaf in self._leaves:
            leaf[at, :, :, :, 0] = ground[:, None]

    def update(self, world: World) -> None:
        """Draw all matches."""
        for team, leaf in enumerate(self._leaves):
            flat = leaf.reshape(-1)
            flat[self._drawn[team]] = 0
            places, shades = self._points(world, team, leaf.shape[1])
            flat[places] = shades
            self._drawn[team] = places

    def _points(self, world: World, team: int, seats: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of a team's pixels in the flat array, and their values."""
        layers = [self._thing_points(world, team, kind, channel) for kind, channel in _DRAWN]
        matches, x, y, channel, shade = (
            np.concatenate(parts) for parts in zip(*layers, self._agents(world, team), strict=True)
        )
        cell = (x.astype(np.int64).clip(0, WIDTH - 1) * HEIGHT + y.astype(np.int64).clip(0, HEIGHT - 1)) * _CHANNELS
        image = WIDTH * HEIGHT * _CHANNELS
        places = ((matches[:, None] * seats + np.arange(seats)) * image + (cell + channel)[:, None]).ravel()
        shades = np.repeat(shade, seats)
        if team:  # every mouse marks itself
            own, mice = np.nonzero(~GONE[world.status[:, 1:]])
            x, y = world.x[own, 1 + mice].astype(np.int64), world.y[own, 1 + mice].astype(np.int64)
            places = np.concatenate([places, (own * seats + mice) * image + (x * HEIGHT + y) * _CHANNELS + 7])
            shades = np.concatenate([shades, np.full(len(own), _SEEN)])
        return places, shades.astype(np.uint8)

    def _thing_points(self, world: World, team: int, kind: slice, channel: int) -> tuple[np.ndarray, ...]:
        """Return matches, x, y, channels and values of the known things of a kind."""
        known = world.known[:, team, kind] & world.seen_present[:, team, kind]
        matches, number = np.nonzero(known)
        thing = kind.start + number
        progress = world.seen_amount[matches, team, thing].clip(0, 1)
        shade = (_SEEN - _REMEMBERED * progress).astype(np.int64)
        return (
            matches,
            world.seen_x[matches, team, thing],
            world.seen_y[matches, team, thing],
            np.full(len(matches), channel),
            shade,
        )

    def _agents(self, world: World, team: int) -> tuple[np.ndarray, ...]:
        """Return the same for agents: teammates where they are, opponents where they were seen last."""
        own = (np.arange(1 + MICE) > 0) == bool(team)
        shown = ~GONE[world.status] & (own | world.spotted)
        matches, agent = np.nonzero(shown)
        mine = own[agent]
        x = np.where(mine, world.x[matches, agent], world.spotted_x[matches, agent])
        y = np.where(mine, world.y[matches, agent], world.spotted_y[matches, agent])
        sure = np.where(mine, team == 0, world.spotted_age[matches, agent] == 0)
        return matches, x, y, np.where(agent == 0, 6, 7), np.where(sure, _SEEN, _REMEMBERED)
