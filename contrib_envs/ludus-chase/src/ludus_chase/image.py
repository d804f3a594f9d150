"""The mini-image ``[72, 48, 8] uint8`` of every seat [AET table 1]: what its team knows, painted cell by cell."""

from __future__ import annotations

import numpy as np

from ludus_chase.columns import Rows
from ludus_chase.house import HEIGHT, WIDTH, House, Plan
from ludus_chase.world import (
    CAKES,
    CHEESES,
    CRACK,
    GONE,
    HAZARDS,
    HOLES,
    ITEMS,
    MICE,
    ROCKETS,
    World,
)

__all__ = ["Image"]

#: Channels: topography; cheeses; holes and the crack; rockets; items and cakes; hazards; the cat; the mice.
_CHANNELS = 8
_WALL, _DOOR_SHADE, _SEEN, _REMEMBERED = 255, 96, 255, 128
_PAINTED = ((CHEESES, 1), (HOLES, 2), (slice(CRACK, CRACK + 1), 2), (ROCKETS, 3), (ITEMS, 4), (CAKES, 4), (HAZARDS, 5))


class Image:
    """Paints the images of both teams; what was painted before is wiped point by point.

    Args:
        plan: Of the houses.
        cat: ``[B, 1, 72, 48, 8] uint8``, to write.
        mouse: ``[B, 4, 72, 48, 8] uint8``.
    """

    def __init__(self, plan: Plan, *, cat: np.ndarray, mouse: np.ndarray) -> None:
        self._plan = plan
        self._leaves = (cat, mouse)
        self._painted = [np.zeros(0, np.int64), np.zeros(0, np.int64)]

    def draw_house(self, house: House, at: Rows) -> None:
        """Draw the walls of matches that have begun."""
        ground = np.zeros((len(house.open), WIDTH, HEIGHT), np.uint8)
        plan = self._plan
        for column in range(1, plan.columns):
            ground[:, int(column * plan.width)] = _WALL
        for row in range(1, plan.rows):
            ground[:, :, int(row * plan.height)] = _WALL
        rows, walls = np.nonzero(house.open)
        x, y = house.door_x[rows, walls].astype(np.int64), house.door_y[rows, walls].astype(np.int64)
        upright = plan.vertical[walls]
        for step in (-1, 0, 1):
            ground[rows, x + np.where(upright, 0, step), y + np.where(upright, step, 0)] = _DOOR_SHADE
        for leaf in self._leaves:
            leaf[at, :, :, :, 0] = ground[:, None]

    def paint(self, world: World) -> None:
        """Paint all matches anew."""
        for team, leaf in enumerate(self._leaves):
            flat = leaf.reshape(-1)
            flat[self._painted[team]] = 0
            places, shades = self._points(world, team, leaf.shape[1])
            flat[places] = shades
            self._painted[team] = places

    def _points(self, world: World, team: int, seats: int) -> tuple[np.ndarray, np.ndarray]:
        """Return where a team's images are painted, as places in the flat array, and how brightly."""
        layers = [self._thing_points(world, team, kind, channel) for kind, channel in _PAINTED]
        rows, x, y, channel, shade = (
            np.concatenate(parts) for parts in zip(*layers, self._agents(world, team), strict=True)
        )
        cell = (x.astype(np.int64).clip(0, WIDTH - 1) * HEIGHT + y.astype(np.int64).clip(0, HEIGHT - 1)) * _CHANNELS
        image = WIDTH * HEIGHT * _CHANNELS
        places = ((rows[:, None] * seats + np.arange(seats)) * image + (cell + channel)[:, None]).ravel()
        shades = np.repeat(shade, seats)
        if team:  # everybody marks itself
            own, mice = np.nonzero(~GONE[world.status[:, 1:]])
            x, y = world.x[own, 1 + mice].astype(np.int64), world.y[own, 1 + mice].astype(np.int64)
            places = np.concatenate([places, (own * seats + mice) * image + (x * HEIGHT + y) * _CHANNELS + 7])
            shades = np.concatenate([shades, np.full(len(own), _SEEN)])
        return places, shades.astype(np.uint8)

    def _thing_points(self, world: World, team: int, kind: slice, channel: int) -> tuple[np.ndarray, ...]:
        """Return matches, x, y, channels and shades of the things of a kind that a team knows."""
        known = world.known[:, team, kind] & world.seen_there[:, team, kind]
        rows, number = np.nonzero(known)
        thing = kind.start + number
        progress = world.seen_amount[rows, team, thing].clip(0, 1)
        shade = (_SEEN - _REMEMBERED * progress).astype(np.int64)
        return (
            rows,
            world.seen_x[rows, team, thing],
            world.seen_y[rows, team, thing],
            np.full(len(rows), channel),
            shade,
        )

    def _agents(self, world: World, team: int) -> tuple[np.ndarray, ...]:
        """Return the same of the agents: one's own where they are, the others where they were seen last."""
        own = (np.arange(1 + MICE) > 0) == bool(team)
        shown = ~GONE[world.status] & (own | world.met)
        rows, agent = np.nonzero(shown)
        mine = own[agent]
        x = np.where(mine, world.x[rows, agent], world.met_x[rows, agent])
        y = np.where(mine, world.y[rows, agent], world.met_y[rows, agent])
        sure = np.where(mine, team == 0, world.met_age[rows, agent] == 0)
        return rows, x, y, np.where(agent == 0, 6, 7), np.where(sure, _SEEN, _REMEMBERED)
