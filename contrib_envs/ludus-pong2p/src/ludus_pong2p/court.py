"""The physics of balls and paddles of all matches, one frame at a time.

The field is a square of 40 by 40 units with the origin in its middle: x points right, from seat 0 to seat 1; y points
down. The ball is a square of 2 by 2, so its centre lies in [-19, 19] along both axes. A paddle stands just outside of
its end of the field and touches it; the ball is on a goal line when its edge reaches that end.

Within a frame balls and paddles move on straight lines at constant speed, and collisions are computed at their exact
time. No ball is faster than the field is long (38 units per frame), so it meets a goal line at most
once in a frame, and a wall at most once before that and once after. Slopes instead of angles need only sums, products,
quotients and roots, whose results are equal on every machine and in every batch.

Serves are functions of the match's seed and the number of the serve. Seeds come in pairs: 2k and 2k + 1 give the same
heights and slopes and opposite first directions, so that a match with one seed is the mirror image of the match with
the other and the seats exchanged.
"""

from __future__ import annotations

import numpy as np
from ludus.random import random_bits

from ludus_pong2p.config import Pong2pConfig

SIDE = 40.0  # side of the field
BALL = 1.0  # half the side of the ball
LIMIT = SIDE / 2 - BALL  # bound of the ball's centre: walls along y, goal lines along x


_SPREAD = SIDE / 4  # greatest distance of a serve from the middle
_HALF = 2.0**31


def first_receiver(seeds: np.ndarray) -> np.ndarray:
    """Return the seats that receive the first serves, ``[n] int64``, for ``seeds [n] uint64``."""
    return (seeds & np.uint64(1)).astype(np.int64)


def serve_heights_and_slopes(seeds: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the heights of serves in [-10, 10) and their slopes in [-1, 1), ``[n] float64`` each.

    Args:
        seeds: ``[n] uint64``.
        numbers: ``[n] int64``: number of earlier serves in the match.
    """
    bits = random_bits(seeds >> np.uint64(1), numbers)
    first = (bits >> np.uint64(32)).astype(np.float64) / _HALF - 1.0
    second = (bits & np.uint64(0xFFFFFFFF)).astype(np.float64) / _HALF - 1.0
    return _SPREAD * first, second


class Court:
    """B fields, seen from above: seat 0 on the left, seat 1 on the right, y pointing down.

    Args:
        config: Options of the game.
        num_matches: B.

    Attributes:
        x: ``[B] float64``: centre of the ball, in [-19, 19].
        y: ``[B] float64``: likewise.
        vx: ``[B] float64``: velocity of the ball in units per frame.
        vy: ``[B] float64``: likewise.
        speed: ``[B] float64``: √(vx² + vy²).
        paddle: ``[2, B] float64``: height of the centre of each seat's paddle.
        half: ``[2, B] float64``: half the length of each paddle.
        hits: ``[2, B] bool``: the seat returned the ball in the last frame.
        conceded: ``[2, B] bool``: the ball passed the seat in the last frame; it stays there until `serve`.
    """

    def __init__(self, config: Pong2pConfig, num_matches: int) -> None:
        self._config = config
        self._balls = np.zeros((5, num_matches))
        self.x, self.y, self.vx, self.vy, self.speed = self._balls
        self.paddle = np.zeros((2, num_matches))
        self.half = np.full((2, num_matches), config.paddle_length / 2)
        self.hits = np.zeros((2, num_matches), bool)
        self.conceded = np.zeros((2, num_matches), bool)
        self._reach = SIDE / 2 - self.half  # greatest distance of a paddle's centre from the middle
        self._seeds = np.zeros(num_matches, np.uint64)
        self._serves = np.zeros(num_matches, np.int64)
        self._serve_speed = np.zeros(num_matches)

    def prepare(self, indices: np.ndarray, seeds: np.ndarray, *, ball_speed: np.ndarray, paddles: np.ndarray) -> None:
        """Prepare new matches: paddles in the middle, no ball served.

        Args:
            indices: ``[n] int64``.
            seeds: ``[n] uint64``.
            ball_speed: ``[n] float64``: factors on the speed of a served ball.
            paddles: ``[2, n] float64``: factors on the length of a paddle; it is never longer than the field.
        """
        half = np.minimum(paddles * self._config.paddle_length, SIDE) / 2
        self.half[:, indices], self._reach[:, indices] = half, SIDE / 2 - half
        self.paddle[:, indices] = 0.0
        self._seeds[indices] = seeds
        self._serves[indices] = 0
        self._serve_speed[indices] = np.minimum(ball_speed * self._config.ball_speed, self._config.ball_speed_max)

    def serve(self, indices: np.ndarray, receivers: np.ndarray) -> None:
        """Serve balls from the middle line.

        Args:
            indices: ``[n] int64``.
            receivers: ``[n] int64``: seats to which the balls fly.
        """
        heights, slopes = serve_heights_and_slopes(self._seeds[indices], self._serves[indices])
        self._serves[indices] += 1
        self.x[indices], self.y[indices], self.speed[indices] = 0.0, heights, self._serve_speed[indices]
        across = self.speed[indices] / np.sqrt(1.0 + slopes * slopes)
        self.vx[indices] = np.where(receivers == 1, across, -across)
        self.vy[indices] = across * slopes

    def advance(self, directions: np.ndarray, running: np.ndarray) -> None:
        """Advance by one frame and update `hits` and `conceded`.

        Args:
            directions: ``[2, B] float64``: -1 moves a paddle up, 1 down, 0 not.
            running: ``[B] float64``: 1 in running matches; 0 in idle ones, where `directions` is 0 too.
        """
        self.hits.fill(False)
        self.conceded.fill(False)
        end = self.x + self.vx * running
        indices = (np.abs(end) > LIMIT).nonzero()[0]
        met = self._meet_paddles(indices, directions) if indices.size else None
        self.x[:] = end
        self.y[:], self.vy[:] = _within_walls(self.y + self.vy * running, self.vy)
        if met is not None:
            self._balls[:, indices] = met
        self.paddle += directions * self._config.paddle_speed
        np.minimum(self.paddle, self._reach, out=self.paddle)
        np.maximum(self.paddle, -self._reach, out=self.paddle)

    def _meet_paddles(self, indices: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Return the balls that reach a goal line within the frame, at the end of the frame.

        Returns:
            ``[5, n] float64``: x, y, vx, vy and speed. A ball that no paddle meets stays on the goal line.
        """
        x, y, vx, vy, speed = self._balls[:, indices]
        line, seats = np.copysign(LIMIT, vx), (vx > 0).astype(np.int64)
        time = (line - x) / vx
        y, vy = _within_walls(y + vy * time, vy)
        height, direction = self._paddles_at(seats, indices, directions, time)
        offset = (y - height) / (self.half[seats, indices] + BALL)  # -1 and 1 at the tips of the paddle
        met = np.abs(offset) <= 1.0
        self.hits[seats, indices] = met
        self.conceded[seats, indices] = ~met
        steepness, rest = self._config.steepness, 1.0 - time
        slope = np.clip(steepness * offset + self._config.spin * direction, -steepness, steepness)
        faster = np.minimum(speed * self._config.speed_up, self._config.ball_speed_max)
        across = faster / np.sqrt(1.0 + slope * slope)
        back_y, back_vy = _within_walls(y + across * slope * rest, across * slope)
        back_vx = -np.copysign(across, vx)
        back = np.array([line + back_vx * rest, back_y, back_vx, back_vy, faster])
        return np.where(met, back, np.array([line, y, vx, vy, speed]))

    def _paddles_at(
        self, seats: np.ndarray, indices: np.ndarray, directions: np.ndarray, time: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return heights and directions of paddles at a ``time [n]`` within the coming frame.

        A paddle stopped by the end of the field has direction 0. Both are ``[n] float64``.
        """
        direction, reach = directions[seats, indices], self._reach[seats, indices]
        free = self.paddle[seats, indices] + direction * (self._config.paddle_speed * time)
        height = np.clip(free, -reach, reach)
        return height, np.where(free == height, direction, 0.0)


def _within_walls(y: np.ndarray, vy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reflect balls at y off the walls, at most once; return their positions and velocities."""
    beyond = np.abs(y) > LIMIT
    return np.where(beyond, np.copysign(2 * LIMIT, y) - y, y), np.where(beyond, -vy, vy)
