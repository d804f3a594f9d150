"""The physics: balls and paddles of all matches, advanced by one frame at a time.

Within a frame everything moves on straight lines at constant speed, and a ball meets a wall or a paddle at the exact
moment its path says. No ball is faster than the field is long (38 units per frame), so it meets a goal line at most
once in a frame, and a wall at most once before that and once after. Slopes instead of angles keep to sums, products,
quotients and roots, which are the same on every machine and in every batch.
"""

from __future__ import annotations

import numpy as np

from ludus_pong2p.config import Pong2pConfig
from ludus_pong2p.field import BALL, LIMIT, SIDE
from ludus_pong2p.serve import heights_and_slopes

__all__ = ["Court"]


class Court:
    """B fields, seen from above: seat 0 on the left, seat 1 on the right, y pointing down.

    Args:
        config: The game's options.
        num_matches: B.

    Attributes:
        x: ``[B] float64``: where the centre of the ball is, in [-19, 19].
        y: ``[B] float64``: likewise.
        vx: ``[B] float64``: its velocity in units per frame.
        vy: ``[B] float64``: likewise.
        speed: ``[B] float64``: √(vx² + vy²).
        paddle: ``[2, B] float64``: height of the centre of each seat's paddle.
        half: ``[2, B] float64``: half its length.
        hits: ``[2, B] bool``: the seat returned the ball in the last frame.
        conceded: ``[2, B] bool``: the ball passed the seat in the last frame; it lies where it did, until `serve`.
    """

    def __init__(self, config: Pong2pConfig, num_matches: int) -> None:
        self._config = config
        self._balls = np.zeros((5, num_matches))
        self.x, self.y, self.vx, self.vy, self.speed = self._balls
        self.paddle = np.zeros((2, num_matches))
        self.half = np.full((2, num_matches), config.paddle_length / 2)
        self.hits = np.zeros((2, num_matches), bool)
        self.conceded = np.zeros((2, num_matches), bool)
        self._reach = SIDE / 2 - self.half  # how far the centre of a paddle may be from the middle
        self._seeds = np.zeros(num_matches, np.uint64)
        self._serves = np.zeros(num_matches, np.int64)
        self._serve_speed = np.zeros(num_matches)

    def prepare(self, rows: np.ndarray, seeds: np.ndarray, *, ball_speed: np.ndarray, paddles: np.ndarray) -> None:
        """Make rows ready for new matches: paddles in the middle, no ball served yet.

        Args:
            rows: ``[n] int64``.
            seeds: ``[n] uint64``.
            ball_speed: ``[n] float64``: factors on the speed of a served ball.
            paddles: ``[2, n] float64``: factors on the length of a paddle; it is never longer than the field.
        """
        half = np.minimum(paddles * self._config.paddle_length, SIDE) / 2
        self.half[:, rows], self._reach[:, rows] = half, SIDE / 2 - half
        self.paddle[:, rows] = 0.0
        self._seeds[rows] = seeds
        self._serves[rows] = 0
        self._serve_speed[rows] = np.minimum(ball_speed * self._config.ball_speed, self._config.ball_speed_max)

    def serve(self, rows: np.ndarray, receivers: np.ndarray) -> None:
        """Put the ball on the middle line and let it fly.

        Args:
            rows: ``[n] int64``.
            receivers: ``[n] int64``: the seats it flies to.
        """
        heights, slopes = heights_and_slopes(self._seeds[rows], self._serves[rows])
        self._serves[rows] += 1
        self.x[rows], self.y[rows], self.speed[rows] = 0.0, heights, self._serve_speed[rows]
        across = self.speed[rows] / np.sqrt(1.0 + slopes * slopes)
        self.vx[rows] = np.where(receivers == 1, across, -across)
        self.vy[rows] = across * slopes

    def advance(self, directions: np.ndarray, going: np.ndarray) -> None:
        """Let one frame pass; `hits` and `conceded` say what happened in it.

        Args:
            directions: ``[2, B] float64``: -1 moves a paddle up, 1 down, 0 not.
            going: ``[B] float64``: 1 where a match is played; 0 where it stands still, and then `directions` is 0.
        """
        self.hits.fill(False)
        self.conceded.fill(False)
        end = self.x + self.vx * going
        rows = (np.abs(end) > LIMIT).nonzero()[0]
        met = self._meet_paddles(rows, directions) if rows.size else None
        self.x[:] = end
        self.y[:], self.vy[:] = _within_walls(self.y + self.vy * going, self.vy)
        if met is not None:
            self._balls[:, rows] = met
        self.paddle += directions * self._config.paddle_speed
        np.minimum(self.paddle, self._reach, out=self.paddle)
        np.maximum(self.paddle, -self._reach, out=self.paddle)

    def _meet_paddles(self, rows: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Return the balls of the given rows, which reach a goal line within the frame, at its end.

        Returns:
            ``[5, n] float64``: x, y, vx, vy and speed. A ball that no paddle meets stays on the goal line.
        """
        x, y, vx, vy, speed = self._balls[:, rows]
        line, seats = np.copysign(LIMIT, vx), (vx > 0).astype(np.int64)
        time = (line - x) / vx
        y, vy = _within_walls(y + vy * time, vy)
        height, direction = self._paddles_at(seats, rows, directions, time)
        offset = (y - height) / (self.half[seats, rows] + BALL)  # the tips of a paddle meet the ball at -1 and 1
        met = np.abs(offset) <= 1.0
        self.hits[seats, rows] = met
        self.conceded[seats, rows] = ~met
        steepness, rest = self._config.steepness, 1.0 - time
        slope = np.clip(steepness * offset + self._config.spin * direction, -steepness, steepness)
        faster = np.minimum(speed * self._config.speed_up, self._config.ball_speed_max)
        across = faster / np.sqrt(1.0 + slope * slope)
        back_y, back_vy = _within_walls(y + across * slope * rest, across * slope)
        back_vx = -np.copysign(across, vx)
        back = np.array([line + back_vx * rest, back_y, back_vx, back_vy, faster])
        return np.where(met, back, np.array([line, y, vx, vy, speed]))

    def _paddles_at(
        self, seats: np.ndarray, rows: np.ndarray, directions: np.ndarray, time: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return where paddles are at a ``time [n]`` within the coming frame, and which way they move then.

        A paddle that the end of the field stops has direction 0. Both are ``[n] float64``.
        """
        direction, reach = directions[seats, rows], self._reach[seats, rows]
        free = self.paddle[seats, rows] + direction * (self._config.paddle_speed * time)
        height = np.clip(free, -reach, reach)
        return height, np.where(free == height, direction, 0.0)


def _within_walls(y: np.ndarray, vy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where balls are that would be at y if there were no walls, and their velocity; at most one bounce."""
    beyond = np.abs(y) > LIMIT
    return np.where(beyond, np.copysign(2 * LIMIT, y) - y, y), np.where(beyond, -vy, vy)
