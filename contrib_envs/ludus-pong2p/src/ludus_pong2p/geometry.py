"""Geometry of the field.

The field is a square of 40 by 40 units with the origin in its middle: x points right, from seat 0 to seat 1; y points
down. The ball is a square of 2 by 2, so its centre lies in [-19, 19] along both axes. A paddle stands just outside of
its end of the field and touches it; the ball is on a goal line when its edge reaches that end.
"""

from __future__ import annotations

__all__ = ["BALL", "LIMIT", "SIDE"]

SIDE = 40.0  # side of the field
BALL = 1.0  # half the side of the ball
LIMIT = SIDE / 2 - BALL  # bound of the ball's centre: walls along y, goal lines along x
