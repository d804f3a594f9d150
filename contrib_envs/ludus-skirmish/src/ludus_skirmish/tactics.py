"""What scripted armies read from observations, and their rules."""

from __future__ import annotations

import numpy as np
from attrs import frozen
from ludus.environment import Leaves

from ludus_skirmish import kinds
from ludus_skirmish.actions import MOVE, NEAREST, SLOT, STEP_X, STEP_Y
from ludus_skirmish.layout import COLUMN, COMMON, LENGTH, POINTS

_FAR = 1e6
#: Enemies that are at most this much further than the reach of a unit count as in reach.
_SLACK = 1.0
#: Enemies that are at most this much further than their reach threaten a unit.
_MARGIN = 2.0
#: Share of health below which a unit without shield retreats between its attacks.
_WOUNDED = 0.5
#: Units keep at least this distance from the edges when they retreat.
_EDGE = 2.0


@frozen
class Units:
    """Units of a group; all arrays are ``[n, k]``.

    Attributes:
        x: Place in the frame of the side; likewise `y`.
        points: Health and shield.
        health: Share of health.
        shield: Points of shield.
        wait: Ticks until the next attack.
        kind: Index of the kind.
        there: Whether the unit is visible and alive.
    """

    x: np.ndarray
    y: np.ndarray
    points: np.ndarray
    health: np.ndarray
    shield: np.ndarray
    wait: np.ndarray
    kind: np.ndarray
    there: np.ndarray


def _read_table(table: np.ndarray, there: np.ndarray, size: np.ndarray) -> Units:
    """Return the units of ``table [n, k, ≥ 18]`` on a field of ``size [n, 1]``."""
    kind = table[..., COLUMN["is-walker"] : COLUMN["is-bomber"] + 1].argmax(axis=-1)
    shield = table[..., COLUMN["shield-size"]] * POINTS
    return Units(
        x=table[..., COLUMN["x"]] * size,
        y=table[..., COLUMN["y"]] * size,
        points=table[..., COLUMN["health-size"]] * POINTS + shield,
        health=table[..., COLUMN["health"]],
        shield=shield,
        wait=np.rint(table[..., COLUMN["wait"]] * kinds.PERIOD[kind]),
        kind=kind,
        there=there > 0,
    )


@frozen
class View:
    """What an agent sees.

    Attributes:
        units: The units to decide for, ``[n, k]``: all of an army, or one.
        enemies: ``[n, N]``.
        size: Side of the field, ``[n, 1]``.
    """

    units: Units
    enemies: Units
    size: np.ndarray


def read_units(leaves: Leaves) -> View:
    """Return the view of n seats of armies or of units."""
    size = leaves["common"][:, COMMON.index("field-size"), None] * LENGTH
    own, own_there = leaves["own"], leaves["own_present"]
    if "self" in leaves:
        own, own_there = leaves["self"][:, None], np.ones((len(size), 1), np.int8)
    enemies = _read_table(leaves["enemy"], leaves["enemy_present"], size)
    return View(_read_table(own, own_there, size), enemies, size)


@frozen
class Situation:
    """A view with what follows from it. Pairs are ``[n, k, N]``: unit and enemy.

    Attributes:
        view: The units.
        mask: ``[n, k, 12 + N] bool``: legal choices.
        dx: From units to enemies; likewise `dy` and `distance`.
        reach: Distance within which a unit attacks an enemy; -1: it cannot. `danger` is the converse.
        cools: ``[n, k] bool``: the unit cannot attack on this tick.
    """

    view: View
    mask: np.ndarray
    dx: np.ndarray
    dy: np.ndarray
    distance: np.ndarray
    reach: np.ndarray
    danger: np.ndarray
    cools: np.ndarray

    @classmethod
    def of(cls, view: View, mask: np.ndarray) -> Situation:
        """Compare all units with all enemies."""
        units, enemies = view.units, view.enemies
        dx, dy = enemies.x[:, None] - units.x[..., None], enemies.y[:, None] - units.y[..., None]
        own_kind, kind = units.kind[..., None], enemies.kind[:, None]
        return cls(
            view, mask, dx, dy, np.sqrt(dx * dx + dy * dy), kinds.REACH[own_kind, kind], kinds.REACH[kind, own_kind],
            units.wait > 1,
        )  # fmt: skip


def focus_fire(situation: Situation, choice: np.ndarray) -> np.ndarray:
    """Let units attack the enemy in reach that they destroy with the fewest attacks, and else the nearest one.

    Units that are close to each other therefore choose the same enemy.
    """
    enemies, units = situation.view.enemies, situation.view.units
    near = situation.distance <= situation.reach + _SLACK
    attacks = enemies.points[:, None] / kinds.POWER[units.kind[..., None], enemies.kind[:, None]]
    # The distance decides between equal enemies.
    score = np.where(near, attacks + 0.01 * situation.distance, 1e3 + situation.distance)
    score = np.where(situation.mask[..., SLOT:], score, _FAR)
    return np.where(situation.mask[..., NEAREST], SLOT + score.argmin(axis=2), choice)


def retreat(situation: Situation, choice: np.ndarray) -> np.ndarray:
    """Let units step away from threats until they can attack again.

    Units retreat from enemies with a shorter reach. Those that are wounded retreat from all threats.
    """
    units, there = situation.view.units, situation.view.enemies.there[:, None]
    threatens = there & (situation.danger > 0) & (situation.distance <= situation.danger + _MARGIN)
    wounded = (units.shield <= 0) & (units.health < _WOUNDED)
    flees = threatens & ((situation.danger < situation.reach) | wounded[..., None])
    goes = situation.cools & flees.any(axis=2) & units.there
    weight = flees / np.maximum(situation.distance, 0.1) ** 2
    away_x, away_y = -(situation.dx * weight).sum(axis=2), -(situation.dy * weight).sum(axis=2)
    size = np.maximum(np.hypot(away_x, away_y), 1e-6)
    away_x, away_y = away_x / size, away_y / size
    # Edges push up to twice as much as threats do.
    away_x += _edge_push(units.x, situation.view.size)
    away_y += _edge_push(units.y, situation.view.size)
    score = away_x[..., None] * STEP_X[MOVE:NEAREST] + away_y[..., None] * STEP_Y[MOVE:NEAREST]
    return np.where(goes, MOVE + score.argmax(axis=2), choice)


def _edge_push(place: np.ndarray, size: np.ndarray) -> np.ndarray:
    low, high = np.maximum(_EDGE - place, 0.0), np.maximum(place - size + _EDGE, 0.0)
    return np.asarray(2.0 * (low - high) / _EDGE)
