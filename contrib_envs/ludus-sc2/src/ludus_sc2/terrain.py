"""The map from the side of a seat: resource areas, zones, and places for buildings."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import define, field

from ludus_sc2.layout import MAX_AREAS, ZONES

_CLUSTER = 12.0  # distance between resources of one area
_START_RADIUS = 12.0
_MINERAL_DISTANCE, _GEYSER_DISTANCE = 6.0, 7.0  # between the centers of a town hall and of a resource
_SPACING = 3.5  # between the centers of buildings
_ROWS = 3  # of zones
_WHOLE_MAP = len(ZONES) - 1


def read_grid(image: Any) -> np.ndarray:
    """Return an ``ImageData`` of one or eight bits per pixel as ``[height, width] bool``."""
    data = np.frombuffer(image.data, np.uint8)
    if image.bits_per_pixel == 1:
        data = np.unpackbits(data)
    return np.asarray(data[: image.size.x * image.size.y].reshape(image.size.y, image.size.x) > 0)


@define
class Terrain:
    """What does not change during a match, in coordinates of the game.

    Args:
        low: Lower corner of the playable area.
        high: Its upper corner.
        start: Where the own first town hall is.
        rival_start: Where the enemy's is, or may be.
        placement: ``[height, width] bool``: whether buildings fit.
        areas: ``[A, 2] float64``: where town halls of the resource areas belong, the own start first.
    """

    low: np.ndarray
    high: np.ndarray
    start: np.ndarray
    rival_start: np.ndarray
    placement: np.ndarray
    areas: np.ndarray
    _flip: np.ndarray = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._flip = self.start > (self.low + self.high) / 2

    @classmethod
    def read(cls, info: Any, start: np.ndarray, resources: np.ndarray, is_gas: np.ndarray) -> Terrain:
        """Return the terrain of a ``ResponseGameInfo``.

        Args:
            info: The response.
            start: ``[2]``: position of the own first town hall.
            resources: ``[n, 2]``: positions of mineral fields and geysers.
            is_gas: ``[n] bool``: which of them are geysers.
        """
        raw = info.start_raw
        area = raw.playable_area
        others = [np.array([place.x, place.y]) for place in raw.start_locations]
        others = [place for place in others if np.hypot(*(place - start)) > _START_RADIUS]
        low, high = np.array([area.p0.x, area.p0.y], float), np.array([area.p1.x, area.p1.y], float)
        placement = read_grid(raw.placement_grid)
        areas = [start]
        for cluster in _clusters(resources):
            place = _town_hall_place(resources[cluster], is_gas[cluster], placement)
            if np.hypot(*(place - start)) > _START_RADIUS:
                areas.append(place)
        found = np.array(areas)
        order = np.argsort(np.hypot(*(found - start).T), kind="stable")[:MAX_AREAS]
        return cls(low, high, start, others[0] if others else low + high - start, placement, found[order])

    def share(self, points: np.ndarray) -> np.ndarray:
        """Return positions ``[n, 2]`` as shares of the playable area, counted from the corner of the own start."""
        shares = np.clip((points - self.low) / (self.high - self.low), 0.0, 1.0)
        return np.asarray(np.where(self._flip, 1.0 - shares, shares))

    def zones(self, points: np.ndarray) -> np.ndarray:
        """Return the zone 0 to 8 of each position ``[n, 2]``."""
        column, row = np.clip((self.share(points) * _ROWS).astype(np.int64), 0, _ROWS - 1).T
        return np.asarray(row * _ROWS + column)

    def is_in_zone(self, points: np.ndarray, zone: int) -> np.ndarray:
        """Return which positions ``[n, 2]`` are in a zone; the last zone is the whole area."""
        return np.ones(len(points), bool) if zone == _WHOLE_MAP else np.asarray(self.zones(points) == zone)

    def zone_center(self, zone: int) -> np.ndarray:
        """Return the middle of a zone; that of the last one is the enemy's start."""
        if zone == _WHOLE_MAP:
            return self.rival_start
        row, column = divmod(zone, _ROWS)
        share = (np.array([column, row]) + 0.5) / _ROWS
        return np.asarray(self.low + np.where(self._flip, 1.0 - share, share) * (self.high - self.low))

    def find_place(self, base: np.ndarray, creep: np.ndarray, taken: np.ndarray, *, attempt: int) -> np.ndarray | None:
        """Return a place for a building around a base, on creep and away from what is there; None if there is none.

        Args:
            base: ``[2]``.
            creep: ``[height, width] bool``.
            taken: ``[n, 2]``: centers of buildings and resources.
            attempt: Number of earlier attempts, which moves the place that is tried first.
        """
        angles = (np.arange(24) + 5 * attempt) * (2 * np.pi / 24)
        ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        for radius in (7.0, 9.0, 11.0, 5.5):
            spots = np.floor(base + radius * ring) + 0.5
            fits = self._fits(spots, creep & self.placement)
            if len(taken):
                fits &= (np.hypot(*(spots[:, None] - taken[None]).transpose(2, 0, 1)) >= _SPACING).all(axis=1)
            if fits.any():
                return np.asarray(spots[fits.argmax()])
        return None

    def _fits(self, spots: np.ndarray, grid: np.ndarray) -> np.ndarray:
        """Return which centers ``[n, 2]`` have a footprint of 3 x 3 cells that are all True in a grid."""
        offsets = np.array([(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)])
        cells = np.floor(spots).astype(np.int64)[:, None] + offsets
        height, width = grid.shape
        inside = ((cells >= 0) & (cells < [width, height])).all(axis=2)
        column, row = np.clip(cells, 0, [width - 1, height - 1]).transpose(2, 0, 1)
        return np.asarray((grid[row, column] & inside).all(axis=1))


def _clusters(points: np.ndarray) -> list[np.ndarray]:
    """Return the indices of points ``[n, 2]`` in clusters, whose points are linked by small distances."""
    left, found = set(range(len(points))), []
    near = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1)) < _CLUSTER if len(points) else points
    while left:
        cluster, front = set(), {min(left)}
        while front:
            cluster |= front
            front = {int(i) for one in front for i in np.flatnonzero(near[one])} - cluster
        left -= cluster
        found.append(np.array(sorted(cluster)))
    return found


def _town_hall_place(resources: np.ndarray, is_gas: np.ndarray, placement: np.ndarray) -> np.ndarray:
    """Return the place of a town hall nearest to the resources of an area, at the distance that rules require."""
    middle = np.floor(resources.mean(axis=0)) + 0.5
    steps = np.arange(-10, 11)
    spots = middle + np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    distances = np.hypot(*(spots[:, None] - resources[None]).transpose(2, 0, 1))
    allowed = (distances >= np.where(is_gas, _GEYSER_DISTANCE, _MINERAL_DISTANCE)).all(axis=1)
    height, width = placement.shape
    column, row = np.clip(np.floor(spots).astype(np.int64), 0, [width - 1, height - 1]).T
    total = np.where(allowed & placement[row, column], distances.sum(axis=1), np.inf)
    return np.asarray(spots[total.argmin()]) if np.isfinite(total).any() else middle
